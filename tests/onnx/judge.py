"""onnxruntime as a live judge: a model of one node per call, run without graph optimisations; and what it is known to get wrong.

A refusal is told by its message: the phrases of `_BAD_INDEX` and `_WRONG_TYPE` are IndexError and TypeError, every other one
is ValueError.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import onnxruntime
from onnx import AttributeProto, TensorProto, helper
from onnxruntime.capi import onnxruntime_pybind11_state

from tests.onnx import specification
from tests.onnx.specification import Array, Call, type_name

_BAD_INDEX = ("indices element out of data bounds", "Out of range value in index tensor", "invalid index found")
_WRONG_TYPE = ("of input parameter", "bound to different types", "not currently registered", "Could not find an implementation")
_BOUNDS = ("starts", "ends", "axes", "steps")
_KINDS = vars(onnxruntime_pybind11_state).values()
REFUSALS: tuple[type[Exception], ...] = (
    RuntimeError,
    *(item for item in _KINDS if isinstance(item, type) and issubclass(item, Exception)),
)
_IR_VERSION = 7

NEWEST_OPSET = 28 if tuple(map(int, onnxruntime.__version__.split(".")[:2])) >= (1, 32) else 23
"""The newest opset that onnxruntime loads; later versions of operators are judged by the specification alone."""


@dataclass(frozen=True)
class Refusal:
    """onnxruntime did not run the call. kind: the exception that stands for its message."""

    kind: type[Exception]
    message: str


def judge(call: Call) -> Array | Refusal:
    """What onnxruntime makes of a call, whose types must be types of ONNX. Strings come back as objects."""
    feeds = {name: np.array(array, order="C") for name, array in _inputs(call).items()}
    model = _model(call)
    try:
        return _run(_session(model), feeds)
    except REFUSALS as error:
        return Refusal(kind_of(str(error)), str(error))


def kind_of(message: str) -> type[Exception]:
    """The exception that stands for a message of onnxruntime."""
    if any(phrase in message for phrase in _BAD_INDEX):
        return IndexError
    return TypeError if any(phrase in message for phrase in _WRONG_TYPE) else ValueError


def _inputs(call: Call) -> dict[str, Array]:
    names = ("data", "indices")
    found = {name: strings(array) for name, array in zip(names, call.arrays, strict=False)}
    if call.operator == "Slice" and call.version >= 10:
        for name in (name for name in _BOUNDS if name in call.named):
            values = call.named[name]
            found[name] = values if isinstance(values, np.ndarray) else np.array(values, np.int64)
    return found


def _model(call: Call) -> bytes:
    inputs = _inputs(call)
    names = list(inputs)
    if call.operator == "Slice" and call.version >= 10:
        names = ["data", *(name if name in inputs else "" for name in _BOUNDS)]
    types = {name: helper.np_dtype_to_tensor_dtype(array.dtype) for name, array in inputs.items()}
    values = [helper.make_tensor_value_info(name, types[name], array.shape) for name, array in inputs.items()]
    output = helper.make_tensor_value_info("output", types["data"], None)
    node = helper.make_node(call.operator, names, ["output"])
    for name in call.named.keys() - inputs.keys():
        kind = AttributeProto.INTS if name in _BOUNDS else AttributeProto.STRING if name == "mode" else AttributeProto.INT
        node.attribute.append(helper.make_attribute(name, call.named[name], attr_type=kind))
    graph = helper.make_graph([node], "one_node", values, [output])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", call.opset)], ir_version=_IR_VERSION)
    return bytes(model.SerializeToString())


@lru_cache(maxsize=256)
def _session(model: bytes) -> Any:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def _run(session: Any, feeds: dict[str, Array]) -> Array:
    if type_name(feeds["data"].dtype) != "tensor(bfloat16)":
        result: Array = session.run(None, feeds)[0]
        return result
    binding = session.io_binding()  # the only way to bfloat16, as words of 16 bits
    for name, array in feeds.items():
        words = array.view(np.uint16) if name == "data" else array
        kind = helper.np_dtype_to_tensor_dtype(array.dtype)
        binding.bind_ortvalue_input(name, onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type(words, kind))
    binding.bind_output("output")
    session.run_with_iobinding(binding)
    output = binding.get_outputs()[0]
    assert output.element_type() == TensorProto.BFLOAT16
    shape = output.shape()
    size = 2 * int(np.prod(shape, dtype=np.int64))
    content = ctypes.string_at(output.data_ptr(), size) if size else b""
    return np.frombuffer(content, feeds["data"].dtype).reshape(shape)


def strings(array: Array) -> Array:
    """Any NumPy array of strings as objects; other arrays as they are."""
    if array.dtype.kind == "S":
        return np.char.decode(array, "utf-8").astype(object)
    return array.astype(object) if array.dtype.kind in "UT" else array


@dataclass(frozen=True)
class KnownWrong:
    """One way in which onnxruntime is no judge, so that the specification alone decides.

    applies: to which calls. example: a call that shows it, for as long as it is so. fatal: the example ends the process.
    """

    name: str
    reason: str
    applies: Callable[[Call], bool]
    example: Call
    fatal: bool = False


def _bad_index_is_all(call: Call) -> bool:
    """Whether a bad index is what the specification refuses."""
    try:
        specification.expected(call)
    except (IndexError, TypeError, ValueError) as refusal:
        return isinstance(refusal, IndexError)
    return False


def _on_the_last_axis(call: Call) -> bool:
    return call.named.get("axis", 0) in (-1, call.data.ndim - 1)


def _has_no_output(call: Call) -> bool:
    return 0 in (*call.indices.shape[:-1], *call.data.shape[_batch(call) + call.indices.shape[-1] :])


def _batch(call: Call) -> int:
    return int(call.named.get("batch_dims", 0))


def _runs_backwards_to_int_max(call: Call) -> bool:
    ends, steps = (np.ravel(call.named.get(name, ())).tolist() for name in ("ends", "steps"))
    pairs = zip(ends, steps, strict=False)  # lengths that differ are a fault of their own
    return any(end in (2**31 - 1, 2**63 - 1) and step < 0 for end, step in pairs)


def _moves_blocks(call: Call) -> bool:
    return call.operator in ("DepthToSpace", "SpaceToDepth")


_SQUARE = np.arange(4, dtype=np.float32).reshape(2, 2)
_WORDS = np.array([["a", "bb"], ["ccc", "d"]], object)


def _ints(*values: Any) -> Array:
    return np.array(values, np.int64)


KNOWN_WRONG = (
    KnownWrong(
        "Gather of strings",
        "onnxruntime copies only the first string of each contiguous block",
        lambda call: call.operator == "Gather" and type_name(call.data.dtype) == "tensor(string)" and not _on_the_last_axis(call),
        Call("Gather", 13, (_WORDS, _ints(1, 0)), {}),
    ),
    KnownWrong(
        "Gather-1 with a negative index",
        "onnxruntime wraps it; the page of version 1 says within bounds, and counts nothing from the back",
        lambda call: call.operator == "Gather" and call.version == 1 and _bad_index_is_all(call),
        Call("Gather", 1, (_SQUARE, _ints(-1)), {}),
    ),
    KnownWrong(
        "GatherND with a bad index and no output",
        "onnxruntime does not look at the indices; the page calls any bad index an error",
        lambda call: call.operator == "GatherND" and _bad_index_is_all(call) and _has_no_output(call),
        Call("GatherND", 13, (np.zeros((2, 0), np.float32), _ints([9])), {}),
    ),
    KnownWrong(
        "GatherND with unequal batches",
        "onnxruntime compares products of batch sizes and spreads data over multiples; the page says equal dimensions",
        lambda call: call.operator == "GatherND" and call.data.shape[: _batch(call)] != call.indices.shape[: _batch(call)],
        Call("GatherND", 13, (_SQUARE, _ints([0], [1], [0], [1])), {"batch_dims": 1}),
    ),
    KnownWrong(
        "GatherND with batch_dims below 0",
        "onnxruntime counts with it and may end the process; the page speaks of a number of dimensions",
        lambda call: call.operator == "GatherND" and _batch(call) < 0,
        Call("GatherND", 13, (_SQUARE[0], _ints(1)), {"batch_dims": -2}),
        fatal=True,
    ),
    KnownWrong(
        "GatherND with batch_dims equal to a rank",
        "onnxruntime takes it for some shapes; the page says b < min(q, r)",
        lambda call: call.operator == "GatherND" and _batch(call) >= min(call.data.ndim, call.indices.ndim) > 0,
        Call("GatherND", 13, (_SQUARE[0], np.empty((2, 0), np.int64)), {"batch_dims": 1}),
    ),
    KnownWrong(
        "Slice backwards to INT_MAX",
        "onnxruntime reads this end as the front of the axis (its open bug 11107); the page clamps it to the last element",
        lambda call: call.operator == "Slice" and _runs_backwards_to_int_max(call),
        Call("Slice", 13, (_SQUARE[0],), {"starts": _ints(-1), "ends": _ints(2**63 - 1), "axes": _ints(0), "steps": _ints(-1)}),
    ),
    KnownWrong(
        "Slice of a scalar",
        "onnxruntime refuses; with empty bounds there is nothing to slice, and the page excludes no rank",
        lambda call: call.operator == "Slice" and not call.data.ndim and np.size(call.named["starts"]) == 0,
        Call("Slice", 13, (np.array(1, np.float32),), {"starts": _ints(), "ends": _ints()}),
    ),
    KnownWrong(
        "complex numbers",
        "onnxruntime has no tensors of them; every version lists complex64 and complex128",
        lambda call: call.data.dtype.kind == "c",
        Call("Gather", 13, (_SQUARE.astype(np.complex64), _ints(0)), {}),
    ),
    KnownWrong(
        "blocks of most types",
        "onnxruntime has DepthToSpace and SpaceToDepth for few types, which are more in newer ones; every version lists all",
        lambda call: _moves_blocks(call) and call.data.dtype not in (np.float32, np.float64),
        Call("DepthToSpace", 13, (np.arange(4, dtype=np.int16).reshape(1, 4, 1, 1),), {"blocksize": 2}),
    ),
    *(
        KnownWrong(
            "opset 28",
            "onnxruntime before 1.32 does not load it",
            lambda call: call.opset > NEWEST_OPSET,
            Call("SpaceToDepth", 28, (_SQUARE[None, None],), {"blocksize": 2, "mode": "CRD"}),
        )
        for _ in range(NEWEST_OPSET < 28)
    ),
)
"""Everything else that onnxruntime says is the truth."""


def is_judge_of(call: Call) -> bool:
    """Whether no row of `KNOWN_WRONG` applies to a call."""
    return not any(row.applies(call) for row in KNOWN_WRONG)
