"""Prepared graphs: how a graph runs on all arrays of the same signatures. A run allocates what it writes, and launches."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from math import prod
from typing import Any, TypeAlias

import numpy as np

from dmlgather.backends import arrays
from dmlgather.backends.addresses import address_of
from dmlgather.backends.devices import CPU, Device
from dmlgather.backends.footprints import (
    WRITEABLE,
    Signature,
    check_output,
    logical,
    new_place,
    packed_signature,
    share_memory,
    signature_on,
)
from dmlgather.backends.prepared_call import CALLS_KEPT
from dmlgather.calls import eager
from dmlgather.calls.arguments import check_type
from dmlgather.calls.prepared import prepared, write
from dmlgather.dialects.index_graph import Bitcast, Concatenation, Elementwise, IndexGraph, Step
from dmlgather.dialects.problem import Problem, TensorType
from dmlgather.plan import IndexPlan, OutOfBounds, simplify

OUT = "out"
"""The label of the one output of a graph whose users know no names of values."""


class Targets:
    """The array for each output, None where the result is a new one.

    direct: by name, those that lie in the memory where the graph runs, so that a launch can write them.
    """

    def __init__(
        self,
        graph: IndexGraph,
        given: Sequence[Any],
        memory: Device,
        inputs: Mapping[str, Any],
        shown: Callable[[str], str] = str,
    ) -> None:
        """given: an array, or None, for each of the graph's outputs. inputs: the arrays that are read, by name. shown: what
        messages call a value.

        TypeError and ValueError for arrays of another type or shape, that cannot be written, or that overlap an input or another
        output.
        """
        self._memory = memory
        self.direct: dict[str, Any] = {}
        self._given: list[tuple[Any, Any, Device] | None] = []
        taken = {f"input {shown(name)!r}": array for name, array in inputs.items()}
        for name, out in zip(graph.outputs, given, strict=True):
            if out is None:
                self._given.append(None)
                continue
            what = OUT if shown(name) == OUT else f"out for {shown(name)!r}"
            try:
                array, home = arrays.adopt_output(out)
            except TypeError as error:
                raise TypeError(f"{what}: {error}") from None
            check_type(what, TensorType(tuple(array.shape), array.dtype), graph.types[name])
            check_output(logical(what, signature_on(home, array)))
            self._given.append((out, array, home))
            if home == memory:
                self._check_apart(what, array, taken)
                self.direct.setdefault(name, array)
                taken[what] = array

    def returned(self, number: int, result: Any) -> Any:
        """The array that was given for an output, filled with the result; None where none was."""
        given = self._given[number]
        if given is None:
            return None
        out, array, home = given
        if array is not result:
            arrays.fill_from(array, home, arrays.move(result, self._memory, home))
        return out

    def _check_apart(self, what: str, array: Any, others: Mapping[str, Any]) -> None:
        for other, taken in others.items():
            if overlap(self._memory, array, taken):
                raise ValueError(f"{what} overlaps {other}: pass another array")


def overlap(memory: Device, one: Any, other: Any) -> bool:
    """Whether two arrays in one memory have elements that share bytes, or may have."""
    try:
        found = [logical("", signature_on(memory, array)) for array in (one, other)]
    except ValueError:  # strides that are no whole elements, which no GPU has
        return np.may_share_memory(one, other)
    pointers = [array.data.ptr if memory.on_gpu else address_of(array) for array in (one, other)]
    return share_memory(found[0], pointers[0], found[1], pointers[1])


# How the problems of a graph are launched, and which of them need no launch.


class Launcher:
    """A problem whose prepared calls are kept, for each device and signatures of arrays."""

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self._prepared = lru_cache(CALLS_KEPT)(partial(prepared, problem, (problem.out_of_bounds, problem.fill)))

    def writing(self, device: Device, *signatures: Signature) -> Callable[[Sequence[Any], Any], None] | None:
        """What runs the problem on arrays of these signatures, inputs first, in the memory of the device. None where `launch` has
        to copy them, or refuses them.
        """
        try:
            return partial(write, self._prepared(device, *signatures), self._problem)
        except ValueError:
            return None

    def launch(self, device: Device, inputs: Sequence[Any], out: Any) -> None:
        """Write the result into `out`; all arrays lie in the memory of the device. IndexError for a bad index under RAISE."""
        memory = device.memory
        writing = self.writing(device, *(signature_on(memory, array) for array in (*inputs, out)))
        if writing is not None:
            writing(inputs, out)
            return
        # No plan can say how the problem walks over these strides.
        *packed, result = (arrays.allocate(memory, array.shape, array.dtype) for array in (*inputs, out))
        for copy, array in zip(packed, inputs, strict=True):
            arrays.fill_from(copy, memory, array)
        call = self._prepared(device, *(signature_on(memory, array) for array in (*packed, result)))
        write(call, self._problem, packed, result)
        arrays.fill_from(out, memory, result)


def unlaunched(graph: IndexGraph) -> frozenset[str]:
    """The names of the steps that move nothing: they give all bytes of their data in their order, perhaps under another shape or
    type.

    Where such an output would be memory of an input, of a constant or of another output of the graph, it is a copy, and moved.
    """
    owner = {name: name for name in (*graph.inputs, *graph.constants)}
    found = {}
    for step in graph.steps:
        owner |= {name: name for name in step.outputs}
        if isinstance(step.work, Bitcast) or (isinstance(step.work, Problem) and moves_nothing(step.work)):
            (output,) = step.outputs
            owner[output], found[output] = owner[step.inputs[0]], step.name
    taken = {*graph.inputs, *graph.constants}
    for name in dict.fromkeys(graph.outputs):
        if owner[name] in taken:
            found.pop(name, None)
        taken.add(owner[name])
    return frozenset(found.values())


def moves_nothing(problem: Problem) -> bool:
    """Whether the output is all of the data, element by element, perhaps under another shape."""
    plan = tidied(problem.plan())
    straight = (plan.in_offset, plan.in_strides) in ((0, ()), (0, (1,))) and not plan.lookups
    return straight and plan.elements == prod(problem.data.shape) == prod(problem.output.shape)


def tidied(plan: IndexPlan) -> IndexPlan:
    """The canonical form at the plan's own element size; plans that read nothing stay as they are."""
    return plan if plan.in_reach is None else simplify(plan)


