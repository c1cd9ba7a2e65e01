"""Both ways to run a plan on the CPU, for tests that hold for either: by the compiled engine, and by NumPy alone."""

from __future__ import annotations

import os
from dataclasses import dataclass

from dmlgather.backends.cpu import CpuProgram, engine
from dmlgather.plan import IndexPlan

ENGINE_EXPECTED = os.environ.get("DMLGATHER_PURE") != "1"
"""Whether the engine must be there: `test_the_engine_is_there` compares it with what is there."""

NAMES = ("engine", "fallback") if ENGINE_EXPECTED else ("fallback",)

BLOCKS = (0, 24, 1)
"""Units of a block: as measured, few, so that small plans have many blocks, and one."""


@dataclass(frozen=True, slots=True)
class Way:
    """One of `NAMES`."""

    name: str

    def prepare(self, plan: IndexPlan, block_units: int = 0, threads: int = 0) -> CpuProgram:
        """The program that runs `plan` this way. AssertionError where the engine is missing."""
        if self.name == "fallback":
            return CpuProgram(plan, None, block_units=block_units)
        loaded = engine.load()
        assert loaded is not None, engine.status()
        return CpuProgram(plan, loaded, block_units=block_units, threads=threads)
