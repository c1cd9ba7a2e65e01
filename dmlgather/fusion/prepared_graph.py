"""Prepared graphs, with all programs compiled for arrays with known signatures. A run only allocates and launches."""

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
"""Name of the only output in messages."""


class Targets:
    """The arrays that a caller passes as `out`: one or None for each output of the graph.

    `direct`: the arrays that launches can write to directly, by the names of the outputs.
    """

    def __init__(
        self,
        graph: IndexGraph,
        outs: Sequence[Any],
        memory: Device,
        inputs: Mapping[str, Any],
        label: Callable[[str], str] = str,
    ) -> None:
        """Check the arrays.

        Raises TypeError or ValueError if an array has a wrong type or shape, cannot be written, or overlaps an input or another
        output.
        """
        self._memory = memory
        self.direct: dict[str, Any] = {}
        self._outs: list[tuple[Any, Any, Device] | None] = []
        used = {f"input {label(name)!r}": array for name, array in inputs.items()}
        for name, out in zip(graph.outputs, outs, strict=True):
            if out is None:
                self._outs.append(None)
                continue
            what = OUT if label(name) == OUT else f"out for {label(name)!r}"
            try:
                array, home = arrays.adopt_output(out)
            except TypeError as error:
                raise TypeError(f"{what}: {error}") from None
            check_type(what, TensorType(tuple(array.shape), array.dtype), graph.types[name])
            check_output(logical(what, signature_on(home, array)))
            self._outs.append((out, array, home))
            if home == memory:
                for other, other_array in used.items():
                    if overlap(memory, array, other_array):
                        raise ValueError(f"{what} overlaps {other}: pass another array")
                self.direct.setdefault(name, array)
                used[what] = array

    def returned(self, number: int, result: Any) -> Any:
        """Copy the result into the caller's array for output `number`, and return this array.

        Returns None if the caller passes no array for this output.
        """
        entry = self._outs[number]
        if entry is None:
            return None
        out, array, home = entry
        if array is not result:
            arrays.fill_from(array, home, arrays.move(result, self._memory, home))
        return out


def overlap(memory: Device, one: Any, other: Any) -> bool:
    """Return True if two arrays share bytes, or if NumPy's overlap solver gives up."""
    try:
        footprints = [logical("", signature_on(memory, array)) for array in (one, other)]
    except ValueError:  # a stride is no multiple of the element size; this does not occur on a GPU
        return np.may_share_memory(one, other)
    pointers = [array.data.ptr if memory.on_gpu else address_of(array) for array in (one, other)]
    return share_memory(footprints[0], pointers[0], footprints[1], pointers[1])


class Launcher:
    """Runs one problem repeatedly. It caches the prepared calls."""

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self._prepared = lru_cache(CALLS_KEPT)(partial(prepared, problem, (problem.out_of_bounds, problem.fill)))

    def writer(self, device: Device, *signatures: Signature) -> Callable[[Sequence[Any], Any], None] | None:
        """Return a function that runs the problem on inputs and an output with these signatures.

        Returns None if the problem has no plan for these strides. Then only `launch` can run it.
        """
        try:
            return partial(write, self._prepared(device, *signatures), self._problem)
        except ValueError:
            return None

    def launch(self, device: Device, inputs: Sequence[Any], out: Any) -> None:
        """Run the problem on arrays in the device's memory. Raises IndexError for a bad index under RAISE.

        If the problem has no plan for the strides of the arrays, it runs on packed copies.
        """
        memory = device.memory
        writer = self.writer(device, *(signature_on(memory, array) for array in (*inputs, out)))
        if writer is not None:
            writer(inputs, out)
            return
        # The problem has no plan for these strides: run it on packed copies.
        *packed, result = (arrays.allocate(memory, array.shape, array.dtype) for array in (*inputs, out))
        for copy, array in zip(packed, inputs, strict=True):
            arrays.fill_from(copy, memory, array)
        call = self._prepared(device, *(signature_on(memory, array) for array in (*packed, result)))
        write(call, self._problem, packed, result)
        arrays.fill_from(out, memory, result)


