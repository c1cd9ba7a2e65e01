"""`translate`: a problem, descriptors or a DxDispatch model in ONNX's operators."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from dmlgather.dialects.index_graph import Bitcast, Concatenation, Elementwise, IndexGraph, Step
from dmlgather.dialects.problem import Problem, whole
from dmlgather.dialects.programs import read_program
from dmlgather.dialects.views import ExpandView, ReshapeView, TransposeView
from dmlgather.dialects.windows import Window, WindowProblem
from dmlgather.differential import Agreement, check_agreement
from dmlgather.differential.matching import output_names
from dmlgather.files import FileError, writing
from dmlgather.onnx.problems.operator_versions import NEWEST_OPSET
from dmlgather.package import missing_extra
from dmlgather.translation.onnx_form import OnnxForm, clamps, is_bound
from dmlgather.translation.onnx_operators import UntranslatableError
from dmlgather.translation.restating import restated

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
        case Bitcast():
            return f"read as {graph.types[step.outputs[0]].dtype}"


def operator_of(problem: Problem) -> str:
    """The operator with its version where it has one: "Gather-13"."""
    version = getattr(problem, "version", None)
    return problem.name if version is None else str(version) if not isinstance(version, int) else str(problem)


def _attributes(problem: Problem) -> str:
    if isinstance(problem, WindowProblem):
        return f" [{', '.join(map(_window, problem.windows, problem.data.shape))}]"
    stated = [f"{name} {getattr(problem, name)}" for name in STATED if hasattr(problem, name)]
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


DEFAULT_OPSET = 13
"""Of ONNX, where none is stated."""

Initial = Mapping[str, NDArray[Any]]
"""Values of inputs, by the names that users know."""


@dataclass(frozen=True)
class Translation:
    """What `translate` returns.

    source: what was translated. opset: of ONNX. form: an onnx.ModelProto; None where `reason` says why there is none. steps: what
    it does, in words, in order. graph: the same as a graph of ONNX's problems. initial: values of the source's inputs, which the
    form has as defaults.
    """

    source: IndexGraph
    opset: int
    form: Any
    steps: tuple[str, ...]
    graph: IndexGraph | None
    reason: str = ""
    initial: Initial = field(default_factory=dict, repr=False)

    @cached_property
    def check(self) -> Agreement | None:
        """Whether the form does what the source does, as far as running both shows; None where there is no form. It is made when
        it is asked for: the source runs in the reference backend, the form in onnx's reference evaluator and, where it can be
        imported, in onnxruntime.
        """
        if self.form is None:
            return None
        return check_agreement(self.source, self.form, initial=self.initial)

    @property
    def to(self) -> str:
        """The library and its version: "onnx, opset 13"."""
        return f"onnx, opset {self.opset}"

    @property
    def ok(self) -> bool:
        """Whether there is a form, and `check` found it equal to the source."""
        return bool(self.check)

    def __str__(self) -> str:
        return "\n".join([f"to {self.to}", *(f"  {line}" for line in self.steps or [self.reason or "nothing is to be done"])])

    def write(self, path: Path, made_from: Iterable[Path] = ()) -> None:
        """Write the form to a file. FileError where it cannot be written, would be too large, or would replace one of
        `made_from`.
        """
        from dmlgather.onnx_checking.reading.file import LARGEST_FILE

        size = self.form.ByteSize()
        if size > LARGEST_FILE:
            raise FileError(f"{path} would have {size} bytes, and a protobuf message at most {LARGEST_FILE}: split the model")
        with writing(path, made_from) as file:
            file.write(self.form.SerializeToString())


def translate(source: Any, to: str = "onnx", /, *, opset: int | None = None, initial: Initial | None = None) -> Translation:
    """Return a problem, descriptors or a DxDispatch model in the operators of another library.

    source: a problem, as `dg.onnx.gather.problem(…)` gives, or problems of which each reads what the one before it wrote; a
    descriptor, or descriptors that run in order; the path of a DxDispatch model, of a descriptor, or of descriptors on lines. to:
    "onnx". opset: of ONNX, 13 by default. initial: values of inputs, by name, which become their defaults, as those of a
    DxDispatch model do.

    The result's `form` is an onnx.ModelProto, whose inputs and outputs have the names of the source's. Where ONNX cannot say it,
    `form` is None and `reason` says why. `check` runs both, and says whether they do the same.

    Raises ValueError for another library or opset, ModuleNotFoundError without onnx, and what reading the source raises.

    >>> rows = dg.openvino.gather.problem(((5, 4), "float32"), ((3,), "int64"), axis=0)  # an index out of range gives zeros
    >>> made = dg.translate(rows, "onnx")
    >>> print(made)
    to onnx, opset 13
      clamp to -5 … 4
      equal
      Gather-13 (axis 0)
      reshape to [3, 1]
      select, else 0.0
    >>> made.check.verdict
    'equal'
    >>> [node.op_type for node in made.form.graph.node]
    ['Clip', 'Equal', 'Gather', 'Reshape', 'Where']
    """
    if to != "onnx":
        raise ValueError(f"to is {to!r}, expected 'onnx'")
    try:
        import_module("onnx")
    except ImportError as error:
        raise missing_extra("an ONNX model", "onnx", error) from None
    chosen = _opset(DEFAULT_OPSET if opset is None else opset)
    read = read_program(source)
    graph, initial = read.graph, {**read.initial, **(initial or {})}
    try:
        stated = restated(graph, chosen)
        names = dict(zip(map(graph.label, graph.inputs), stated.inputs, strict=True))
        defaults = {names[name]: array for name, array in initial.items()}
        form = OnnxForm(stated, chosen).model(defaults, output_names(graph))
    except UntranslatableError as error:
        return Translation(graph, chosen, None, (), None, str(error))
    return Translation(graph, chosen, form, tuple(in_words(stated)), stated, initial=initial)


def _opset(value: Any) -> int:
    import onnx

    opset, known = whole("opset", value), onnx.defs.onnx_opset_version()
    if not 1 <= opset <= NEWEST_OPSET:
        raise ValueError(f"opset is {opset}, expected 1 … {NEWEST_OPSET}")
    if opset > known:
        raise ValueError(
            f"opset is {opset}, but onnx {onnx.__version__}, which is installed, knows opsets up to {known}: use one of these, "
            "or a newer onnx (pip install --upgrade onnx)"
        )
    return opset