# Prepared graphs: how a graph runs on all arrays of the same signatures. A run allocates what it writes, and launches.


Signatures: TypeAlias = tuple[tuple[str, Signature], ...]
"""Signatures of arrays on the host, by the names of values."""


@dataclass(frozen=True, slots=True)
class GraphCall:
    """What a call of a graph gives besides the arrays to read.

    empty: gives a new packed array of a shape and type where the graph runs. targets: arrays that are written in the place of new
    ones, by name.
    """

    empty: Callable[[tuple[int, ...], np.dtype[Any]], Any]
    targets: Mapping[str, Any] = field(default_factory=dict)


Act: TypeAlias = Callable[[GraphCall, dict[str, Any]], None]
"""Does a step: adds what it writes to the values that exist, by name."""


class GraphParts:
    """A graph, and what it shares, however it is prepared. Programs are prepared once, and kept; so are constants on a GPU."""

    def __init__(self, graph: IndexGraph) -> None:
        self.graph, self.unlaunched = graph, unlaunched(graph)
        self.launchers = {step.name: Launcher(step.work) for step in graph.steps if isinstance(step.work, Problem)}
        self.constants = lru_cache(maxsize=None)(partial(_constants, graph))
        known = (*graph.inputs, *graph.constants)
        self.results = tuple((name, name in {*known, *graph.outputs[:number]}) for number, name in enumerate(graph.outputs))
        """The outputs, and whether each is an input, a constant, or an output before it."""
        last_readers = {name: step.name for step in graph.steps for name in step.inputs}
        kept = {*known, *graph.outputs}
        self.dropped = {step.name: tuple(_dropped(step, last_readers, kept)) for step in graph.steps}
        """What nothing needs behind a step, by the step's name."""