def unlaunched(graph: IndexGraph) -> frozenset[str]:
    """Return the names of the steps that need no launch, because the output is a reshape or a bitcast of the whole input.

    Outputs of the graph must not share memory with an input, a constant or another output. So some of these steps still need a
    launch, and are left out.
    """
    owner = {name: name for name in (*graph.inputs, *graph.constants)}
    views = {}
    for step in graph.steps:
        owner |= {name: name for name in step.outputs}
        if isinstance(step.work, Bitcast) or (isinstance(step.work, Problem) and moves_nothing(step.work)):
            (output,) = step.outputs
            owner[output], views[output] = owner[step.inputs[0]], step.name
    owned = {*graph.inputs, *graph.constants}
    for name in dict.fromkeys(graph.outputs):
        if owner[name] in owned:
            views.pop(name, None)
        owned.add(owner[name])
    return frozenset(views.values())


def moves_nothing(problem: Problem) -> bool:
    """Return True if the problem's output has all elements of its data in the same order, so that it is a reshape."""
    plan = tidied(problem.plan())
    contiguous = (plan.in_offset, plan.in_strides) in ((0, ()), (0, (1,))) and not plan.lookups
    return contiguous and plan.elements == prod(problem.data.shape) == prod(problem.output.shape)


def tidied(plan: IndexPlan) -> IndexPlan:
    """Return the canonical form of a plan, but with the same element size."""
    return plan if plan.in_reach is None else simplify(plan)


Signatures: TypeAlias = tuple[tuple[str, Signature], ...]
"""Names of values, with the signatures of their arrays."""


@dataclass(frozen=True, slots=True)
class GraphCall:
    """One run of a graph.

    `targets`: the caller's output arrays, by name. `empty`: the function that allocates all other arrays.
    """

    empty: Callable[[tuple[int, ...], np.dtype[Any]], Any]
    targets: Mapping[str, Any] = field(default_factory=dict)


Action: TypeAlias = Callable[[GraphCall, dict[str, Any]], None]
"""Function that runs a step: it reads inputs from the dict of arrays by name, and adds the output."""


class GraphParts:
    """The data that all `PreparedGraph` objects of a graph share: launchers, constants, and when each value can be deleted."""

    def __init__(self, graph: IndexGraph) -> None:
        self.graph, self.unlaunched = graph, unlaunched(graph)
        self.launchers = {step.name: Launcher(step.work) for step in graph.steps if isinstance(step.work, Problem)}
        self.constants = lru_cache(maxsize=None)(partial(_constants, graph))
        sources = (*graph.inputs, *graph.constants)
        self.results = tuple((name, name in {*sources, *graph.outputs[:number]}) for number, name in enumerate(graph.outputs))
        """Name of each output, and True if `run` must copy it, as it is an input, a constant or an earlier output."""
        last_readers = {name: step.name for step in graph.steps for name in step.inputs}
        kept = {*sources, *graph.outputs}
        self.dropped = {step.name: tuple(_dropped(step, last_readers, kept)) for step in graph.steps}
        """By name of a step: the values that no later step needs."""


