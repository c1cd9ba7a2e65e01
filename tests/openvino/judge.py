"""OpenVINO as a live judge: a model of one operation.

`Model.evaluate` runs Gather and the slices, over poisoned outputs. It has no code for GatherElements and GatherND. The CPU plugin
runs them, with shapes that are not known when it compiles, so that one compilation serves many calls. tests/peers has the faults
of both. A refusal is told by its message: the phrases of `_WRONG_TYPE` are TypeError, another one IndexError, all others
ValueError.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from tests.dialects.outcomes import Array, Refusal
from tests.openvino.runtime import openvino
from tests.openvino.specification import NAMES, VERSIONS, Call

EVALUATED_DATA = ("boolean", "bf16", "f16", "f32", "i8", "u8", "i32", "u32", "i64", "u64")
"""The types of data of Gather that `Model.evaluate` covers."""

EVALUATED_INDICES = ("i32", "i64")
"""The types of indices of Gather that `Model.evaluate` covers."""

PLUGIN_DATA = ("float32", "int32", "int8", "uint8", "float16", "bool")
"""The types of data that the CPU plugin gathers as they are; it makes 64 bits 32."""

_WRONG_TYPE = (
    *("must be of an integral number type", "must be of integral data type", "must be of int32 or int64", "must be an integral"),
    *("expected to be an integer", "type must be integer", "not supported"),
)
_MASKS = ("begin_mask", "end_mask", "new_axis_mask", "shrink_axis_mask", "ellipsis_mask")
_POISON = b"\xa5"


class NotCoveredError(Exception):
    """OpenVINO built the node, and has no code for its types."""


def judge(call: Call) -> Array | Refusal:
    """What OpenVINO makes of a call of types that it has. NotCoveredError where it builds the node and cannot run it."""
    parameters = list(map(_parameter, call.arrays))
    try:
        node = _node(call, parameters)
        return _inferred(call) if call.operation in ("GatherElements", "GatherND") else _evaluated(call, node, parameters)
    except (RuntimeError, ValueError) as error:
        message = str(error)
        if "Evaluation failed" in message:
            raise NotCoveredError(message) from None
        if "GatherElements" in message and "index < axisDimSize" in message:
            return Refusal(IndexError, message)
        return Refusal(TypeError if any(phrase in message for phrase in _WRONG_TYPE) else ValueError, message)


def signature(call: Call) -> tuple[str, tuple[int, ...]]:
    """Type and shape of the result of a good call, which OpenVINO knows for all its types."""
    node = _node(call, list(map(_parameter, call.arrays)))
    return node.get_output_element_type(0).get_type_name(), tuple(node.get_output_shape(0))


def _evaluated(call: Call, node: Any, parameters: list[Any]) -> Array:
    """What `Model.evaluate` writes for a node, over poison."""
    kind, shape = node.get_output_element_type(0), tuple(node.get_output_shape(0))
    output = _tensor(kind, shape, _POISON * (int(np.prod(shape)) * kind.size))
    model = openvino.Model([node], parameters, "one_node")
    assert model.evaluate([output], [_tensor(_type(array), array.shape, array.tobytes()) for array in call.arrays])
    return np.frombuffer(_content(output).tobytes(), call.data.dtype).reshape(tuple(output.get_shape()))


def _inferred(call: Call) -> Array:
    (attribute,) = call.more.values()
    last = call.indices.shape[-1] if call.operation == "GatherND" else -1
    ranks, types = (call.data.ndim, call.indices.ndim), (call.data.dtype, call.indices.dtype)
    request = _compiled((call.operation, call.version), attribute, ranks, types, last)
    found: Array = np.array(request.infer([np.ascontiguousarray(array) for array in call.arrays])[0])
    return found


@lru_cache(maxsize=1000)
def _compiled(operation: tuple[str, int], attribute: int, ranks: tuple[int, int], types: tuple[Any, ...], last: int) -> Any:
    """A model of tensors of these ranks. last: the last size of indices, which GatherND has to know; -1 for any."""
    sizes = ([-1] * ranks[0], [-1] * (ranks[1] - 1) + [last])
    types = tuple(getattr(openvino.Type, NAMES[each]) for each in types)
    parameters = [openvino.op.Parameter(*pair) for pair in zip(types, map(openvino.PartialShape, sizes), strict=True)]
    model = openvino.Model([_other_gather(*operation, parameters, attribute)], parameters, "one_gather")
    return openvino.Core().compile_model(model, "CPU").create_infer_request()


def _node(call: Call, parameters: list[Any]) -> Any:
    operations = getattr(openvino, f"opset{call.version}")
    if call.operation == "Gather":
        attributes = {} if call.version == 1 else {"batch_dims": call.more["batch_dims"]}
        return operations.gather(*parameters, openvino.op.Constant(np.asarray(call.more["axis"])), **attributes)
    if call.operation == "Slice":
        names = ("start", "stop", "step", "axes")
        return operations.slice(*parameters, *(_constant(call.more[name]) for name in names if name in call.more))
    if call.operation != "StridedSlice":
        (attribute,) = call.more.values()
        return _other_gather(call.operation, call.version, parameters, attribute)
    begin, end = call.more["begin"], call.more["end"]
    strides = call.more["strides"] if "strides" in call.more else [1] * len(begin)
    count = max((len(call.more.get(name, ())) for name in _MASKS), default=0)  # it takes masks of one length only
    masks = [[*map(int, call.more.get(name, ()))] for name in _MASKS]
    masks = [mask + [0] * (count - len(mask)) for mask in masks]
    return operations.strided_slice(*parameters, *map(_constant, (begin, end, strides)), *masks)


def _other_gather(operation: str, version: int, parameters: list[Any], attribute: int) -> Any:
    operations = getattr(openvino, f"opset{version}")
    if operation == "GatherElements":
        return operations.gather_elements(*parameters, axis=attribute)
    return operations.gather_nd(*parameters, batch_dims=attribute)


def _constant(values: Any) -> Any:
    return openvino.op.Constant(values if hasattr(values, "dtype") else np.array(values, np.int64))


def _parameter(array: Array) -> Any:
    return openvino.op.Parameter(_type(array), openvino.PartialShape(list(array.shape)))


def _type(array: Array) -> Any:
    return getattr(openvino.Type, NAMES[array.dtype])


def _tensor(kind: Any, shape: tuple[int, ...], content: bytes) -> Any:
    tensor = openvino.Tensor(kind, openvino.Shape(list(shape)))
    _content(tensor)[...] = np.frombuffer(content, np.uint8)
    return tensor


def _content(tensor: Any) -> Array:
    found: Array = tensor.data.reshape(-1).view(np.uint8)
    return found


def is_evaluated(call: Call) -> bool:
    """Whether `Model.evaluate` covers the types of a call of Gather."""
    data, indices = NAMES.get(call.data.dtype), NAMES.get(call.indices.dtype)
    return data in EVALUATED_DATA and (indices in EVALUATED_INDICES or not is_integer(call.indices))


def is_integer(value: Any) -> bool:
    return np.asarray(value).dtype.kind in "iu"


def can_be_asked(call: Call) -> bool:
    """Whether a node can have this version, these types, bounds and attributes. Some exist in Python only."""
    if call.version not in VERSIONS[call.operation] or not {array.dtype for array in call.arrays} <= NAMES.keys():
        return False
    if call.operation == "Gather":
        axis, batch_dims = call.more["axis"], call.more["batch_dims"]
        plain = not isinstance(axis, list) and isinstance(batch_dims, int) and np.asarray(axis).dtype in NAMES
        return plain and (call.version != 1 or batch_dims == 0)
    if not call.operation.endswith("Slice"):
        return all(type(value) is int for value in call.more.values())
    return all(
        value.dtype in NAMES
        if isinstance(value, np.ndarray)
        else isinstance(value, list) and all(type(one) is int for one in value)
        for value in call.more.values()
    )
