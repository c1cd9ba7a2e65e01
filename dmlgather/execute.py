"""Run one problem on whatever arrays come: lower for their layouts, prepare once per device and layout, execute.

A problem is a function from layouts to an IndexPlan. DirectML descriptors are the first kind; nothing here knows them.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from dmlgather.backends.arrays import Operand, check_indices, check_output, check_output_layout
from dmlgather.backends.devices import Device
from dmlgather.plan import IndexPlan, Layout, OutOfBounds, coordinates

Lowering = Callable[[Sequence[Layout]], IndexPlan]
"""Layouts of the inputs, then of the output -> plan."""

PROGRAMS_KEPT = 64
"""Prepared programs that one executor keeps (least recently used leave first)."""


@dataclass(frozen=True, slots=True)
class BadIndex:
    """The first bad index of a RAISE plan: its offset in the index buffer (elements), value, and lookup number.

    overwritten: the buffer holds a valid value there by now, which `value` is.
    """

    offset: int
    value: int
    lookup: int
    overwritten: bool = False


class Call:
    """One program bound to one set of arrays, which it keeps alive: the cheapest way to run the same thing again.

    On a GPU, running only writes pointers and launches, so that a call can be captured into a CUDA graph.
    """

    def __init__(self, program: Any, plan: IndexPlan, inputs: Sequence[Operand], out: Operand) -> None:
        self._program, self._plan, self._out = program, plan, out
        self._data, self._indices = inputs[0], inputs[1] if len(inputs) > 1 else None
        self._bad: int | None = None
        self._stream = 0
        if not out.device.on_gpu:
            self._flats = (
                self._data.flat(),
                None if self._indices is None else self._indices.flat(),
                out.flat(),
            )

    @property
    def plan(self) -> IndexPlan:
        """The plan for these arrays' layouts, as lowered."""
        return self._plan

    def run(self, stream: int = 0) -> None:
        """Execute; on a GPU asynchronously on the stream with that address."""
        if self._out.device.on_gpu:
            index_pointer = 0 if self._indices is None else self._indices.pointer
            self._program.launch(self._data.pointer, index_pointer, self._out.pointer, stream)
            self._stream = stream
        else:
            self._bad = self._program.run(*self._flats)

    def bad_index(self) -> BadIndex | None:
        """The bad index of the last run under RAISE, None when there was none. On a GPU this waits for the stream."""
        if self._plan.out_of_bounds is not OutOfBounds.RAISE or self._indices is None:
            return None
        offset = self._program.first_bad(self._stream) if self._out.device.on_gpu else self._bad
        if offset is None:
            return None
        value = int(_element(self._indices, offset))
        return _bad_index(self._plan, offset, value)

    def raise_for_bad_index(self, name: str, axes: Sequence[int], windows: Sequence[int] = ()) -> None:
        """IndexError for `bad_index`, if there is one.

        name: of the index tensor, for the message. axes: the axis of the data that each lookup indexes. windows: the number of
        elements from there on that it must leave room for; left out, 1.
        """
        bad = self.bad_index()
        if bad is None or self._indices is None:
            return
        lookup, axis, window = self._plan.lookups[bad.lookup], axes[bad.lookup], windows[bad.lookup] if windows else 1
        position = _position(self._indices.layout, bad, len(self._plan.lookups))
        where = f"[{', '.join(map(str, position))}]" if position is not None else f" at offset {bad.offset}"
        valid = f"{-lookup.wrap} … {lookup.limit - 1}" if lookup.limit else "none (the axis has size 0)"
        found = f"was out of range (it is {bad.value} by now)" if bad.overwritten else f"= {bad.value} is out of range"
        place = f"axis {axis} of size {lookup.limit + window - 1}"
        place = place if window == 1 else f"a window of {window} along {place}"
        raise IndexError(f"{name}{where} {found} for {place}: valid indices are {valid}")


class Executor:
    """Programs for one problem, prepared per device, layouts and alignment, and kept."""

    def __init__(self, lower: Lowering) -> None:
        self._lower = lower
        self._programs: OrderedDict[tuple[Any, ...], tuple[Any, IndexPlan]] = OrderedDict()
        self._lock = threading.Lock()

    def bind(self, device: Device, inputs: Sequence[Operand], out: Operand, *, reports_alone: bool = False) -> Call:
        """The call that runs the problem on these operands, which lie in `device`'s memory.

        reports_alone: under RAISE on a GPU, other calls on the same stream leave the call's bad index as it is.

        ValueError when `out` cannot be written, or when a GPU could not read the indices where they lie.
        """
        check_output(out, inputs)
        alignment = 16
        if device.on_gpu:
            alignment = min(inputs[0].alignment, out.alignment)
            check_indices(inputs[1:])
        layouts = (*(operand.layout for operand in inputs), out.layout)
        program, plan = self._prepared(device, layouts, alignment)
        return Call(program.reporting_alone() if reports_alone and device.on_gpu else program, plan, inputs, out)

    def prepare(self, device: Device, layouts: Sequence[Layout], alignment: int = 16) -> Any:
        """The program for arrays of these layouts on `device`; compiled now."""
        return self._prepared(device, tuple(layouts), alignment)[0]

    def _prepared(self, device: Device, layouts: tuple[Layout, ...], alignment: int) -> tuple[Any, IndexPlan]:
        key = (device, layouts, alignment)
        with self._lock:
            found = self._programs.get(key)
            if found is not None:
                self._programs.move_to_end(key)
                return found
        check_output_layout(layouts[-1])
        plan = self._lower(layouts)
        plan.check_limits()
        found = (_prepare(device, plan, alignment), plan)
        with self._lock:
            self._programs[key] = found
            while len(self._programs) > PROGRAMS_KEPT:
                self._programs.popitem(last=False)
        return found


def _prepare(device: Device, plan: IndexPlan, alignment: int) -> Any:
    if device.on_gpu:
        from dmlgather.backends import cuda

        return cuda.prepare(plan, device.index, alignment)
    from dmlgather.backends import cpu, reference

    return reference.prepare(plan) if device.kind == "reference" else cpu.prepare(plan)


def _element(indices: Operand, offset: int) -> Any:
    if not indices.device.on_gpu:
        return indices.flat()[offset]
    from dmlgather.backends.cuda import read_element

    return read_element(indices.pointer + offset * indices.dtype.itemsize, indices.dtype, indices.device.index)


def _position(layout: Layout, bad: BadIndex, lookups: int) -> tuple[int, ...] | None:
    """Coordinates of a bad index. Where there are several lookups, each reads its own component along the last dimension."""
    if lookups == 1:
        return layout.position(bad.offset)
    address = bad.offset - layout.offset - bad.lookup * layout.strides[-1]
    outer = coordinates(address, layout.sizes[:-1], layout.strides[:-1])
    return None if outer is None else (*outer, bad.lookup)


def _bad_index(plan: IndexPlan, offset: int, value: int) -> BadIndex:
    """The bad index at `offset`, by the first lookup that reads it and refuses `value`."""
    reading = [
        number
        for number, lookup in enumerate(plan.lookups)
        if coordinates(offset - lookup.index_offset, plan.index_shape, lookup.index_strides) is not None
    ]
    for number in reading:
        lookup = plan.lookups[number]
        if not 0 <= (value + lookup.wrap if value < 0 else value) < lookup.limit:
            return BadIndex(offset, value, number)
    return BadIndex(offset, value, reading[0], overwritten=True)  # a GPU is asked later than it runs
