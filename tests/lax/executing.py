"""Traced functions evaluated with JAX, each equation's result compared with its plan's, byte for byte."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

import dmlgather as dg
from dmlgather.backends import cpu
from dmlgather.fusion.traces import TraceEntry
from dmlgather.lax.tracing import jaxprs
from dmlgather.lax.tracing.equation_problems import PRIMITIVES
from dmlgather.lax.tracing.jaxprs import equations
from tests.executed_traces import Executed, ExecutedEntry, Runs
from tests.lax.jaxpr_evaluation import JaxprEvaluator


def executed(fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Executed:
    """The trace of a function, executed on the arguments: JAX evaluates it equation by equation, also inside calls and loops."""
    trace = dg.lax.trace(fn, *args, **kwargs)
    program = jax.make_jaxpr(fn)(*args, **kwargs)
    indexing = [place for place, eqn, _ in equations(program) if eqn.primitive.name in PRIMITIVES and jaxprs.of_lax(eqn)]
    comparisons = {place: _Comparison(entry) for place, entry in zip(indexing, trace, strict=True)}
    evaluator = JaxprEvaluator(comparisons, lambda place, *run: comparisons[place].add_run(*run))
    values = [
        leaf if isinstance(leaf, jax.Array) else jax.numpy.asarray(leaf, aval.dtype)
        for leaf, aval in zip(jax.tree.leaves((args, kwargs)), program.in_avals, strict=True)
    ]
    evaluator.run(program, values)
    runs = {place: each.runs(evaluator.why_not_run(place)) for place, each in comparisons.items()}
    return Executed(trace, tuple(ExecutedEntry.of(comparisons[place].entry, each) for place, each in runs.items()))


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
        data, *indices = (np.ascontiguousarray(array).reshape(-1) for array in _operands(eqn, inputs))
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


def _operands(eqn: Any, inputs: Sequence[Any]) -> list[NDArray[Any]]:
    """The arrays that the problem of an equation takes, from the values that the equation reads."""
    data, *indices = (jaxprs.array(value, atom.aval.dtype) for atom, value in zip(eqn.invars, inputs, strict=True))
    if eqn.primitive.name == "dynamic_slice":
        return [data, np.array(indices, indices[0].dtype if indices else np.int32)]
    return [data, *indices]


def _bytes(array: NDArray[Any]) -> NDArray[np.uint8]:
    """The bytes of each element, shape [elements, bytes]."""
    return array.reshape(-1).view(np.uint8).reshape(array.size, array.dtype.itemsize)
