"""ONNX nodes as DirectML descriptors: what comes out validates, and gives the bits of the specification when it runs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper

import dmlgather as dg
from dmlgather.dialects.problem import Problem, TensorType
from dmlgather.directml import FeatureLevel
from dmlgather.onnx.problems.export import EXPORTER, express
from dmlgather.onnx.problems.node_reading import problem_of
from tests.dialects.binding import LEVELS
from tests.dialects.drafting import seeds
from tests.onnx.described import Node, check, refusals, sliced
from tests.onnx.wide import drawn

levels = st.sampled_from(LEVELS)


def problem(case: Node) -> Problem:
    tensors = [TensorType(array.shape, array.dtype) for array in case.inputs.values()]
    node = case.node
    values = [None, *(case.constants.get(name) for name in node.input[1:])]
    return problem_of(node, case.opset, [*tensors, *[None] * (len(node.input) - len(tensors))], values)


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(seeds, levels)
def test_what_is_returned_validates_and_gives_the_bits_of_the_specification(seed: int, level: FeatureLevel) -> None:
    case = drawn(seed, level)
    expected = refusals(case, level)
    if not expected:
        check(case, level)
        return
    report = case.described(level)
    assert isinstance(report, dg.Report), report
    assert {finding.code for finding in report.findings} == expected, str(report)
    assert report.level == level
    for finding in report.findings:
        assert finding.severity == "error"
        assert "\n" not in str(finding)
        assert all((finding.expected, finding.got, finding.remedy, finding.source))


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(seeds, levels)
def test_the_lowest_level_is_the_first_that_takes_it_and_no_later_one_refuses(seed: int, level: FeatureLevel) -> None:
    case = drawn(seed, level)
    accepting = [each for each in LEVELS if not refusals(case, each)]
    found = EXPORTER.lowest(problem(case))
    if not accepting:
        assert found is None
        return
    assert found is not None
    assert (found[0], accepting) == (accepting[0], LEVELS[LEVELS.index(accepting[0]) :])
    for each in FeatureLevel:
        assert isinstance(express(problem(case), each), dg.Report) is (each < found[0])
    assert express(problem(case), found[0]) == found[1]
    for before in LEVELS[: LEVELS.index(found[0])]:
        named = [finding.level for finding in _report(problem(case), before).findings]
        assert all(level is not None and before < level for level in named)
        assert max(filter(None, named)) == found[0]


def _report(stated: Problem, level: FeatureLevel) -> dg.Report:
    found = express(stated, level)
    assert isinstance(found, dg.Report)
    return found


SLICE = helper.make_node("Slice", ["x", "s", "e", "a", "t"], ["y"])
BOUNDS = {"s": [1], "e": np.array([3]), "a": [0], "t": (1,)}
EXPECTED = sliced(np.zeros((5, 2), np.float32), starts=[1], ends=[3], axes=[0], steps=[1]).described("6_4")


@pytest.mark.parametrize(
    ("shapes", "dtypes", "constants"),
    [
        ({"x": (5, 2)}, {"x": "float32"}, BOUNDS),
        ({"x": [np.int64(5), 2]}, {"x": np.float32}, BOUNDS),
        ([(5, 2)], [np.dtype("float32")], BOUNDS),
        ([(5, 2), (1,), (1,), (1,), (1,)], [TensorProto.FLOAT, *[TensorProto.INT32] * 4], {**BOUNDS, "e": [3]}),
        ([(5, 2), None, None, None, None], [1, None, None, None, None], BOUNDS),
        ({"x": (5, 2), "s": (1,)}, {"x": "float32", "s": "int64"}, BOUNDS),
        ([(5, 2)], ["float32"], {**BOUNDS, "e": np.array([3], np.int32)}),
        ({}, {}, {**BOUNDS, "x": np.zeros((5, 2), np.float32)}),
    ],
)
def test_inputs_are_stated_by_name_or_position(shapes: Any, dtypes: Any, constants: Any) -> None:
    assert dg.onnx.to_directml(SLICE, shapes, dtypes, constants=constants) == EXPECTED


def test_types_of_tensor_proto_are_taken_by_number() -> None:
    for number, name in ((9, "UINT8"), (16, "UINT16"), (10, "FLOAT16"), (11, "FLOAT64"), (14, "UINT64")):
        found = dg.onnx.to_directml(SLICE, [(5, 2)], [number], constants=BOUNDS)
        assert isinstance(found, dg.Slice1OperatorDesc)
        assert found.input_tensor.data_type.name == name


@pytest.mark.parametrize(
    ("change", "kind", "message"),
    [
        ({"level": "7_0"}, ValueError, "unknown feature level '7_0'"),
        ({"shapes": [(5, 2)] * 6}, ValueError, r"shapes has 6 entries, but the node has 5 inputs \(x, s, e, a, t\)"),
        ({"dtypes": ["float32"] * 6}, ValueError, "dtypes has 6 entries, but the node has 5 inputs"),
        ({"opset": "13"}, TypeError, "opset is '13' of type str, expected an integer"),
        ({"dtypes": ["flaot32"]}, TypeError, "flaot32"),
        ({"dtypes": [99]}, TypeError, "'x' has type 99 in dtypes, which is no data type of ONNX"),
        ({"shapes": {"x": (5, 2), "e": (2,)}}, ValueError, r"'e' has shape \(2,\) in shapes, but the constant has \(1,\)"),
        ({"dtypes": ["float"]}, TypeError, "'x' has type 'float' in dtypes: float is float32 in ONNX .* 'float32' or 'float64'"),
        ({"dtypes": {"x": "float32", "e": "int32"}}, ValueError, "'e' has type int32 in dtypes, but the constant has int64"),
        ({"dtypes": {"x": "float32", "e": "float64"}}, ValueError, "'e' has type float64 in dtypes, but the constant has int64"),
    ],
    ids=str,
)
def test_a_caller_that_contradicts_itself_gets_an_exception(change: dict[str, Any], kind: type[Exception], message: str) -> None:
    arguments: dict[str, Any] = {"shapes": [(5, 2)], "dtypes": ["float32"], "constants": BOUNDS} | change
    with pytest.raises(kind, match=message):
        dg.onnx.to_directml(SLICE, **arguments)
