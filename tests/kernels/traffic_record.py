"""The committed tables of traffic, which `ci/kernels` makes, compares and writes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from dmlgather.backends.cuda.families import MULTIPROCESSORS, launches_for
from tests.kernels import nvrtc
from tests.kernels.goals import GOALS, REASON, Goals
from tests.kernels.must_move import MustMove, must_move
from tests.kernels.occupancy import resident_blocks
from tests.kernels.plain_kernels import plain_launches
from tests.kernels.sweep_cases import sweep_groups
from tests.kernels.traffic import KernelRun, figures_of, rounded, shared_bytes
from tests.kernels.traffic_cases import SEED, CaseGroup, TrafficCase, groups

REGISTERS = Path(__file__).with_name("registers.json")
ARCHITECTURE = "sm_90"

WORSE = dict.fromkeys(("fetched", "stored", "index_lines", "load_lines", "store_lines", "instructions", "passes"), 1) | {
    "used": -1,
    "resident": -1,
}
"""Compared figures. They are worse if they grow (1) or shrink (-1)."""
SLACK = 0.02
"""Insignificant relative change of a figure, because another launch is sampled at other blocks."""

OURS = "ours"
Row = dict[str, dict[str, Any]]
"""The figures of our kernel, and of the plain kernels that can do the same ("naive", "row")."""


@dataclass(frozen=True, slots=True)
class CountedTable:
    """A committed table.

    name: of its file, and of the argument of `ci/kernels`. groups: its problems. plain: whether it includes the plain kernels.
    goals: the goals of its cases, if any.
    """

    name: str
    groups: Callable[[], Iterator[CaseGroup]]
    plain: bool = False
    goals: Goals | None = None

    @property
    def file(self) -> Path:
        return Path(__file__).with_name(f"{self.name}.json")

    @property
    def remedy(self) -> str:
        return f"run `ci/kernels --{self.name} --record`"

    def record(self) -> dict[str, Any]:
        """Return the committed table, {"nvrtc": version, "multiprocessors": count, "seed": number, "rows": {case: row}}, with
        "goals" if it has some.
        """
        content: dict[str, Any] = json.loads(self.file.read_text())
        return content


TRAFFIC = CountedTable("traffic", groups, plain=True)
SWEEP = CountedTable("sweep", sweep_groups, goals=GOALS)
TABLES = (TRAFFIC, SWEEP)


class UnrecordedError(Exception):
    """A kernel that is missing in the record of register counts."""


def rows_of(group: CaseGroup, plain: bool = True, only: str = "") -> dict[str, Row]:
    """Return the rows of a group's cases. plain: include the plain kernels. only: text in the names of the cases."""
    cases = [case for case in group.cases() if only in case.name]
    indices = group.indices() if cases else None
    rows: dict[str, Row] = {}
    for case in cases:
        must = must_move(case.plan, indices)
        row = {OURS: _ours(case, indices, must)}
        for kind, launch in plain_launches(case.plan, case.element_bytes).items() if plain else ():
            row[kind] = {"kernel": launch.name, **asdict(figures_of([KernelRun.of_plain(launch)], case.plan, indices, must))}
        rows[case.name] = row
    return rows


def _ours(case: TrafficCase, indices: NDArray[Any] | None, must: MustMove) -> dict[str, Any]:
    """Return the figures of the case's launches, with their kernels. resident: the fewest threads of a launch that a
    multiprocessor of sm_90 holds at a time. blocks: of the launches, per multiprocessor. reason: the case's reason, if it has
    one.
    """
    launches = launches_for(case.plan, multiprocessors=MULTIPROCESSORS)
    runs = [KernelRun.of(launch) for launch in launches]
    registers = json.loads(REGISTERS.read_text())["registers"][ARCHITECTURE]
    if unknown := {run.name for run in runs} - set(registers):
        raise UnrecordedError(
            f"{case.name}: no registers of {', '.join(sorted(unknown))} are recorded; run `ci/kernels --record`"
        )
    resident = [run.block * resident_blocks(registers[run.name], shared_bytes(run), run.block) for run in runs]
    return {
        "kernel": " + ".join(dict.fromkeys(run.name for run in runs)),
        **asdict(figures_of(runs, case.plan, indices, must)),
        "resident": min(resident),
        "blocks": rounded(sum(run.grid for run in runs) / MULTIPROCESSORS),
        **({REASON: case.reason} if case.reason else {}),
    }


def text(rows: dict[str, Row], goals: Goals | None = None) -> str:
    """Return the table as JSON, with a line for each kernel of a case."""
    head: dict[str, Any] = {"nvrtc": nvrtc.version(), "multiprocessors": MULTIPROCESSORS, "seed": SEED}
    if goals:
        head["goals"] = asdict(goals)
    lines = [*(f" {json.dumps(name)}: {json.dumps(value)}," for name, value in head.items()), ' "rows": {']
    cases = []
    for name, row in rows.items():
        kernels = ",\n".join(f"   {json.dumps(kind)}: {json.dumps(figures)}" for kind, figures in row.items())
        cases.append(f"  {json.dumps(name)}: {{\n{kernels}\n  }}")
    return "\n".join(["{", *lines, ",\n".join(cases), " }", "}"]) + "\n"


def comparable(recorded: dict[str, Any]) -> dict[str, int]:
    """Return the figures of `WORSE` that this NVRTC can compare. Other versions generate other instructions."""
    same = recorded["nvrtc"] == nvrtc.version()
    return {figure: sign for figure, sign in WORSE.items() if same or figure != "instructions"}


def problems(rows: dict[str, Row], recorded: dict[str, Any], remedy: str) -> Iterator[str]:
    """Yield figures that are worse than recorded, and rows without a counterpart. remedy: the command that writes the record."""
    known = recorded["rows"]
    for name in known:
        if name not in rows:
            yield f"{name}: recorded, but no such case exists; {remedy}"
    for name, row in rows.items():
        if name not in known:
            yield f"{name}: not recorded; {remedy}"
            continue
        now, then = row[OURS], known[name][OURS]
        kernels = ", recorded ".join(dict.fromkeys((now["kernel"], then["kernel"])))
        for figure, sign in comparable(recorded).items():
            if sign * (now[figure] - then[figure]) > SLACK * then[figure]:
                change = f"{figure} is {now[figure]}, recorded is {then[figure]}"
                yield f"{name} ({kernels}): {change}; where that is worth it, {remedy}"
