"""OpenVINO as a live judge: a model of one Gather, run by `Model.evaluate` over poisoned outputs; never by the CPU plugin.

`KNOWN_WRONG` says where it is no judge. A refusal is told by its message: the phrases of `_WRONG_TYPE` are TypeError, every
other one is ValueError.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.openvino.runtime import openvino
from tests.openvino.specification import NAMES, VERSIONS, Array, Call

EVALUATED_DATA = ("boolean", "bf16", "f16", "f32", "i8", "u8", "i32", "u32", "i64", "u64")
"""The types of data that `Model.evaluate` covers."""

EVALUATED_INDICES = ("i32", "i64")
"""The types of indices that `Model.evaluate` covers."""

_WRONG_TYPE = ("must be of an integral number type", "must be of integral data type", "Element not supported")
_REFUSALS = (RuntimeError, ValueError)
_NOT_COVERED = "Evaluation failed"
_POISON = 0xA5


@dataclass(frozen=True)
class Refusal:
    """OpenVINO did not build the node or refused to run it. kind: the exception that stands for its message."""

    kind: type[Exception]
    message: str


class NotCoveredError(Exception):
    """OpenVINO built the node, and `Model.evaluate` has no code for its types."""


def judge(call: Call) -> Array | Refusal:
    """What OpenVINO makes of a call, whose types must be types of OpenVINO."""
    built = _build(call)
    if isinstance(built, Refusal):
        return built
    node, parameters = built
    model = openvino.Model([node], parameters, "one_gather")
    kind, shape = node.get_output_element_type(0), tuple(node.get_output_shape(0))
    output = _tensor(kind, shape, bytes([_POISON]) * (int(np.prod(shape)) * kind.size))
    inputs = [_tensor(_type(array), array.shape, array.tobytes()) for array in (call.data, call.indices)]
    try:
        assert model.evaluate([output], inputs)
    except _REFUSALS as error:
        if _NOT_COVERED in str(error):
            raise NotCoveredError(str(error)) from None
        return _refusal(error)
    return np.frombuffer(_content(output).tobytes(), call.data.dtype).reshape(shape)


def signature(call: Call) -> tuple[str, tuple[int, ...]] | Refusal:
    """Type and shape of the result, which OpenVINO knows for all its types."""
    built = _build(call)
    if isinstance(built, Refusal):
        return built
    node = built[0]
    return node.get_output_element_type(0).get_type_name(), tuple(node.get_output_shape(0))


def _build(call: Call) -> tuple[Any, list[Any]] | Refusal:
    parameters = [
        openvino.op.Parameter(_type(array), openvino.PartialShape(list(array.shape))) for array in (call.data, call.indices)
    ]
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


def _type(array: Array) -> Any:
    return getattr(openvino.Type, NAMES[array.dtype])


def _tensor(kind: Any, shape: tuple[int, ...], content: bytes) -> Any:
    tensor = openvino.Tensor(kind, openvino.Shape(list(shape)))
    _content(tensor)[...] = np.frombuffer(content, np.uint8)
    return tensor


def _content(tensor: Any) -> Array:
    found: Array = tensor.data.reshape(-1).view(np.uint8)
    return found


@dataclass(frozen=True)
class KnownWrong:
    """One way in which OpenVINO is no judge, so that the specification alone decides.

    applies: to which calls. example: a call that shows it, for as long as it is so; None where OpenVINO cannot be asked at all.
    """

    name: str
    reason: str
    applies: Callable[[Call], bool]
    example: Call | None


def _is_evaluated(call: Call) -> bool:
    data, indices = NAMES.get(call.data.dtype), NAMES.get(call.indices.dtype)
    return data in EVALUATED_DATA and (indices in EVALUATED_INDICES or not _is_integer(call.indices))


def _can_be_asked(call: Call) -> bool:
    dtypes = {call.data.dtype, call.indices.dtype, np.asarray(call.axis).dtype}
    plain = not isinstance(call.axis, list) and isinstance(call.batch_dims, int)
    return dtypes <= NAMES.keys() and call.version in VERSIONS and plain


def _is_integer(value: Any) -> bool:
    return np.asarray(value).dtype.kind in "iu"


def quiet(array: Array) -> Array:
    """float16 with every NaN made a quiet one; other types as they are."""
    if array.dtype != np.float16:
        return array
    words = array.view(np.uint16)
    is_nan = words & 0x7FFF > 0x7C00
    return np.asarray(np.where(is_nan, words | 0x0200, words)).astype(np.uint16).view(np.float16)


_ROW = np.arange(1, 6, dtype=np.float32)
_FIRST = np.array([0], np.int32)

KNOWN_WRONG = (
    KnownWrong(
        "negative indices before version 8",
        "evaluate wraps them; the pages of versions 1 and 7 say that indices are within 0 … n-1, and what is not becomes zero",
        lambda call: call.version in (1, 7) and bool((call.indices < 0).any()),
        Call(7, _ROW, np.array([0, -2], np.int32), 0),
    ),
    KnownWrong(
        "types outside of evaluate",
        "evaluate refuses good calls of other types",
        lambda call: not _is_evaluated(call),
        Call(8, _ROW.astype(np.float64), _FIRST, 0),
    ),
    KnownWrong(
        "signalling NaNs of float16",
        "evaluate takes float16 through float32, which makes them quiet; Gather moves bits",
        lambda call: quiet(call.data).tobytes() != call.data.tobytes(),
        Call(8, np.array([0x7C01, 0xFD80], np.uint16).view(np.float16), np.array([1, 0], np.int32), 0),
    ),
    KnownWrong(
        "types of indices in version 1",
        "OpenVINO builds a node with any, which evaluate does not cover; the page says integer types",
        lambda call: call.version == 1 and not _is_integer(call.indices),
        Call(1, _ROW, _FIRST.astype(np.float32), 0),
    ),
    KnownWrong(
        "batch_dims below minus the rank of indices",
        "OpenVINO does not check it and reads memory that is not the tensors'",
        lambda call: isinstance(call.batch_dims, int) and call.batch_dims < -call.indices.ndim,
        None,
    ),
    KnownWrong(
        "batch_dims in version 1",
        "OpenVINO's function has no such argument",
        lambda call: call.version == 1 and call.batch_dims != 0,
        None,
    ),
    KnownWrong(
        "what only Python can say",
        "no node has such a version, type or byte order",
        lambda call: not _can_be_asked(call),
        None,
    ),
)
"""Everything else that `Model.evaluate` says is the truth."""


def is_judge_of(call: Call) -> bool:
    """Whether no row of `KNOWN_WRONG` applies to a call."""
    return not any(row.applies(call) for row in KNOWN_WRONG)
