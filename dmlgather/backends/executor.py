"""Prepare one problem for whatever arrays come: lower for their layouts, prepare once per device and layouts, and keep.

A problem is a function from layouts to an IndexPlan. DirectML descriptors are the first kind; nothing here knows them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any

from dmlgather.backends.devices import Device
from dmlgather.backends.footprints import Footprint, check_indices, check_output
from dmlgather.backends.routes import DeviceRoute, HostRoute, Route
from dmlgather.plan import IndexPlan, Layout

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

    def route(self, device: Device, inputs: Sequence[Footprint], out: Footprint) -> Route:
        """How the problem runs on `device` for arrays of these footprints, which lie in its memory.

        ValueError when `out` cannot be written, or when a GPU could not read the indices where they lie.
        """
        check_output(out)
        alignment = 16
        if device.on_gpu:
            alignment = min(inputs[0].alignment, out.alignment)
            check_indices(inputs[1:])
        program, plan = self._prepared(device, (*(found.layout for found in inputs), out.layout), alignment)
        return (DeviceRoute if device.on_gpu else HostRoute)(device, program, plan, inputs, out)

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
