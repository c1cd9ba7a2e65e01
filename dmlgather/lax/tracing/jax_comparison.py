"""What JAX computes and what the plans compute, on the same values, byte for byte."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dmlgather.backends import cpu
from dmlgather.lax.tracing.equation_problems import operands
from dmlgather.lax.tracing.jaxpr_evaluation import Stepper
from dmlgather.lax.tracing.jaxprs import Place
from dmlgather.lax.tracing.trace_entries import Runs, TraceEntry


def check(program: Any, values: Sequence[Any], entries: Mapping[Place, TraceEntry]) -> dict[Place, TraceEntry]:
    """The entries with what came of them when the program was evaluated on these values."""
    checks = {place: _Check(entry) for place, entry in entries.items()}
    stepper = Stepper(entries, lambda place, *run: checks[place].see(*run))
    stepper.run(program, values)
    return {place: entry.stated(runs=checks[place].runs(stepper.around(place))) for place, entry in entries.items()}


@dataclass
class _Check:
    """One equation's runs so far."""

    entry: TraceEntry
    count: int = 0
    differing: str = ""
    program: Any = field(default=None)

    def see(self, eqn: Any, inputs: Sequence[Any], results: Sequence[Any]) -> None:
        self.count += 1
        if self.entry.plan is None or self.differing:
            return
        self.program = self.program or cpu.prepare(self.entry.plan)
        expected = np.ascontiguousarray(results[0])
        found = self._run(operands(eqn, inputs), expected)
        unequal = (_bytes(found) != _bytes(expected)).any(axis=1)
        if unequal.any():
            self.differing = self._first(int(unequal.argmax()), found, expected)

    def _run(self, arrays: Sequence[NDArray[Any]], expected: NDArray[Any]) -> NDArray[Any]:
        """The plan's result. It starts as the opposite of what is expected, so that an element that is not written differs."""
        data, *indices = (np.ascontiguousarray(array).reshape(-1) for array in arrays)
        out = (~_bytes(expected)).reshape(-1).view(expected.dtype)
        self.program.run(data, indices[0] if indices else None, out)
        return out

    def _first(self, at: int, found: NDArray[Any], expected: NDArray[Any]) -> str:
        position = [int(number) for number in np.unravel_index(at, expected.shape)]
        ours, theirs = (f"0x{_bytes(array)[at][::-1].tobytes().hex()}" for array in (found, expected))
        return f"in run {self.count} result{position} is {ours} by the plan and {theirs} in JAX"

    def runs(self, whole: str | None) -> Runs:
        if self.count == 0:
            note = f"{whole} around it was evaluated as a whole" if whole else "these values do not lead to it"
            return Runs(0, None, note)
        if self.entry.plan is None:
            return Runs(self.count, None, f"no plan: {self.entry.no_plan}")
        return Runs(self.count, not self.differing, self.differing)


def _bytes(array: NDArray[Any]) -> NDArray[np.uint8]:
    """The bytes of each element, shape [elements, bytes]."""
    return array.reshape(-1).view(np.uint8).reshape(array.size, array.dtype.itemsize)
