"""Operators that are close to the family: that they exist, that none is judged, and how reports name them."""

from __future__ import annotations

import re
from pathlib import Path

import onnxruntime.capi.onnxruntime_pybind11_state as onnxruntime
import pytest

from dmlgather.cli.schema import Schema
from dmlgather.directml import OPERATORS
from dmlgather.directml import SOURCES as DIRECTML_SOURCES
from dmlgather.onnx.problems.node_reading import FAMILY
from dmlgather.onnx_checking.related_operators import RELATED_OPERATORS, SOURCES
from tests.cli.command import Command
from tests.onnx_checking.modelling import saved


def test_every_relative_of_onnx_is_an_operator() -> None:
    known = {f"{schema.domain}.{schema.name}".removeprefix(".") for schema in onnxruntime.get_all_operator_schema()}
    assert known >= RELATED_OPERATORS.keys()
    assert not RELATED_OPERATORS.keys() & set(FAMILY)


@pytest.mark.parametrize("operator", RELATED_OPERATORS)
def test_a_row_names_its_sources(operator: str) -> None:
    directml, source = RELATED_OPERATORS[operator]
    for key in source.split(", "):
        assert key[1:-1] in {**SOURCES, **DIRECTML_SOURCES}
    assert directml.startswith("DirectML ")
    assert not directml.endswith(".")


def test_sources_are_unique() -> None:
    assert not SOURCES.keys() & DIRECTML_SOURCES.keys()


FROM = r"([A-Z_0-9]+) (?:and [A-Z]+ )?from (\d_\d)"


def test_the_levels_of_operators_that_are_declared_here() -> None:
    stated = {found for directml, _ in RELATED_OPERATORS.values() for found in re.findall(FROM, directml)}
    ours = {operator.name: str(operator.introduced) for operator in OPERATORS.values()}
    named = {name: level for name, level in stated if name in ours}
    assert named == {name: ours[name] for name in ("GATHER", "GATHER_ND", "SLICE", "SLICE1")}


def test_a_report_on_an_onnx_model_names_them(tmp_path: Path, command: Command) -> None:
    text = """agraph (float[8,4] x, int64[3,4] i, float[3,4] u) => (float[8,4] z) {
        a = ScatterElements(x, i, u) b = ScatterElements(a, i, u) c = com.microsoft.GatherBlockQuantized(b, i, u) z = Relu(c) }"""
    path = saved(tmp_path, text)
    out = command("check", "--output-format", "concise", path).out.splitlines()
    assert out[0].endswith("nothing to judge; 3 related nodes, 1 other node not judged")
    assert out[1].startswith("  ScatterElements (2 nodes): not judged; DirectML has SCATTER from 2_0; it has no reduction")
    assert out[2].startswith("  com.microsoft.GatherBlockQuantized (1 node): not judged; DirectML has no gather that dequantizes")
    (file,) = command.report(Schema.REPORT, "check", path)["files"]
    counts = {each["operator"]: each["count"] for each in file["relatives"]}
    assert counts == {"ScatterElements": 2, "com.microsoft.GatherBlockQuantized": 1}
    assert sum(file["others"].values()) == 4
