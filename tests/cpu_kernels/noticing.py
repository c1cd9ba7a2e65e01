"""The case that notices each broken engine: stored in `noticed.json`, and searched for where it no longer does.

    python -m tests.cpu_kernels.noticing [NAME…]

draws cases until one notices, for the mutations of these names, or for all that no stored case notices, and stores it. A search
draws the same cases each time: it has no seed but the number of the draw.
"""

from __future__ import annotations

import json
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, count
from pathlib import Path
from typing import Any

import numpy as np

from dmlgather.plan import IndexPlan
from dmlgather.selftest.random_plans import EXTREMES, PlanBuffers
from tests import seeds
from tests.cpu_kernels import copy_loops, engine_build, processors
from tests.cpu_kernels.cases import AT_END, HEAD_WORDS, SETS, Case, EngineError, Settings, machine_sets, run, run_file
from tests.cpu_kernels.cases import stored as cases_to_file
from tests.cpu_kernels.engines import Mutation, small_engine
from tests.cpu_kernels.entry import RefusedError, entry_cases, is_ambiguous, plan_of
from tests.cpu_kernels.far import far_case, far_cases
from tests.cpu_kernels.making import hostile_cases, load_cases, random_case, random_cases, random_settings, view_cases
from tests.cpu_kernels.mutations import MUTATIONS

FILE = Path(__file__).with_name("noticed.json")
SEARCH = f"{os.path.relpath(sys.executable, seeds.ROOT)} -m tests.cpu_kernels.noticing"
ENGINE, COPY_LOOPS = "engine", "copy loops"
"""The two parts of the file."""

NO_HELPERS = {"DMLGATHER_NUM_THREADS": "1"}
"""All parts of a call are executed by its caller, in their order: no case notices by luck."""

FAR_BYTES = 2**24
"""Of a buffer from which a case's buffers are sparse."""

TRIALS = 5
"""Runs, each of which must notice before a case is stored."""


@dataclass(frozen=True, slots=True)
class Noticing:
    """A case: the words of its plan, legal or not; the seed of its buffers; and the instruction set (on arm64, it is neon)."""

    words: tuple[int, ...]
    seed: int
    loops: str

    @property
    def forced(self) -> str:
        """The instruction set that executes it on this machine."""
        return "neon" if "neon" in processors.SETS else self.loops

    def case(self) -> Case:
        """With random buffers, and what the reference says of them. It depends on nothing that draws plans."""
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
        """Whether the case fails on the broken engine. EngineError if it fails on the sound one."""
        (folder / "broken").mkdir()
        case, sound = self.case(), small_engine(folder) if mutation.small else engine_build.ENGINE
        run(engine_build.Driver(engine_build.QUICK, sound).path(), [case], folder, environment=NO_HELPERS)
        return fails(broken_driver(mutation, self.forced, folder / "broken"), [case], folder) == 0


def broken_driver(mutation: Mutation, loops: str, folder: Path) -> Path:
    """The driver with the broken engine; loops of other instruction sets are the sound ones."""
    return engine_build.Driver(engine_build.QUICK, mutation.engine(folder), broken=loops).path()


def fails(driver: Path, cases: Sequence[Case], folder: Path) -> int | None:
    """The first case that goes wrong; None: no case does."""
    return _first_failure(lambda: run(driver, cases, folder, environment=NO_HELPERS))


def _first_failure(act: Callable[[], object]) -> int | None:
    try:
        act()
    except EngineError as error:
        return error.number
    return None


def stored(name: str) -> Noticing | None:
    """The stored case of a mutation of the engine, if there is one."""
    row = _read()[ENGINE].get(name)
    return row and Noticing(tuple(row["words"]), row["seed"], row["loops"])


def stored_box(name: str) -> int | None:
    """The seed of the stored box that notices broken copy loops, if there is one."""
    return _read()[COPY_LOOPS].get(name)


def _read() -> dict[str, dict[str, Any]]:
    parts: dict[str, dict[str, Any]] = json.loads(FILE.read_text())
    return parts


def _bytes(plan: IndexPlan) -> int:
    size = plan.index_type.bytes if plan.index_type else 1
    return max(max(plan.in_extent, plan.out_extent) * plan.element_bytes, plan.index_extent * size)


def _buffers(plan: IndexPlan, rng: random.Random) -> PlanBuffers:
    """Random elements, and indices of which none, few or many are out of bounds."""
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
    """Cases of each maker."""
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
    """Cases to try, the smallest first, and a file of them."""

    tried: list[Noticing]
    file: Path
    titles: list[str]

    @classmethod
    def of(cls, number: int, loops: str, folder: Path) -> Draw:
        """The same cases each time."""
        known = (0, *(SETS[name] for name in machine_sets()))  # words that are refused for their set alone are not, with another
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
    """Searches with draws that it keeps."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.draws = folder, dict[tuple[int, str], Draw]()
        self.loops: list[str] = [name for name in machine_sets() if name != "avx512"]

    def case(self, mutation: Mutation) -> Noticing:
        """One that notices in each trial; draws until there is one."""
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


def box(broken: copy_loops.Broken, folder: Path) -> int:
    """The first seed of a box that notices."""
    made = broken.program(folder)
    return next(seed for seed in count() if copy_loops.tried(made, seed, 1).returncode)


def _write(parts: dict[str, dict[str, Any]]) -> None:
    """One line for each mutation, in the order of the tables; rows of mutations that are gone leave."""
    texts = []
    for part, names in ((ENGINE, [*MUTATIONS]), (COPY_LOOPS, [*copy_loops.BROKEN])):
        rows = [f"  {json.dumps(name)}: {json.dumps(parts[part][name])}" for name in names if name in parts[part]]
        texts.append(f"{json.dumps(part)}: {{\n" + ",\n".join(rows) + "\n}")
    FILE.write_text("{\n" + ",\n".join(texts) + "\n}\n")


def main(names: Sequence[str]) -> None:
    """Searches, and stores what it finds at once."""
    known = _read()
    with tempfile.TemporaryDirectory() as name:
        search = Search(Path(name))
        for mutation in names or [each for each in (*MUTATIONS, *copy_loops.BROKEN) if not _holds(each, Path(name))]:
            started = time.monotonic()
            with tempfile.TemporaryDirectory() as own:
                if mutation in MUTATIONS:
                    found = search.case(MUTATIONS[mutation])
                    known[ENGINE][mutation] = {"loops": found.loops, "seed": found.seed, "words": found.words}
                else:
                    known[COPY_LOOPS][mutation] = box(copy_loops.BROKEN[mutation], Path(own))
            _write(known)
            print(f"{mutation}: {time.monotonic() - started:.0f} s", flush=True)


def _holds(name: str, parent: Path) -> bool:
    """Whether the stored case still notices."""
    with tempfile.TemporaryDirectory(dir=parent) as folder:
        if name in MUTATIONS:
            case = stored(name)
            return case is not None and case.notices(MUTATIONS[name], Path(folder))
        seed = stored_box(name)
        return seed is not None and copy_loops.tried(copy_loops.BROKEN[name].program(Path(folder)), seed, 1).returncode != 0


if __name__ == "__main__":
    main(sys.argv[1:])
