"""Read an ONNX model file: the model with its shapes inferred, or what is wrong with the file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dmlgather.dialects.checked_model import Unknown
from dmlgather.files import FileError, open_regular
from dmlgather.host import available_memory
from dmlgather.onnx.model.inference_process import MEGABYTE, InferenceFailedError, InferenceLimits
from dmlgather.onnx.model.local_functions import MOST_NODES, Functions
from dmlgather.onnx.model.scopes import constant
from dmlgather.onnx.model.shape_inference import inferred
from dmlgather.onnx.model.size_names import name_sizes
from dmlgather.onnx.model.weightless import BUFFER, PAYLOADS, without_weights
from dmlgather.wording import printable

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, OperatorSetIdProto, TensorProto

LARGEST_FILE = 2**31 - 1
"""Bytes: the limit of a protobuf message."""

MOST_SITES = 4_000
"""Nodes of the family in a file of which at most a megabyte is kept; where more is, it may have as many per megabyte. Judging one
takes up to a millisecond.
"""

MEMORY_PER_BYTE = 3
"""Bytes of memory that decoding takes per byte that is kept of the file: these bytes, the message, and a copy meanwhile."""


@dataclass(frozen=True)
class ModelFile:
    """A decoded model without the values of large constants. limits: what inferring shapes may still take. most_sites: how many
    nodes of the family it may have. remark: why shapes could not be inferred; empty when they were.
    """

    model: ModelProto
    functions: Functions
    limits: InferenceLimits
    most_sites: int
    remark: str = ""


def read_model(path: Path) -> ModelFile:
    """The model in the file at `path`, with shapes inferred; neither external data nor large constants are read. FileError for
    anything else, ImportError without a package that it needs.
    """
    model, size = _decoded(path)
    if not model.HasField("graph"):
        raise FileError("holds no graph: it is no ONNX model, or one that was cut off")
    if not model.opset_import and model.ir_version >= 3:
        raise FileError("states no opset (opset_import), so nothing says which rules its operators follow")
    strip(model)
    functions = Functions(model.functions)
    functions.add_defaults([*model.graph.node, *chain.from_iterable(function.node for function in model.functions)])
    most = int(MOST_SITES * max(size / MEGABYTE, 1))
    file = ModelFile(model, functions, InferenceLimits.of_file(size), most)
    name_sizes(model.graph)
    graph, remark = infer(file, model.graph, model.opset_import)
    model.graph.CopyFrom(graph)
    return replace(file, remark=remark)


def infer(
    file: ModelFile, graph: GraphProto, opsets: Sequence[OperatorSetIdProto], strict: bool = False
) -> tuple[GraphProto, str]:
    """A graph of the model with inferred shapes, and an empty remark; or the graph as it is or with some shapes, and what failed.

    strict: whether inference fails at a node whose shapes cannot be inferred; if not, it passes over the node.
    """
    from onnx import ModelProto

    if file.limits.used_up:
        return graph, file.limits.late
    if file.functions.inlined_size(graph.node) > MOST_NODES:
        return graph, f"its local functions stand for more than {MOST_NODES} nodes"
    functions = file.functions.reachable(graph.node)
    whole = ModelProto(ir_version=file.model.ir_version, opset_import=opsets, graph=graph, functions=functions)
    try:
        found, remark = inferred(whole, file.limits, strict)
    except (InferenceFailedError, ValueError) as error:  # the latter of a message beyond protobuf's limit
        return graph, printable(" ".join(str(error).split()))[:500]
    return found, remark


def external_files(path: Path) -> list[str]:
    """The files that tensors of the model in the file at `path` lie in, as the model names them. FileError for no model."""
    model, _ = _decoded(path)
    return sorted({entry.value for tensor in _tensors(model) for entry in tensor.external_data if entry.key == "location"})


def _decoded(path: Path) -> tuple[ModelProto, int]:
    """The model without large constants, and how many bytes of its file that is."""
    import onnx
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped] # protobuf ships no types

    with open_regular(path, BUFFER) as (file, size):
        if size == 0:
            raise FileError("is empty")
        if size > LARGEST_FILE:
            raise FileError(f"has {size} bytes, and a protobuf message at most {LARGEST_FILE}: keep its weights as external data")
        kept = without_weights(file, size)
        room = available_memory()
        if room is not None and kept.size * MEMORY_PER_BYTE > room:
            raise FileError(f"has {kept.size} bytes without its weights, too many to decode with {room} bytes of memory free")
        try:
            return onnx.load_model_from_string(kept.read()), kept.size
        except (DecodeError, UnicodeDecodeError):  # the latter of protobuf in pure Python
            raise FileError("is no ONNX model, or a damaged one: it cannot be decoded as protobuf") from None


def strip(model: ModelProto) -> None:
    """Drop the values of large constants, because shape inference copies the model several times, and of damaged ones, which some
    versions of ONNX read beyond their end. FileError where the model has texts that are not UTF-8.
    """
    for tensor in list(_tensors(model)):
        if isinstance(constant(tensor), Unknown):
            for field in PAYLOADS:
                tensor.ClearField(field)


def _tensors(message: Any) -> Iterator[TensorProto]:
    """The tensors in a message and in all messages inside it. FileError where one of these has a text that is not UTF-8."""
    if message.DESCRIPTOR.name == "TensorProto":
        yield message
    for field, value in message.ListFields():
        values = [value] if isinstance(value, str | bytes) or hasattr(value, "ListFields") else value
        if field.type == field.TYPE_STRING:
            if any(isinstance(text, bytes) for text in values):
                raise FileError("is a damaged ONNX model: it has names that are not UTF-8")
        elif field.message_type is not None:
            for inner in values:
                yield from _tensors(inner)
