"""Fusing: one walk over a graph that merges two consecutive steps into one, wherever one plan can execute both."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
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

if TYPE_CHECKING:
    from dmlgather.directml import OperatorDesc


@dataclass(frozen=True, slots=True)
class Derivation:
    """A plan that computes a value of the graph directly from earlier values.

    `data`: the name of the value that the plan reads as data. `indices`: the names of the index tensors; the plan reads a
    concatenation of them.
    `holds`: the names of the original steps that the plan executes.
    """

    data: str
    indices: tuple[str, ...]
    plan: IndexPlan
    holds: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class IndexView:
    """An index tensor that rearranges elements of another value, `base`. A plan can read these indices from `base` instead.

    `plan`: the plan that copies `base` to the index tensor. It has elements of one byte in place of the real size.
    `holds`: the names of the original steps between `base` and the index tensor.
    """

    base: str
    plan: IndexPlan
    holds: tuple[str, ...] = ()


class IndexViews:
    """The index tensors of a graph that only rearrange another value, so that plans can read the other value instead."""

    def __init__(self, graph: IndexGraph) -> None:
        self._types, self._views = graph.types, dict[str, IndexView]()

    def add(self, step: Step, plan: IndexPlan) -> None:
        """If `step` only rearranges integers, record the output as an `IndexView`. `plan`: its plan, without lookups."""
        source = self._view(step.inputs[0])
        with suppress(CompositionError):
            if source is not None:
                view = tidied(compose(replace(plan, element_bytes=1), source.plan))
                self._views[step.outputs[0]] = IndexView(source.base, view, (*source.holds, step.name))

    def looked_up(self, plan: IndexPlan, name: str) -> tuple[Derivation, CompositionError | None]:
        """Change `plan` so that it reads indices not from `name`, but from the value that `name` rearranges.

        If that is impossible, the Derivation reads `name`, and the second result is the reason. If the index type is
        unsigned and all its values are in range, the policy becomes CLAMP, which needs no check.
        """
        source, refusal, dtype = self._view(name), None, self._types[name].dtype
        assert source is not None, "indices are integers"
        if dtype.kind == "u" and plan.lookups and all_in_range(plan, np.iinfo(dtype).max):
            plan = replace(plan, out_of_bounds=OutOfBounds.CLAMP, fill=b"")
        # A plan that reads no data needs its indices only under RAISE, which checks them.
        if plan.in_reach is not None or plan.out_of_bounds is OutOfBounds.RAISE:
            try:
                return Derivation("", (source.base,), compose_indices(plan, source.plan), source.holds), None
            except CompositionError as error:
                refusal = error
        return Derivation("", (name,), plan, ()), refusal

    def _view(self, name: str) -> IndexView | None:
        """Return an integer value as an `IndexView`, whose base may be the value itself. Return None for any other value."""
        tensor = self._types[name]
        if name not in self._views and tensor.dtype.name.upper() in IndexType.__members__:
            identity = ReshapeView(TensorType(tensor.shape, np.dtype(np.int8)), tensor.shape).plan()
            self._views[name] = IndexView(name, tidied(identity))
        return self._views.get(name)


def all_in_range(plan: IndexPlan, largest: int) -> bool:
    """Return True if all indices from 0 to `largest` are in range for every lookup of the plan."""
    return all(largest < lookup.limit for lookup in plan.lookups)


Parts = tuple[str, ...]
"""Names of index tensors, in the order of their concatenation."""


class JoinedIndices:
    """Concatenations of index tensors.

    A plan has only one index tensor. So a plan that executes two gathers reads a concatenation of the indices of both.
    """

    def __init__(self, types: dict[str, TensorType], constants: dict[str, NDArray[Any]], steps: Iterable[Step]) -> None:
        """Join index tensors of a graph. New values are added to `types` and `constants`."""
        self._types, self._constants = types, constants
        self._step_names = {step.name for step in steps}
        self._values: dict[Parts, str] = {}

    def common_type(self, parts: Parts) -> np.dtype[Any] | None:
        """Return the smallest type that holds the values of all these index tensors, or None if there is none."""
        dtype = np.result_type(*(self._types[name].dtype for name in parts))
        return dtype if dtype.name.upper() in IndexType.__members__ else None

    def cost(self, parts: Parts) -> int:
        """Return the bytes that concatenating these index tensors moves each time the graph runs."""
        dtype = self.common_type(parts)
        if dtype is None or len(parts) == 1 or self._constant(parts):
            return 0
        return 2 * dtype.itemsize * sum(map(self._size, parts))

    def read_by(self, plan: IndexPlan, own: Parts, parts: Parts) -> IndexPlan:
        """Return `plan`, changed to read its indices from the concatenation of the tensors `parts`.

        `own`: the index tensors that the plan reads so far. They must follow one another in `parts`.
        """
        if not plan.lookups:
            return plan
        dtype = self.common_type(parts)
        assert dtype is not None
        before = sum(map(self._size, parts[: parts.index(own[0])]))
        lookups = tuple(replace(lookup, index_offset=lookup.index_offset + before) for lookup in plan.lookups)
        return replace(plan, lookups=lookups, index_type=index_type(dtype), index_extent=sum(map(self._size, parts)))

    def value(self, parts: Parts) -> tuple[str, list[Step]]:
        """Return the name of the concatenation of these index tensors, and the steps that compute it.

        Only the first call for the same tensors returns steps.
        """
        if len(parts) == 1:
            return parts[0], []
        if parts in self._values:
            return self._values[parts], []
        self._values[parts], steps = self._joined(parts)
        return self._values[parts], steps

    def _joined(self, parts: Parts) -> tuple[str, list[Step]]:
        dtype, name = self.common_type(parts), f"{' and '.join(parts)} joined"
        assert dtype is not None
        if self._constant(parts):
            name = self._new_value(name, TensorType((sum(map(self._size, parts)),), dtype))
            self._constants[name] = np.concatenate([self._constants[part].reshape(-1).astype(dtype) for part in parts])
            return name, []
        steps: list[Step] = []

        def add_step(what: str, work: Work, result: TensorType, *inputs: str) -> str:
            output = self._new_value(what, result)
            steps.append(Step(output, work, inputs, (output,)))
            return output

        flat = []
        for part in parts:
            value, part_type = part, self._types[part]
            tensor, row = TensorType(part_type.shape, dtype), TensorType((prod(part_type.shape),), dtype)
            if part_type.dtype != dtype:
                value = add_step(f"{part} as {dtype}", Elementwise("cast", dtype), tensor, value)
            if part_type.shape != row.shape:
                value = add_step(f"{part} in one row", ReshapeView(tensor, row.shape), row, value)
            flat.append(value)
        return add_step(name, Concatenation(0), TensorType((sum(map(self._size, parts)),), dtype), *flat), steps

    def _new_value(self, name: str, tensor: TensorType) -> str:
        free, number = name, 1
        while free in self._types or free in self._step_names:
            number += 1
            free = f"{name} ({number})"
        self._types[free] = tensor
        return free

    def _size(self, name: str) -> int:
        return prod(self._types[name].shape)

    def _constant(self, parts: Parts) -> bool:
        return all(name in self._constants for name in parts)


def with_known_indices(plan: IndexPlan, indices: NDArray[Any]) -> IndexPlan:
    """Return an equal plan for these constant indices, in which strides replace lookups where possible.

    Strides replace a lookup if its positions are affine in the coordinates: [8, 6, 4] has stride -2, and [0, 1, 5, 6] has
    strides (5, 1). If an index is out of range under FILL or RAISE, the plan does not change.
    """
    if plan.in_reach is None:
        return plan
    lookup_positions = [_positions(plan, lookup, indices) for lookup in plan.lookups]
    if plan.out_of_bounds in (OutOfBounds.FILL, OutOfBounds.RAISE):
        for positions, lookup in zip(lookup_positions, plan.lookups, strict=True):
            if (positions < 0).any() or (positions >= lookup.limit).any():
                return plan
    plan = replace(plan, out_of_bounds=OutOfBounds.CLAMP, fill=b"")
    for number, lookup in reversed([*enumerate(plan.lookups)]):
        # Compute the positions again, because replacing the previous lookup may have split dimensions.
        clamped = np.clip(_positions(plan, plan.lookups[number], indices), 0, lookup.limit - 1)
        plan = _strided(plan, number, clamped)
    return plan


def _positions(plan: IndexPlan, lookup: Lookup, indices: NDArray[Any]) -> NDArray[Any]:
    """Return the positions along the axis that a lookup selects, after `wrap` is added to negative indices.

    The result has size 1 along dimensions where the index does not change.
    """
    addresses = np.array(lookup.index_offset)
    sizes = [size if stride else 1 for size, stride in zip(plan.shape, lookup.index_strides, strict=True)]
    for axis, (size, stride) in enumerate(zip(sizes, lookup.index_strides, strict=True)):
        shape = [1] * len(sizes)
        shape[axis] = size
        addresses = addresses + stride * np.arange(size).reshape(shape)
    values = indices[addresses].astype(object if indices.dtype == np.uint64 else np.int64)
    return np.asarray(values + np.where(values < 0, lookup.wrap, 0))


def _strided(plan: IndexPlan, number: int, positions: NDArray[Any]) -> IndexPlan:
    """Return the plan with strides instead of lookup `number`, or the same plan if this is impossible.

    `positions`: the positions that the lookup selects. Strides can replace them if they are affine in the coordinates.
    """
    first = positions.flat[0]
    axis_loops, total = list[list[tuple[int, int]]](), np.array(first)
    for axis, size in enumerate(plan.shape):
        along = np.moveaxis(positions, axis, 0).reshape(positions.shape[axis], -1)[:, 0] - first
        loops = [(size, 0)] if along.size == 1 else _affine_loops(along)
        if loops is None:
            return plan
        total = total + along.reshape([-1 if axis == other else 1 for other in range(plan.rank)])
        axis_loops.append(loops)
    if (total != positions).any():
        return plan
    lookup = plan.lookups[number]
    others = plan.lookups[:number] + plan.lookups[number + 1 :]
    # One entry per loop. `span`: how far one iteration moves along the old dimension `axis`, in elements.
    dims = [
        (size, span, axis, step)
        for axis, loops in enumerate(axis_loops)
        for (size, step), span in zip(loops, packed_strides([size for size, _ in loops]), strict=True)
    ]
    return replace(
        plan,
        shape=tuple(size for size, _, _, _ in dims),
        out_strides=tuple(plan.out_strides[axis] * span for _, span, axis, _ in dims),
        in_strides=tuple(plan.in_strides[axis] * span + step * lookup.in_stride for _, span, axis, step in dims),
        in_offset=plan.in_offset + int(first) * lookup.in_stride,
        lookups=tuple(
            replace(other, index_strides=tuple(other.index_strides[axis] * span for _, span, axis, _ in dims)) for other in others
        ),
        index_type=plan.index_type if others else None,
        index_extent=plan.index_extent if others else 0,
    )


def _affine_loops(positions: NDArray[Any]) -> list[tuple[int, int]] | None:
    """Return nested loops that produce these positions, as pairs (size, step), outermost first. Return None if there are none.

    `positions` begins with 0. For example, [0, 1, 5, 6] gives [(2, 5), (2, 1)].
    """
    step = positions[1]
    line = step * np.arange(positions.size)
    breaks = np.flatnonzero(positions != line)
    if not breaks.size:
        return [(positions.size, int(step))]
    inner = int(breaks[0])
    groups = positions[::inner]
    if positions.size % inner or (positions.reshape(-1, inner) != groups[:, None] + line[:inner]).any():
        return None
    outer = _affine_loops(groups)
    return None if outer is None else [*outer, (inner, int(step))]


MOST_KNOWN = 2**20
"""Most elements of a result that is computed from constants while fusing."""


def fuse(
    what: Problem | OperatorDesc | Iterable[Problem] | Iterable[OperatorDesc] | str | PathLike[str] | IndexGraph,
    *,
    keep: str | Collection[str] = (),
    join: bool = True,
) -> Fused:
    """Fuse a chain or a graph of steps into as few launches as possible.

    The fused graph returns the same bits as the original graph. Under RAISE, it raises errors for the same indices.

    `what`: one of these:

    - a problem, or a chain of problems, each of which reads the output of the problem before it as data;
    - a descriptor, or a chain of descriptors, each of which reads the output of the descriptor before it as InputTensor;
    - the path of a DxDispatch model or of a descriptor (.json), or of independent descriptors, one per line (.jsonl, .ndjson);
    - an `IndexGraph`.

    `keep`: name or names of values that `Fused.run` returns besides the outputs.
    `join`: True to add steps that concatenate index tensors at run time, where this moves fewer bytes.

    Dead steps are removed, unless they can raise (`IndexGraph.needed`). Steps on constants are computed now.

    Raise TypeError if `what` or `keep` has a wrong type. Raise FileError for a file that cannot be used. Raise DescriptorError
    for a descriptor that is not valid at feature level 6_4. Raise ValueError for an unknown name, and if the output of a step
    does not fit the next step.

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
    steps = tuple(new for step in source.steps for new in fusing.fused(step))
    fused = replace(source, steps=steps, types=fusing.types, constants=fusing.constants).needed()
    live = {step.name for step in fused.steps}
    live.update(name for step in fused.steps if isinstance(step.work, Problem) for name in step.work.holds)
    return Fused(fused, source, tuple(cut for cut in fusing.cuts if cut.reader in live), kept)


