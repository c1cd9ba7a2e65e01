"""Files of every kind as graphs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dmlgather.dialects.index_graph import IndexGraph
from dmlgather.directml.dxdispatch.descriptor_lines import SUFFIXES
from dmlgather.extras import MissingExtraError, missing_extra
from dmlgather.files import FileError, open_regular

if TYPE_CHECKING:
    from onnx import ModelProto

FILES = {
    ".onnx": "an ONNX model",
    ".xml": "an OpenVINO IR",
    ".jax": "a function that jax.export wrote",
    ".json": "a DxDispatch model or a descriptor",
    **dict.fromkeys(SUFFIXES, "descriptors on lines"),
}
"""What files hold, by their suffixes."""


@dataclass(frozen=True, slots=True)
class ReadProgram:
    """graph: of a program. buffers: whether its tensors are buffers of DirectML, whose sizes say less than an array's shape:
    leading 1s are added, and a buffer with strides has one dimension. stated: the names of `inputs` that the program has.
    examples: how many examples were read.
    """

    graph: IndexGraph
    buffers: bool = False
    stated: frozenset[str] = frozenset()
    examples: int = 0


def of_file(path: Path, inputs: Mapping[str, Any], others: bool) -> ReadProgram:
    """The program in a file; see `read_program`."""
    try:
        match path.suffix.lower():
            case ".onnx":
                return of_onnx(_onnx_model(path), inputs, others)
            case ".xml":
                return _of_ir(path, inputs, others)
            case ".jax":
                return _of_exported(path)
            case ".json":
                return _of_json(path)
            case suffix if suffix in SUFFIXES:
                return _of_stream(path)
    except MissingExtraError:
        raise
    except ImportError as error:
        extra = "openvino" if path.suffix.lower() == ".xml" else "onnx"
        raise missing_extra(f"{path}: {FILES[path.suffix.lower()]}", extra, error) from None
    except TypeError as error:
        raise TypeError(f"{path}: {error}") from None
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    known = ", ".join(f"{what} ({suffix})" for suffix, what in FILES.items())
    raise FileError(f"{path}: its name does not say what it is: expected {known}")


def of_descriptors(descriptors: Sequence[Any]) -> ReadProgram:
    """Descriptors that run in order; see `descriptor_graph`."""
    from dmlgather.dialects.descriptor_graph import descriptor_graph

    return ReadProgram(descriptor_graph(descriptors), buffers=True)


def _of_stream(path: Path) -> ReadProgram:
    from dmlgather.dialects.descriptor_streams import stream_graph

    return ReadProgram(stream_graph(path), buffers=True)


def _of_exported(path: Path) -> ReadProgram:
    try:
        from dmlgather.lax.tracing.exported_files import exported_graph

        return ReadProgram(exported_graph(path))
    except ModuleNotFoundError as error:
        raise missing_extra(f"{path}: a function of JAX", "jax", error) from None
    except FileError as error:
        raise FileError(f"{path}: {error}") from None


def _of_json(path: Path) -> ReadProgram:
    from dmlgather.dialects.descriptor_graph import model_graph
    from dmlgather.directml.dxdispatch.model_file import check_file

    checked = check_file(path)
    if checked.kind == "model" and checked.ok and not checked.refusals:
        return ReadProgram(model_graph(checked), buffers=True)
    if checked.kind == "descriptor" and checked.ok:
        return of_descriptors([each.desc for each in checked.dispatchables.values()])
    first = next(iter((*checked.problems, *checked.errors, *checked.refusals)), None)
    raise FileError(str(first) if first is not None else f"{path}: is neither a DxDispatch model nor a descriptor")


def _of_ir(path: Path, inputs: Mapping[str, Any], others: bool) -> ReadProgram:
    try:
        from dmlgather.openvino.model.index_graph import index_graph
        from dmlgather.openvino.model.ir_xml import read_xml

        layers = [layer for every in read_xml(path).all("layers") for layer in every.all("layer")]
        ports = [port for layer in layers for output in layer.all("output") for port in output.all("port")]
        names = [layer.get("name") or "" for layer in layers]
        names += [name for port in ports for name in (port.get("names") or "").split(",")]
        stated = _stated(inputs, set(names), set(), others)
        return ReadProgram(index_graph(path, stated), stated=frozenset(stated))
    except FileError as error:
        raise FileError(f"{path}: {error}") from None


def of_onnx(model: ModelProto, inputs: Mapping[str, Any], others: bool) -> ReadProgram:
    """An ONNX model; see `read_program`."""
    from dmlgather.onnx.model.index_graph import index_graph

    tensors = {value.name for value in model.graph.input} | {name for node in model.graph.node for name in node.output}
    sizes = {size.dim_param for value in model.graph.input for size in value.type.tensor_type.shape.dim}
    stated = _stated(inputs, tensors, sizes, others)
    return ReadProgram(index_graph(model, stated), stated=frozenset(stated))


def _stated(inputs: Mapping[str, Any], tensors: set[str], sizes: set[str], others: bool) -> dict[str, Any]:
    """What is stated of a model, which has these tensors and sizes. A number for a tensor is the size of its only dimension."""
    return {
        name: (item,) if isinstance(item, int) and name in tensors else item
        for name, item in inputs.items()
        if not others or name in tensors or name in sizes
    }


def _onnx_model(path: Path) -> ModelProto:
    """The model in a file, with its external data."""
    import onnx
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped] # protobuf ships no types

    try:
        with open_regular(path):
            pass
        model = onnx.load(path)
    except FileError as error:
        raise FileError(f"{path}: {error}") from None
    except (DecodeError, UnicodeDecodeError):
        raise FileError(f"{path}: is no ONNX model, or a damaged one: it cannot be decoded as protobuf") from None
    except (onnx.checker.ValidationError, ValueError) as error:
        raise FileError(f"{path}: its external data cannot be read: {error}") from None
    if not model.HasField("graph"):
        raise FileError(f"{path}: holds no graph: it is no ONNX model, or one that was cut off")
    return model
