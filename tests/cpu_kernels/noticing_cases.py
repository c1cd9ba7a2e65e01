"""The stored case that notices each broken engine, and the search for one.

A search tries the same cases each time. Its only seed is the number of the try.
"""

from __future__ import annotations

import atexit
import random
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import chain, count
from pathlib import Path
from typing import Any

import numpy as np

from dmlgather.plan import IndexPlan
from dmlgather.selftest.random_plans import EXTREMES, PlanBuffers
from tests.cpu_kernels import engine_build, processors
from tests.cpu_kernels.cases import AT_END, HEAD_WORDS, SETS, Case, EngineError, Settings, machine_sets, run, run_file
from tests.cpu_kernels.cases import stored as cases_to_file
from tests.cpu_kernels.engines import Mutation, small_engine
from tests.cpu_kernels.entry import RefusedError, entry_cases, is_ambiguous, plan_of
from tests.cpu_kernels.far import far_case, far_cases
from tests.cpu_kernels.making import hostile_cases, load_cases, random_case, random_cases, random_settings, view_cases
from tests.cpu_kernels.mutations import MUTATIONS

NO_HELPERS = {"DMLGATHER_NUM_THREADS": "1"}
"""Lets the caller of a call execute all parts in order, so that no case depends on chance."""

FAR_BYTES = 2**24
"""Size of a buffer from which a case's buffers are sparse."""

TRIALS = 5
"""Number of runs that must all notice the error before a case is stored."""


@dataclass(frozen=True, slots=True)
class Noticing:
    """A case: the words of its plan, legal or not, the seed of its buffers, and the instruction set (on arm64 it is neon)."""

    words: tuple[int, ...]
    seed: int
    loops: str

    @classmethod
    def of(cls, stored: dict[str, Any]) -> Noticing:
        """Return the case of an entry in `tests/noticed.json`."""
        return cls(tuple(stored["words"]), stored["seed"], stored["loops"])

    @property
    def forced(self) -> str:
        """The instruction set that executes the case on this machine."""
        return "neon" if "neon" in processors.SETS else self.loops

    def case(self) -> Case:
        """Return the case with random buffers and the reference's result. No generator of plans is used."""
        rng = random.Random(self.seed)
        words = (*self.words[: HEAD_WORDS - 1], SETS[self.forced], *self.words[HEAD_WORDS:])
        try:
            plan = plan_of(words, len(words))
        except RefusedError as error:
            return Case(words, accepted=False, title=f"{self}\n{error}")
        settings = Settings(words[HEAD_WORDS - 3], words[HEAD_WORDS - 2], self.forced)
        if _bytes(plan) >= FAR_BYTES:
            return Case(words, title=str(self)) if plan.empty else far_case(plan, settings, rng)
        at = (rng.choice((0, AT_END)), 0, rng.choice((0, AT_END)))
        return replace(Case.of(plan, _buffers(plan, rng), settings, at=at), ambiguous=is_ambiguous(plan))

    def notices(self, mutation: Mutation, folder: Path) -> bool:
        """Return True if the case fails on the broken engine. EngineError if it fails on the correct one."""
        (folder / "broken").mkdir()
        case, sound = self.case(), small_engine(folder) if mutation.small else engine_build.ENGINE
        run(engine_build.Driver(engine_build.QUICK, sound).path(), [case], folder, environment=NO_HELPERS)
        return fails(broken_driver(mutation, self.forced, folder / "broken"), [case], folder) == 0


def broken_driver(mutation: Mutation, loops: str, folder: Path) -> Path:
    """Return the driver with the broken engine. The loops of other instruction sets are the correct ones."""
    return engine_build.Driver(engine_build.QUICK, mutation.engine(folder), broken=loops).path()


def fails(driver: Path, cases: Sequence[Case], folder: Path) -> int | None:
    """Return the first failed case, or None."""
    return _first_failure(lambda: run(driver, cases, folder, environment=NO_HELPERS))


def _first_failure(act: Callable[[], object]) -> int | None:
    try:
        act()
    except EngineError as error:
        return error.number
    return None


def _bytes(plan: IndexPlan) -> int:
    size = plan.index_type.bytes if plan.index_type else 1
    return max(max(plan.in_extent, plan.out_extent) * plan.element_bytes, plan.index_extent * size)


