"""The form of a translation: the natural operator; clamps, masks and conversions where libraries differ; or a reason."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dmlgather as dg
from dmlgather.dialects.planned import Planned
from dmlgather.dialects.problem import Problem, TensorType
from dmlgather.dialects.views import StridedView
from dmlgather.translation.gathering import IndexConverter
from tests.translation.judging import judge

TABLE, IDS, NARROW = ((5, 4), "float32"), ((3,), "int64"), ((3,), "int8")
ROWS = dg.lax.GatherDimensionNumbers(offset_dims=(1,), collapsed_slice_dims=(0,), start_index_map=(0,))


def lax_rows(mode: str, ids: Any = ((3, 1), "int64")) -> Problem:
    return dg.lax.gather.problem(TABLE, ids, ROWS, (1, 4), mode=mode)


def strided(shape: tuple[int, ...], strides: tuple[int, ...], data: tuple[int, ...] = (5, 5)) -> Problem:
    return StridedView(TensorType(data, np.dtype(np.float32)), shape, strides)


def planned(problem: Problem) -> Problem:
    """The same, without an operator's name."""
    return Planned(problem.data, None, problem.output, problem.plan())


FORMS: dict[str, tuple[Problem, list[str]]] = {
    "a gather of another library stays one": (
        dg.openvino.gather.problem(TABLE, IDS, 1, out_of_bounds="raise"),
        ["Gather-13 (axis 1)"],
    ),
    "elements stay elements": (dg.openvino.gather_elements.problem(TABLE, ((5, 2), "int32"), 1), ["GatherElements-13 (axis 1)"]),
    "tuples stay tuples": (
        dg.openvino.gather_nd.problem(TABLE, ((3, 2), "int64"), out_of_bounds="raise"),
        ["GatherND-13 (batch_dims 0)"],
    ),
    "an operator keeps its name": (
        dg.onnx.depth_to_space.problem(((1, 8, 2, 3), "int32"), 2),
        ["DepthToSpace-13 (blocksize 2, mode DCR)"],
    ),
    "blocks are found by their plan": (
        planned(dg.onnx.depth_to_space.problem(((1, 8, 2, 3), "float32"), 2)),
        ["DepthToSpace-13 (blocksize 2, mode DCR)"],
    ),
    "DirectML's clamp, signed": (
        dg.onnx.gather.problem(TABLE, IDS, out_of_bounds="clamp"),
        ["clamp to -5 … 4", "Gather-13 (axis 0)"],
    ),
    "JAX's clamp, which counts nothing from the end": (
        lax_rows("clip"),
        ["reshape to [3]", "clamp to 0 … 4", "Gather-13 (axis 0)"],
    ),
    "unsigned indices are clamped in their own type": (
        dg.openvino.gather.problem(TABLE, ((3,), "uint64"), 0, out_of_bounds="clamp"),
        ["clamp to at most 4", "convert to int32", "Gather-13 (axis 0)"],
    ),
    "a fill is selected": (
        dg.openvino.gather.problem(TABLE, IDS, 0, out_of_bounds=dg.Fill(7)),
        ["clamp to -5 … 4", "equal", "Gather-13 (axis 0)", "reshape to [3, 1]", "select, else 7.0"],
    ),
    "JAX's fill": (
        lax_rows("fill"),
        ["reshape to [3]", "clamp to 0 … 4", "equal", "Gather-13 (axis 0)", "reshape to [3, 1]", "select, else nan"],
    ),
    "an error for negative indices": (
        dg.openvino.gather.problem(TABLE, IDS, 0, version=7, out_of_bounds="raise"),
        ["less with 0", "where with 5", "Gather-13 (axis 0)"],
    ),
    "8-bit indices cannot hold a size of 300": (
        dg.openvino.gather.problem(((300,), "float32"), NARROW, 0, out_of_bounds="clamp"),
        ["convert to int32", "clamp to -300 … 299", "Gather-13 (axis 0)"],
    ),
    "a diagonal is a slice of the flattened data": (strided((5,), (6,)), ["reshape to [25]", "Slice-13 [0:25:6]"]),
    "overlapping windows, by positions": (strided((3, 3), (1, 1), (5,)), ["Gather-13 (axis 0)"]),
}


