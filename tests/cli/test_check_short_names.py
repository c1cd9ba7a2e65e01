"""Short names for long sizes: where lines have them, that they never collide, and that the legend restores the text."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import onnx
from hypothesis import given
from hypothesis import strategies as st

from dmlgather.directml.types import FeatureLevel
from dmlgather.onnx_checking.checked_model import CheckedNode, CheckedTensor, Verdict
from dmlgather.report.check_report import FileReport
from dmlgather.report.text import LONGEST, ShortNames
from tests.cli.command import Command
from tests.onnx_checking.modelling import parsed

LONG = "the_number_of_tokens_in_the_batch_and_their_padding"


def _save(folder: Path, size: str = LONG, name: str = "X") -> Path:
    model = parsed(f"agraph (float[N,4] {name}, int64[3] i) => (float[M,3] Z) {{ [rows] Z = Gather<axis = 1>({name}, i) }}")
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = size
    model.graph.output[0].type.tensor_type.shape.dim[0].dim_param = size
    onnx.save(model, folder / "model.onnx")
    return folder / "model.onnx"


def test_a_long_size_has_a_short_name_and_a_legend(folder: Path, command: Command) -> None:
    path = _save(folder).relative_to(folder)
    for output_format in ("text", "concise"):
        out = command("check", "--verbose", "--output-format", output_format, path).out.splitlines()
        assert out[1] == f"  s1 = {LONG}"
        assert "data float[s1,4]" in out[2]
        assert out[-1].endswith("provided that s1 >= 1")
    assert command("check", path).out.splitlines()[1:] == ["  taken, provided that s1 >= 1", f"  s1 = {LONG}"]
    assert LONG in command("check", "--output-format", "json", path).out
    assert "s1 " not in command("check", "--output-format", "junit", path).out


def test_a_size_that_lines_can_show_keeps_its_name(tmp_path: Path, command: Command) -> None:
    for size in ("seq", "N" * LONGEST):
        assert f"  taken, provided that {size} >= 1" in command("check", _save(tmp_path, size)).out
    assert "s1 = " in command("check", _save(tmp_path, "N" * (LONGEST + 1))).out


def test_a_name_of_the_model_is_no_short_name(tmp_path: Path, command: Command) -> None:
    model = parsed("agraph (float[s1,s2,4] X, int64[3] i) => (float[s1,s2,3] Z) { [s3] Z = Gather<axis = 2>(X, i) }")
    model.graph.input[0].type.tensor_type.shape.dim.add().dim_param = LONG
    onnx.save(model, tmp_path / "model.onnx")
    out = command("check", "--verbose", tmp_path / "model.onnx").out
    assert f"  s4 = {LONG}" in out
    assert "data float[s1,s2,4,s4]" in out


def _node(place: str, sizes: list[Any], provided: list[str]) -> CheckedNode:
    shape = CheckedTensor(role="data", name="x", type="float", shape=tuple(sizes))
    tensor = shape.model_copy(update={"values": tuple(sizes[::-1])})
    return CheckedNode(
        place=place, graph="", name="", index=0, operator="Gather", opset=13, version=13, inputs=(tensor,), outputs=(tensor,),
        verdict=Verdict.TAKEN, provided=tuple(provided),
    )  # fmt: skip


words = st.text("sN1_(. +)[]',\"-", min_size=1, max_size=8)
sizes = st.one_of(words, st.builds(lambda word, times: word * times, words, st.integers(2, 12)), st.sampled_from(["s1", "s2"]))


@given(st.lists(sizes, min_size=1, max_size=5), st.data())
def test_the_legend_restores_every_text(names: list[str], data: st.DataObject) -> None:
    parts = st.one_of(st.sampled_from(names), words, st.just(" "))
    provided = [f"{name} >= {number}" for number, name in enumerate(names)]
    texts = data.draw(st.lists(st.lists(parts, max_size=6).map(" ".join), max_size=4))
    nodes = (_node(names[0], [*names, None, 3], provided), *(_node(text, [], []) for text in texts))
    short = ShortNames(FileReport(file="f", level=FeatureLevel.parse("6_4"), kind="onnx", nodes=nodes))
    (tensor,) = short.node(nodes[0]).inputs
    shown = [*map(short.text, (*texts, *provided)), *map(str, (*(tensor.shape or ()), *(tensor.values or ())))]
    original = [*texts, *provided, *map(str, (*names, None, 3, 3, None, *names[::-1]))]
    restored = [re.sub(r"\bs[0-9]+\b", lambda found: short.legend.get(found[0], found[0]), text) for text in shown]
    assert restored == original
    assert len(set(short.legend.values())) == len(short.legend)
    for name in short.legend:
        assert not any(re.search(rf"\b{name}\b", text) for text in original)
    assert all(len(size) > LONGEST for size in short.legend.values())
    assert not any(isinstance(size, str) and len(size) > LONGEST for size in tensor.shape or ())
