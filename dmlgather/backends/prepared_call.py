"""Prepared calls: one program for all arrays with the same signatures."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, TypeAlias, cast

import numpy as np

from dmlgather import host
from dmlgather.backends import arrays
from dmlgather.backends.adapter import NUMPY, Adapter, Repeater
from dmlgather.backends.addresses import address_of
from dmlgather.backends.devices import CPU, Device, refuse_stream, stream_pointer
from dmlgather.backends.footprints import FastPath, Footprint, Signature, check_indices, check_output, share_memory
from dmlgather.backends.outcomes import DeviceOutcome, HostOutcome, Outcome
from dmlgather.plan import IndexPlan, Layout, OutOfBounds

Lowering = Callable[[Sequence[Layout]], IndexPlan]
"""Function that returns an operator's plan for the layouts of the inputs and of the output."""

RunAt: TypeAlias = Callable[..., bool]
BoundRun: TypeAlias = Callable[..., Outcome | None]
"""Function that repeats `PreparedCall.run` on fixed arrays. On a GPU, it takes a stream or None."""

PROGRAMS_KEPT = 256
CALLS_KEPT = 256
"""Size of an LRU cache of prepared calls."""


class PreparedCall(ABC):
    """A program that can run on all arrays with certain signatures. It is thread-safe and holds no array.

    Its methods take NumPy or CuPy arrays in the memory of `device`: the inputs first, then the output.
    """

    def __init__(self, device: Device, program: Any, plan: IndexPlan, inputs: Sequence[Footprint], out: Footprint) -> None:
        self.device, self.plan, self.shape = device, plan, out.layout.sizes
        self.looks_up = len(inputs) > 1
        self._program, self._inputs, self._out = program, tuple(inputs), out
        self._raises = self.looks_up and plan.out_of_bounds is OutOfBounds.RAISE
        self.reports = self._raises and device.on_gpu
        """True if a run returns an outcome that the caller must check later."""
        self._fast_paths = dict[Adapter, FastPath | None]()
        # A tuple of plain integers, because every call compares addresses with them.
        data, indices = inputs[0], inputs[-1]
        lengths = data.end - data.start, indices.end - indices.start
        self._starts = data.start, lengths[0], indices.start, lengths[1], out.start, out.end

    @abstractmethod
    def run(self, inputs: Sequence[Any], out: Any, stream: Any = None, *, wait: bool = False) -> Outcome | None:
        """Run on NumPy or CuPy arrays. On a GPU, launch on `stream` (None: CuPy's current stream) without waiting.

        Returns None if the policy is not RAISE. Under RAISE, a run on a GPU returns an outcome, which tells later if an index
        was bad. A run on the CPU, or with `wait`, has finished already. It returns an outcome only if an index was bad.

        Raises ValueError if `out` overlaps an input, and TypeError if `stream` is no stream of the device.
        """

    run_at: RunAt
    """Function that runs the call on the addresses of data, indices (0 without lookups) and output, and of a stream.

    Without a stream, it runs on CuPy's current one. A call in host memory ignores the stream. It waits under RAISE. It returns
    False if `run` must run the call or raise its error. It calls few Python functions, because each Python frame costs time.
    """

    @abstractmethod
    def bind(self, inputs: Sequence[Any], out: Any) -> BoundRun:
        """Return a function that runs again on these arrays at each call. The function keeps their memory alive.

        On a GPU, the function only launches, so a CUDA graph can capture it. Its outcomes report only its own launches. Raises
        ValueError if `out` overlaps an input.
        """

    def fast_path(self, args: Sequence[Any]) -> FastPath | None:
        """Return a function that runs this call on arrays like `args` faster than `run`, or None.

        The function checks the signatures itself. `args`: the inputs, then the output.
        """
        if len({*map(type, args)}) > 1:
            return None
        adapter = arrays.adapter_of(args[0])
        if adapter not in self._fast_paths:
            self._fast_paths[adapter] = None if self.reports else self.fast_path_on(adapter, args)
        return self._fast_paths[adapter]

    def fast_path_on(self, adapter: Adapter, args: Sequence[Any]) -> FastPath | None:
        """Make the function of `fast_path` for arrays of one library. Return None if there is none."""
        return adapter.fast_path(self, args)

    def repeater(self, adapters: Sequence[Adapter]) -> Repeater:
        """Return a function that repeats the call on other arrays.

        The returned function checks nothing. Pass only arrays with the same signatures.
        `adapters`: the adapter of each array. On a GPU, they must be equal.
        """
        return adapters[0].repeater(self, adapters)

    def _lowest(self, pointers: Sequence[int], out: int) -> tuple[int, int, int]:
        """Return the lowest addresses of data, indices and output.

        `pointers`: the addresses of the inputs. Raises ValueError if the output overlaps an input.
        """
        data_start, data_bytes, index_start, index_bytes, out_start, out_end = self._starts
        low, high = out + out_start, out + out_end
        data, indices = pointers[0] + data_start, 0
        near = data < high and low < data + data_bytes
        if self.looks_up:
            indices = pointers[1] + index_start
            near = near or (indices < high and low < indices + index_bytes)
        if near:
            for footprint, pointer in zip(self._inputs, pointers, strict=True):
                if share_memory(footprint, pointer, self._out, out):
                    raise ValueError(f"out overlaps {footprint.name}, but a call cannot run in place: pass another array")
        return data, indices, low


