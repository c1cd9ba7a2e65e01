"""Both ways to run plans on the CPU, for tests that apply to either: the compiled engine, and NumPy alone."""

from __future__ import annotations

import os
from dataclasses import dataclass

from dmlgather.backends.cpu import CpuProgram, engine
from dmlgather.plan import IndexPlan

ENGINE_EXPECTED = os.environ.get("DMLGATHER_PURE") != "1"
"""Whether the engine must exist. `test_the_engine_is_loaded_if_expected` compares it."""

NAMES = ("engine", "fallback") if ENGINE_EXPECTED else ("fallback",)

BLOCKS = (0, 24, 1)
"""Units of a block: the measured number, a small one that gives small plans many blocks, and one."""


@dataclass(frozen=True, slots=True)
class Way:
    """A way to run plans, one of `NAMES`."""

    name: str

    def prepare(self, plan: IndexPlan, block_units: int = 0, threads: int = 0) -> CpuProgram:
        """Return the program that runs `plan` this way. AssertionError if the engine is missing."""
        if self.name == "fallback":
            return CpuProgram(plan, None, block_units=block_units)
        loaded = engine.load()
        assert loaded is not None, engine.status()
        return CpuProgram(plan, loaded, block_units=block_units, threads=threads)
