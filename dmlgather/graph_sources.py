"""Programs of every kind as graphs: files, models, functions, descriptors, problems."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlgather.dialects.element_types import is_type, numpy_type
from dmlgather.dialects.index_graph import IndexGraph, chain
from dmlgather.dialects.problem import Problem, TensorType
from dmlgather.files import STREAMS, FileError, open_regular
from dmlgather.package import MissingExtraError, missing_extra
from dmlgather.wording import counted

if TYPE_CHECKING:
    from onnx import ModelProto


# Files of every kind as graphs.

FILES = {
    ".onnx": "an ONNX model",
    ".xml": "an OpenVINO IR",
    ".jax": "a function that jax.export wrote",
    ".json": "a DxDispatch model or a descriptor",
    **dict.fromkeys(STREAMS, "descriptors on lines"),
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
            case suffix if suffix in STREAMS:
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
    from dmlgather.dialects.descriptor_graph import stream_graph

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


def read_program(
    source: Any, *example: Any, inputs: Mapping[str, Any] | None = None, others: bool = False, argument: str = "source"
) -> ReadProgram:
    """A program as a graph.

    source: the path of an ONNX model (.onnx), of an OpenVINO IR (.xml), of a DxDispatch model or a descriptor (.json), or of
    descriptors on lines (.jsonl, .ndjson); an onnx.ModelProto; a function of JAX or a closed jaxpr; a module, a function or
    an ExportedProgram of PyTorch; what `dg.index` or `dg.fuse` gives; descriptors of DirectML; a problem, or problems of
    which each reads what the one before it wrote; an IndexGraph. A function is PyTorch's where an example is a tensor of
    PyTorch, else JAX's; one of jax.jit always is JAX's.

    example: the arguments of a function, as arrays, tensors, jax.ShapeDtypeStruct or pairs (shape, dtype); the first one is the
    data of a `dg.index`.
    inputs: what a model leaves open: shapes by the names of inputs, and of an ONNX model also types, arrays, and numbers by the
    names of sizes. others: whether they may name what this program does not have, and another one has. argument: what messages
    call the program.

    FileError for a file that cannot be used; TypeError for another source, and for what does not go with it; and what the readers
    raise.
    """
    from dmlgather.calls.arguments import type_of
    from dmlgather.directml import OperatorDesc
    from dmlgather.fusion import Fused
    from dmlgather.numpy.index_expression import IndexExpression

    if not isinstance(inputs, Mapping | None):
        text = f"inputs is of type {type(inputs).__name__}, expected a mapping from names to shapes, such as {{'x': (1, 3)}}"
        raise TypeError(text)
    if isinstance(source, str | PathLike):
        return of_file(Path(source), inputs or {}, others)
    if isinstance(source, Sequence) and source:
        if all(isinstance(each, Problem) for each in source):
            return ReadProgram(chain(source))
        if all(isinstance(each, OperatorDesc) for each in source):
            return of_descriptors(source)
    if isinstance(source, IndexExpression):
        if not example:
            raise TypeError(
                "what dg.index gives says nothing of its data: give an array, or its (shape, dtype), behind the programs"
            )
        return ReadProgram(source.graph(type_of("the first example", example[0])), examples=1)
    match source:
        case ReadProgram():
            return source
        case IndexGraph():
            return ReadProgram(source)
        case Problem():
            return ReadProgram(chain([source]))
        case Fused():
            count = len(source.graph.outputs) - len(source.kept)
            return ReadProgram(replace(source.graph, outputs=source.graph.outputs[:count]))
        case OperatorDesc():
            return of_descriptors([source])
    packages = _packages(source)
    if callable(source) and not isinstance(source, type):
        _check_arguments(source, example, argument)
    if "onnx" in packages:
        return of_onnx(source, inputs or {}, others)
    by_example = callable(source) and "jax" not in packages and any("torch" in _packages(each) for each in _leaves(example))
    if "torch" in packages or by_example:
        from dmlgather.torch.tracing.index_graph import index_graph as torch_graph

        return ReadProgram(torch_graph(source, *(_each(_for_torch, each) for each in example)), examples=len(example))
    if callable(source) or "jax" in packages:
        from dmlgather.lax.tracing.index_graph import index_graph

        example = example if callable(source) else ()  # a jaxpr states the types of its arguments
        return ReadProgram(index_graph(source, *(_each(_for_jax, each) for each in example)), examples=len(example))
    raise TypeError(
        f"{argument} is {_described(source)}, which is no program: expected a path, an onnx.ModelProto, a function or closed "
        "jaxpr of JAX, a program of PyTorch, what dg.index or dg.fuse gives, descriptors, problems, or an IndexGraph"
    )


def check_all_read(programs: Sequence[ReadProgram], example: Sequence[Any], inputs: Mapping[str, Any] | None) -> None:
    """ValueError for `inputs` that no program has, TypeError for examples that no program reads."""
    unknown = sorted({*(inputs or {})}.difference(*(program.stated for program in programs)), key=str)
    if unknown:
        whose = "the program does not have" if len(programs) == 1 else "neither program has"
        raise ValueError(f"inputs names {', '.join(map(repr, unknown))}, which {whose}")
    most = max(program.examples for program in programs)
    if len(example) > most:
        whose = "the program reads" if len(programs) == 1 else "the programs read"
        raise TypeError(f"got {counted(len(example), 'example')}, of which {whose} {most or 'none'}: leave the rest out")


def _check_arguments(source: Callable[..., Any], example: Sequence[Any], argument: str) -> None:
    """TypeError for a function that examples cannot be the arguments of."""
    try:
        signature = inspect.signature(source)
    except (TypeError, ValueError):  # it states none
        return
    try:
        signature.bind(*example)
    except TypeError as error:
        text = f"{argument} has parameters {signature}, and {counted(len(example), 'example')} to call it with: {error}; "
        raise TypeError(f"{text}give its arguments behind the programs, as arrays or as (shape, dtype)") from None


def _described(source: Any) -> str:
    """What was given in the place of a program, in words."""
    what = f"of type {type(source).__name__}"
    if isinstance(source, list | tuple):
        items = ", ".join(dict.fromkeys(type(each).__name__ for each in source))
        what += f" and holds {items or 'nothing'}"
    return what


def _packages(value: Any) -> set[str]:
    """The packages that the classes of a value come from."""
    return {each.__module__.partition(".")[0].replace("jaxlib", "jax") for each in type(value).__mro__}


def _leaves(example: Any) -> list[Any]:
    """The arrays and pairs (shape, dtype) of an example, which may be a tree."""
    found: list[Any] = []
    _each(found.append, example)
    return found


def _each(convert: Callable[[Any], Any], example: Any) -> Any:
    """An example with all that it holds converted, where it is a tree."""
    if type(example) is dict:
        return {key: _each(convert, held) for key, held in example.items()}
    if type(example) in (list, tuple) and _example_type(example) is None:
        return type(example)(_each(convert, held) for held in example)
    return convert(example)


def _for_torch(argument: Any) -> Any:
    """An example as PyTorch takes it: what is no tensor and states a shape and a type, as a tensor of these."""
    stated = None if "torch" in _packages(argument) else _example_type(argument)
    if stated is None:
        return argument
    import torch

    return torch.empty(stated.shape, dtype=getattr(torch, stated.dtype.name))


def _for_jax(argument: Any) -> Any:
    """An example as JAX takes it: a tensor of PyTorch and a pair (shape, dtype) as an array of that type."""
    if "torch" not in _packages(argument) and not isinstance(argument, tuple):
        return argument
    stated = _example_type(argument)
    return argument if stated is None else np.zeros(stated.shape, stated.dtype)


def _example_type(argument: Any) -> TensorType | None:
    """What an array, a tensor or a pair (shape, dtype) states; None for a number, and for a tree of examples."""
    if hasattr(argument, "shape") and hasattr(argument, "dtype"):
        return TensorType(tuple(argument.shape), numpy_type(argument.dtype))
    if not isinstance(argument, tuple) or len(argument) != 2:
        return None
    shape, dtype = argument
    sizes = isinstance(shape, tuple | list) and all(isinstance(size, int) for size in shape)
    return TensorType(tuple(shape), numpy_type(dtype)) if sizes and is_type(dtype) else None