class PreparedGraph:
    """A graph with all programs compiled. It is thread-safe. On a GPU, it accepts arrays with any signatures."""

    def __init__(self, parts: GraphParts, device: Device, inputs: Signatures, targets: Signatures) -> None:
        """Compile the steps.

        `inputs`: the signatures of the inputs. On a GPU, it may be empty; programs are then compiled when they first run.
        `targets`: the signatures of the caller's output arrays. On a GPU, it is empty.
        """
        self._parts, self.device = parts, device
        self._actions = tuple(self._prepared_steps(dict(inputs), dict(targets)))
        self._spans = _spans(inputs, targets) if targets else ()

    def run(self, call: GraphCall, values: dict[str, Any]) -> list[Any]:
        """Run the graph, and return its outputs. No output shares memory with another output, an input or a constant.

        `values`: inputs and constants, by name. `run` adds results to it, and deletes values that no later step needs.
        """
        for action, dropped in self._actions:
            action(call, values)
            for name in dropped:
                del values[name]
        outputs = list[Any]()
        for name, copied in self._parts.results:
            array = values[name]
            if copied:
                copy = call.empty(array.shape, array.dtype)
                arrays.fill_from(copy, self.device.memory, array)
                array = copy
            outputs.append(array)
        return outputs

    def apart(self, inputs: Sequence[Any], targets: Iterable[Any]) -> bool:
        """Return True if the address range of each target overlaps no input and no other target."""
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

    def _prepared_steps(
        self, signatures: dict[str, Signature], targets: Mapping[str, Signature]
    ) -> Iterator[tuple[Action, tuple[str, ...]]]:
        parts, device = self._parts, self.device
        new, propagates = new_place(device), bool(signatures) or not device.on_gpu
        if propagates:
            signatures |= {name: (*signature_of(array)[:3], new) for name, array in parts.constants(device.memory).items()}
        for step in parts.graph.steps:
            work = step.work
            if not isinstance(work, Problem):
                action: Action = partial(_compute, step, work, device.on_gpu, copies=step.name not in parts.unlaunched)
            elif step.name in parts.unlaunched:
                action = partial(_reshape, step, work.output.shape)
                source = signatures.get(step.inputs[0])
                if source is not None and logical("", source).whole:
                    signatures[step.outputs[0]] = packed_signature(work.output.dtype, work.output.shape, source[3])
            elif work.out_of_bounds is OutOfBounds.FILL and work.data.dtype.hasobject:
                action = partial(_fill_strings, step, work, device)
            else:
                (name,) = step.outputs
                output = targets.get(name, packed_signature(work.output.dtype, work.output.shape, new))
                action = self._launch_action(step, work.output.shape, list(map(signatures.get, step.inputs)), output)
                if propagates:
                    signatures[name] = output
            yield action, parts.dropped[step.name]

    def _launch_action(self, step: Step, shape: tuple[int, ...], inputs: Sequence[Signature | None], output: Signature) -> Action:
        launcher = self._parts.launchers[step.name]
        known = [signature for signature in inputs if signature is not None]
        writer = launcher.writer(self.device, *known, output) if len(known) == len(inputs) else None
        write = partial(launcher.launch, self.device) if writer is None else writer
        (name,), names = step.outputs, step.inputs

        def action(call: GraphCall, values: dict[str, Any]) -> None:
            arrays = [values[input_name] for input_name in names]
            out = call.targets.get(name)
            if out is None:
                out = call.empty(shape, arrays[0].dtype)
            write(arrays, out)
            values[name] = out

        return action


def _reshape(step: Step, shape: tuple[int, ...], _: GraphCall, values: dict[str, Any]) -> None:
    values[step.outputs[0]] = values[step.inputs[0]].reshape(shape)


def _fill_strings(step: Step, problem: Problem, device: Device, _: GraphCall, values: dict[str, Any]) -> None:
    # The eager functions know the fill value of strings.
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
    """Return the result of integer arithmetic, a concatenation or a bitcast. A bitcast may return a view of the input."""
    if isinstance(work, Elementwise):
        return work.compute(inputs)  # NumPy's functions dispatch to CuPy
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
    """Return the signature of an array in host memory. A read-only array gets the same signature as a writeable one."""
    return array.dtype, array.shape, array.strides, WRITEABLE


def _spans(inputs: Signatures, targets: Signatures) -> tuple[tuple[int, int], ...] | None:
    """Return, for each array, the distance in bytes from its pointer to its lowest address and to its end.

    Returns None if an array has strides that are not multiples of its element size.
    """
    try:
        footprints = [logical(name, signature) for name, signature in (*inputs, *targets)]
    except ValueError:
        return None
    return tuple((footprint.start, footprint.end) for footprint in footprints)
