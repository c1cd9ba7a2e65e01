"""`translate`: convert a problem, descriptors or a DxDispatch model to an ONNX model."""

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
from dmlgather.translation.onnx_form import OnnxForm, clamps, has_scalar
from dmlgather.translation.onnx_operators import UntranslatableError
from dmlgather.translation.restating import to_onnx_operators

_VIEW_TEXTS: dict[type[Problem], Callable[[Any], str]] = {
    ReshapeView: lambda view: f"reshape to {list(view.shape)}",
    TransposeView: lambda view: f"transpose to the dimensions {list(view.order)}",
    ExpandView: lambda view: f"expand to {list(view.shape)}",
}

_SHOWN_ATTRIBUTES = ("axis", "batch_dims", "blocksize", "mode")


def step_texts(graph: IndexGraph) -> Iterator[str]:
    """Yield each step in words, such as "Gather-13 (axis 1)". A pair of clamping steps is one text."""
    maxima = clamps(graph)
    for step in graph.steps:
        maximum = maxima.get(step.outputs[0])
        if maximum is not None:
            yield f"clamp to {_constant_text(graph, maximum.inputs[1])} … {_constant_text(graph, step.inputs[1])}"
        elif step not in maxima.values():
            yield _step_text(graph, step)


def _step_text(graph: IndexGraph, step: Step) -> str:
    work = step.work
    match work:
        case Problem():
            view_text = _VIEW_TEXTS.get(type(work))
            return _operator_text(work) + _attributes_text(work) if view_text is None else view_text(work)
        case Elementwise():
            if work.operator == "cast":
                return f"convert to {work.dtype}"
            if has_scalar(graph, step, "minimum", "maximum"):
                bound = "most" if work.operator == "minimum" else "least"
                return f"clamp to at {bound} {_constant_text(graph, step.inputs[1])}"
            if work.operator == "where" and step.inputs[2] in graph.constants:
                return f"select, else {_constant_text(graph, step.inputs[2])}"
            numbers = [_constant_text(graph, name) for name in step.inputs if name in graph.constants]
            return f"{work.operator} with {' and '.join(numbers)}" if numbers else work.operator
        case Concatenation():
            return f"concatenate along axis {work.axis}"
        case Bitcast():
            return f"read as {graph.types[step.outputs[0]].dtype}"


def _operator_text(problem: Problem) -> str:
    """Return the operator's name and version, such as "Gather-13"."""
    version = getattr(problem, "version", None)
    return problem.name if version is None else str(version) if not isinstance(version, int) else str(problem)


def _attributes_text(problem: Problem) -> str:
    if isinstance(problem, WindowProblem):
        return f" [{', '.join(map(_window_text, problem.windows, problem.data.shape))}]"
    attributes = [f"{name} {getattr(problem, name)}" for name in _SHOWN_ATTRIBUTES if hasattr(problem, name)]
    return f" ({', '.join(attributes)})" if attributes else ""


def _window_text(window: Window, size: int) -> str:
    """Return a window in NumPy's syntax, such as "0:25:6"."""
    if window == Window.whole(size):
        return ":"
    end = window.start + (window.count - 1) * window.step + (1 if window.step > 0 else -1) if window.count else window.start
    return f"{window.start}:{end if end >= 0 else ''}" + (f":{window.step}" if window.step != 1 else "")


def _constant_text(graph: IndexGraph, name: str) -> str:
    array = graph.constants[name]
    return str(array.item() if array.size == 1 else array.tolist()) if array.size <= 8 else f"{array.size} numbers"


DEFAULT_OPSET = 13
"""The default opset of a translation."""

Initial = Mapping[str, NDArray[Any]]
"""Initial values of inputs, by input name."""


