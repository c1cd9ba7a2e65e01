"""The CPU under test: the compiled engine with every instruction set of the machine, and NumPy's recipes."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
from numpy.typing import NDArray

from dmlgather.backends.addresses import address_of
from dmlgather.backends.cpu import CpuProgram, engine
from dmlgather.backends.cpu.fallback import RECIPES
from dmlgather.selftest.guarded import BASE, GuardedBytes
from dmlgather.selftest.judging import Aftermath, JudgedDevice, JudgedWay
from dmlgather.selftest.trials import Trial, random_of

FALLBACK = "NumPy"
"""The parts of NumPy's recipes begin with it, those of the engine with an instruction set."""
BLOCK_UNITS = (0, 1, 24, 300)
"""Units of a block: as measured, and few, so that small plans have many blocks."""
SMALL = 2**16
"""Bytes of output up to which a plan may get blocks of few units."""
THREADS = (1, 1, 2, 4)


class JudgedCpu(JudgedDevice):
    """The CPU. SettingError as `engine.load`."""

    name, kind = "cpu", "loop"

    def __init__(self) -> None:
        self._engine = engine.load()
        self._sets = () if self._engine is None else engine.instruction_sets(self._engine)
        self.parts = tuple(f"{FALLBACK}: {recipe.name}" for recipe in RECIPES)

    def ways(self, trial: Trial, seed: int) -> Iterator[JudgedWay]:
        small = len(trial.rooms[2].content) <= SMALL
        for loops in (*self._sets, FALLBACK):
            rng = random_of(seed, trial.number, loops)
            threads, block_units = rng.choice(THREADS), rng.choice(BLOCK_UNITS) if small else 0
            if loops == FALLBACK:
                program = CpuProgram(trial.plan, None, block_units=block_units)
            else:
                program = CpuProgram(trial.plan, self._engine, threads=threads, block_units=block_units, loops=loops)
            text = program.describe()
            yield JudgedWay((f"{loops}: {text.partition(':')[0]}",), f"{loops}: {text}", partial(_run, program, trial))


def _run(program: CpuProgram, trial: Trial) -> Aftermath:
    rooms = [_placed(room) for room in trial.rooms]
    data, indices, out = (place[room.start : room.end] for place, room in zip(rooms, trial.rooms, strict=True))
    element = np.dtype(f"V{trial.plan.element_bytes}")
    looked_up = None if program.index_dtype is None else indices.view(program.index_dtype)
    bad = program.run(data.view(element), looked_up, out.view(element))
    left = [place.tobytes() for place in rooms]
    return Aftermath(bad, (left[0], left[1], left[2]))


def _placed(guarded: GuardedBytes) -> NDArray[np.uint8]:
    """A copy of the room at a multiple of `BASE` bytes."""
    memory = np.empty(len(guarded.room) + BASE, np.uint8)
    start = -address_of(memory) % BASE
    place = memory[start : start + len(guarded.room)]
    place[:] = np.frombuffer(guarded.room, np.uint8)
    return place
