"""The CPU backend: executes a plan with NumPy primitives that do the work in C, over a kept pool of threads."""

from dmlgather.backends.cpu.program import CpuProgram

prepare = CpuProgram

__all__ = ["CpuProgram", "prepare"]
