"""Prepared calls: how a problem runs on all arrays of the same signatures. Made once; a run then only checks for overlap.

A problem is a function from layouts to an IndexPlan, and its program depends on the plan, the device and the alignment alone.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, TypeAlias, cast

import numpy as np

from dmlgather import host
from dmlgather.backends import arrays
from dmlgather.backends.adapter import NUMPY, Adapter, Again
from dmlgather.backends.addresses import address_of
from dmlgather.backends.devices import CPU, Device, refuse_stream, stream_pointer
from dmlgather.backends.footprints import ArrayCall, Footprint, Signature, check_indices, check_output, share_memory
from dmlgather.backends.outcomes import DeviceOutcome, HostOutcome, Outcome
from dmlgather.plan import IndexPlan, Layout, OutOfBounds

Lowering = Callable[[Sequence[Layout]], IndexPlan]
"""Layouts of the inputs, then of the output -> plan."""

RunAt: TypeAlias = Callable[..., bool]
BoundRun: TypeAlias = Callable[..., Outcome | None]
"""Returns what `PreparedCall.run` returns. On a GPU it takes a stream (None: the current one), on the host nothing."""

PROGRAMS_KEPT = 256
"""Prepared programs of the process that are kept (least recently used leave first). Calls hold theirs."""
CALLS_KEPT = 256
"""Prepared calls that a cache keeps, by the signatures of arrays (likewise)."""


class PreparedCall(ABC):
    """A program for arrays of known footprints. Threads may share it; it holds no array.

    Views are NumPy's or CuPy's arrays, inputs first.
    """

    def __init__(self, device: Device, program: Any, plan: IndexPlan, inputs: Sequence[Footprint], out: Footprint) -> None:
        """device: where the program runs; the arrays lie in its memory."""
        self.device, self.plan, self.shape = device, plan, out.layout.sizes
        self.looks_up = len(inputs) > 1
        self._program, self._inputs, self._out = program, tuple(inputs), out
        self._raises = self.looks_up and plan.out_of_bounds is OutOfBounds.RAISE
        self.reports = self._raises and device.on_gpu
        """Whether a run leaves an outcome that is asked later."""
        self._array_calls = dict[Adapter, ArrayCall | None]()  # by the library whose arrays they take
        # Plain numbers, because every call compares addresses with them.
        data, indices = inputs[0], inputs[-1]
        lengths = data.end - data.start, indices.end - indices.start
        self._starts = data.start, lengths[0], indices.start, lengths[1], out.start, out.end

    @abstractmethod
    def run(self, inputs: Sequence[Any], out: Any, stream: Any = None, *, wait: bool = False) -> Outcome | None:
        """Run on views; on a GPU without waiting, on `stream` (None: the current one).

        Under RAISE, returns an outcome that can be asked for a bad index; None on the host if there was none, and under any other
        policy. wait: on a GPU under RAISE, wait, and return None if there was none, as on the host. ValueError when `out`
        overlaps an input, TypeError as `stream_pointer`.
        """

    run_at: RunAt
    """Runs on arrays at these addresses: data, indices (0 without lookups), output; on a GPU on the stream with that address
    (None: CuPy's current one), under RAISE waiting for it. False where `run` has to do it or has to say what is wrong: where
    nothing runs on addresses, where `out` may overlap an input, and under RAISE for a bad index. One frame, because each costs.
    """

    @abstractmethod
    def bind(self, inputs: Sequence[Any], out: Any) -> BoundRun:
        """A function that repeats `run` on these views at the least cost and keeps their memory alive. ValueError as `run`.

        On a GPU it only launches, so that a CUDA graph can capture it. Its outcomes report only on its own launches.
        """

    def array_call(self, given: Sequence[Any]) -> ArrayCall | None:
        """What does `run` at once on arrays of the signatures that this was prepared for, such as the given ones. None where
        nothing does, where a run reports, and for arrays of several libraries.
        """
        if len({*map(type, given)}) > 1:
            return None
        adapter = arrays.adapter_of(given[0])
        if adapter not in self._array_calls:
            self._array_calls[adapter] = None if self.reports else self.array_call_on(adapter, given)
        return self._array_calls[adapter]

    def array_call_on(self, adapter: Adapter, given: Sequence[Any]) -> ArrayCall | None:
        """`array_call` for the arrays of a library, made anew. given: some."""
        return adapter.array_call(self, given)

    def again(self, adapters: Sequence[Adapter]) -> Again:
        """What repeats a call on arrays whose signatures are known to be those that this was prepared for.

        adapters: of the arrays, which on a GPU are of one library.
        """
        return adapters[0].again(self, adapters)

    def _lowest(self, pointers: Sequence[int], out: int) -> tuple[int, int, int]:
        """The addresses of the lowest elements: data, indices (0 without lookups), output. ValueError when they overlap."""
        data_start, data_bytes, index_start, index_bytes, out_start, out_end = self._starts
        low, high = out + out_start, out + out_end
        data, indices = pointers[0] + data_start, 0
        near = data < high and low < data + data_bytes
        if self.looks_up:
            indices = pointers[1] + index_start
            near = near or (indices < high and low < indices + index_bytes)
        if near:
            self._refuse_overlap(pointers, out)
        return data, indices, low

    def _refuse_overlap(self, pointers: Sequence[int], out: int) -> None:
        for found, pointer in zip(self._inputs, pointers, strict=True):
            if share_memory(found, pointer, self._out, out):
                raise ValueError(f"out overlaps {found.name}, and nothing runs in place: pass another array")


class HostCall(PreparedCall):
    """In host memory, by the cpu backend or the reference."""

    def __init__(
        self,
        device: Device,
        program: Any,
        plan: IndexPlan,
        inputs: Sequence[Footprint],
        out: Footprint,
        *,
        signatures: Sequence[Signature],
    ) -> None:
        """signatures: those that the footprints follow from, inputs first."""
        super().__init__(device, program, plan, inputs, out)
        # Executes on addresses. None where nothing does: for the reference, for NumPy, and for elements that hold references.
        references = any(found.dtype.hasobject for found in (*inputs, out))
        self._launch = None if references else program.launch
        self._array_call: ArrayCall | None = None
        if self._launch is not None:
            self._array_call = program.array_call(signatures, [(found.start, found.end) for found in (*inputs, out)])
        self.run_at = self._runner()

    def run(self, inputs: Sequence[Any], out: Any, stream: Any = None, *, wait: bool = False) -> Outcome | None:  # noqa: ARG002
        if stream is not None:
            stream_pointer(stream, CPU)
        if self._array_call is not None and self._array_call(*inputs, out):
            return None
        data, indices, target = self._lowest([*map(address_of, inputs)], address_of(out))
        if self._launch is None:
            bad = self._program.run(*self._flats(inputs, out))
        elif (bad := self._launch(data, indices, target)) < 0:
            return None
        return None if bad is None else HostOutcome(self.plan, self._inputs[1], self._inputs[1].flat(inputs[1]), bad)

    def _runner(self) -> RunAt:
        launch, starts = self._launch, self._starts
        data_start, data_bytes, index_start, index_bytes, out_start, out_end = starts
        if launch is None:
            return lambda *_: False

        def run_at(data: int, indices: int, out: int, stream: int | None = None) -> bool:  # noqa: ARG001 - there is none
            low, high = out + out_start, out + out_end
            data += data_start
            if data < high and low < data + data_bytes:
                return False
            if indices:
                indices += index_start
                if indices < high and low < indices + index_bytes:
                    return False
            done: bool = launch(data, indices, low) < 0
            return done

        return run_at

    def bind(self, inputs: Sequence[Any], out: Any) -> BoundRun:
        self._lowest([*map(address_of, inputs)], address_of(out))
        data, indices, target = self._flats(inputs, out)
        execute: Callable[[], int | None] = self._program.bind(data, indices, target)

        def run() -> Outcome | None:
            bad = execute()
            return None if bad is None else HostOutcome(self.plan, self._inputs[1], indices, bad)

        return run if self._raises else cast("BoundRun", execute)  # a frame of Python's costs a third of what is left

    def array_call_on(self, adapter: Adapter, given: Sequence[Any]) -> ArrayCall | None:
        if adapter is NUMPY:
            return self._array_call
        return None if self._launch is None else adapter.array_call(self, given)

    def again(self, adapters: Sequence[Adapter]) -> Again:
        return self.again_on_views if all(adapter is NUMPY for adapter in adapters) else super().again(adapters)

    def again_on_views(self, given: Sequence[Any]) -> Any:
        """`again` on arrays of NumPy's, by what takes their objects as they are."""
        *inputs, out = given
        if out is None:
            out = np.empty(self.shape, inputs[0].dtype)
        elif not out.flags.writeable:
            return None
        try:
            return out if self.run(inputs, out) is None else None
        except ValueError:  # `out` overlaps an input
            return None

    def _flats(self, inputs: Sequence[Any], out: Any) -> tuple[Any, Any, Any]:
        indices = self._inputs[1].flat(inputs[1]) if self.looks_up else None
        return self._inputs[0].flat(inputs[0]), indices, self._out.flat(out)


class DeviceCall(PreparedCall):
    """On a GPU."""

    def __init__(self, device: Device, program: Any, plan: IndexPlan, inputs: Sequence[Footprint], out: Footprint) -> None:
        super().__init__(device, program, plan, inputs, out)
        self.run_at = self._runner()

    def run(self, inputs: Sequence[Any], out: Any, stream: Any = None, *, wait: bool = False) -> Outcome | None:
        data = inputs[0].data.ptr
        pointers = (data, inputs[1].data.ptr) if self.looks_up else (data,)
        return self.launch(pointers, out.data.ptr, stream, inputs[-1], wait=wait)

    def launch(
        self, pointers: Sequence[int], out: int, stream: Any = None, keep: Any = None, *, wait: bool = False
    ) -> Outcome | None:
        """`run` on arrays at these addresses. keep: kept alive by the outcome, which may read an index."""
        data, indices, target = self._lowest(pointers, out)
        program = self._program
        where = program.current_stream() if stream is None else self._pointer_of(stream)
        if not self._raises:
            program.launch(data, indices, target, where)
            return None
        if not wait:
            word = program.launch(data, indices, target, where)
            return DeviceOutcome(self.plan, self._inputs[1], indices, program, stream=where, word=word, keep=keep)
        offset = program.first_bad_of(data, indices, target, where)
        if offset is None:
            return None
        return DeviceOutcome(self.plan, self._inputs[1], indices, program, stream=where, word=None, keep=keep, found=offset)

    def _runner(self) -> RunAt:
        program, place, waits = self._program, self.device, self._raises
        device = place.index
        data_start, data_bytes, index_start, index_bytes, out_start, out_end = self._starts
        current_stream, current_device, thread = program.current_streams, program.current_device, program.thread

        def run_at(data: int, indices: int, out: int, stream: int | None = None) -> bool:
            low, high = out + out_start, out + out_end
            data += data_start
            if data < high and low < data + data_bytes:
                return False
            if indices:
                indices += index_start
                if indices < high and low < indices + index_bytes:
                    return False
            if stream is None:
                stream = current_stream(device).ptr
            if waits:
                return program.first_bad_of(data, indices, low, stream) is None
            launches = getattr(thread, "launchers", None)
            if launches is None or current_device() != device:
                program.launch(data, indices, low, stream)
                return True
            try:
                for launch in launches:
                    launch(data, indices, low, 0, stream)
            except RuntimeError as error:
                refuse_stream(error, stream, place)
                raise
            return True

        return run_at

    def bind(self, inputs: Sequence[Any], out: Any) -> BoundRun:
        # `a.data` is kept, and not `a`, whose memory could be exchanged later.
        kept = [array.data for array in (*inputs, out)]
        data, indices, target = self._lowest([memory.ptr for memory in kept[:-1]], kept[-1].ptr)
        program = self._program.reporting_alone()
        launch, pointer_of, current_stream = program.bind(data, indices, target, kept), self._pointer_of, program.current_stream
        if not self._raises:
            return cast("BoundRun", launch)
        outcome = DeviceOutcome(self.plan, self._inputs[1], indices, program, stream=0, word=None, keep=kept)

        def run(stream: Any = None) -> Outcome | None:
            where = current_stream() if stream is None else pointer_of(stream)
            outcome.stream, outcome.word = where, launch(where)
            return outcome

        return run

    def _pointer_of(self, stream: Any) -> int:
        return stream if type(stream) is int else stream_pointer(stream, self.device)


def prepare_call(
    lower: Lowering,
    device: Device,
    inputs: Sequence[Footprint],
    out: Footprint,
    signatures: Sequence[Signature] = (),
    *,
    alone: bool = False,
) -> PreparedCall:
    """How a problem runs on `device` for arrays of these footprints, which lie in its memory.

    signatures: those that the footprints follow from, inputs first; a GPU's calls do without. alone: on a GPU under RAISE,
    outcomes report on launches of this call alone, and may be asked at any time. ValueError when `out` cannot be written, or when
    a GPU could not read the indices where they lie.
    """
    check_output(out)
    alignment = 16
    if device.on_gpu:
        alignment = min(inputs[0].alignment, out.alignment)
        check_indices(inputs[1:])
    plan = lower([found.layout for found in (*inputs, out)])
    program = prepare_program(plan, device, alignment)
    if device.on_gpu:
        return DeviceCall(device, program.reporting_alone() if alone else program, plan, inputs, out)
    return HostCall(device, program, plan, inputs, out, signatures=signatures)


def prepare_program(plan: IndexPlan, device: Device, alignment: int = 16) -> Any:
    """The program for a plan on `device`, for pointers that are multiples of `alignment` bytes; compiled now, and kept."""
    plan.check_limits()
    if device.on_gpu:
        return _device_program(plan, device.index, alignment)
    from dmlgather.backends.cpu import engine

    return _host_program(plan, device, engine.load(), host.threads())


@lru_cache(PROGRAMS_KEPT)
def _device_program(plan: IndexPlan, number: int, alignment: int) -> Any:
    from dmlgather.backends import cuda

    return cuda.prepare(plan, number, alignment)


@lru_cache(PROGRAMS_KEPT)
def _host_program(plan: IndexPlan, device: Device, *_settings: Any) -> Any:
    """settings: what a program of the cpu backend depends on beside the plan."""
    from dmlgather.backends import cpu, reference

    return (reference if device.kind == "reference" else cpu).prepare(plan)


def forget_programs() -> None:
    """Drop the programs that are kept: for tests."""
    _device_program.cache_clear()
    _host_program.cache_clear()