@pytest.mark.parametrize("name", FORMS)
def test_a_translation_has_the_natural_form(name: str) -> None:
    problem, steps = FORMS[name]
    made = dg.translate(problem)
    assert list(made.steps) == steps, made.reason
    assert made.check, str(made.check)


@pytest.mark.parametrize(
    ("problem", "opset", "words"),
    [
        (dg.openvino.gather.problem(((4,), "float8_e4m3fn"), IDS, 0), 13, "data has type float8e4m3fn, but Gather-13 takes"),
        (
            dg.onnx.gather.problem(TABLE, IDS, out_of_bounds="clamp"),
            11,
            "Clip-11, which opset 11 has, takes no int64: use a newer opset, or another type",
        ),
        (dg.onnx.gather_nd.problem(TABLE, ((3, 2), "int64")), 10, "opset is 10, but GatherND exists from opset 11 on"),
        (dg.index[None, :0].problem(((3,), "float32")), 13, "opset 13 cannot reshape to [1, 0], because a size of 0 stands for"),
        (dg.onnx.gather.problem(((0, 4), "float32"), ((0,), "int64")), 17, ""),
    ],
)
def test_a_translation_says_why_there_is_none(problem: Problem, opset: int, words: str) -> None:
    made = dg.translate(problem, opset=opset)
    assert made.ok is not bool(words)
    assert words in made.reason
    assert (made.form is None) is (made.check is None) is bool(words)


def test_a_descriptor_reads_what_the_one_before_it_wrote() -> None:
    rows = dg.GatherOperatorDesc.of(((6, 4), "FLOAT32"), ((1, 3), "UINT32"), axis=0)
    flipped = dg.Slice1OperatorDesc.of(
        ((3, 4), "FLOAT32"), input_window_offsets=(0, 0), input_window_sizes=(3, 4), input_window_strides=(-1, 2)
    )
    made = dg.translate([rows, flipped])
    assert [step for step in made.steps if "-13" in step] == ["Gather-13 (axis 0)", "Slice-13 [2::-1, 0:3:2]"]
    assert made.check


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        (("tensorflow", {}), ValueError, "to is 'tensorflow', expected 'onnx'"),
        (("onnx", {"opset": 99}), ValueError, "opset is 99, expected 1 … 28"),
        (("onnx", {"opset": "13"}), TypeError, "opset is '13' of type str, expected an integer"),
        ((["onnx"], {}), ValueError, r"to is \['onnx'\], expected 'onnx'"),
    ],
)
def test_an_unknown_target_is_refused(arguments: tuple[Any, dict[str, Any]], error: type[Exception], words: str) -> None:
    to, version = arguments
    with pytest.raises(error, match=words):
        dg.translate(dg.onnx.gather.problem(TABLE, IDS), to, **version)


def test_an_opset_that_the_installed_onnx_lacks_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    import onnx

    monkeypatch.setattr(onnx, "__version__", "1.19.0")
    monkeypatch.setattr(onnx.defs, "onnx_opset_version", lambda: 24)
    problem = dg.onnx.gather.problem(TABLE, IDS)
    assert dg.translate(problem, "onnx", opset=24).ok
    with pytest.raises(ValueError, match=r"opset is 25, but onnx 1.19.0, which is installed, knows opsets up to 24: use one of"):
        dg.translate(problem, "onnx", opset=25)


def test_a_wrong_clamp_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The judge, and the check, see a clamp that is off by one."""
    wrong = IndexConverter._clamped
    monkeypatch.setattr(
        IndexConverter, "_clamped", lambda self, value, lowest, last, signed: wrong(self, value, lowest, last - 1, signed)
    )
    made = dg.translate(dg.onnx.gather.problem(TABLE, IDS, out_of_bounds="clamp"))
    assert made.check is not None
    assert made.check.verdict == "different"
    assert not made.ok
    with pytest.raises(AssertionError):
        judge(range(40))
