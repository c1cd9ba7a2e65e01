"""Reading of an ONNX model file: decoding, checks of the file, and shape inference."""

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
from dmlgather.onnx_checking.reading.declarations import Declarations, compare_declarations, remove_declarations
from dmlgather.onnx_checking.reading.inference_process import MEGABYTE, InferenceFailedError, InferenceLimitError, InferenceLimits
from dmlgather.onnx_checking.reading.local_functions import MOST_NODES, Functions
from dmlgather.onnx_checking.reading.shape_inference import inferred
from dmlgather.onnx_checking.reading.size_names import name_sizes
from dmlgather.onnx_checking.reading.weightless import BUFFER, PAYLOADS, without_weights
from dmlgather.onnx_checking.sizes.values import Unknown
from dmlgather.wording import printable

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, OperatorSetIdProto, TensorProto


LARGEST_FILE = 2**31 - 1
"""The most bytes of a protobuf message."""

MOST_FAMILY_NODES = 4_000
"""The most nodes of the family per megabyte of a file without weights. A smaller file counts as one. Judging takes 1 ms a node.
"""

MEMORY_PER_BYTE = 3
"""Bytes of memory that decoding takes per kept byte of the file: the byte itself, the message, and a temporary copy."""


@dataclass(frozen=True)
class ModelFile:
    """A decoded model without the values of large constants. `limits`: the time and memory that are left for shape inference.
    `most_nodes`: the most nodes of the family that it may have. `remark`: why shapes could not be inferred; empty if they were.
    `declarations`: the declared types of the main graph's values.
    """

    model: ModelProto
    functions: Functions
    limits: InferenceLimits
    most_nodes: int
    remark: str = ""
    declarations: Declarations = field(default_factory=Declarations)


def read_model(path: Path) -> ModelFile:
    """Return the model in the file at `path`, with inferred shapes. External data and large constants are not read. FileError
    for an invalid file, ImportError for a missing package.
    """
    model, size = _decoded(path)
    if not model.HasField("graph"):
        raise FileError("holds no graph: it is no ONNX model, or one that was cut off")
    if not model.opset_import and model.ir_version >= 3:
        raise FileError("states no opset (opset_import), so nothing says which rules its operators follow")
    strip(model)
    functions = Functions(model.functions)
    functions.add_defaults([*model.graph.node, *chain.from_iterable(function.node for function in model.functions)])
    most_nodes = int(MOST_FAMILY_NODES * max(size / MEGABYTE, 1))
    file = ModelFile(model, functions, InferenceLimits.of_file(size), most_nodes)
    name_sizes(model.graph)
    graph, remark, declarations = infer(file, model.graph, model.opset_import)
    model.graph.CopyFrom(graph)
    return replace(file, remark=remark, declarations=declarations)


class Inferred(NamedTuple):
    """The result of shape inference on a graph. If inference fails, `graph` has the original shapes or some inferred shapes,
    and `remark` says why it failed. Otherwise `remark` is empty. `declarations`: the declared types of the graph's values.
    Wrong declarations are removed from `graph`.
    """

    graph: GraphProto
    remark: str
    declarations: Declarations


def infer(file: ModelFile, graph: GraphProto, opsets: Sequence[OperatorSetIdProto], strict: bool = False) -> Inferred:
    """Return a graph of the model with inferred shapes. `strict`: False to skip a node whose shapes cannot be inferred, True to
    fail.
    """
    from onnx import ModelProto

    if file.limits.used_up:
        return Inferred(graph, file.limits.late, Declarations())
    if file.functions.inlined_size(graph.node) > MOST_NODES:
        return Inferred(graph, f"its local functions stand for more than {MOST_NODES} nodes", Declarations())
    functions = file.functions.reachable(graph.node)
    model = partial(ModelProto, ir_version=file.model.ir_version, opset_import=opsets, graph=graph, functions=functions)
    declarations, first_remark = Declarations(), ""
    try:
        if not strict:
            declarations, first_remark = _declarations(file, graph, model())
        graph_with_shapes, remark = inferred(model(), file.limits, strict)
    except (InferenceFailedError, ValueError) as error:  # ValueError: the message exceeds protobuf's limit
        return Inferred(graph, printable(" ".join(str(error).split()))[:500], declarations)
    return Inferred(graph_with_shapes, remark or first_remark, declarations)


def _declarations(file: ModelFile, graph: GraphProto, model: ModelProto) -> tuple[Declarations, str]:
    """Return the declared types of a graph's values, and the remark of `inferred`. `model`: the graph with its functions. The
    declarations are removed from `model`.
    """
    if not remove_declarations(model.graph):
        return Declarations(), ""
    try:
        plain, remark = inferred(model, file.limits)
    except InferenceLimitError:
        raise
    except InferenceFailedError:  # with declarations, inference may succeed
        return Declarations(), ""
    return compare_declarations(graph, plain), remark


def external_files(path: Path) -> list[str]:
    """Return the files of the external tensors of a model, by the names in the model. FileError for an invalid file."""
    model, _ = _decoded(path)
    return sorted({entry.value for tensor in _tensors(model) for entry in tensor.external_data if entry.key == "location"})


def _decoded(path: Path) -> tuple[ModelProto, int]:
    """Return the model without large constants, and the size of its file without large constants, in bytes."""
    import onnx
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped] # protobuf ships no types

    with open_regular(path, BUFFER) as (file, size):
        if size == 0:
            raise FileError("is empty")
        if size > LARGEST_FILE:
            raise FileError(f"has {size} bytes, and a protobuf message at most {LARGEST_FILE}: keep its weights as external data")
        kept = without_weights(file, size)
        free = available_memory()
        if free is not None and kept.size * MEMORY_PER_BYTE > free:
            raise FileError(f"has {kept.size} bytes without its weights, too many to decode with {free} bytes of memory free")
        model = None
        with suppress(DecodeError, UnicodeDecodeError):  # protobuf in pure Python raises UnicodeDecodeError
            model = onnx.load_model_from_string(kept.read())
    if (model is None or not model.HasField("graph")) and (other_format := recognised(path, but=ONNX)):
        raise FileError(other_format)
    if model is None:
        raise FileError("is no ONNX model, or a damaged one: it cannot be decoded as protobuf")
    return model, kept.size


def strip(model: ModelProto) -> None:
    """Remove the values of large constants, because shape inference copies the model several times. Also remove those of
    damaged constants, because some versions of ONNX read beyond their end. FileError for a model with texts that are not UTF-8.
    """
    for tensor in list(_tensors(model)):
        if isinstance(constant(tensor), Unknown):
            for field in PAYLOADS:
                tensor.ClearField(field)


def _tensors(message: Any) -> Iterator[TensorProto]:
    """Yield the tensors in a protobuf message and in all messages inside it. FileError for a text that is not UTF-8."""
    if message.DESCRIPTOR.name == "TensorProto":
        yield message
    for entry, value in message.ListFields():
        values = [value] if isinstance(value, str | bytes) or hasattr(value, "ListFields") else value
        if entry.type == entry.TYPE_STRING:
            if any(isinstance(text, bytes) for text in values):
                raise FileError("is a damaged ONNX model: it has names that are not UTF-8")
        elif entry.message_type is not None:
            for inner in values:
                yield from _tensors(inner)
