"""The recipe of EXP302: a Slice with bounds that a run computes, as a Gather. Judges: NumPy, onnxruntime without optimisations,
and ONNX's reference evaluator.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import ModelProto
from onnx.checker import check_model
from onnx.parser import parse_model
from onnx.reference import ReferenceEvaluator
from onnxruntime.capi.onnxruntime_pybind11_state import InvalidArgument

from dmlgather.report.code_registry import explanation
from tests.onnx_checking.modelling import checked, only
from tests.onnx_checking.sessions import ALL, OFF, run
from tests.seeds import numpy_rng

SLICE, GATHER = re.findall(r"```onnx\n(.*?)```", explanation("EXP302"), re.DOTALL)
"""The models in the section, before and after."""


Run = tuple[np.ndarray, int, int]


def _by_onnxruntime(model: ModelProto, of: Run, level: Any = OFF) -> np.ndarray:
    (result,) = run(model, _inputs(of), level).values()
    return result


def _inputs(of: Run) -> dict[str, np.ndarray]:
    x, start, end = of
    return {"x": x, "s": np.array([start]), "e": np.array([end])}


def test_the_slice_is_unknown_and_the_gather_taken_everywhere(tmp_path: Path) -> None:
    before, after = map(parse_model, (SLICE, GATHER))
    check_model(after, full_check=True)
    assert {finding.code for finding in checked(tmp_path, before).findings} == {"EXP302"}
    found = checked(tmp_path, after)
    assert not found.findings
    taken = only(found)
    assert taken.lowest is not None
    assert (taken.verdict, str(taken.lowest.level)) == ("taken", "1_0")


@pytest.mark.parametrize("axis", [0, 1])
def test_the_gather_gives_what_the_slice_gives(axis: int) -> None:
    """Also for bounds beyond the axis, and for an end before the start. For axis 1, the section says what to change."""
    rng, model = numpy_rng(), parse_model(GATHER)
    if axis:
        model = parse_model(GATHER.replace("start = 0, end = 1", "start = 1, end = 2").replace("axis = 0", "axis = 1"))
        model.graph.input[0].type.tensor_type.shape.dim[1].dim_param = "W"
        del model.graph.output[0].type.tensor_type.shape.dim[:]
        model.graph.output[0].type.tensor_type.shape.dim.add()
        model.graph.output[0].type.tensor_type.shape.dim.add()
    for _ in range(20):
        x = rng.random(rng.integers(1, 9, 2) if axis else (rng.integers(1, 9), 3)).astype(np.float32)
        start, end = (int(bound) for bound in rng.integers(0, 12, 2))
        expected = x[start:end] if axis == 0 else x[:, start:end]
        (by_onnx,) = ReferenceEvaluator(model).run(None, _inputs((x, start, end)))
        assert isinstance(by_onnx, np.ndarray)
        for result in (_by_onnxruntime(model, (x, start, end)), by_onnx):
            assert (result.shape, result.tobytes()) == (expected.shape, expected.tobytes())


X = np.arange(24, dtype=np.float32).reshape(8, 3)


def test_optimisations_hide_wrong_positions() -> None:
    """The reason for comparing without them: by default, onnxruntime makes a Slice of the Gather."""
    without_min = GATHER.replace("Min(first, n)", "Identity(first)").replace("Min(last, n)", "Identity(last)")
    beyond, negative = (X, 0, 100), (X, 0, -2)
    assert _by_onnxruntime(parse_model(without_min), beyond, ALL).tobytes() == X.tobytes()
    with pytest.raises(InvalidArgument, match="out of data bounds"):
        _by_onnxruntime(parse_model(without_min), beyond)
    assert _by_onnxruntime(parse_model(GATHER), negative, ALL).tobytes() == X[:-2].tobytes()
    assert _by_onnxruntime(parse_model(GATHER), negative).shape == (0, 3)


@pytest.mark.parametrize(("start", "end"), [(0, -2), (-3, -1), (-100, 4), (2, -100), (-100, 100), (1, 5)])
def test_a_negative_bound_as_the_section_says(start: int, end: int) -> None:
    counted = GATHER.replace("int64 one = {1}", "int64 one = {1}, int64 zero = {0}")
    for name, bound in (("first", "s"), ("last", "e")):
        nodes = f"{bound}0 = Squeeze({bound}) {bound}1 = Add({bound}0, n) is_{bound} = Less({bound}0, zero)\n"
        nodes += f"{bound}2 = Where(is_{bound}, {bound}1, {bound}0) {name} = Max({bound}2, zero)"
        counted = counted.replace(f"{name} = Squeeze({bound})", nodes)
    result = _by_onnxruntime(parse_model(counted), (X, start, end))
    assert result.tobytes() == X[start:end].tobytes()


REVERSED = """<ir_version: 9, opset_import: ["" : 17]> rows (float[N,3] x) => (float[M,3] y)
<int64 zero = {0}, int64 one = {1}, int64 minus = {-1}> {
    shape = Shape(x)
    n = Gather<axis = 0>(shape, zero)
    last = Sub(n, one)
    POSITIONS
    y = Gather(x, positions)
}"""


@pytest.mark.parametrize(
    ("positions", "by_default"),
    [("r = Range(zero, n, one) positions = Sub(last, r)", True), ("positions = Range(last, minus, minus)", False)],
)
def test_onnxruntime_loses_a_reversal_by_a_negative_range(positions: str, by_default: bool) -> None:
    """EXP106 advises the other form. If this fails for the second case, onnxruntime has mended it: change the section."""
    model, x = parse_model(REVERSED.replace("POSITIONS", positions)), numpy_rng().random((5, 3), np.float32)
    for level, right in ((OFF, True), (ALL, by_default)):
        assert np.array_equal(run(model, {"x": x}, level)["y"], x[::-1]) is right
