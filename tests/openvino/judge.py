"""OpenVINO as a live judge: a model of one Gather, run by `Model.evaluate` over poisoned outputs; never by the CPU plugin.

tests/peers has its faults. A refusal is told by its message: the phrases of `_WRONG_TYPE` are TypeError, every other one is
ValueError.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tests.dialects.outcomes import Refusal
from tests.openvino.runtime import openvino
from tests.openvino.specification import NAMES, VERSIONS, Array, Call

EVALUATED_DATA = ("boolean", "bf16", "f16", "f32", "i8", "u8", "i32", "u32", "i64", "u64")
"""The types of data that `Model.evaluate` covers."""

EVALUATED_INDICES = ("i32", "i64")
"""The types of indices that `Model.evaluate` covers."""

_WRONG_TYPE = ("must be of an integral number type", "must be of integral data type", "Element not supported")
_REFUSALS = (RuntimeError, ValueError)
_NOT_COVERED = "Evaluation failed"
_POISON = b"\xa5"


class NotCoveredError(Exception):
    """OpenVINO built the node, and `Model.evaluate` has no code for its types."""


def judge(call: Call) -> Array | Refusal:
    """What OpenVINO makes of a call, whose types must be types of OpenVINO."""
    built = _build(call)
    if isinstance(built, Refusal):
        return built
    node, parameters = built
    try:
        return evaluated(node, parameters, (call.data, call.indices))
    except _REFUSALS as error:
        if _NOT_COVERED in str(error):
            raise NotCoveredError(str(error)) from None
        return _refusal(error)


def signature(call: Call) -> tuple[str, tuple[int, ...]] | Refusal:
    """Type and shape of the result, which OpenVINO knows for all its types."""
    built = _build(call)
    if isinstance(built, Refusal):
        return built
    return signature_of(built[0])


def evaluated(node: Any, parameters: list[Any], arrays: Sequence[Array]) -> Array:
    """What `Model.evaluate` writes for a node, over poison."""
    kind, shape = node.get_output_element_type(0), tuple(node.get_output_shape(0))
    output = _tensor(kind, shape, _POISON * (int(np.prod(shape)) * kind.size))
    model = openvino.Model([node], parameters, "one_node")
    assert model.evaluate([output], [_tensor(type_of(array), array.shape, array.tobytes()) for array in arrays])
    return np.frombuffer(_content(output).tobytes(), arrays[0].dtype).reshape(tuple(output.get_shape()))


def signature_of(node: Any) -> tuple[str, tuple[int, ...]]:
    """Type and shape of a node's result."""
    return node.get_output_element_type(0).get_type_name(), tuple(node.get_output_shape(0))


def parameter(array: Array) -> Any:
    """An input of a model of an array's type and shape."""
    return openvino.op.Parameter(type_of(array), openvino.PartialShape(list(array.shape)))


def type_of(array: Array) -> Any:
    """OpenVINO's type of an array."""
    return getattr(openvino.Type, NAMES[array.dtype])


def _tensor(kind: Any, shape: tuple[int, ...], content: bytes) -> Any:
    tensor = openvino.Tensor(kind, openvino.Shape(list(shape)))
    _content(tensor)[...] = np.frombuffer(content, np.uint8)
    return tensor


def _content(tensor: Any) -> Array:
    found: Array = tensor.data.reshape(-1).view(np.uint8)
    return found


def _build(call: Call) -> tuple[Any, list[Any]] | Refusal:
    parameters = [parameter(array) for array in (call.data, call.indices)]
    axis = openvino.op.Constant(np.asarray(call.axis))
    operations = getattr(openvino, f"opset{call.version}")
    attributes = {} if call.version == 1 else {"batch_dims": call.batch_dims}
    try:
        return operations.gather(*parameters, axis, **attributes), parameters
    except _REFUSALS as error:
        return _refusal(error)


def _refusal(error: Exception) -> Refusal:
    message = str(error)
    return Refusal(TypeError if any(phrase in message for phrase in _WRONG_TYPE) else ValueError, message)


def is_evaluated(call: Call) -> bool:
    """Whether `Model.evaluate` covers the types of a call."""
    data, indices = NAMES.get(call.data.dtype), NAMES.get(call.indices.dtype)
    return data in EVALUATED_DATA and (indices in EVALUATED_INDICES or not is_integer(call.indices))


def can_be_asked(call: Call) -> bool:
    """Whether a node can have this version, these types and attributes. Some exist in Python only."""
    dtypes = {call.data.dtype, call.indices.dtype, np.asarray(call.axis).dtype}
    plain = not isinstance(call.axis, list) and isinstance(call.batch_dims, int)
    return dtypes <= NAMES.keys() and call.version in VERSIONS and plain and (call.version != 1 or call.batch_dims == 0)


def is_integer(value: Any) -> bool:
    return np.asarray(value).dtype.kind in "iu"
