"""A program evaluated with JAX, each equation's result compared with its plan's, byte for byte."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dmlgather.backends import cpu
from dmlgather.lax.tracing import jaxprs
from dmlgather.lax.tracing.equation_problems import operands
from dmlgather.lax.tracing.jaxpr_evaluation import JaxprEvaluator
from dmlgather.lax.tracing.jaxprs import Place
from dmlgather.tracing.entries import Runs, TraceEntry


def execute_program(program: Any, values: Sequence[Any], entries: Mapping[Place, TraceEntry]) -> dict[Place, TraceEntry]:
    """The entries with their runs, when JAX evaluates the program on these values."""
    comparisons = {place: _Comparison(entry) for place, entry in entries.items()}
    evaluator = JaxprEvaluator(entries, lambda place, *run: comparisons[place].add_run(*run))
    evaluator.run(program, values)
    return {place: replace(entry, runs=comparisons[place].runs(evaluator.why_not_run(place))) for place, entry in entries.items()}


@dataclass
class _Comparison:
    """One equation's runs so far. difference: the first one, in words."""

    entry: TraceEntry
    count: int = 0
    difference: str = ""
    program: Any = field(default=None)

    def add_run(self, eqn: Any, inputs: Sequence[Any], results: Sequence[Any]) -> None:
        self.count += 1
        if self.entry.plan is None or self.difference:
            return
        self.program = self.program or cpu.prepare(self.entry.plan)
        expected = np.ascontiguousarray(jaxprs.array(results[0], eqn.outvars[0].aval.dtype))
        data, *indices = (np.ascontiguousarray(array).reshape(-1) for array in operands(eqn, inputs))
        # The result starts as the opposite of what is expected, so that an element that is not written differs.
        result = (~_bytes(expected)).reshape(-1).view(expected.dtype)
        self.program.run(data, indices[0] if indices else None, result)
        unequal = (_bytes(result) != _bytes(expected)).any(axis=1)
        if unequal.any():
            first = int(unequal.argmax())
            position = [int(number) for number in np.unravel_index(first, expected.shape)]
            by_plan, by_jax = (f"0x{_bytes(array)[first][::-1].tobytes().hex()}" for array in (result, expected))
            self.difference = f"in run {self.count} result{position} is {by_plan} by the plan and {by_jax} in JAX"

    def runs(self, why_not_run: str) -> Runs:
        """The runs in short. why_not_run: the note of an equation that has not run."""
        if self.count == 0:
            return Runs(0, None, why_not_run)
        if self.entry.plan is None:
            return Runs(self.count, None, f"no plan: {self.entry.no_plan}")
        return Runs(self.count, not self.difference, self.difference)


def _bytes(array: NDArray[Any]) -> NDArray[np.uint8]:
    """The bytes of each element, shape [elements, bytes]."""
    return array.reshape(-1).view(np.uint8).reshape(array.size, array.dtype.itemsize)