def _buffers(plan: IndexPlan, rng: random.Random) -> PlanBuffers:
    """Return random elements, and indices of which none, few or many are out of bounds."""
    indices = None
    if plan.index_type is not None:
        info = np.iinfo(plan.index_type.value.lower())
        limit, share = max(min(lookup.limit for lookup in plan.lookups), 1), rng.choice((0.0, 0.05, 0.5))
        good = range(min(limit, int(info.max) + 1))
        wild = [value for value in (*EXTREMES, -1, -limit, -limit - 1, limit, limit + 1) if info.min <= value <= info.max]
        indices = np.array([rng.choice(wild if rng.random() < share else good) for _ in range(plan.index_extent)], info.dtype)
    sides = (np.frombuffer(rng.randbytes(extent * plan.element_bytes), f"V{plan.element_bytes}").copy()
             for extent in (plan.in_extent, plan.out_extent))  # fmt: skip
    return PlanBuffers(next(sides), indices, next(sides))


# ---- The search -----------------------------------------------------------------------------------------------------------


def every_kind(rng: random.Random) -> Iterator[Case]:
    """Return cases of each maker."""
    plain = (replace(random_settings(rng), block_units=0) for _ in range(400))
    shared = (replace(random_settings(rng), threads=4, block_units=1) for _ in range(100))
    return chain(
        far_cases(rng),
        load_cases(rng),
        view_cases(rng),
        hostile_cases(rng, 0.02),
        random_cases(rng, 800),
        (random_case(rng, settings) for settings in (*plain, *shared)),
        (case for case in entry_cases(rng, 2000) if case.accepted is False or case.callers),
    )


@dataclass(frozen=True, slots=True)
class Draw:
    """Cases to try, in increasing size, and a file of them."""

    tried: list[Noticing]
    file: Path
    titles: list[str]

    @classmethod
    def of(cls, number: int, loops: str, folder: Path) -> Draw:
        """Return the same cases each time."""
        known = (
            0,
            *(SETS[name] for name in machine_sets()),
        )  # words that are refused only for their set would be accepted with another one
        drawn = [
            case
            for case in every_kind(random.Random(number))
            if case.stated in (None, len(case.words)) and len(case.words) >= HEAD_WORDS and case.words[HEAD_WORDS - 1] in known
        ]
        words = sorted(
            {tuple(case.words): case.out.size + case.data.size + case.indices.size for case in drawn}.items(),
            key=lambda item: item[1],
        )
        tried = [Noticing(each[0], number, loops) for each in words]
        file = folder / f"{number}-{loops}"
        return cls(tried, file, cases_to_file((one.case() for one in tried), file))


class Search:
    """A search that keeps its cases."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.draws = folder, dict[tuple[int, str], Draw]()
        self.loops: list[str] = [name for name in machine_sets() if name != "avx512"]

    def case(self, mutation: Mutation) -> Noticing:
        """Return a case that notices the error in each trial."""
        for number, loops in ((number, loops) for number in count() for loops in self.loops):
            with tempfile.TemporaryDirectory(dir=self.folder) as name:
                driver = broken_driver(mutation, loops, Path(name))
            key = number, loops
            if key not in self.draws:
                self.draws[key] = Draw.of(number, loops, self.folder)
            found = self._first(driver, self.draws[key])
            if found is not None:
                return found
        raise AssertionError("count() does not end")

    def _first(self, driver: Path, draw: Draw) -> Noticing | None:
        start, failed = 0, _first_failure(lambda: run_file(driver, draw.file, draw.titles, environment=NO_HELPERS))
        while failed is not None:
            at = start + failed
            if all(fails(driver, [draw.tried[at].case()], self.folder) == 0 for _ in range(TRIALS)):
                return draw.tried[at]
            start = at + 1
            failed = fails(driver, [one.case() for one in draw.tried[start:]], self.folder)
        return None


def find(name: str) -> dict[str, Any]:
    """Return the case of a mutation in the stored format."""
    found = _search().case(MUTATIONS[name])
    return {"loops": found.loops, "seed": found.seed, "words": found.words}


@cache
def _search() -> Search:
    """Return the search of this process."""
    folder = tempfile.TemporaryDirectory()
    atexit.register(folder.cleanup)
    return Search(Path(folder.name))


def judge(name: str, stored: dict[str, Any]) -> tuple[str, str]:
    """Return the faults of a stored case in the correct and in the broken engine."""
    case = Noticing.of(stored)
    with tempfile.TemporaryDirectory() as folder:
        try:
            notices = case.notices(MUTATIONS[name], Path(folder))
        except EngineError as error:
            return str(error), ""
    return "", "the engine is wrong" if notices else ""
