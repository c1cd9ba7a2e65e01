"""OpenVINO as a live judge of GatherElements, GatherND, Slice and StridedSlice.

`Model.evaluate` runs the slices, over poisoned outputs. It has no code for GatherElements and GatherND. The CPU plugin runs them,
with shapes that are not known when it compiles, so that one compilation serves many calls. tests/peers has the faults of both.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from tests.dialects.outcomes import Refusal
from tests.openvino.family_specification import FamilyCall
from tests.openvino.judge import NotCoveredError, evaluated, parameter, signature_of
from tests.openvino.runtime import openvino
from tests.openvino.specification import NAMES, Array

PLUGIN_DATA = ("float32", "int32", "int8", "uint8", "float16", "bool")
"""The types of data that the CPU plugin gathers as they are; it makes 64 bits 32."""

_WRONG_TYPE = (
    "must be of int32 or int64",
    "expected to be an integer",
    "type must be integer",
    "must be an integral",
    "not supported",
)
_MASKS = ("begin_mask", "end_mask", "new_axis_mask", "shrink_axis_mask", "ellipsis_mask")


def judge(call: FamilyCall) -> Array | Refusal:
    """What OpenVINO makes of a call of types that it has. NotCoveredError where it builds the node and cannot run it."""
    try:
        return _evaluated(call) if call.operation.endswith("Slice") else _inferred(call)
    except RuntimeError as error:
        message = str(error)
        if "Evaluation failed" in message:
            raise NotCoveredError(message) from None
        if "GatherElements" in message and "index < axisDimSize" in message:
            return Refusal(IndexError, message)
        return Refusal(TypeError if any(phrase in message for phrase in _WRONG_TYPE) else ValueError, message)


def signature(call: FamilyCall) -> tuple[str, tuple[int, ...]]:
    """Type and shape of the result, which OpenVINO knows for all its types. RuntimeError for a call that it refuses."""
    return signature_of(_node(call, list(map(parameter, call.arrays))))


def _evaluated(call: FamilyCall) -> Array:
    parameters = list(map(parameter, call.arrays))
    return evaluated(_node(call, parameters), parameters, call.arrays)


def _inferred(call: FamilyCall) -> Array:
    signature(call)  # refusals of shapes, which the compiled model would not all make
    data, indices = call.arrays
    (attribute,) = call.more.values()
    last = indices.shape[-1] if call.operation == "GatherND" else -1
    ranks, types = (data.ndim, indices.ndim), (data.dtype, indices.dtype)
    request = _compiled((call.operation, call.version), attribute, ranks, types, last)
    found: Array = np.array(request.infer([np.ascontiguousarray(data), np.ascontiguousarray(indices)])[0])
    return found


@lru_cache(maxsize=1000)
def _compiled(operation: tuple[str, int], attribute: int, ranks: tuple[int, int], types: tuple[Any, ...], last: int) -> Any:
    """A model of tensors of these ranks. last: the last size of indices, which GatherND has to know; -1 for any."""
    sizes = ([-1] * ranks[0], [-1] * (ranks[1] - 1) + [last])
    types = tuple(getattr(openvino.Type, NAMES[each]) for each in types)
    parameters = [openvino.op.Parameter(*pair) for pair in zip(types, map(openvino.PartialShape, sizes), strict=True)]
    model = openvino.Model([_gather(*operation, parameters, attribute)], parameters, "one_gather")
    return openvino.Core().compile_model(model, "CPU").create_infer_request()


def _node(call: FamilyCall, parameters: list[Any]) -> Any:
    if not call.operation.endswith("Slice"):
        (attribute,) = call.more.values()
        return _gather(call.operation, call.version, parameters, attribute)
    if call.operation == "Slice":
        names = ("start", "stop", "step", "axes")
        return openvino.opset8.slice(*parameters, *(_constant(call.more[name]) for name in names if name in call.more))
    begin, end = call.more["begin"], call.more["end"]
    strides = call.more["strides"] if "strides" in call.more else [1] * len(begin)
    count = max((len(call.more.get(name, ())) for name in _MASKS), default=0)  # it takes masks of one length only
    masks = [[*map(int, call.more.get(name, ()))] for name in _MASKS]
    masks = [mask + [0] * (count - len(mask)) for mask in masks]
    return openvino.opset1.strided_slice(*parameters, *map(_constant, (begin, end, strides)), *masks)


def _gather(operation: str, version: int, parameters: list[Any], attribute: int) -> Any:
    operations = getattr(openvino, f"opset{version}")
    if operation == "GatherElements":
        return operations.gather_elements(*parameters, axis=attribute)
    return operations.gather_nd(*parameters, batch_dims=attribute)


def _constant(values: Any) -> Any:
    return openvino.op.Constant(values if hasattr(values, "dtype") else np.array(values, np.int64))


def can_be_asked(call: FamilyCall) -> bool:
    """Whether a node can have these types, bounds and attributes. Some exist in Python only."""
    if not {array.dtype for array in call.arrays} <= NAMES.keys():
        return False
    if not call.operation.endswith("Slice"):
        return all(type(value) is int for value in call.more.values())
    return all(
        value.dtype in NAMES
        if isinstance(value, np.ndarray)
        else isinstance(value, list) and all(type(one) is int for one in value)
        for value in call.more.values()
    )