class PreparedGraph:
    """How a graph runs on arrays of known signatures on the host, or on any on a GPU. Threads may share it."""

    def __init__(self, parts: GraphParts, device: Device, inputs: Signatures, targets: Signatures) -> None:
        """inputs, targets: of the graph's inputs, and of the arrays that are written; on a GPU of views of CuPy's, or none."""
        self._parts, self.device = parts, device
        self._acts = tuple(self._made(dict(inputs), dict(targets)))
        self._gives_its_own = not any(taken for _, taken in parts.results)
        self._spans = _spans(inputs, targets) if targets else ()

    def run(self, call: GraphCall, values: dict[str, Any]) -> list[Any]:
        """The graph's outputs, in order: none of them memory of an input, of a constant, or of another output.

        values: inputs and constants, by name; what is made of them is added.
        """
        for act, dropped in self._acts:
            act(call, values)
            for name in dropped:
                del values[name]
        if self._gives_its_own:
            return [values[name] for name in self._parts.graph.outputs]
        found = list[Any]()
        for name, taken in self._parts.results:
            array = values[name]
            if taken:
                copy = call.empty(array.shape, array.dtype)
                arrays.fill_from(copy, self.device.memory, array)
                array = copy
            found.append(array)
        return found

    def apart(self, inputs: Sequence[Any], targets: Iterable[Any]) -> bool:
        """Whether arrays of these signatures that are written lie apart from all others. Where not, they may still share no
        element.
        """
        if self._spans is None:
            return False
        ranges: list[tuple[int, int]] = []
        for array, (start, end) in zip((*inputs, *targets), self._spans, strict=True):
            address = address_of(array)
            low, high = address + start, address + end
            if len(ranges) >= len(inputs) and any(low < other_high and other_low < high for other_low, other_high in ranges):
                return False
            ranges.append((low, high))
        return True

    def _made(self, known: dict[str, Signature], targets: Mapping[str, Signature]) -> Iterator[tuple[Act, tuple[str, ...]]]:
        """What does each step, and what is dropped behind it. known: the signatures of values, as far as they follow."""
        parts, device = self._parts, self.device
        where, follows = new_place(device), bool(known) or not device.on_gpu
        if follows:
            known |= {name: (*signature_of(array)[:3], where) for name, array in parts.constants(device.memory).items()}
        for step in parts.graph.steps:
            work = step.work
            if not isinstance(work, Problem):
                act: Act = partial(_compute, step, work, device.on_gpu, copies=step.name not in parts.unlaunched)
            elif step.name in parts.unlaunched:
                act = partial(_reshape, step, work.output.shape)
                if step.inputs[0] in known and logical("", known[step.inputs[0]]).whole:
                    known[step.outputs[0]] = _packed(work.output, known[step.inputs[0]][3])
            elif work.out_of_bounds is OutOfBounds.FILL and work.data.dtype.hasobject:
                act = partial(_fill_strings, step, work, device)
            else:
                (name,) = step.outputs
                written = targets.get(name, _packed(work.output, where))
                act = self._launching(step, work.output.shape, [known.get(each) for each in step.inputs], written)
                if follows:
                    known[name] = written
            yield act, parts.dropped[step.name]

    def _launching(self, step: Step, shape: tuple[int, ...], inputs: Sequence[Signature | None], written: Signature) -> Act:
        """A launch, by a call that is prepared here where the signatures of its arrays are known."""
        launcher = self._parts.launchers[step.name]
        known = [found for found in inputs if found is not None]
        writing = launcher.writing(self.device, *known, written) if len(known) == len(inputs) else None
        write = partial(launcher.launch, self.device) if writing is None else writing
        (name,), names = step.outputs, step.inputs

        def act(call: GraphCall, values: dict[str, Any]) -> None:
            arrays = [values[each] for each in names]
            out = call.targets.get(name)
            if out is None:
                out = call.empty(shape, arrays[0].dtype)
            write(arrays, out)
            values[name] = out

        return act


def _reshape(step: Step, shape: tuple[int, ...], _: GraphCall, values: dict[str, Any]) -> None:
    values[step.outputs[0]] = values[step.inputs[0]].reshape(shape)


def _fill_strings(step: Step, problem: Problem, device: Device, _: GraphCall, values: dict[str, Any]) -> None:
    """By the eager functions, which know what strings are filled with."""
    inputs = [values[name] for name in step.inputs]
    values[step.outputs[0]] = eager.execute(problem, inputs, device=str(device))


def _compute(
    step: Step, work: Elementwise | Concatenation | Bitcast, on_gpu: bool, _: GraphCall, values: dict[str, Any], *, copies: bool
) -> None:
    inputs = [values[name] for name in step.inputs]
    if copies and isinstance(work, Bitcast):
        inputs = [inputs[0].copy()]
    values[step.outputs[0]] = computed(work, inputs, on_gpu)


def computed(work: Elementwise | Concatenation | Bitcast, inputs: Sequence[Any], on_gpu: bool = False) -> Any:
    """What a step without a plan makes of arrays of NumPy, or on a GPU of CuPy; a bitcast may give their memory."""
    if isinstance(work, Elementwise):
        return work.compute(inputs)  # NumPy's functions hand CuPy's arrays on to CuPy's
    if on_gpu:
        import cupy as library
    else:
        library = np
    if isinstance(work, Concatenation):
        return library.concatenate(inputs, work.axis)
    return library.ascontiguousarray(inputs[0]).reshape(-1).view(work.dtype).reshape(work.shape)


def _constants(graph: IndexGraph, memory: Device) -> dict[str, Any]:
    return {name: arrays.move(np.asarray(array, order="C"), CPU, memory) for name, array in graph.constants.items()}


def _dropped(step: Step, last_readers: Mapping[str, str], kept: Collection[str]) -> Iterator[str]:
    for name in dict.fromkeys((*step.inputs, *step.outputs)):
        if name not in kept and last_readers.get(name, step.name) == step.name:
            yield name


def signature_of(array: Any) -> Signature:
    """The signature of an array on the host. It does not say whether the array can be written: what is read need not, and what is
    written was checked.
    """
    return array.dtype, array.shape, array.strides, WRITEABLE


def _packed(tensor: TensorType, where: int) -> Signature:
    """The signature of a packed array, with its last item."""
    return packed_signature(tensor.dtype, tensor.shape, where)


def _spans(*found: Signatures) -> tuple[tuple[int, int], ...] | None:
    """Where the memory of each array begins and ends, in bytes from its pointer. None where strides are no whole elements."""
    try:
        footprints = [logical(name, signature) for signatures in found for name, signature in signatures]
    except ValueError:
        return None
    return tuple((each.start, each.end) for each in footprints)
