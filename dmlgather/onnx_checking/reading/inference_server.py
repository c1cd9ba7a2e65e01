"""The script of the inference process. It imports onnx and nothing of dmlgather."""

from __future__ import annotations

import math
import os
import signal
import struct
import sys
import time
import warnings
from contextlib import suppress
from typing import Any

LONGEST_SHAPE = 65
"""Inferred shapes are cut to this length. It is one more than dmlgather accepts."""

REQUEST, ANSWER = struct.Struct("<c??dQQQ"), struct.Struct("<cdQ")
"""Headers of messages.
Request: kind, strict inference, data propagation, seconds of CPU time, bytes of memory, most elements to compute, bytes of the
model that follows.
Answer: outcome, seconds of CPU time, bytes of the model or error message that follows.
"""

GRAPH, NODE = b"g", b"n"
"""Kinds of requests: to infer all shapes of a model, or to infer and compute a model's only node."""

DONE, FAILED, TOO_LARGE = b"d", b"f", b"m"

SELECTING = ("Compress", "NonZero", "Unique")
"""Operators with an unknown output size. It is at most that of NonZero: `rank` elements per input element."""


def serve() -> None:
    """Import onnx, write one byte, and answer requests from standard input until it is closed."""
    requests, answers = sys.stdin.buffer, os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # native code that prints must not write into an answer
    warnings.simplefilter("ignore")
    with suppress(ImportError):  # each request will report it
        import onnx.shape_inference  # no request pays for the import
    answers.write(b"r")
    answers.flush()
    data_bytes = _data_bytes()
    with suppress(EOFError):
        while True:
            kind, strict, propagate, seconds, memory, most, size = REQUEST.unpack(read(requests, REQUEST.size))
            model, start = read(requests, size), time.process_time()
            if kind == NODE and "onnx.reference" not in sys.modules:
                with suppress(ImportError):
                    import onnx.reference  # noqa: F401
                data_bytes = _data_bytes()
            _limit(seconds, None if data_bytes is None else data_bytes + memory)
            outcome, answer = _answered(kind, model, strict, propagate, most)
            _limit(0, None)
            answers.write(ANSWER.pack(outcome, time.process_time() - start, len(answer)) + answer)
            answers.flush()


def read(pipe: Any, size: int) -> bytes:
    """Read exactly `size` bytes from a pipe. Raise EOFError if the pipe ends before."""
    data: bytes = pipe.read(size)
    if len(data) < size:
        raise EOFError
    return data


def _answered(kind: bytes, model: bytes, strict: bool, propagate: bool, most: int) -> tuple[bytes, bytes]:
    try:
        return DONE, _node(model, most) if kind == NODE else _graph(model, strict, propagate)
    except MemoryError:
        return TOO_LARGE, b""
    except Exception as error:  # the parent reports any error
        return FAILED, str(error).encode(errors="replace")


def _graph(model: bytes, strict: bool, propagate: bool) -> bytes:
    from google.protobuf.message import EncodeError  # type: ignore[import-untyped] # protobuf ships no types
    from onnx import shape_inference

    inferred = shape_inference.infer_shapes(model, check_type=False, strict_mode=strict, data_prop=propagate)
    _shorten(inferred.graph)
    try:
        serialized: bytes = inferred.SerializeToString()
    except EncodeError:  # protobuf's error for lack of memory, or for too long a message
        raise MemoryError from None
    return serialized


def _node(text: bytes, most: int) -> bytes:
    """Answer a NODE request, as described in `InferenceLimits.ask_node`."""
    from onnx import ModelProto, TensorProto, defs, helper, shape_inference

    model = ModelProto.FromString(text)
    graph, (node,) = model.graph, model.graph.node
    data = {tensor.name: tensor for tensor in graph.initializer}
    types = {value.name: value.type for value in graph.input}
    types |= {name: helper.make_tensor_type_proto(tensor.data_type, tensor.dims) for name, tensor in data.items()}
    schema = defs.get_schema(node.op_type, model.opset_import[0].version, "")
    output_types = shape_inference.infer_node_outputs(
        schema, node, types, data, opset_imports=list(model.opset_import), ir_version=model.ir_version
    )
    answer = ModelProto()
    for name, type_ in output_types.items():
        answer.graph.value_info.add(name=name).type.CopyFrom(type_)
    _shorten(answer.graph)
    small = all(_elements(type_, most, node.op_type in SELECTING) <= most for type_ in output_types.values())
    if data.keys() >= {name for name in node.input if name} and small and len(output_types) == len(node.output):
        for name, value in zip(node.output, _evaluated(model, output_types), strict=True):
            tensor = value if isinstance(value, TensorProto) else _tensor(value, name)
            if tensor is not None and math.prod(tensor.dims) <= most:
                answer.graph.initializer.append(tensor)
    serialized: bytes = answer.SerializeToString()
    return serialized


def _elements(type_: Any, most: int, selects: bool) -> int:
    """Return the largest possible number of elements in an output. If it is unknown, return a number above `most`."""
    tensor = type_.tensor_type
    if type_.WhichOneof("value") != "tensor_type" or (not selects and not tensor.HasField("shape")):
        return most + 1
    sizes = [dim.dim_value if dim.HasField("dim_value") else most * (not selects) + 1 for dim in tensor.shape.dim]
    return math.prod(sizes)


def _evaluated(model: Any, output_types: Any) -> Any:
    from onnx.reference import ReferenceEvaluator

    graph = model.graph
    del graph.input[:]
    del graph.output[:]
    for name in graph.node[0].output:
        graph.output.add(name=name).type.CopyFrom(output_types[name])
    return ReferenceEvaluator(model).run(None, {})


def _tensor(value: Any, name: str) -> Any:
    import numpy as np
    from onnx import numpy_helper

    return numpy_helper.from_array(np.ascontiguousarray(value).reshape(np.shape(value)), name)


def _shorten(graph: Any) -> None:
    """Cut inferred shapes with too many dimensions, to save memory. Such shapes are refused anyway."""
    for value in graph.value_info:
        if len(value.type.tensor_type.shape.dim) > LONGEST_SHAPE:
            del value.type.tensor_type.shape.dim[LONGEST_SHAPE:]


def _data_bytes() -> int | None:
    """Return the memory of this process in bytes, as RLIMIT_DATA counts it. None outside Linux."""
    with suppress(OSError), open("/proc/self/status", encoding="ascii", errors="replace") as status:  # noqa: PTH123 # imports less
        for line in status:
            if line.startswith("VmData:"):
                return int(line.split()[1]) * 1024
    return None


def _limit(seconds: float, memory: int | None) -> None:
    """Limit CPU time (0: unlimited) and memory (None: unlimited). Only Linux limits memory. Windows limits nothing, so the
    parent process watches the time.
    """
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_PROF, seconds)
    if sys.platform == "linux":
        import resource

        hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
        wanted = hard if memory is None else memory if hard == resource.RLIM_INFINITY else min(memory, hard)
        resource.setrlimit(resource.RLIMIT_DATA, (wanted, hard))


if __name__ == "__main__":
    serve()
