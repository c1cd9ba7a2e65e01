"""onnxruntime as a live judge: a model of one node per call, run without graph optimisations. tests/peers has its faults.

A refusal is told by its message: the phrases of `_BAD_INDEX` and `_WRONG_TYPE` are IndexError and TypeError, every other one
is ValueError.
"""

from __future__ import annotations

import ctypes
from functools import lru_cache
from typing import Any

import numpy as np
import onnxruntime
from onnx import AttributeProto, TensorProto, helper
from onnxruntime.capi import onnxruntime_pybind11_state

from tests.dialects.outcomes import Refusal
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
