"""The proof of a translation: what runs is read again, by the reader of its library, and compared with the source."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from dmlgather.dialects.descriptor_graph import descriptor_graph
from dmlgather.dialects.descriptors import storage_type
from dmlgather.dialects.graph_building import GraphBuilder
from dmlgather.dialects.index_graph import IndexGraph
from dmlgather.dialects.planned import Planned
from dmlgather.dialects.problem import Problem, TensorType
from dmlgather.dialects.views import SliceView
from dmlgather.dialects.windows import Window
from dmlgather.directml import BufferTensorDesc, FeatureLevel
from dmlgather.directml.dxdispatch.model_file import check_text
from dmlgather.directml.dxdispatch.source_files import SourceFiles
from dmlgather.equivalence import Equivalence, decide
from dmlgather.graph_sources import read_program
from dmlgather.openvino.model.index_graph import index_graph as openvino_graph
from dmlgather.translation.directml_sources import of_checked


def prove(source: IndexGraph, to: str, form: Any, stated: IndexGraph) -> Equivalence:
    """Whether a form does what the source does: for all inputs, else for those for which no index of the source is out of range.

    to: the library. stated: the graph that the form was made of.
    """
    first, second, flat = READERS[to](source, form, stated)
    found = decide(first, second, flat=flat, assume=())
    return found or decide(first, second, given="valid", flat=flat, assume=())


Compared = tuple[IndexGraph, IndexGraph, bool]
"""The source, the form, and whether elements are compared whatever the shapes are."""


def _onnx(source: IndexGraph, form: Any, _: IndexGraph) -> Compared:
    return source, read_program(form).graph, False


def _openvino(source: IndexGraph, form: Any, _: IndexGraph) -> Compared:
    openvino: Any = import_module("openvino")
    with TemporaryDirectory() as folder:
        path = Path(folder) / "translated.xml"
        openvino.serialize(form, path)
        return source, openvino_graph(path), False


def _jax(source: IndexGraph, form: Any, stated: IndexGraph) -> Compared:
    jax: Any = import_module("jax")
    types = [stated.types[name] for name in stated.inputs]
    wide = any(tensor.dtype.itemsize == 8 for tensor in types)
    with jax.enable_x64(True) if wide else nullcontext():
        program = read_program(form, *(jax.ShapeDtypeStruct(tensor.shape, tensor.dtype) for tensor in types))
    return source, program.graph, False


def _directml(source: IndexGraph, form: Any, stated: IndexGraph) -> Compared:
    first = _in_storage(source)
    if isinstance(form, dict):
        files = SourceFiles(Path.cwd(), allow_outside=False)
        file = of_checked(check_text("translated.json", json.dumps(form), files, FeatureLevel.LEVEL_6_4))
        graph, labels = file.graph, {value: file.graph.label(value) for value in file.graph.inputs}
        known = {value: file.initial[label] for value, label in labels.items() if label in stated.constants}
        inputs = tuple(value for value in graph.inputs if value not in known)
        return first, replace(graph, inputs=inputs, constants={**graph.constants, **known}), True
    return first, _bound_to(first, descriptor_graph(form), form[-1].tensor(form[-1].operator.output)), True


READERS: Mapping[str, Callable[[IndexGraph, Any, IndexGraph], Compared]] = {
    "onnx": _onnx,
    "openvino": _openvino,
    "jax": _jax,
    "directml": _directml,
}
"""What is compared, by library."""


def _in_storage(graph: IndexGraph) -> IndexGraph:
    """A graph of problems on the types that hold the bits of its data in DirectML: bool as UINT8."""
    types = dict(graph.types)
    steps = []
    for step in graph.steps:
        work = step.work
        if not isinstance(work, Problem):
            steps.append(step)
            continue
        for name in (step.inputs[0], step.outputs[0]):
            types[name] = _stored(graph.types[name])
        data, *indices = (types[name] for name in step.inputs)
        planned = Planned(data, indices[0] if indices else None, types[step.outputs[0]], work.plan())
        steps.append(replace(step, work=work if data == work.data else planned))
    constants = {name: array.view(types[name].dtype) for name, array in graph.constants.items()}
    return replace(graph, steps=tuple(steps), types=types, constants=constants)


def _stored(tensor: TensorType) -> TensorType:
    storage = storage_type(tensor.dtype)
    assert storage is not None, "what has descriptors has a storage type"
    kind, parts = storage
    return replace(tensor, dtype=tensor.dtype if parts else np.dtype(kind.name.lower()))


def _bound_to(first: IndexGraph, second: IndexGraph, output: BufferTensorDesc) -> IndexGraph:
    """The second graph, of descriptors, with the inputs of the first one bound to its tensors, and its output as it lies in its
    buffer. output: the last tensor, which has no gaps.
    """
    graph, values = GraphBuilder(), dict[str, str]()
    inputs = [graph.input(name, first.types[name]) for name in first.inputs]
    for own, name in zip(inputs, second.inputs, strict=False):  # index tuples without components are not bound
        values[name] = _bound(graph, own, second.types[name])
    for name, array in second.constants.items():
        values[name] = graph.constant(array, name)
    for step in second.steps:
        assert isinstance(step.work, Problem), "a chain of descriptors holds nothing else"
        values[step.outputs[0]] = graph.problem(step.name, step.work, *(values[name] for name in step.inputs))
    order = sorted(range(output.rank), key=lambda axis: -output.element_strides[axis])
    return graph.build([graph.transposed("OutputTensor", values[second.outputs[0]], order)])


def _bound(graph: GraphBuilder, value: str, wanted: TensorType) -> str:
    """A value as the tensor that reads it: its first elements, of that shape, indices converted to its type. Where the tensor's
    buffer is rounded up to 4 bytes, it ends in elements that no descriptor reads.
    """
    tensor, name = graph.types[value], f"{value} as it is bound"
    count, own = wanted.layout.extent, tensor.layout.extent
    if count < own:
        flat = graph.reshaped(name, value, (own,))
        value = graph.problem(name, SliceView(graph.types[flat], (Window(0, count, 1),)), flat)
    elif count > own:
        unread = graph.constant(np.zeros(count - own, tensor.dtype))
        value = graph.concatenated(name, [graph.reshaped(name, value, (own,)), unread], 0)
    value = graph.reshaped(name, value, wanted.shape)
    return value if tensor.dtype == wanted.dtype else graph.elementwise(name, "cast", wanted.dtype, value)
