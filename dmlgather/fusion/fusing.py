"""The fusing pass: each problem of a graph reads what its maker reads, wherever one plan can say it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from dmlgather.dialects.index_graph import IndexGraph, Step, chain
from dmlgather.dialects.lowering import index_type
from dmlgather.dialects.planned import Planned
from dmlgather.dialects.problem import Problem
from dmlgather.fusion.fused import Cut, Fused
from dmlgather.plan import CompositionError, IndexPlan, compose, simplify


def fuse(graph: IndexGraph | Problem | Sequence[Problem], *, keep: Collection[str] = ()) -> Fused:
    """The graph with as few launches as can be proven to do the same: bit for bit, and under RAISE for the same indices.

    graph: a chain of problems, each of which reads as data what the one before it writes, is a graph as well. keep: the names of
    values that are to exist besides the outputs. Steps that neither needs are dropped. ValueError for a name that is no value,
    and as `chain`.

    >>> from dmlgather.dialects.problem import TensorType
    >>> from dmlgather.dialects.views import ReshapeView, TransposeView
    >>> image, rows = TensorType((2, 3, 4), np.dtype("float32")), TensorType((4, 2, 3), np.dtype("float32"))
    >>> fused = dg.fuse([TransposeView(image, (2, 0, 1)), ReshapeView(rows, (4, 6))])
    >>> fused(np.arange(24, dtype=np.float32).reshape(2, 3, 4))[0]
    array([ 0.,  4.,  8., 12., 16., 20.], dtype=float32)
    >>> len(fused.launches)
    1
    """
    if not isinstance(graph, IndexGraph):
        graph = chain([graph] if isinstance(graph, Problem) else list(graph))
    for name in keep:
        if name not in graph.types:
            raise ValueError(f"keep names {name!r}, which is no value of the graph")
    source = replace(graph, outputs=(*graph.outputs, *(name for name in keep if name not in graph.outputs))).needed()
    fusing = _Fusing(source)
    steps = [fusing.fused(step) for step in source.steps]
    fused = replace(source, steps=tuple(steps)).needed()
    outputs = len(graph.outputs)
    return Fused(fused, source, tuple(fusing.cuts), outputs)


@dataclass(frozen=True, slots=True)
class Derivation:
    """How one plan makes a value of others that exist. data, indices: names of values; indices is None without lookups. holds:
    the names of the steps that it does.
    """

    data: str
    indices: str | None
    plan: IndexPlan
    holds: tuple[str, ...]


class _Fusing:
    """One pass over a graph, in the order of its steps."""

    def __init__(self, graph: IndexGraph) -> None:
        self._graph = graph
        self._derivations: dict[str, Derivation] = {}
        self._readers: dict[str, list[Step]] = {}
        for step in graph.steps:
            for name in dict.fromkeys(step.inputs):
                self._readers.setdefault(name, []).append(step)
        self.cuts: list[Cut] = []

    def fused(self, step: Step) -> Step:
        """The step, or one that does the same and reads values that are made earlier."""
        problem = step.work
        if not isinstance(problem, Problem):
            return step
        plan = _tidied(problem.plan())
        own = Derivation(step.inputs[0], step.inputs[1] if plan.lookups else None, plan, (step.name,))
        found = self._with_maker(own, step)
        self._derivations[step.outputs[0]] = found
        reads = (found.data,) if found.indices is None else (found.data, found.indices)
        if reads == step.inputs:
            return step
        data, *indices = (self._graph.types[name] for name in reads)
        work = Planned(data, indices[0] if indices else None, problem.output, found.plan, found.holds)
        return Step(step.name, work, reads, step.outputs)

    def _with_maker(self, own: Derivation, step: Step) -> Derivation:
        """`own`, which a step does, reading its data from where the data's maker reads it."""
        maker = self._derivations.get(own.data)
        if maker is None:
            return own
        cut = self._needed_anyway(own.data, maker)
        if cut is None:
            try:
                plan = compose(own.plan, maker.plan, same_indices=own.indices == maker.indices)
            except CompositionError as error:
                cut = error.code, str(error)
            else:
                indices = (own.indices or maker.indices) if plan.lookups else None
                if indices is not None:  # a plan that only fills looks nothing up, and has lost the type
                    plan = replace(plan, index_type=index_type(self._graph.types[indices].dtype))
                return Derivation(maker.data, indices, _tidied(plan), (*maker.holds, *own.holds))
        self.cuts.append(Cut(self._graph.makers[own.data].name, step.name, *cut))
        return own

    def _needed_anyway(self, name: str, maker: Derivation) -> tuple[str, str] | None:
        """Why a value has to exist, whatever reads it: a code, and the reason in words. None where it need not."""
        if name in self._graph.outputs:
            return "output", f"{self._graph.label(name)!r} is an output of the graph, or is kept"
        others = [step.name for step in self._readers[name] if not isinstance(step.work, Problem) or name in step.inputs[1:]]
        if not others and maker.plan.lookups:
            others = [step.name for step in self._readers[name][1:]]
        if others:
            return "another consumer", f"{self._graph.label(name)!r} is read by {others[0]} as well"
        return None


def _tidied(plan: IndexPlan) -> IndexPlan:
    """The canonical form at the plan's own element size; plans that read nothing stay as they are."""
    return plan if plan.in_reach is None else simplify(plan)
