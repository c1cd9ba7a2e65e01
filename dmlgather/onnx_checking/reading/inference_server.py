"""What a process of its own runs for a model: ONNX's shape inference, and ONNX's reference evaluator for single nodes. A model
may make both crash, or grow.

The process runs this file as a script, which imports onnx and nothing of dmlgather. It serves one request after the other.
"""

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
"""Sizes: one more than a shape may have that is looked at."""

REQUEST, ANSWER = struct.Struct("<c??dQQQ"), struct.Struct("<cdQ")
"""What is asked for, whether inference is strict and whether it propagates data, seconds and bytes of memory that it may take,
the most elements of a value that is computed, and bytes of the model that follows. Then the outcome, seconds that it took, and
the number of bytes that follow: a model, or the error's message in UTF-8.
"""

GRAPH, NODE = b"g", b"n"
"""What is asked for: the shapes of all values of a model, or what is known of the outputs of its only node."""

DONE, FAILED, TOO_LARGE = b"d", b"f", b"m"

SELECTING = ("Compress", "NonZero", "Unique")
"""The operators whose outputs have at most as many elements as their inputs have coordinates, although inference does not
know how many.
"""


def serve() -> None:
    """What the process runs: answer requests at standard input until it is closed. A byte says that it is ready."""
    requests, answers = sys.stdin.buffer, os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # native code that prints must not print into an answer
    warnings.simplefilter("ignore")
    with suppress(ImportError):  # which each request will report
        import onnx.shape_inference  # so that no request pays for it
    answers.write(b"r")
    answers.flush()
    taken = _data_bytes()
    with suppress(EOFError):
        while True:
            kind, strict, propagate, seconds, memory, most, size = REQUEST.unpack(read(requests, REQUEST.size))
            model, start = read(requests, size), time.process_time()
            if kind == NODE and "onnx.reference" not in sys.modules:
                with suppress(ImportError):
                    import onnx.reference  # noqa: F401
                taken = _data_bytes()
            _limit(seconds, None if taken is None else taken + memory)
            outcome, answer = _node(model, most) if kind == NODE else _graph(model, strict, propagate)
            _limit(0, None)
            answers.write(ANSWER.pack(outcome, time.process_time() - start, len(answer)) + answer)
            answers.flush()


def read(pipe: Any, size: int) -> bytes:
    """The next bytes of a pipe. EOFError where it ends before."""
    data: bytes = pipe.read(size)
    if len(data) < size:
        raise EOFError
    return data


def _graph(model: bytes, strict: bool, propagate: bool) -> tuple[bytes, bytes]:
    try:
        from google.protobuf.message import EncodeError  # type: ignore[import-untyped] # protobuf ships no types
        from onnx import shape_inference

        inferred = shape_inference.infer_shapes(model, check_type=False, strict_mode=strict, data_prop=propagate)
        _shorten(inferred.graph)
        try:
            return DONE, inferred.SerializeToString()
        except EncodeError:  # how protobuf says that memory is out, or that the message is too long
            return TOO_LARGE, b""
    except MemoryError:
        return TOO_LARGE, b""
    except Exception as error:  # whatever it is, the parent says it
        return FAILED, str(error).encode(errors="replace")


def _node(text: bytes, most: int) -> tuple[bytes, bytes]:
    """A model with the types of a node's outputs, and with their values as initializers where all inputs are initializers and the
    outputs have at most `most` elements each.
    """
    try:
        from onnx import ModelProto, TensorProto, defs, helper, shape_inference

        model = ModelProto.FromString(text)
        graph, (node,) = model.graph, model.graph.node
        data = {tensor.name: tensor for tensor in graph.initializer}
        types = {value.name: value.type for value in graph.input}
        types |= {name: helper.make_tensor_type_proto(tensor.data_type, tensor.dims) for name, tensor in data.items()}
        schema = defs.get_schema(node.op_type, model.opset_import[0].version, "")
        found = shape_inference.infer_node_outputs(
            schema, node, types, data, opset_imports=list(model.opset_import), ir_version=model.ir_version
        )
        answer = ModelProto()
        for name, kind in found.items():
            answer.graph.value_info.add(name=name).type.CopyFrom(kind)
        _shorten(answer.graph)
        small = all(_elements(kind, most, node.op_type in SELECTING) <= most for kind in found.values())
        if data.keys() >= {name for name in node.input if name} and small and len(found) == len(node.output):
            for name, value in zip(node.output, _evaluated(model, found), strict=True):
                tensor = value if isinstance(value, TensorProto) else _tensor(value, name)
                if tensor is not None and math.prod(tensor.dims) <= most:
                    answer.graph.initializer.append(tensor)
        return DONE, answer.SerializeToString()
    except MemoryError:
        return TOO_LARGE, b""
    except Exception as error:  # whatever it is, the parent says it
        return FAILED, str(error).encode(errors="replace")


def _elements(kind: Any, most: int, selects: bool) -> int:
    """The elements of an output, or more than `most` where that is not known."""
    tensor = kind.tensor_type
    if kind.WhichOneof("value") != "tensor_type" or (not selects and not tensor.HasField("shape")):
        return most + 1
    sizes = [dim.dim_value if dim.HasField("dim_value") else most * (not selects) + 1 for dim in tensor.shape.dim]
    return math.prod(sizes)


def _evaluated(model: Any, found: Any) -> Any:
    """The values of the node's outputs by ONNX's reference evaluator; none where it has no such operator."""
    from onnx.reference import ReferenceEvaluator

    graph = model.graph
    del graph.input[:]
    del graph.output[:]
    for name in graph.node[0].output:
        graph.output.add(name=name).type.CopyFrom(found[name])
    return ReferenceEvaluator(model).run(None, {})


def _tensor(value: Any, name: str) -> Any:
    import numpy as np
    from onnx import numpy_helper

    return numpy_helper.from_array(np.ascontiguousarray(value).reshape(np.shape(value)), name)


def _shorten(graph: Any) -> None:
    """Leave at most LONGEST_SHAPE sizes in each inferred shape: what has more is not looked at, and takes memory."""
    for value in graph.value_info:
        if len(value.type.tensor_type.shape.dim) > LONGEST_SHAPE:
            del value.type.tensor_type.shape.dim[LONGEST_SHAPE:]


def _data_bytes() -> int | None:
    """The memory that this process has for data, as RLIMIT_DATA counts it; None where the system is not Linux."""
    with suppress(OSError), open("/proc/self/status", encoding="ascii", errors="replace") as status:  # noqa: PTH123 # imports less
        for line in status:
            if line.startswith("VmData:"):
                return int(line.split()[1]) * 1024
    return None


def _limit(seconds: float, memory: int | None) -> None:
    """End this process after so many seconds of a processor, if any, and allow it so many bytes of data; as many as there are for
    None. Only Linux keeps the latter limit, and Windows neither: there the parent alone keeps the time.
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
