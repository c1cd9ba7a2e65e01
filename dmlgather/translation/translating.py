"""`translate`: a problem, or a whole program, in the operators of another library."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from typing import Any

from dmlgather.dialects.graph_building import GraphBuilder
from dmlgather.dialects.index_graph import IndexGraph
from dmlgather.dialects.problem import Problem
from dmlgather.directml import FeatureLevel
from dmlgather.equivalence import Equivalence
from dmlgather.extras import MissingExtraError
from dmlgather.graph_sources import check_all_read, read_program
from dmlgather.translation.libraries import TARGETS, TargetRow
from dmlgather.translation.proofs import prove
from dmlgather.translation.restating import output_names, restated_if_possible
from dmlgather.translation.step_words import in_words
from dmlgather.translation.targets import UntranslatableError
from dmlgather.wording import alternatives


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
