"""A plan prepared for the CPU. The compiled engine or NumPy executes it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dmlgather.backends.cpu import engine
from dmlgather.backends.cpu.engine import Engine, EngineProgram
from dmlgather.backends.cpu.fallback import NumpyProgram
from dmlgather.backends.cpu.lookups import LARGEST
from dmlgather.backends.footprints import FastPath, Signature
from dmlgather.plan import IndexPlan, OutOfBounds, canonicalise


class CpuProgram:
    """A plan prepared for the CPU. The plan need not be canonical. The program is immutable and thread-safe."""

    def __init__(
        self, plan: IndexPlan, compiled: Engine | None, *, threads: int = 0, block_units: int = 0, loops: str = ""
    ) -> None:
        """Prepare a plan.

        `compiled`: the compiled engine, or None to run with NumPy. Raises ValueError if a limit or wrap is 2^63 or more, or
        if a CLAMP or PROMISE plan indexes an axis of size 0.
        """
        plan.check_limits()
        self.plan = plan
        self.canonical = canonicalise(plan, plan.element_bytes)  # no wider elements, because buffers may have any alignment
        for lookup in self.canonical.lookups:
            if max(lookup.limit, lookup.wrap) > LARGEST:
                raise ValueError(f"a lookup has limit {lookup.limit} and wrap {lookup.wrap}, expected at most {LARGEST}")
        self.index_dtype = None if plan.index_type is None else np.dtype(plan.index_type.value.lower())
        self._compiled, self._threads, self._block_units, self._loops = compiled, threads, block_units, loops

    @property
    def launch(self) -> Callable[[int, int, int], int] | None:
        """Function that runs the plan on addresses (`EngineProgram.launch`), or None if NumPy runs the plan.

        It must not be used for arrays of Python objects.
        """
        return None if self._engine is None else self._engine.launch

    def fast_path(self, arrays: Sequence[Signature], spans: Sequence[tuple[int, int]]) -> FastPath | None:
        """Return a function that checks arrays and runs the plan on them (`EngineProgram.fast_path`).

        Returns None if NumPy runs the plan.
        """
        return None if self._engine is None else self._engine.fast_path(arrays, spans)

    def run(self, data: NDArray[Any], indices: NDArray[Any] | None, out: NDArray[Any]) -> int | None:
        """Execute the plan once on these buffers. Returns what the function of `bind` returns."""
        return self.bind(data, indices, out)()

    def bind(self, data: NDArray[Any], indices: NDArray[Any] | None, out: NDArray[Any]) -> Callable[[], int | None]:
        """Return a thread-safe function that executes the plan on the buffers' current contents.

        Under RAISE, the function returns the smallest offset of a bad index, in elements. The output is then incomplete.
        Otherwise it returns None.

        `data`, `out`: elements of `plan.element_bytes` bytes. `indices`: elements of `plan.index_type`; None without lookups.

        Raises ValueError if a buffer is too short, has other elements, or is not one-dimensional and contiguous, and if `out`
        is read-only. Raises TypeError for StringDType, and for Python objects under FILL or with different types.
        """
        self._check(data, indices, out)
        if data.dtype.hasobject or out.dtype.hasobject:
            self._check_references(data, out)
            return self._numpy.bind(data, indices, out)
        return (self._numpy if self._engine is None else self._engine).bind(data, indices, out)

    def describe(self) -> str:
        """Return the text for `explain`: whether the engine or NumPy runs the plan, and how."""
        if self._engine is not None:
            return self._engine.describe()
        return f"{self._numpy.describe()}; by NumPy, as {engine.status()}"

    @cached_property
    def _engine(self) -> EngineProgram | None:
        if self._compiled is None:
            return None
        return self._compiled.prepare(self.canonical, self._threads, self._block_units, self._loops)

    @cached_property
    def _numpy(self) -> NumpyProgram:
        return NumpyProgram(self.canonical, self._block_units)

    def _check(self, data: NDArray[Any], indices: NDArray[Any] | None, out: NDArray[Any]) -> None:
        plan = self.plan
        _check_buffer("input", data, plan.in_extent, plan.element_bytes)
        _check_buffer("output", out, plan.out_extent, plan.element_bytes)
        if not out.flags.writeable:
            raise ValueError("the output buffer is read-only")
        if self.index_dtype is None:
            return
        if indices is None:
            raise ValueError("the plan looks up indices, got no index buffer")
        _check_buffer("index", indices, plan.index_extent, self.index_dtype.itemsize)
        if indices.dtype != self.index_dtype:
            raise ValueError(f"the index buffer has data type {indices.dtype}, expected {self.index_dtype}")

    def _check_references(self, data: NDArray[Any], out: NDArray[Any]) -> None:
        if data.dtype.kind == "T":
            raise TypeError(f"{data.dtype} elements point into memory of their own array; convert them with .astype(object)")
        if data.dtype != out.dtype:
            raise TypeError(f"the input holds {data.dtype} elements, the output {out.dtype}: references cannot change type")
        if self.plan.out_of_bounds is OutOfBounds.FILL:
            raise TypeError(f"FILL writes raw bytes, but {data.dtype} elements are references; use another policy")


def _check_buffer(name: str, buffer: NDArray[Any], extent: int, itemsize: int) -> None:
    if buffer.ndim != 1 or not buffer.flags.c_contiguous:
        raise ValueError(
            f"the {name} buffer has shape {buffer.shape} and strides {buffer.strides}, expected one contiguous dimension"
        )
    if buffer.dtype.itemsize != itemsize:
        raise ValueError(f"the {name} buffer's elements have {buffer.dtype.itemsize} bytes, expected {itemsize}")
    if buffer.size < extent:
        raise ValueError(f"the {name} buffer has {buffer.size} elements, expected at least {extent}")
