"""`translate`: a problem, or a whole program, in the operators of another library."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import cached_property
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from dmlgather.dialects.descriptor_graph import descriptor_graph
from dmlgather.dialects.descriptors import storage_type
from dmlgather.dialects.graph_building import GraphBuilder
from dmlgather.dialects.index_graph import Concatenation, Elementwise, IndexGraph, Opaque, Step
from dmlgather.dialects.planned import Planned
from dmlgather.dialects.problem import Problem, TensorType
from dmlgather.dialects.views import ExpandView, ReshapeView, SliceView, TransposeView
from dmlgather.dialects.windows import Window, WindowProblem
from dmlgather.directml import BufferTensorDesc, FeatureLevel
from dmlgather.directml.dxdispatch.model_file import check_text
from dmlgather.directml.dxdispatch.npy import SourceFiles
from dmlgather.equivalence import Equivalence, decide
from dmlgather.graph_sources import check_all_read, read_program
from dmlgather.lax.problems.gather import LaxGather
from dmlgather.openvino.model.index_graph import index_graph as openvino_graph
from dmlgather.package import MissingExtraError
from dmlgather.translation.directml_sources import of_checked
from dmlgather.translation.jax_target import MODES
from dmlgather.translation.libraries import TARGETS, TargetRow
from dmlgather.translation.onnx_target import clamps, is_bound
from dmlgather.translation.restating import output_names, restated_if_possible
from dmlgather.translation.targets import UntranslatableError
from dmlgather.wording import alternatives

# What the steps of a program do, in words.

VIEWS: dict[type[Problem], Callable[[Any], str]] = {
    ReshapeView: lambda view: f"reshape to {list(view.shape)}",
    TransposeView: lambda view: f"transpose to the dimensions {list(view.order)}",
    ExpandView: lambda view: f"expand to {list(view.shape)}",
}

STATED = ("axis", "batch_dims", "blocksize", "mode")
"""What is told of a problem's attributes."""


def in_words(graph: IndexGraph) -> Iterator[str]:
    """Each step: "Gather-13 (axis 1)"; two that clamp together once: "clamp to -5 … 4"."""
    clamped = clamps(graph)
    for step in graph.steps:
        first = clamped.get(step.outputs[0])
        if first is not None:
            yield f"clamp to {_shown(graph, first.inputs[1])} … {_shown(graph, step.inputs[1])}"
        elif step not in clamped.values():
            yield _step(graph, step)


def _step(graph: IndexGraph, step: Step) -> str:
    work = step.work
    match work:
        case Problem():
            stated = VIEWS.get(type(work))
            return operator_of(work) + _attributes(work) if stated is None else stated(work)
        case Elementwise():
            if work.operator == "cast":
                return f"convert to {work.dtype}"
            if is_bound(graph, step, "minimum", "maximum"):
                bound = "most" if work.operator == "minimum" else "least"
                return f"clamp to at {bound} {_shown(graph, step.inputs[1])}"
            if work.operator == "where" and step.inputs[2] in graph.constants:
                return f"select, else {_shown(graph, step.inputs[2])}"
            numbers = [_shown(graph, name) for name in step.inputs if name in graph.constants]
            return f"{work.operator} with {' and '.join(numbers)}" if numbers else work.operator
        case Concatenation():
            return f"concatenate along axis {work.axis}"
        case Opaque():
            return work.operator


def operator_of(problem: Problem) -> str:
    """The operator with its version where it has one: "Gather-13"."""
    version = getattr(problem, "version", None)
    return problem.name if version is None else str(version) if not isinstance(version, int) else str(problem)


def _attributes(problem: Problem) -> str:
    if isinstance(problem, WindowProblem):
        return f" [{', '.join(map(_window, problem.windows, problem.data.shape))}]"
    stated = [f"{name} {getattr(problem, name)}" for name in STATED if hasattr(problem, name)]
    if isinstance(problem, LaxGather):
        stated.append(f"mode '{MODES[problem.out_of_bounds]}'")
    return f" ({', '.join(stated)})" if stated else ""


def _window(window: Window, size: int) -> str:
    """As NumPy writes it."""
    if window == Window.whole(size):
        return ":"
    end = window.start + (window.count - 1) * window.step + (1 if window.step > 0 else -1) if window.count else window.start
    return f"{window.start}:{end if end >= 0 else ''}" + (f":{window.step}" if window.step != 1 else "")


def _shown(graph: IndexGraph, name: str) -> str:
    array = graph.constants[name]
    return str(array.item() if array.size == 1 else array.tolist()) if array.size <= 8 else f"{array.size} numbers"


# The proof of a translation: what runs is read again, by the reader of its library, and compared with the source.


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


