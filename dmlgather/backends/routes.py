"""Routes: how a problem runs on all arrays of the same signatures. Prepared once; a call then only checks for overlap.

A problem is a function from layouts to an IndexPlan. An `Executor` prepares its programs, per device and layouts, and keeps them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any, TypeAlias, cast

from dmlgather.backends.addresses import address_of
from dmlgather.backends.devices import CPU, Device, stream_pointer
from dmlgather.backends.footprints import ArrayCall, Footprint, Signature, check_indices, check_output, share_memory
from dmlgather.backends.outcomes import DeviceOutcome, HostOutcome, Outcome
from dmlgather.plan import IndexPlan, Layout, OutOfBounds

BoundRun: TypeAlias = Callable[..., Outcome | None]
"""Returns what `Route.run` returns. On a GPU it takes a stream (None: the current one), on the host nothing."""


class Route(ABC):
    """A prepared program for arrays of known footprints. Threads may share it; it holds no array."""

    array_call: ArrayCall | None = None
    """What does `run` at once, and whatever arrays it is given; None where nothing does."""

    def __init__(self, device: Device, program: Any, plan: IndexPlan, inputs: Sequence[Footprint], out: Footprint) -> None:
        """device: where the program runs; the arrays lie in its memory."""
        self.device, self.plan = device, plan
        self._program, self._inputs, self._out = program, tuple(inputs), out
        self._looks_up = len(inputs) > 1
        # Plain numbers, because every call compares addresses with them.
        self._data_start, self._data_bytes = inputs[0].start, inputs[0].end - inputs[0].start
        self._index_start, self._index_bytes = inputs[-1].start, inputs[-1].end - inputs[-1].start
        self._out_start, self._out_end = out.start, out.end

    @abstractmethod
    def run(self, inputs: Sequence[Any], out: Any, stream: Any = None) -> Outcome | None:
        """Execute on arrays; on a GPU without waiting, on `stream` (None: the current one).

        Under RAISE, returns an outcome that can be asked for a bad index; None on the host if there was none, and under any other
        policy. ValueError when `out` overlaps an input, TypeError as `stream_pointer`.
        """

    def run_at(self, pointers: Sequence[int], out: int) -> bool:  # noqa: ARG002 - of those that can
        """Execute on arrays at these addresses on the host. False where `run` has to do it, or has to say what is wrong: where
        nothing executes on addresses, where `out` overlaps an input, and under RAISE for a bad index.
        """
        return False

    @abstractmethod
    def bind(self, inputs: Sequence[Any], out: Any) -> BoundRun:
        """A function that repeats `run` on these arrays at the least cost and keeps their memory alive. ValueError as `run`.

        On a GPU it only launches, so that a CUDA graph can capture it. Its outcomes report only on its own launches.
        """

    def _lowest(self, pointers: Sequence[int], out: int) -> tuple[int, int, int]:
        """The addresses of the lowest elements: data, indices (0 without lookups), output. ValueError when they overlap."""
        low, high = out + self._out_start, out + self._out_end
        data, indices = pointers[0] + self._data_start, 0
        near = data < high and low < data + self._data_bytes
        if self._looks_up:
            indices = pointers[1] + self._index_start
            near = near or (indices < high and low < indices + self._index_bytes)
        if near:
            self._refuse_overlap(pointers, out)
        return data, indices, low

    def _refuse_overlap(self, pointers: Sequence[int], out: int) -> None:
        for number, (found, pointer) in enumerate(zip(self._inputs, pointers, strict=True)):
            if share_memory(found, pointer, self._out, out):
                raise ValueError(
                    f"out overlaps input {number}; DirectML has no in-place form of these operators: pass another array"
                )


class HostRoute(Route):
    """In host memory, by the cpu backend or the reference."""

    def __init__(
        self,
        device: Device,
        program: Any,
        plan: IndexPlan,
        inputs: Sequence[Footprint],
        out: Footprint,
        *,
        arrays: Sequence[Signature],
    ) -> None:
        """arrays: the signatures that the footprints follow from, inputs first."""
        super().__init__(device, program, plan, inputs, out)
        # Executes on addresses. None where nothing does: for the reference, for NumPy, and for elements that hold references.
        references = any(found.dtype.hasobject for found in (*inputs, out))
        self._launch = None if references else program.launch
        if self._launch is not None:
            self.array_call = program.array_call(arrays, [(found.start, found.end) for found in (*inputs, out)])

    def run(self, inputs: Sequence[Any], out: Any, stream: Any = None) -> Outcome | None:
        if stream is not None:
            stream_pointer(stream, CPU)
        if self.array_call is not None and self.array_call(*inputs, out):
            return None
        data, indices, target = self._lowest([*map(address_of, inputs)], address_of(out))
        if self._launch is None:
            bad = self._program.run(*self._flats(inputs, out))
        elif (bad := self._launch(data, indices, target)) < 0:
            return None
        return None if bad is None else HostOutcome(self.plan, self._inputs[1], self._inputs[1].flat(inputs[1]), bad)

    def run_at(self, pointers: Sequence[int], out: int) -> bool:
        if self._launch is None:
            return False
        try:
            data, indices, target = self._lowest(pointers, out)
        except ValueError:
            return False
        ran: bool = self._launch(data, indices, target) < 0
        return ran

    def bind(self, inputs: Sequence[Any], out: Any) -> BoundRun:
        self._lowest([*map(address_of, inputs)], address_of(out))
        data, indices, target = self._flats(inputs, out)
        execute: Callable[[], int | None] = self._program.bind(data, indices, target)

        def run() -> Outcome | None:
            bad = execute()
            return None if bad is None else HostOutcome(self.plan, self._inputs[1], indices, bad)

        raises = self._looks_up and self.plan.out_of_bounds is OutOfBounds.RAISE
        return run if raises else cast("BoundRun", execute)  # a frame of Python's costs a third of what is left

    def _flats(self, inputs: Sequence[Any], out: Any) -> tuple[Any, Any, Any]:
        indices = self._inputs[1].flat(inputs[1]) if self._looks_up else None
        return self._inputs[0].flat(inputs[0]), indices, self._out.flat(out)


class DeviceRoute(Route):
    """On a GPU."""

    def __init__(self, device: Device, program: Any, plan: IndexPlan, inputs: Sequence[Footprint], out: Footprint) -> None:
        super().__init__(device, program, plan, inputs, out)
        self._raises = plan.out_of_bounds is OutOfBounds.RAISE and len(inputs) > 1

    def run(self, inputs: Sequence[Any], out: Any, stream: Any = None) -> Outcome | None:
        data = inputs[0].data.ptr
        pointers = (data, inputs[1].data.ptr) if self._looks_up else (data,)
        return self.launch(pointers, out.data.ptr, stream, inputs[-1])

    def launch(self, pointers: Sequence[int], out: int, stream: Any = None, keep: Any = None) -> Outcome | None:
        """`run` on arrays at these addresses. keep: kept alive by the outcome, which may read an index."""
        data, indices, target = self._lowest(pointers, out)
        program = self._program
        where = program.current_stream() if stream is None else self._pointer_of(stream)
        word = program.launch(data, indices, target, where)
        if not self._raises:
            return None
        return DeviceOutcome(self.plan, self._inputs[1], indices, program, stream=where, word=word, keep=keep)

    def bind(self, inputs: Sequence[Any], out: Any) -> BoundRun:
        # `a.data` is kept, and not `a`, whose memory could be exchanged later.
        kept = [array.data for array in (*inputs, out)]
        data, indices, target = self._lowest([memory.ptr for memory in kept[:-1]], kept[-1].ptr)
        program = self._program.reporting_alone()
        launch = program.bind(data, indices, target, kept)
        outcome = None
        if self._raises:
            outcome = DeviceOutcome(self.plan, self._inputs[1], indices, program, stream=0, word=None, keep=kept)

        def run(stream: Any = None) -> Outcome | None:
            where = program.current_stream() if stream is None else self._pointer_of(stream)
            word = launch(where)
            if outcome is not None:
                outcome.stream, outcome.word = where, word
            return outcome

        return run

    def _pointer_of(self, stream: Any) -> int:
        return stream if type(stream) is int else stream_pointer(stream, self.device)


Lowering = Callable[[Sequence[Layout]], IndexPlan]
"""Layouts of the inputs, then of the output -> plan."""

PROGRAMS_KEPT = 64
"""Prepared programs that one executor keeps (least recently used leave first)."""
ROUTES_KEPT = 256
"""Routes that one problem keeps, by the signatures of arrays (likewise). Several may share a program."""


class Executor:
    """Programs for one problem, prepared per device, layouts and alignment, and kept."""

    def __init__(self, lower: Lowering) -> None:
        self._prepared = lru_cache(PROGRAMS_KEPT)(partial(_prepared, lower))

    def route(self, device: Device, inputs: Sequence[Footprint], out: Footprint, arrays: Sequence[Signature] = ()) -> Route:
        """How the problem runs on `device` for arrays of these footprints, which lie in its memory.

        arrays: the signatures that the footprints follow from, inputs first; a GPU's routes do without. ValueError when `out`
        cannot be written, or when a GPU could not read the indices where they lie.
        """
        check_output(out)
        alignment = 16
        if device.on_gpu:
            alignment = min(inputs[0].alignment, out.alignment)
            check_indices(inputs[1:])
        program, plan = self._prepared(device, (*(found.layout for found in inputs), out.layout), alignment)
        if device.on_gpu:
            return DeviceRoute(device, program, plan, inputs, out)
        return HostRoute(device, program, plan, inputs, out, arrays=arrays)

    def prepare(self, device: Device, layouts: Sequence[Layout], alignment: int = 16) -> Any:
        """The program for arrays of these layouts on `device`; compiled now."""
        return self._prepared(device, tuple(layouts), alignment)[0]


def _prepared(lower: Lowering, device: Device, layouts: tuple[Layout, ...], alignment: int) -> tuple[Any, IndexPlan]:
    plan = lower(layouts)
    plan.check_limits()
    if device.on_gpu:
        from dmlgather.backends import cuda

        return cuda.prepare(plan, device.index, alignment), plan
    from dmlgather.backends import cpu, reference

    return (reference if device.kind == "reference" else cpu).prepare(plan), plan
