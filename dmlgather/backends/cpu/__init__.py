"""The CPU backend: executes a plan by the compiled engine, or by NumPy where there is none."""

from dmlgather.backends.cpu import engine
from dmlgather.backends.cpu.program import CpuProgram
from dmlgather.plan import IndexPlan


def prepare(plan: IndexPlan) -> CpuProgram:
    """The program for a plan in any form."""
    return CpuProgram(plan, engine.load())


__all__ = ["CpuProgram", "prepare"]