@dataclass(frozen=True)
class Translation:
    """What `translate` returns.

    source: what was translated. library, version: to what; the version is an opset of ONNX, an operation set of OpenVINO or a
    feature level of DirectML. form: what runs there; None where `reason` says why there is none. steps: what it does, in words,
    in order. graph: the same as a graph of problems.
    """

    source: IndexGraph
    library: str
    version: Any
    form: Any
    steps: tuple[str, ...]
    graph: IndexGraph | None
    reason: str = ""

    @cached_property
    def proof(self) -> Equivalence | None:
        """Whether the form, read again, does what the source does; None where there is no form. `proof.given` says for which
        inputs: "any", or "valid": those for which no index of the source is out of range. It is made when it is asked for.
        """
        if self.form is None or self.graph is None:
            return None
        return prove(self.source, self.library, self.form, self.graph)

    @property
    def to(self) -> str:
        """The library and its version: "onnx, opset 13"."""
        option = TARGETS[self.library].option
        return f"{self.library}, {option} {self.version}" if option else self.library

    @property
    def ok(self) -> bool:
        """Whether there is a form, and `proof` says that it does what the source does."""
        return bool(self.proof)

    def __str__(self) -> str:
        return "\n".join([f"to {self.to}", *(f"  {line}" for line in self.steps or [self.reason or "nothing is to be done"])])


def translate(
    source: Any,
    to: str,
    /,
    *example: Any,
    opset: int | None = None,
    version: int | None = None,
    level: str | FeatureLevel | None = None,
    inputs: Mapping[str, Any] | None = None,
) -> Translation:
    """A problem, or a program of gathers, slices and views, in the operators of another library.

    source: a problem, as `dg.onnx.gather.problem(…)` gives, a descriptor, or any program that `dg.equivalent` takes. to: "onnx",
    "openvino", "jax" or "directml". opset: of ONNX, 13 by default. version: of OpenVINO, the operation set, 16 by default. level:
    of DirectML, "6_4" by default. example, inputs: for programs that need them, as for `dg.equivalent`.

    The result's `form` runs in the other library:

    - onnx: an onnx.ModelProto, whose inputs and outputs have the names of the source's.
    - openvino: an openvino.Model.
    - jax: a function on JAX's arrays, which can be traced and jitted.
    - directml: a tuple of descriptors that run in order, bound as docs/expressing.md says; where they are no chain, a DxDispatch
      model as JSON data.

    Where the other library cannot say it, `form` is None and `reason` says why. `proof` says for which inputs both do the same.

    Raises ValueError for another library, opset, operation set or level, TypeError for the version of another library and for
    examples that the program does not read, ModuleNotFoundError without the library's package, and what reading the source
    raises.

    >>> rows = dg.openvino.gather.problem(((5, 4), "float32"), ((3,), "int64"), axis=0)  # an index out of range gives zeros
    >>> made = dg.translate(rows, "onnx")
    >>> print(made)
    to onnx, opset 13
      clamp to -5 … 4
      equal
      Gather-13 (axis 0)
      reshape to [3, 1]
      select, else 0.0
    >>> print(made.proof)
    proven: equal for all inputs of these shapes
    >>> [node.op_type for node in made.form.graph.node]
    ['Clip', 'Equal', 'Gather', 'Reshape', 'Where']
    """
    row, chosen = _row(to, {"opset": opset, "version": version, "level": level})
    read = read_program(source, *example, inputs=inputs)
    check_all_read([read], example, inputs)
    graph = graph_of_problem(source) if isinstance(source, Problem) else read.graph
    try:
        stated = restated_if_possible(graph, lambda builder: row.target(builder, chosen))
        form = row.form(stated, chosen, output_names(graph))
    except UntranslatableError as error:
        return Translation(graph, to, chosen, None, (), None, str(error))
    return Translation(graph, to, chosen, form, tuple(in_words(stated)), stated)


def _row(to: str, given: Mapping[str, Any]) -> tuple[TargetRow, Any]:
    """The row of a target, and the version that was asked for. ValueError for another target, TypeError for another's version."""
    if not isinstance(to, str) or to not in TARGETS:
        raise ValueError(f"to is {to!r}, expected {alternatives(map(repr, TARGETS))}")
    row = TARGETS[to]
    if find_spec(row.package) is None:
        text = f"translating to {to!r} needs the package {row.package}, which is not installed: pip install {row.package}"
        raise MissingExtraError(text, name=row.package)
    for name, value in given.items():
        if value is not None and name != row.option:
            owner = next(each for each, other in TARGETS.items() if other.option == name)
            raise TypeError(f"{name} is {value!r}, and belongs to {owner!r}; {to!r} has {row.option or 'no versions'}")
    chosen = row.default if given.get(row.option) is None else given[row.option]
    return row, row.check(chosen)


def graph_of_problem(problem: Problem) -> IndexGraph:
    """The graph of one problem. Its inputs have the problem's names of them, its output is "output"."""
    graph = GraphBuilder()
    values = [graph.input(name, tensor) for name, tensor in zip(problem.inputs, problem.tensors, strict=False)]
    return graph.build([graph.problem(problem.name, problem, *values, output="output")])