class HostCall(PreparedCall):
    """A prepared call in host memory."""

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
        super().__init__(device, program, plan, inputs, out)
        footprints = (*inputs, out)
        # The engine's function of addresses. None if NumPy or the reference backend runs, or if elements hold references.
        references = any(footprint.dtype.hasobject for footprint in footprints)
        self._launch = None if references else program.launch
        self._fast_path: FastPath | None = None
        if self._launch is not None:
            self._fast_path = program.fast_path(signatures, [(footprint.start, footprint.end) for footprint in footprints])
        self.run_at = self._runner()

    def run(self, inputs: Sequence[Any], out: Any, stream: Any = None, *, wait: bool = False) -> Outcome | None:  # noqa: ARG002
        if stream is not None:
            stream_pointer(stream, CPU)
        if self._fast_path is not None and self._fast_path(*inputs, out):
            return None
        data, indices, target = self._lowest([*map(address_of, inputs)], address_of(out))
        if self._launch is None:
            bad = self._program.run(*self._flats(inputs, out))
        elif (bad := self._launch(data, indices, target)) < 0:
            return None
        return None if bad is None else HostOutcome(self.plan, self._inputs[1], self._inputs[1].flat(inputs[1]), bad)

    def _runner(self) -> RunAt:
        launch = self._launch
        data_start, data_bytes, index_start, index_bytes, out_start, out_end = self._starts
        if launch is None:
            return lambda *_: False

        def run_at(data: int, indices: int, out: int, stream: int | None = None) -> bool:  # noqa: ARG001 - the CPU has none
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

        return run if self._raises else cast("BoundRun", execute)  # a Python frame would take a third of the call

    def fast_path_on(self, adapter: Adapter, args: Sequence[Any]) -> FastPath | None:
        if adapter is NUMPY:
            return self._fast_path
        return None if self._launch is None else adapter.fast_path(self, args)

    def repeater(self, adapters: Sequence[Adapter]) -> Repeater:
        return self.repeat_on_views if all(adapter is NUMPY for adapter in adapters) else super().repeater(adapters)

    def repeat_on_views(self, args: Sequence[Any]) -> Any:
        """Repeat the call on NumPy arrays, and return the output. `args`: the inputs, then `out` or None.

        Returns None if the call must raise an error.
        """
        *inputs, out = args
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
    """A prepared call on a GPU."""

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
        """Run on arrays at these addresses, like `run`.

        `pointers`: the addresses of the inputs. `keep`: the object that owns the memory of the indices.
        """
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
        return DeviceOutcome(self.plan, self._inputs[1], indices, program, stream=where, word=None, keep=keep, bad_offset=offset)

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
        # Keep the memory (`array.data`) instead of the array, because an array may get other memory later.
        kept = [array.data for array in (*inputs, out)]
        data, indices, target = self._lowest([memory.ptr for memory in kept[:-1]], kept[-1].ptr)
        program = self._program.with_own_words()
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
    own_words: bool = False,
) -> PreparedCall:
    """Prepare an operator for arrays with these footprints.

    `own_words`: on a GPU, True gives the call its own memory for the offset of a bad index, so that outcomes report only this
    call. False shares the memory among all calls of a plan on one stream.

    Raises ValueError if the arrays cannot be used, such as a read-only output.
    """
    check_output(out)
    alignment = 16
    if device.on_gpu:
        alignment = min(inputs[0].alignment, out.alignment)
        check_indices(inputs[1:])
    plan = lower([footprint.layout for footprint in (*inputs, out)])
    program = prepare_program(plan, device, alignment)
    if device.on_gpu:
        return DeviceCall(device, program.with_own_words() if own_words else program, plan, inputs, out)
    return HostCall(device, program, plan, inputs, out, signatures=signatures)


def prepare_program(plan: IndexPlan, device: Device, alignment: int = 16) -> Any:
    """Return the program for a plan from a cache. `alignment`: the alignment of all pointers, in bytes."""
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
    """Return the program for the CPU or the reference backend from a cache. `_settings` are only part of the cache's key."""
    from dmlgather.backends import cpu, reference

    return (reference if device.kind == "reference" else cpu).prepare(plan)


def forget_programs() -> None:
    """Clear the caches of programs. Only tests call it."""
    _device_program.cache_clear()
    _host_program.cache_clear()
