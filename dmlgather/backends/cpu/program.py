"""A plan prepared for the CPU: recipes chosen and blocks cut once, run many times by any number of threads."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dmlgather import host
from dmlgather.backends.cpu import recipes, threads, units
from dmlgather.backends.cpu.buffers import Buffers
from dmlgather.backends.cpu.geometry import Geometry
from dmlgather.backends.cpu.recipes import Recipe, Task
from dmlgather.backends.cpu.tuning import MEASURED, Tuning
from dmlgather.plan import IndexPlan, OutOfBounds, canonicalise
from dmlgather.wording import counted


class CpuProgram:
    """An immutable program for a plan in any form. Threads may share it, because every run has its own scratch memory.

    Preparing it raises ValueError when CLAMP or PROMISE looks into an axis without elements.
    """

    def __init__(self, plan: IndexPlan, tuning: Tuning = MEASURED) -> None:
        plan.check_limits()
        self.plan, self.tuning = plan, tuning
        # Void items need no alignment, so elements are joined by Geometry, freely, and not by the canonical form.
        self.canonical = canonicalise(plan, plan.element_bytes)
        self.index_dtype = None if plan.index_type is None else np.dtype(plan.index_type.value.lower())
        self._geometry = Geometry.of(self.canonical, plan.in_extent)
        weight = self._geometry.joined(self._geometry.run).weight
        self.shares = min(host.cpus(), 1 + weight // tuning.share_bytes)
        self._long = bool(plan.lookups) and self._geometry.run >= tuning.long_unit

    def run(self, data: NDArray[Any], indices: NDArray[Any] | None, out: NDArray[Any]) -> int | None:
        """Execute the plan and return, under RAISE, the smallest offset (elements of the index buffer) of a bad index: `bind` and
        one call of what it returns.
        """
        return self.bind(data, indices, out)()

    def bind(self, data: NDArray[Any], indices: NDArray[Any] | None, out: NDArray[Any]) -> Callable[[], int | None]:
        """The plan on these buffers, checked once: calling it executes as `run` does, any number of times, from any thread, on
        what the buffers hold by then.

        data: [>= in_extent] and out: [>= out_extent], contiguous, of data types of `plan.element_bytes` bytes; indices:
        [>= index_extent] of `plan.index_type`, None without lookups. Under RAISE the output is complete only when None is
        returned. Raises ValueError when a buffer is not that, TypeError where elements hold references and the output is of
        another data type or the plan would write raw fill bytes, and for StringDType.
        """
        plan = self.plan
        _check_buffer("input", data, plan.in_extent, plan.element_bytes)
        _check_buffer("output", out, plan.out_extent, plan.element_bytes)
        if not out.flags.writeable:
            raise ValueError("the output buffer is read-only")
        if self.index_dtype is not None:
            if indices is None:
                raise ValueError("the plan looks up indices, got no index buffer")
            _check_buffer("index", indices, plan.index_extent, self.index_dtype.itemsize)
            if indices.dtype != self.index_dtype:
                raise ValueError(f"the index buffer has data type {indices.dtype}, expected {self.index_dtype}")
        if data.dtype.hasobject or out.dtype.hasobject:
            self._check_references(data, out)
            _, task = self._references
        elif self._long and units.stalls(self._geometry, self.tuning, data.ctypes.data, out.ctypes.data):
            _, task = self._steady
        else:
            _, task = self._opaque
        buffers = Buffers.of(task.geometry, data, indices, out)
        if task.blocks.count == 1:
            return task.bind(buffers)
        return functools.partial(threads.run_blocks, functools.partial(task.begin, buffers), task.blocks.count, self.shares)

    def describe(self) -> str:
        """The recipe, why it was chosen, and the blocks."""
        recipe, task = self._opaque
        used = min(self.shares, max(task.blocks.count, 1))
        return (
            f"{recipe.name}: {recipe.why}; {counted(task.blocks.count, 'block')} of up to {list(task.blocks.sizes)} units of "
            f"{counted(task.geometry.unit, 'byte')} on {counted(used, 'thread')}"
        )

    @functools.cached_property
    def _opaque(self) -> tuple[Recipe, Task]:
        return recipes.apply(self._geometry, self.tuning, self.shares, opaque=True)

    @functools.cached_property
    def _steady(self) -> tuple[Recipe, Task]:
        return recipes.apply(self._geometry, self.tuning, self.shares, opaque=True, steady=True)

    @functools.cached_property
    def _references(self) -> tuple[Recipe, Task]:
        return recipes.apply(self._geometry, self.tuning, self.shares, opaque=False)

    def _check_references(self, data: NDArray[Any], out: NDArray[Any]) -> None:
        if data.dtype.kind == "T":
            raise TypeError(f"{data.dtype} elements point into memory of their own array; convert them with .astype(object)")
        if data.dtype != out.dtype:
            raise TypeError(f"the input holds {data.dtype} elements, the output {out.dtype}: references cannot change type")
        if self.plan.out_of_bounds is OutOfBounds.FILL:
            raise TypeError(f"FILL writes raw bytes, which {data.dtype} elements cannot be made of; use another policy")


def _check_buffer(name: str, buffer: NDArray[Any], extent: int, itemsize: int) -> None:
    if buffer.ndim != 1 or not buffer.flags.c_contiguous:
        raise ValueError(
            f"the {name} buffer has shape {buffer.shape} and strides {buffer.strides}, expected one contiguous dimension"
        )
    if buffer.dtype.itemsize != itemsize:
        raise ValueError(f"the {name} buffer's elements have {buffer.dtype.itemsize} bytes, expected {itemsize}")
    if buffer.size < extent:
        raise ValueError(f"the {name} buffer has {buffer.size} elements, expected at least {extent}")
