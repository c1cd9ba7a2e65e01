"""docs/expressing.md: a section per code, as the registry has it, and an example of each reason."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from onnx import helper

import dmlgather as dg
from dmlgather.dialects.export_codes import CODES, SOURCES
from dmlgather.directml import CODES as DIRECTML_CODES
from dmlgather.directml import SOURCES as DIRECTML_SOURCES

TEXT = (Path(__file__).parents[2] / "docs" / "expressing.md").read_text(encoding="utf-8")
SECTIONS = {
    heading: text for heading, text in (part.split("\n", 1) for part in TEXT.split("\n## ")[1:]) if heading.startswith("EXP")
}


def test_every_code_has_its_section() -> None:
    assert [heading.split(" ", 1)[0] for heading in SECTIONS] == list(CODES)
    for (heading, text), row in zip(SECTIONS.items(), CODES.values(), strict=True):
        assert heading.split(" ", 1)[1].lower() == row.title.lower(), f"docs/expressing.md: heading of {row.code}"
        assert text.strip().startswith(f"*{row.severity}* · {row.source}\n")


def test_codes_of_the_dialects_are_none_of_directml() -> None:
    assert not CODES.keys() & DIRECTML_CODES.keys()
    assert not SOURCES.keys() & DIRECTML_SOURCES.keys()


def test_every_source_is_explained_on_one_of_the_two_pages() -> None:
    rows = TEXT.split("\n## Sources")[1]
    head, line, *listed = re.findall(r"^\| (.*) \| (.*) \|$", rows, re.MULTILINE)
    assert (head, line) == (("key", "document"), ("---", "---"))
    assert listed == list(SOURCES.items())
    known = SOURCES.keys() | DIRECTML_SOURCES.keys()
    assert {key for row in CODES.values() for key in re.findall(r"\[(\w+)\]", row.source)} <= known


def _of(
    operator: str, shapes: list[Any], types: list[str], level: str = "6_4", *, attributes: Any = None, **constants: Any
) -> Any:
    inputs = ["data", "starts", "ends", "axes", "steps"] if operator == "Slice" else ["data", "indices"]
    node = helper.make_node(operator, inputs, ["output"], **(attributes or {}))
    return dg.onnx.to_directml(node, shapes, types, level, constants=constants or None)


PATCHES = dg.lax.GatherDimensionNumbers(offset_dims=(1, 2), collapsed_slice_dims=(), start_index_map=(0, 1))
EXAMPLES: dict[str, Callable[[], Any]] = {
    "EXP101": lambda: _of("Gather", [(4, 3), (2,)], ["float32", "int64"], attributes={"axis": 2}),
    "EXP102": lambda: _of("Slice", [(4, 3)], ["float32"], starts=[2], ends=[2], axes=[0], steps=[1]),
    "EXP103": lambda: _of("Gather", [(4,), (2,)], ["object", "int64"]),
    "EXP104": lambda: _of("GatherND", [(2, 2, 2, 2, 5), (7, 4)], ["float32", "int64"], "2_1"),
    "EXP105": lambda: _of("Slice", [(4, 3)], ["float32"], starts=[2], axes=[0], steps=[1]),
    "EXP106": lambda: _of("Slice", [(4, 3)], ["float32"], "1_0", starts=[-1], ends=[-9], axes=[0], steps=[-1]),
    "EXP107": lambda: _of("Gather", [(2**20, 2**12), (2,)], ["uint8", "int64"]),
    "EXP108": lambda: _of("Gather", [(4, 3), ("N",)], ["float32", "int64"]),
    "EXP109": lambda: _of("Reshape", [(4, 3), (1,)], ["float32", "int64"]),
    "EXP110": lambda: dg.lax.to_directml(((4096, 4096), "float32"), ((5, 2), "int32"), PATCHES, (32, 32)),
    "EXP111": lambda: _of("Gather", [(3, 4), (2,)], ["float32", "int64"], indices=[0, 9]),
}


@pytest.mark.parametrize("code", [code for code in CODES if code.startswith("EXP1")])
def test_each_reason_has_an_example(code: str) -> None:
    assert [finding.code for finding in EXAMPLES[code]().findings] == [code]
