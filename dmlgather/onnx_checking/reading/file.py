"""Read an ONNX model file: the model with its shapes inferred, or what is wrong with the file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from dmlgather.files import FileError, open_regular
from dmlgather.host import available_memory
from dmlgather.model_formats import ONNX, recognised
from dmlgather.onnx_checking.following.scopes import constant
from dmlgather.onnx_checking.reading.inference_process import MEGABYTE, InferenceFailedError, InferenceLimitError, InferenceLimits
from dmlgather.onnx_checking.reading.local_functions import MOST_NODES, Functions
from dmlgather.onnx_checking.reading.shape_inference import inferred
from dmlgather.onnx_checking.reading.size_names import name_sizes
from dmlgather.onnx_checking.reading.statements import Statements, compared, without_statements
from dmlgather.onnx_checking.reading.weightless import BUFFER, PAYLOADS, without_weights
from dmlgather.onnx_checking.sizes.values import Unknown
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
    nodes of the family it may have. remark: why shapes could not be inferred; empty when they were. statements: what the graph
    states of its values.
    """

    model: ModelProto
    functions: Functions
    limits: InferenceLimits
    most_sites: int
    remark: str = ""
    statements: Statements = field(default_factory=Statements)


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
    graph, remark, statements = infer(file, model.graph, model.opset_import)
    model.graph.CopyFrom(graph)
    return replace(file, remark=remark, statements=statements)


class Inferred(NamedTuple):
    """A graph with inferred shapes, and an empty remark; or the graph as it is or with some shapes, and what failed. statements:
    what the graph stated of its values; those that contradict what follows are dropped from it.
    """

    graph: GraphProto
    remark: str
    statements: Statements


def infer(file: ModelFile, graph: GraphProto, opsets: Sequence[OperatorSetIdProto], strict: bool = False) -> Inferred:
    """A graph of the model with inferred shapes.

    strict: whether inference fails at a node whose shapes cannot be inferred; if not, it passes over the node.
    """
    from onnx import ModelProto

    if file.limits.used_up:
        return Inferred(graph, file.limits.late, Statements())
    if file.functions.inlined_size(graph.node) > MOST_NODES:
        return Inferred(graph, f"its local functions stand for more than {MOST_NODES} nodes", Statements())
    functions = file.functions.reachable(graph.node)
    whole = partial(ModelProto, ir_version=file.model.ir_version, opset_import=opsets, graph=graph, functions=functions)
    statements, before = Statements(), ""
    try:
        if not strict:
            statements, before = _statements(file, graph, whole())
        found, remark = inferred(whole(), file.limits, strict)
    except (InferenceFailedError, ValueError) as error:  # the latter of a message beyond protobuf's limit
        return Inferred(graph, printable(" ".join(str(error).split()))[:500], statements)
    return Inferred(found, remark or before, statements)


def _statements(file: ModelFile, graph: GraphProto, model: ModelProto) -> tuple[Statements, str]:
    """What a graph of the model states of its values, and a remark as `inferred` gives it. model: the graph with its functions,
    which loses the statements.
    """
    if not without_statements(model.graph):
        return Statements(), ""
    try:
        plain, remark = inferred(model, file.limits)
    except InferenceLimitError:
        raise
    except InferenceFailedError:  # which statements may prevent
        return Statements(), ""
    return compared(graph, plain), remark


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
        model = None
        with suppress(DecodeError, UnicodeDecodeError):  # the latter of protobuf in pure Python
            model = onnx.load_model_from_string(kept.read())
    if (model is None or not model.HasField("graph")) and (known := recognised(path, but=ONNX)):
        raise FileError(known)
    if model is None:
        raise FileError("is no ONNX model, or a damaged one: it cannot be decoded as protobuf")
    return model, kept.size


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
    for each, value in message.ListFields():
        values = [value] if isinstance(value, str | bytes) or hasattr(value, "ListFields") else value
        if each.type == each.TYPE_STRING:
            if any(isinstance(text, bytes) for text in values):
                raise FileError("is a damaged ONNX model: it has names that are not UTF-8")
        elif each.message_type is not None:
            for inner in values:
                yield from _tensors(inner)
