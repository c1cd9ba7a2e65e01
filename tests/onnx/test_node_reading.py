"""Nodes that are no problem of the family. The contract of exporting reads those that are."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import helper

from dmlgather.dialects.problem import TensorType
from dmlgather.onnx.problems.node_reading import UnknownTypeError, UnknownValueError, in_family, problem_of
from tests.dialects.refusals import Refusals, check_refused, each_of

DATA = TensorType((4, 5), np.dtype(np.float32))
INDICES = TensorType((2,), np.dtype(np.int64))


def node(operator: str, *inputs: str, along: str = "", **attributes: Any) -> onnx.NodeProto:
    """A node. along: the attribute of a function that its axis refers to."""
    made = helper.make_node(operator, inputs, ["y"], **attributes)
    if along:
        made.attribute.append(onnx.AttributeProto(name="axis", ref_attr_name=along, type=onnx.AttributeProto.INT))
    return made


def read(operator: str, *inputs: str, opset: int = 13, types: Any = (DATA, INDICES, None), **stated: Any) -> Any:
    """Reads the problem of a node on these inputs, called later."""
    count = len(inputs)
    return lambda: problem_of(node(operator, *inputs, **stated), opset, types[:count], [None] * count)


ILL_FORMED: Refusals = {
    UnknownValueError: {
        "starts ('first') is computed when the model runs, but a descriptor": read("Slice", "x", "first", "last"),
        "attribute axis refers to attribute 'along' of a function": read("Gather", "x", "i", along="along"),
    },
    UnknownTypeError: {
        "shape or type of indices ('i') is not known, but a descriptor of": read("Gather", "x", "i", types=(DATA, None)),
    },
    ValueError: {
        "the node has 1 input (x), but Gather-13 takes 2: data, indices": read("Gather", "x"),
        "the node has 1 input (x, ), but Gather-13 takes 2": read("Gather", "x", ""),
        "the node has 2 inputs (x, s), but Slice-13 takes 3, 4 or 5: data, starts, ends, axes": read("Slice", "x", "s"),
        "the node has 2 inputs (x, s), but Slice-1 takes 1: data": read("Slice", "x", "s", opset=1, starts=[0], ends=[1]),
        "Gather-13 has no attribute 'batch_dims': it": read("Gather", "x", "i", batch_dims=1),
        "GatherND-11 has no attribute 'batch_dims': it has none": read("GatherND", "x", "i", opset=11, batch_dims=1),
        "attribute ends is missing: Slice-1 requires it": read("Slice", "x", opset=1, starts=[1]),
        "Slice-10 has no attribute 'axes': it has none": read("Slice", "x", opset=10, axes=[-1]),
        "DepthToSpace-1 has no attribute 'mode': it has": read("DepthToSpace", "x", opset=10, blocksize=2, mode="CRD"),
        "SpaceToDepth-13 has no attribute 'mode': it": read("SpaceToDepth", "x", opset=27, blocksize=2, mode="CRD"),
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
