"""From NodeProtos to problems, by each version's attributes and inputs; the numbers are from the operators' pages."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from dmlgather.dialects.problem import TensorType
from dmlgather.dialects.windows import Window
from dmlgather.onnx.problems.depth_space import DepthToSpace, SpaceToDepth
from dmlgather.onnx.problems.gather import Gather, GatherElements, GatherND
from dmlgather.onnx.problems.node_reading import UnknownTypeError, UnknownValueError, in_family, problem_of
from dmlgather.onnx.problems.slice import Slice
from tests.dialects.refusals import Refusals, check_refused, each_of

DATA = TensorType((4, 5), np.dtype(np.float32))
INDICES = TensorType((2,), np.dtype(np.int64))


def _int64(*values: int) -> np.ndarray[Any, Any]:
    return np.array(values, np.int64)


@pytest.mark.parametrize("opset", [1, 7, 11, 12, 13, 16, 24])
def test_gather(opset: int) -> None:
    node = helper.make_node("Gather", ["x", "i"], ["y"], axis=-1)
    assert problem_of(node, opset, [DATA, INDICES], [None, None]) == Gather(DATA, INDICES, 1, opset)
    node = helper.make_node("Gather", ["x", "i"], ["y"], domain="ai.onnx")
    assert in_family(node)
    assert problem_of(node, opset, [DATA, INDICES], [None, None]) == Gather(DATA, INDICES, 0, opset)


def test_gather_elements() -> None:
    indices = TensorType((3, 5), np.dtype(np.int32))
    node = helper.make_node("GatherElements", ["x", "i"], ["y"], axis=0)
    assert problem_of(node, 11, [DATA, indices], [None, None]) == GatherElements(DATA, indices, 0, 11)


def test_gather_nd() -> None:
    indices = TensorType((4, 2, 1), np.dtype(np.int64))
    node = helper.make_node("GatherND", ["x", "i"], ["y"], batch_dims=1)
    assert problem_of(node, 12, [DATA, indices], [None, None]) == GatherND(DATA, indices, 1, 12)
    with pytest.raises(ValueError, match="GatherND-11 has no attribute 'batch_dims': it has none"):
        problem_of(node, 11, [DATA, indices], [None, None])


def test_slice_by_attributes() -> None:
    node = helper.make_node("Slice", ["x"], ["y"], starts=[1], ends=[-1], axes=[-1])
    problem = problem_of(node, 9, [DATA], [None])
    assert problem == Slice(DATA, (1,), (-1,), (1,), None, 9)
    assert isinstance(problem, Slice)
    assert problem.windows == (Window(0, 4, 1), Window(1, 3, 1))
    with pytest.raises(ValueError, match="attribute ends is missing: Slice-1 requires it"):
        problem_of(helper.make_node("Slice", ["x"], ["y"], starts=[1]), 1, [DATA], [None])
    with pytest.raises(ValueError, match="Slice-10 has no attribute 'axes': it has none"):
        problem_of(node, 10, [DATA], [None])


def test_slice_by_inputs() -> None:
    node = helper.make_node("Slice", ["x", "s", "e", "", "t"], ["y"])
    problem = problem_of(node, 16, [DATA, None, None, None, None], [None, _int64(3), _int64(-10), None, _int64(-2)])
    assert problem == Slice(DATA, (3,), (-10,), None, (-2,), 16)
    assert isinstance(problem, Slice)
    assert problem.windows == (Window(3, 2, -2), Window(0, 5, 1))


PIXELS = TensorType((1, 4, 6, 8), np.dtype(np.float32))


@pytest.mark.parametrize("opset", [1, 10, 11, 13, 27, 28])
def test_blocks(opset: int) -> None:
    node = helper.make_node("DepthToSpace", ["x"], ["y"], blocksize=2)
    assert problem_of(node, opset, [PIXELS], [None]) == DepthToSpace(PIXELS, 2, "DCR", opset)
    node = helper.make_node("DepthToSpace", ["x"], ["y"], blocksize=2, mode="CRD")
    if opset >= 11:
        assert problem_of(node, opset, [PIXELS], [None]) == DepthToSpace(PIXELS, 2, "CRD", opset)
    else:
        with pytest.raises(ValueError, match="DepthToSpace-1 has no attribute 'mode': it has only blocksize"):
            problem_of(node, opset, [PIXELS], [None])
    node = helper.make_node("SpaceToDepth", ["x"], ["y"], blocksize=2, mode="CRD")
    if opset >= 28:
        assert problem_of(node, opset, [PIXELS], [None]) == SpaceToDepth(PIXELS, 2, "CRD", opset)
    else:
        with pytest.raises(ValueError, match=r"SpaceToDepth-\d+ has no attribute 'mode': it has only blocksize"):
            problem_of(node, opset, [PIXELS], [None])


def test_an_unknown_input_is_named() -> None:
    node = helper.make_node("Slice", ["x", "first", "last"], ["y"])
    with pytest.raises(UnknownValueError, match=r"starts \('first'\) is computed when the model runs, but a descriptor") as value:
        problem_of(node, 13, [DATA, None, None], [None, None, _int64(2)])
    assert (value.value.input, value.value.value) == ("starts", "first")
    node = helper.make_node("Gather", ["x", "i"], ["y"])
    with pytest.raises(UnknownTypeError, match=r"shape or type of indices \('i'\) is not known, but a descriptor of") as kind:
        problem_of(node, 13, [DATA, None], [None, None])
    assert (kind.value.input, kind.value.value) == ("indices", "i")


def test_a_function_s_attribute_is_not_known() -> None:
    node = helper.make_node("Gather", ["x", "i"], ["y"])
    node.attribute.append(onnx.AttributeProto(name="axis", ref_attr_name="along", type=onnx.AttributeProto.INT))
    with pytest.raises(UnknownValueError, match="attribute axis refers to attribute 'along' of a function"):
        problem_of(node, 13, [DATA, INDICES], [None, None])


def read(operator: str, *inputs: str, opset: int = 13, **attributes: Any) -> Any:
    """Reads the problem of a node on these inputs, called later."""
    node = helper.make_node(operator, inputs, ["y"], **attributes)
    return lambda: problem_of(node, opset, [DATA, INDICES][: len(inputs)], [None] * len(inputs))


ILL_FORMED: Refusals = {
    ValueError: {
        "the node has 1 input (x), but Gather-13 takes 2: data, indices": read("Gather", "x"),
        "the node has 1 input (x, ), but Gather-13 takes 2": read("Gather", "x", ""),
        "the node has 2 inputs (x, s), but Slice-13 takes 3, 4 or 5: data, starts, ends, axes": read("Slice", "x", "s"),
        "the node has 2 inputs (x, s), but Slice-1 takes 1: data": read("Slice", "x", "s", opset=1, starts=[0], ends=[1]),
        "Gather-13 has no attribute 'batch_dims': it": read("Gather", "x", "i", batch_dims=1),
        "opset is 10, but GatherND exists from opset 11 on": read("GatherND", "x", "i", opset=10),
        "axis is 2, but data has rank 2": read("Gather", "x", "i", axis=2),
        "attribute blocksize is missing: SpaceToDepth-13 requires it": read("SpaceToDepth", "x"),
        "data has rank 2, but DepthToSpace-13": read("DepthToSpace", "x", blocksize=1),
    },
    TypeError: {
        "attribute axis has type 1, but Gather-13": read("Gather", "x", "i", axis=1.5),
        "attribute mode has type 2, but DepthToSpace-13": read("DepthToSpace", "x", blocksize=1, mode=1),
        "attribute blocksize has type 3, but DepthToSpace-13": read("DepthToSpace", "x", blocksize="1"),
    },
}


@each_of(ILL_FORMED)
def test_an_ill_formed_node_is_refused_with_the_facts(call: Any, error: type[Exception], message: str) -> None:
    check_refused(call, error, message)


def test_others_are_not_of_the_family() -> None:
    assert not in_family(helper.make_node("Gather", ["x", "i"], ["y"], domain="com.example"))
    assert not in_family(helper.make_node("ScatterND", ["x", "i", "u"], ["y"]))
