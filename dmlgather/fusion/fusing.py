"""The fusing pass: each problem of a graph reads what its maker reads, wherever one plan can say it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from math import prod
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dmlgather.calls import eager
from dmlgather.dialects.index_graph import Concatenation, Elementwise, IndexGraph, Step, Work
from dmlgather.dialects.planned import Planned
from dmlgather.dialects.problem import Problem, TensorType, index_type
from dmlgather.dialects.programs import read_program
from dmlgather.dialects.views import ReshapeView
from dmlgather.fusion.fused import Cut, Fused
from dmlgather.fusion.prepared_graph import computed, tidied
from dmlgather.plan import IndexPlan, IndexType, Lookup, OutOfBounds, packed_strides
from dmlgather.plan.compose import compose, compose_indices
from dmlgather.plan.walk import CompositionError
from dmlgather.wording import shortened

# Derivations: how one plan makes a value of others that exist, and which index tensors are views of others.


@dataclass(frozen=True, slots=True)
class Derivation:
    """How one plan makes a value. data, indices: the values that it reads. holds: the names of the steps that it does.

    Several index tensors lie one behind the other in one buffer; there are none where the plan looks nothing up.
    """

    data: str
    indices: tuple[str, ...]
    plan: IndexPlan
    holds: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class IndexView:
    """A value is what `plan` reads of `base`. holds: the names of the steps between.

    plan: over packed arrays, its elements of one byte, because their size plays no part here.
    """

    base: str
    plan: IndexPlan
    holds: tuple[str, ...] = ()


class IndexViews:
    """Index tensors of a graph as views of those that are made otherwise, as far as views can be followed backwards."""

    def __init__(self, graph: IndexGraph) -> None:
        self._types, self._found = graph.types, dict[str, IndexView]()

    def follow(self, step: Step, plan: IndexPlan) -> None:
        """Learn that a step is a view, with this plan over packed arrays."""
        source = self._of(step.inputs[0])
        with suppress(CompositionError):
            if source is not None:
                view = tidied(compose(replace(plan, element_bytes=1), source.plan))
                self._found[step.outputs[0]] = IndexView(source.base, view, (*source.holds, step.name))

    def looked_up(self, plan: IndexPlan, name: str) -> tuple[Derivation, CompositionError | None]:
        """The plan, which looks up a value, as one that looks up what the value is a view of; its data is left open. And what
        kept it from that. Unsigned indices that are all in range are not checked.
        """
        source, refusal, dtype = self._of(name), None, self._types[name].dtype
        assert source is not None, "indices are integers"
        if dtype.kind == "u" and plan.lookups and unchecked(plan, np.iinfo(dtype).max):
            plan = replace(plan, out_of_bounds=OutOfBounds.CLAMP, fill=b"")
        if plan.in_reach is not None or plan.out_of_bounds is OutOfBounds.RAISE:  # else no index matters, or it cannot run
            try:
                return Derivation("", (source.base,), compose_indices(plan, source.plan), source.holds), None
            except CompositionError as error:
                refusal = error
        return Derivation("", (name,), plan, ()), refusal

    def _of(self, name: str) -> IndexView | None:
        """A value as a view, of itself if it is none; None where it is no index."""
        tensor = self._types[name]
        if name not in self._found and tensor.dtype.name.upper() in IndexType.__members__:
            own = ReshapeView(TensorType(tensor.shape, np.dtype(np.int8)), tensor.shape).plan()
            self._found[name] = IndexView(name, tidied(own))
        return self._found.get(name)


def unchecked(plan: IndexPlan, largest: int) -> bool:
    """Whether every lookup finds all indices from 0 to the largest one."""
    return all(largest < lookup.limit for lookup in plan.lookups)


if TYPE_CHECKING:
    from dmlgather.directml import OperatorDesc

# Index tensors one behind the other in one buffer, because a plan looks up one.

Parts = tuple[str, ...]
"""The names of index tensors, in the order in which they lie in a buffer."""


class JoinedIndices:
    """Makes the values that hold several index tensors, and the steps that write them."""

    def __init__(self, types: dict[str, TensorType], constants: dict[str, NDArray[Any]], steps: Iterable[Step]) -> None:
        """types, constants: of the graph with these steps. What is made is added to them."""
        self._types, self._constants = types, constants
        self._taken = {step.name for step in steps}
        self._made: dict[Parts, tuple[str, list[Step]]] = {}

    def common_type(self, parts: Parts) -> np.dtype[Any] | None:
        """The smallest index type that holds the values of all; None where there is none: of int64 and uint64."""
        found = np.result_type(*(self._types[name].dtype for name in parts))
        return found if found.name.upper() in IndexType.__members__ else None

    def cost(self, parts: Parts) -> int:
        """Bytes that joining moves in each run: none for one part, and none where all are known."""
        kind = self.common_type(parts)
        if kind is None or len(parts) == 1 or self._known(parts):
            return 0
        return 2 * kind.itemsize * sum(map(self._size, parts))

    def read_by(self, plan: IndexPlan, own: Parts, parts: Parts) -> IndexPlan:
        """The plan, which looks up its `own` parts, as one that looks up all `parts`: its own are among them, in one piece."""
        if not plan.lookups:
            return plan
        kind = self.common_type(parts)
        assert kind is not None
        before = sum(map(self._size, parts[: parts.index(own[0])]))
        lookups = tuple(replace(lookup, index_offset=lookup.index_offset + before) for lookup in plan.lookups)
        return replace(plan, lookups=lookups, index_type=index_type(kind), index_extent=sum(map(self._size, parts)))

    def value(self, parts: Parts) -> tuple[str, list[Step]]:
        """The value that holds the parts, and the steps that make it; that there is already, if it is one part."""
        if len(parts) == 1:
            return parts[0], []
        if parts not in self._made:
            self._made[parts] = self._joined(parts)
            return self._made[parts]
        return self._made[parts][0], []

    def _joined(self, parts: Parts) -> tuple[str, list[Step]]:
        kind, name = self.common_type(parts), f"{' and '.join(parts)} joined"
        assert kind is not None
        if self._known(parts):
            name = self._named(name, TensorType((sum(map(self._size, parts)),), kind))
            self._constants[name] = np.concatenate([self._constants[part].reshape(-1).astype(kind) for part in parts])
            return name, []
        steps: list[Step] = []

        def added(what: str, work: Work, result: TensorType, *inputs: str) -> str:
            written = self._named(what, result)
            steps.append(Step(written, work, inputs, (written,)))
            return written

        flat = []
        for part in parts:
            value, given = part, self._types[part]
            tensor, row = TensorType(given.shape, kind), TensorType((prod(given.shape),), kind)
            if given.dtype != kind:
                value = added(f"{part} as {kind}", Elementwise("cast", kind), tensor, value)
            if given.shape != row.shape:
                value = added(f"{part} in one row", ReshapeView(tensor, row.shape), row, value)
            flat.append(value)
        return added(name, Concatenation(0), TensorType((sum(map(self._size, parts)),), kind), *flat), steps

    def _named(self, name: str, tensor: TensorType) -> str:
        """The name of a new value, and of the step that writes it; with a number behind it where it is taken."""
        free, number = name, 1
        while free in self._types or free in self._taken:
            number += 1
            free = f"{name} ({number})"
        self._types[free] = tensor
        return free

    def _size(self, name: str) -> int:
        return prod(self._types[name].shape)

    def _known(self, parts: Parts) -> bool:
        return all(name in self._constants for name in parts)


# Gathers whose indices are known: views where the indices walk evenly, without anything to check where they are in range.


def with_known_indices(plan: IndexPlan, indices: NDArray[Any]) -> IndexPlan:
    """The plan for these elements of its index tensor, shape [index_extent].

    Lookups whose positions walk evenly (up or down, alone or in groups) become steps through the input, and the policy becomes
    CLAMP. The plan is returned as it is where an index is out of bounds under FILL or RAISE.
    """
    if plan.in_reach is None:
        return plan
    found = [_positions(plan, lookup, indices) for lookup in plan.lookups]
    if plan.out_of_bounds in (OutOfBounds.FILL, OutOfBounds.RAISE):
        limits = [lookup.limit for lookup in plan.lookups]
        if any((each < 0).any() or (each >= limit).any() for each, limit in zip(found, limits, strict=True)):
            return plan
    plan = replace(plan, out_of_bounds=OutOfBounds.CLAMP, fill=b"")
    for number, lookup in reversed([*enumerate(plan.lookups)]):
        within = np.clip(_positions(plan, plan.lookups[number], indices), 0, lookup.limit - 1)
        plan = _walked(plan, number, within)  # which may split dimensions that other lookups move along
    return plan


def _positions(plan: IndexPlan, lookup: Lookup, indices: NDArray[Any]) -> NDArray[Any]:
    """What a lookup finds, wrapped but not clamped, for each coordinate; of size 1 along dimensions that do not move it."""
    addresses = np.array(lookup.index_offset)
    sizes = [size if step else 1 for size, step in zip(plan.shape, lookup.index_strides, strict=True)]
    for axis, (size, step) in enumerate(zip(sizes, lookup.index_strides, strict=True)):
        shape = [1] * len(sizes)
        shape[axis] = size
        addresses = addresses + step * np.arange(size).reshape(shape)
    values = indices[addresses].astype(object if indices.dtype == np.uint64 else np.int64)
    return np.asarray(values + np.where(values < 0, lookup.wrap, 0))


def _walked(plan: IndexPlan, number: int, positions: NDArray[Any]) -> IndexPlan:
    """The plan with a lookup as steps through the input, if its positions walk evenly. positions: as of `_positions`."""
    first = positions.flat[0]
    steps, total = list[list[tuple[int, int]]](), np.array(first)
    for axis, size in enumerate(plan.shape):
        along = np.moveaxis(positions, axis, 0).reshape(positions.shape[axis], -1)[:, 0] - first
        parts = [(size, 0)] if along.size == 1 else _even_steps(along)
        if parts is None:
            return plan
        total = total + along.reshape([-1 if axis == other else 1 for other in range(plan.rank)])
        steps.append(parts)
    if (total != positions).any():
        return plan
    lookup = plan.lookups[number]
    others = plan.lookups[:number] + plan.lookups[number + 1 :]
    dims = [(size, beyond, axis, step) for axis, parts in enumerate(steps) for size, beyond, step in _nested(parts)]
    return replace(
        plan,
        shape=tuple(size for size, _, _, _ in dims),
        out_strides=tuple(plan.out_strides[axis] * beyond for _, beyond, axis, _ in dims),
        in_strides=tuple(plan.in_strides[axis] * beyond + step * lookup.in_stride for _, beyond, axis, step in dims),
        in_offset=plan.in_offset + int(first) * lookup.in_stride,
        lookups=tuple(
            replace(each, index_strides=tuple(each.index_strides[axis] * beyond for _, beyond, axis, _ in dims))
            for each in others
        ),
        index_type=plan.index_type if others else None,
        index_extent=plan.index_extent if others else 0,
    )


def _even_steps(positions: NDArray[Any]) -> list[tuple[int, int]] | None:
    """Positions, of which the first is 0, as nested loops: sizes and steps, outermost first. None where there are none."""
    step = positions[1]
    line = step * np.arange(positions.size)
    breaks = np.flatnonzero(positions != line)
    if not breaks.size:
        return [(positions.size, int(step))]
    inside = int(breaks[0])
    groups = positions[::inside]
    if positions.size % inside or (positions.reshape(-1, inside) != groups[:, None] + line[:inside]).any():
        return None
    outer = _even_steps(groups)
    return None if outer is None else [*outer, (inside, int(step))]


def _nested(parts: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int, int]]:
    """For each of several nested loops over a dimension: size, elements of the dimension that one turn passes, and step."""
    sizes = [size for size, _ in parts]
    for (size, step), beyond in zip(parts, packed_strides(sizes), strict=True):
        yield size, beyond, step


MOST_KNOWN = 2**20
"""A result of up to so many elements is computed while fusing, where everything that it is made of is known."""


def fuse(
    what: Problem | OperatorDesc | Iterable[Problem] | Iterable[OperatorDesc] | str | PathLike[str] | IndexGraph,
    *,
    keep: str | Collection[str] = (),
    join: bool = True,
) -> Fused:
    """A chain in as few launches as plans can say: the same bits, and under RAISE errors for the same indices.

    what: problems, each of which reads as data what the one before it writes, or one; descriptors, of which each further one's
    InputTensor is the output of the one before, or one; the path of a DxDispatch model or a descriptor (.json), or of descriptors
    on lines, side by side (.jsonl, .ndjson). keep: the names of values that are to exist besides the outputs, or one name. Steps
    that neither needs are dropped, but for those that can raise (`IndexGraph.needed`), and what follows from constants alone is
    computed now. join: whether two index tensors may be copied into one buffer where that moves fewer bytes, which adds steps.

    TypeError for anything else, and for what is no name; FileError for a file that cannot be used; DescriptorError for a
    descriptor that feature level 6_4 does not take; ValueError for a name that is no value, and for steps that do not fit one
    another.

    >>> from dmlgather.dialects.problem import TensorType
    >>> from dmlgather.dialects.views import ReshapeView, TransposeView
    >>> image, rows = TensorType((2, 3, 4), np.dtype("float32")), TensorType((4, 2, 3), np.dtype("float32"))
    >>> fused = dg.fuse([TransposeView(image, (2, 0, 1)), ReshapeView(rows, (4, 6))])
    >>> fused(np.arange(24, dtype=np.float32).reshape(2, 3, 4))[0]
    array([ 0.,  4.,  8., 12., 16., 20.], dtype=float32)
    >>> len(fused.launches)
    1
    """
    graph = read_program(what, "what").graph
    keep = _names(keep, graph)
    kept = tuple(name for name in keep if name not in graph.outputs)
    source = replace(graph, outputs=(*graph.outputs, *kept)).needed()
    fusing = _Fusing(source, kept, join)
    steps = tuple(found for step in source.steps for found in fusing.fused(step))
    fused = replace(source, steps=steps, types=fusing.types, constants=fusing.constants).needed()
    done = {step.name for step in fused.steps}
    done.update(name for step in fused.steps if isinstance(step.work, Problem) for name in step.work.holds)
    return Fused(fused, source, tuple(cut for cut in fusing.cuts if cut.reader in done), kept)


def _names(given: object, graph: IndexGraph) -> list[str]:
    """Names of values of a graph, each once. TypeError for anything else, ValueError for another name."""
    names = [given] if isinstance(given, str) else list(given) if isinstance(given, Iterable) else None
    if names is None or not all(isinstance(name, str) for name in names):
        raise TypeError(f"keep is {shortened(repr(given))}, expected the name of a value, or a list of names")
    for name in names:
        if name not in graph.types:
            known = shortened(", ".join(map(repr, graph.types)))
            raise ValueError(f"keep names {name!r}, which is no value of the graph: its values are {known}")
    return list(dict.fromkeys(names))


class _Fusing:
    """One pass over a graph, in the order of its steps."""

    def __init__(self, graph: IndexGraph, kept: Collection[str], join: bool) -> None:
        self._graph, self._kept, self._join, self._makers = graph, kept, join, graph.makers
        self.constants, self.types = dict(graph.constants), dict(graph.types)
        self.cuts: list[Cut] = []
        self._derivations: dict[str, Derivation] = {}
        self._indices = IndexViews(graph)
        self._joined = JoinedIndices(self.types, self.constants, graph.steps)
        self._positions = {step.name: number for number, step in enumerate(graph.steps)}
        self._readers: dict[str, list[Step]] = {}
        for step in graph.steps:
            for name in dict.fromkeys(step.inputs):
                self._readers.setdefault(name, []).append(step)

    def fused(self, step: Step) -> list[Step]:
        """The step, or steps that do the same and read values that are made earlier; none where its result is known now."""
        if all(name in self.constants for name in step.inputs):
            output = step.outputs[0]
            known = _computed(step, [self.constants[name] for name in step.inputs], self.types[output])
            if known is not None:
                self.constants[output] = known
                return []
        return self._fused_problem(step, step.work) if isinstance(step.work, Problem) else [step]

    def _fused_problem(self, step: Step, problem: Problem) -> list[Step]:
        own = self._with_index_maker(step, problem)
        if not own.indices:
            self._indices.follow(step, own.plan)
        found = self._with_data_maker(own, step)
        self._derivations[step.outputs[0]] = found
        reads, joining = [found.data], list[Step]()
        if found.indices:
            joined, joining = self._joined.value(found.indices)
            reads.append(joined)
        if tuple(reads) == step.inputs:
            return [step]
        data, *indices = (self.types[name] for name in reads)
        work = Planned(data, indices[0] if indices else None, problem.output, found.plan, found.holds)
        return [*joining, Step(step.name, work, tuple(reads), step.outputs)]

    def _with_index_maker(self, step: Step, problem: Problem) -> Derivation:
        """What a step does on its own data, with indices from where their makers have them."""
        data, *indices = step.inputs
        own, refusal = Derivation(data, tuple(indices), problem.plan(), ()), None
        for name in indices:
            if name in self.constants:
                own = replace(own, plan=with_known_indices(own.plan, self.constants[name].reshape(-1)))
            else:
                found, refusal = self._indices.looked_up(own.plan, name)
                own = replace(found, data=data)
        plan = tidied(own.plan)
        own = Derivation(data, own.indices if plan.lookups else (), plan, self._in_order((*own.holds, step.name)))
        self._explain_indices(own, step, refusal)
        return own

    def _explain_indices(self, own: Derivation, reader: Step, refusal: CompositionError | None) -> None:
        """A cut between a step and the maker of its indices, where that is a gather or a view."""
        maker = self._makers.get(own.indices[0]) if own.indices else None
        if maker is None or own.indices[0] in self.constants or not isinstance(maker.work, Problem):
            return
        if refusal is not None:
            self._cut(maker, reader, refusal.code, str(refusal))
        else:
            reason = "its indices are looked up themselves, and a plan looks up one index tensor"
            self._cut(maker, reader, "index of an index", reason)

    def _with_data_maker(self, own: Derivation, step: Step) -> Derivation:
        """`own`, which a step does, reading its data from where the data's maker reads it."""
        maker = self._derivations.get(own.data)
        if maker is None:
            return own
        cut = self._needed_anyway(own.data, maker, step)
        if cut is None:
            try:
                return self._composed(own, maker)
            except CompositionError as error:
                cut = error.code, str(error)
        self._cut(self._makers[own.data], step, *cut)
        return own

    def _composed(self, own: Derivation, maker: Derivation) -> Derivation:
        """Both in one plan. CompositionError where there is none, and where joining their indices would not be worth it."""
        parts = maker.indices if {*own.indices} <= {*maker.indices} else (*maker.indices, *own.indices)
        kind = self._joined.common_type(parts) if parts else None
        if len(parts) > 1:
            self._check_worth(parts, kind, self.types[own.data])
        outer, inner = (self._joined.read_by(each.plan, each.indices, parts) for each in (own, maker))
        plan = tidied(compose(outer, inner, same_indices=True))
        if kind is not None and plan.lookups:  # a plan that only fills has lost the type
            plan = replace(plan, index_type=index_type(kind))
        return Derivation(maker.data, parts if plan.lookups else (), plan, self._in_order((*maker.holds, *own.holds)))

    def _check_worth(self, parts: Parts, kind: np.dtype[Any] | None, between: TensorType) -> None:
        """CompositionError unless joining index tensors moves fewer bytes than a value in between."""
        saved, cost = 2 * prod(between.shape) * between.dtype.itemsize, self._joined.cost(parts)
        if not self._join:
            why = "and they are not to be joined"
        elif kind is None:
            why = "and no integer type holds the values of both"
        elif cost > saved:
            why = f"and joining them would move {cost} bytes, to save {saved}"
        else:
            return
        shown = " and ".join(repr(self._graph.label(name)) for name in parts)
        raise CompositionError(f"the steps look up {shown}; a plan looks up one index tensor, {why}", "two index tensors")

    def _needed_anyway(self, name: str, maker: Derivation, reader: Step) -> tuple[str, str] | None:
        """Why a value has to exist, whatever this reader does: a code, and the reason in words. None where it need not."""
        label = self._graph.label(name)
        if name in self._kept:
            return "kept", f"{label!r} is to be kept"
        if name in self._graph.outputs:
            return "output", f"{label!r} is an output of the graph"
        if name in reader.inputs[1:]:
            return "another consumer", f"{label!r} is its data and its indices"
        others = [each for each in self._readers[name] if each is not reader]
        if not maker.plan.lookups:  # a view costs nothing where it is read, however often
            others = [each for each in others if not isinstance(each.work, Problem)]
        if others:
            return "another consumer", f"{label!r} is read by {others[0].name} as well"
        return None

    def _in_order(self, steps: Collection[str]) -> tuple[str, ...]:
        return tuple(sorted(set(steps), key=self._positions.__getitem__))

    def _cut(self, maker: Step, reader: Step, code: str, reason: str) -> None:
        self.cuts.append(Cut(maker.name, reader.name, code, reason))


def _computed(step: Step, inputs: Sequence[NDArray[Any]], result: TensorType) -> NDArray[Any] | None:
    """The result of a step on known arrays; None where it is large, or where the step would raise, which it has to do later."""
    work = step.work
    if prod(result.shape) > MOST_KNOWN:
        return None
    try:
        if isinstance(work, Problem):
            return np.asarray(eager.execute(work, inputs, device="cpu"), order="C")
        return np.asarray(computed(work, inputs))
    except (IndexError, TypeError, ValueError):
        return None
