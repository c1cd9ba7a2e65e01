"""The CPU backend: executes a plan by the compiled engine, or by NumPy if there is no engine."""

from dmlgather.backends.cpu import engine
from dmlgather.backends.cpu.program import CpuProgram
from dmlgather.plan import IndexPlan


def prepare(plan: IndexPlan) -> CpuProgram:
    """Return the program for a plan. The plan need not be canonical."""
    return CpuProgram(plan, engine.load())


__all__ = ["CpuProgram", "prepare"]
