"""Reads an ONNX model file: decoding, checks and shape inference."""

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
"""The largest protobuf message, in bytes."""

MOST_FAMILY_NODES = 4_000
"""Limit of gathers and slices per megabyte of file without weights. Each takes about 1 ms to check."""

MEMORY_PER_BYTE = 3
"""Bytes of memory per kept byte of the file: the byte, the decoded message and a temporary copy."""


@dataclass(frozen=True)
class ModelFile:
    """A model without the elements of large constants. `remark`: why shape inference of the main graph failed, or empty."""

    model: ModelProto
    functions: Functions
    limits: InferenceLimits
    most_nodes: int
    remark: str = ""
    declarations: Declarations = field(default_factory=Declarations)


def read_model(path: Path) -> ModelFile:
    """Read a model and infer the main graph's shapes. FileError for an invalid file, ImportError for a missing package."""
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
    """A graph after shape inference. Wrong declarations were removed. `remark`: why inference failed, or empty."""

    graph: GraphProto
    remark: str
    declarations: Declarations


def infer(file: ModelFile, graph: GraphProto, opsets: Sequence[OperatorSetIdProto], strict: bool = False) -> Inferred:
    """Infer the shapes of a graph of the model. `strict`: True to fail at a node instead of skipping it."""
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
    """Compare declared types with the types that shape inference finds without them. Remove all declarations from `model`."""
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
    """Return the names of a model's external data files, as written in the model. Raise FileError for an invalid file."""
    model, _ = _decoded(path)
    return sorted({entry.value for tensor in _tensors(model) for entry in tensor.external_data if entry.key == "location"})


def _decoded(path: Path) -> tuple[ModelProto, int]:
    """Decode a file without large constants. Return the model, and the number of bytes without them."""
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
    """Remove the elements of large and damaged constants. Shape inference would copy large constants, and some versions of
    ONNX read beyond the end of damaged constants. Raise FileError for text that is not UTF-8.
    """
    for tensor in list(_tensors(model)):
        if isinstance(constant(tensor), Unknown):
            for field in PAYLOADS:
                tensor.ClearField(field)


def _tensors(message: Any) -> Iterator[TensorProto]:
    """Yield all tensors in a message, at any depth. Raise FileError for text that is not UTF-8."""
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