def _names(keep: object, graph: IndexGraph) -> list[str]:
    names = [keep] if isinstance(keep, str) else list(keep) if isinstance(keep, Iterable) else None
    if names is None or not all(isinstance(name, str) for name in names):
        raise TypeError(f"keep is {shortened(repr(keep))}, expected the name of a value, or a list of names")
    for name in names:
        if name not in graph.types:
            values = shortened(", ".join(map(repr, graph.types)))
            raise ValueError(f"keep names {name!r}, which is no value of the graph: its values are {values}")
    return list(dict.fromkeys(names))


class _Fusing:
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
        """Return the steps that replace `step`. If all its inputs are constants, compute the result now and return no steps."""
        if all(name in self.constants for name in step.inputs):
            output = step.outputs[0]
            constant = _computed(step, [self.constants[name] for name in step.inputs], self.types[output])
            if constant is not None:
                self.constants[output] = constant
                return []
        return self._fused_problem(step, step.work) if isinstance(step.work, Problem) else [step]

    def _fused_problem(self, step: Step, problem: Problem) -> list[Step]:
        own = self._with_index_maker(step, problem)
        if not own.indices:
            self._indices.add(step, own.plan)
        derivation = self._with_data_maker(own, step)
        self._derivations[step.outputs[0]] = derivation
        reads, joining_steps = [derivation.data], list[Step]()
        if derivation.indices:
            joined, joining_steps = self._joined.value(derivation.indices)
            reads.append(joined)
        if tuple(reads) == step.inputs:
            return [step]
        data, *indices = (self.types[name] for name in reads)
        work = Planned(data, indices[0] if indices else None, problem.output, derivation.plan, derivation.holds)
        return [*joining_steps, Step(step.name, work, tuple(reads), step.outputs)]

    def _with_index_maker(self, step: Step, problem: Problem) -> Derivation:
        """Return a plan for the output of `step`. If possible, the plan also executes the steps that compute the indices."""
        data, *indices = step.inputs
        own, refusal = Derivation(data, tuple(indices), problem.plan(), ()), None
        for name in indices:
            if name in self.constants:
                own = replace(own, plan=with_known_indices(own.plan, self.constants[name].reshape(-1)))
            else:
                derivation, refusal = self._indices.looked_up(own.plan, name)
                own = replace(derivation, data=data)
        plan = tidied(own.plan)
        own = Derivation(data, own.indices if plan.lookups else (), plan, self._in_order((*own.holds, step.name)))
        self._explain_indices(own, step, refusal)
        return own

    def _explain_indices(self, own: Derivation, reader: Step, refusal: CompositionError | None) -> None:
        """Record why `reader` is not fused with the step that computes its indices, if that step is a `Problem`."""
        maker = self._makers.get(own.indices[0]) if own.indices else None
        if maker is None or own.indices[0] in self.constants or not isinstance(maker.work, Problem):
            return
        if refusal is not None:
            self._cut(maker, reader, refusal.code, str(refusal))
        else:
            reason = "its indices are themselves gathered, but a plan looks up only one index tensor"
            self._cut(maker, reader, "index of an index", reason)

    def _with_data_maker(self, own: Derivation, step: Step) -> Derivation:
        """Return a plan that also executes the steps that compute the data. If there is none, record a `Cut`; return `own`."""
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
        """Return one plan that runs `maker`, then `own`. Raises CompositionError if that is impossible or moves more bytes."""
        parts = maker.indices if {*own.indices} <= {*maker.indices} else (*maker.indices, *own.indices)
        dtype = self._joined.common_type(parts) if parts else None
        if len(parts) > 1:
            self._check_worth(parts, dtype, self.types[own.data])
        outer = self._joined.read_by(own.plan, own.indices, parts)
        inner = self._joined.read_by(maker.plan, maker.indices, parts)
        plan = tidied(compose(outer, inner, same_indices=True))
        if dtype is not None and plan.lookups:  # `compose` loses the type if the result only fills
            plan = replace(plan, index_type=index_type(dtype))
        return Derivation(maker.data, parts if plan.lookups else (), plan, self._in_order((*maker.holds, *own.holds)))

    def _check_worth(self, parts: Parts, dtype: np.dtype[Any] | None, between: TensorType) -> None:
        """Raise CompositionError if the index tensors `parts` should not be joined.

        Fusing saves writing and reading the value `between`. Joining must not move more bytes than that.
        """
        saved, cost = 2 * prod(between.shape) * between.dtype.itemsize, self._joined.cost(parts)
        if not self._join:
            why = "and they are not to be joined"
        elif dtype is None:
            why = "and no integer type holds the values of both"
        elif cost > saved:
            why = f"and joining them would move {cost} bytes, to save {saved}"
        else:
            return
        shown = " and ".join(repr(self._graph.label(name)) for name in parts)
        raise CompositionError(f"the steps look up {shown}, but a plan looks up one index tensor, {why}", "two index tensors")

    def _needed_anyway(self, name: str, maker: Derivation, reader: Step) -> tuple[str, str] | None:
        """Return the code and reason of a `Cut` if value `name` must be in memory even after fusing. Otherwise return None."""
        label = self._graph.label(name)
        if name in self._kept:
            return "kept", f"{label!r} is to be kept"
        if name in self._graph.outputs:
            return "output", f"{label!r} is an output of the graph"
        if name in reader.inputs[1:]:
            return "another consumer", f"{label!r} is its data and its indices"
        others = [step for step in self._readers[name] if step is not reader]
        if not maker.plan.lookups:  # a view can be fused into each of its readers at no cost
            others = [step for step in others if not isinstance(step.work, Problem)]
        if others:
            return "another consumer", f"{label!r} is read by {others[0].name} as well"
        return None

    def _in_order(self, steps: Collection[str]) -> tuple[str, ...]:
        return tuple(sorted(set(steps), key=self._positions.__getitem__))

    def _cut(self, maker: Step, reader: Step, code: str, reason: str) -> None:
        self.cuts.append(Cut(maker.name, reader.name, code, reason))


def _computed(step: Step, inputs: Sequence[NDArray[Any]], result: TensorType) -> NDArray[Any] | None:
    """Return the result of a step on constants. Returns None if it is large or the step raises, so that the step runs later."""
    work = step.work
    if prod(result.shape) > MOST_KNOWN:
        return None
    try:
        if isinstance(work, Problem):
            return np.asarray(eager.execute(work, inputs, device="cpu"), order="C")
        return np.asarray(computed(work, inputs))
    except (IndexError, TypeError, ValueError):
        return None
