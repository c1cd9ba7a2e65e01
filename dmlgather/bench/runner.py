"""Run a suite."""

from __future__ import annotations

import datetime
from collections.abc import Callable

from dmlgather.backends.cuda import DeviceError
from dmlgather.bench import peers as known
from dmlgather.bench.clocks import SETTLE_S
from dmlgather.bench.errors import BenchError
from dmlgather.bench.machine import machine, versions
from dmlgather.bench.peers import PEERS
from dmlgather.bench.report import BenchReport
from dmlgather.bench.rig import Rig
from dmlgather.bench.suites import SUITES, Budget, Part, cases, check_names

Progress = Callable[[int, int, str], None]
"""Called before each case with how many are done, how many there are, and the case's name; at the end with an empty name."""


def run(
    suite: str = "smoke",
    peers: tuple[str, ...] | None = None,
    *,
    only: tuple[str, ...] = (),
    rounds: int | None = None,
    budget: Budget | None = None,
    progress: Progress | None = None,
) -> BenchReport:
    """Run `suite` against `peers` (None: all that are installed). only: names of workloads, groups or cases. rounds: how often
    everybody is timed (None: 1 to 25 times, the more the closer it is). budget: instead of the suite's own.

    Raises BenchError for unknown names or a count below 1, MismatchError when a result differs, DeviceError for a suite that
    needs a GPU where there is none.
    """
    check_names(suite, only)
    if rounds is not None and rounds < 1:
        raise BenchError(f"rounds is {rounds}, expected at least 1")
    names = tuple(PEERS) if peers is None else tuple(dict.fromkeys(peers))
    known.check_names(names)
    rigs, missing = _rigs(suite, names)
    work = [(rig, case) for rig, part in rigs for case in cases(part, rig.free_bytes(), only, budget)]
    reports = []
    for number, (rig, case) in enumerate(work):
        if progress is not None:
            progress(number, len(work), case.name)
        reports.append(rig.measure(case, rounds))
    if progress is not None:
        progress(len(work), len(work), "")
    took_part = {peer.name: peer for rig, _ in rigs for peer in rig.peers}
    return BenchReport(
        suite=suite,
        date=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        machine=machine(next((rig.cupy for rig, _ in rigs if rig.cupy is not None), None)),
        versions=versions(("numpy", *(package for name in took_part for package in PEERS[name].packages))),
        settle_ms=1e3 * SETTLE_S,
        flushed_bytes={rig.device: rig.clock.flushed_bytes for rig, _ in rigs},
        peers={name: peer.bounds for name, peer in took_part.items()},
        missing={name: why for name, why in missing.items() if name not in took_part},
        cases=tuple(reports),
    )


def _rigs(suite: str, names: tuple[str, ...]) -> tuple[list[tuple[Rig, Part]], dict[str, str]]:
    """A rig for each part of a suite, and who is missing. A suite of several parts goes without those that cannot run here."""
    rigs, missing = [], {}
    for part in SUITES[suite]:
        try:
            rig = Rig(part.device, names)
        except DeviceError as error:
            if len(SUITES[suite]) == 1:
                raise
            missing[part.device] = str(error)
            continue
        rigs.append((rig, part))
        missing.update(rig.missing)
    return rigs, missing
