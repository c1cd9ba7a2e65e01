"""onnxruntime as a live judge: a model of one node per call, run without graph optimisations. tests/peers has its faults.

A refusal is told by its message: the phrases of `_BAD_INDEX` and `_WRONG_TYPE` are IndexError and TypeError, every other one
is ValueError.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np
import onnxruntime
from onnx import ModelProto, NodeProto, TensorProto, helper
from onnxruntime.capi import onnxruntime_pybind11_state

from tests.dialects.outcomes import Array, Refusal
from tests.onnx.specification import Call, type_name

_BAD_INDEX = ("indices element out of data bounds", "Out of range value in index tensor", "invalid index found")
_WRONG_TYPE = ("of input parameter", "bound to different types", "not currently registered", "Could not find an implementation")
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
    inputs = dict(zip(("data", "indices"), map(strings, call.arrays), strict=False))
    inputs |= {name: np.asarray(values, getattr(values, "dtype", np.int64)) for name, values in call.bounds.items()}
    feeds = {name: np.array(array, order="C") for name, array in inputs.items()}
    model = one_node(call.node, call.opset, feeds)
    try:
        return _run(session(model.SerializeToString()), feeds)
    except REFUSALS as error:
        return Refusal(kind_of(str(error)), str(error))


def kind_of(message: str) -> type[Exception]:
    """The exception that stands for a message of onnxruntime."""
    if any(phrase in message for phrase in _BAD_INDEX):
        return IndexError
    return TypeError if any(phrase in message for phrase in _WRONG_TYPE) else ValueError


def one_node(node: NodeProto, opset: int, inputs: Mapping[str, Array]) -> ModelProto:
    """A model of a node, whose output has the type of its first input."""
    types = {name: helper.np_dtype_to_tensor_dtype(array.dtype) for name, array in inputs.items()}
    values = [helper.make_tensor_value_info(name, types[name], array.shape) for name, array in inputs.items()]
    output = helper.make_tensor_value_info(node.output[0], types[node.input[0]], None)
    graph = helper.make_graph([node], "one_node", values, [output])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=_IR_VERSION)


@lru_cache(maxsize=256)
def session(model: bytes, *, optimised: bool = False) -> Any:
    """A session of onnxruntime on the CPU, which warns of nothing."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    if not optimised:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def _run(running: Any, feeds: dict[str, Array]) -> Array:
    if type_name(feeds["data"].dtype) != "tensor(bfloat16)":
        result: Array = running.run(None, feeds)[0]
        return result
    binding = running.io_binding()  # the only way to bfloat16, as words of 16 bits
    for name, array in feeds.items():
        words = array.view(np.uint16) if name == "data" else array
        kind = helper.np_dtype_to_tensor_dtype(array.dtype)
        binding.bind_ortvalue_input(name, onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type(words, kind))
    binding.bind_output("output")
    running.run_with_iobinding(binding)
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