@dataclass(frozen=True)
class Translation:
    """The result of `translate`.

    `source`: the program that was translated, as a graph.
    `opset`: the version of ONNX's operators in the model.
    `form`: the model as an onnx.ModelProto, or None if ONNX has no equivalent.
    `steps`: the model's operators in words, in order.
    `graph`: the model as a graph of ONNX operator calls, or None if ONNX has no equivalent.
    `reason`: the reason why `form` is None; empty if there is a model.
    `initial`: the initial values of inputs of the source, by name. The model stores them as initializers.
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
        """Return the result of a differential check of the model against the source, or None if there is no model.

        The first access runs the check. The source runs in the reference backend, the model in onnx's reference evaluator and,
        if installed, in onnxruntime.
        """
        if self.form is None:
            return None
        return check_agreement(self.source, self.form, initial=self.initial)

    @property
    def to(self) -> str:
        """Target library and version, such as "onnx, opset 13"."""
        return f"onnx, opset {self.opset}"

    @property
    def ok(self) -> bool:
        """True if there is a model and the verdict of `check` is "equal"."""
        return bool(self.check)

    def __str__(self) -> str:
        return "\n".join([f"to {self.to}", *(f"  {line}" for line in self.steps or [self.reason or "nothing is to be done"])])

    def write(self, path: Path, made_from: Iterable[Path] = ()) -> None:
        """Write the model to a file. `made_from`: the files of the source, which must not be overwritten.

        Raise FileError if the file cannot be written, would exceed 2 GiB, or would replace one of `made_from`.
        """
        from dmlgather.onnx_checking.reading.file import LARGEST_FILE

        size = self.form.ByteSize()
        if size > LARGEST_FILE:
            raise FileError(f"{path} would have {size} bytes, and a protobuf message at most {LARGEST_FILE}: split the model")
        with writing(path, made_from) as file:
            file.write(self.form.SerializeToString())


def translate(source: Any, to: str = "onnx", /, *, opset: int | None = None, initial: Initial | None = None) -> Translation:
    """Translate a problem, descriptors or a DxDispatch model to an ONNX model.

    `source` is one of these:

    - a problem such as `dg.onnx.gather.problem(…)`, or a sequence of problems. Each reads the output of the previous one.
    - a descriptor, or a sequence of descriptors to run in order.
    - the path of a DxDispatch model, of a descriptor, or of a file with one descriptor per line.

    `to`: "onnx", the only target.
    `opset`: the version of ONNX's operators. Default: 13.
    `initial`: initial values of inputs, by input name. They become initializers, like the initial values in a DxDispatch model.

    The result's `form` is an onnx.ModelProto. Its inputs and outputs have the same names as in the source. If ONNX has no
    equivalent, `form` is None and `reason` says why. `check` runs the source and the model on the same inputs and compares the
    outputs.

    Raises ValueError for another target or an unknown opset; ModuleNotFoundError if onnx is not installed; FileError, TypeError
    or ValueError for a source that cannot be read.

    >>> rows = dg.openvino.gather.problem(((5, 4), "float32"), ((3,), "int64"), axis=0)  # an index out of range gives zeros
    >>> translation = dg.translate(rows, "onnx")
    >>> print(translation)
    to onnx, opset 13
      clamp to -5 … 4
      equal
      Gather-13 (axis 0)
      reshape to [3, 1]
      select, else 0.0
    >>> translation.check.verdict
    'equal'
    >>> [node.op_type for node in translation.form.graph.node]
    ['Clip', 'Equal', 'Gather', 'Reshape', 'Where']
    """
    if to != "onnx":
        raise ValueError(f"to is {to!r}, expected 'onnx'")
    try:
        import_module("onnx")
    except ImportError as error:
        raise missing_extra("an ONNX model", "onnx", error) from None
    checked_opset = _checked_opset(DEFAULT_OPSET if opset is None else opset)
    program = read_program(source)
    graph, initial = program.graph, {**program.initial, **(initial or {})}
    try:
        translated = to_onnx_operators(graph, checked_opset)
        names = dict(zip(map(graph.label, graph.inputs), translated.inputs, strict=True))
        defaults = {names[name]: array for name, array in initial.items()}
        form = OnnxForm(translated, checked_opset).model(defaults, output_names(graph))
    except UntranslatableError as error:
        return Translation(graph, checked_opset, None, (), None, str(error))
    return Translation(graph, checked_opset, form, tuple(step_texts(translated)), translated, initial=initial)


def _checked_opset(value: Any) -> int:
    import onnx

    opset, newest = whole("opset", value), onnx.defs.onnx_opset_version()
    if not 1 <= opset <= NEWEST_OPSET:
        raise ValueError(f"opset is {opset}, expected 1 … {NEWEST_OPSET}")
    if opset > newest:
        raise ValueError(
            f"opset is {opset}, but onnx {onnx.__version__}, which is installed, knows opsets up to {newest}: use one of these, "
            "or a newer onnx (pip install --upgrade onnx)"
        )
    return opset
