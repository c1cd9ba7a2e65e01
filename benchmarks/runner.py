"""Runs a suite."""

from __future__ import annotations

import datetime
import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack

from benchmarks import peers as all_peers
from benchmarks.bench_report import BenchReport, CaseReport
from benchmarks.clocks import SETTLE_S
from benchmarks.errors import BenchError, MismatchError
from benchmarks.l2_fetch import L2_FETCHES
from benchmarks.peers import PEERS
from benchmarks.rigs import ClusterRig, DeviceRig, Rig
from benchmarks.suites import SUITES, Budget, Case, SuitePart, cases, check_names
from dmlgather.backends.cuda import DeviceError
from dmlgather.selftest.selftest_report import machine, versions

Progress = Callable[[int, int, str], None]
"""A function of (cases done, total, name of the next case). At the end, the name is empty."""


def run(
    suite: str = "smoke",
    peers: tuple[str, ...] | None = None,
    *,
    only: tuple[str, ...] = (),
    rounds: int | None = None,
    seed: int | None = None,
    l2_fetch_bytes: int | None = None,
    budget: Budget | None = None,
    progress: Progress | None = None,
) -> BenchReport:
    """Run a suite.

    `peers`: None for all installed ones. `only`: names of workloads, groups or cases. `rounds`: None for 1 to 25, more if times
    are close. `seed`: determines contents and indices; None for a random one. `l2_fetch_bytes`: limit for the GPU's fetches
    into its L2 cache, 32, 64 or 128; None leaves it unchanged. `budget`: replaces the suite's.

    Raises BenchError for unknown names, invalid numbers, and a suite that needs dask without dask; MismatchError if a result
    differs; DeviceError for a suite that needs a GPU without one. The suite "distributed" starts processes, so a script that
    runs it needs `if __name__ == "__main__":`.
    """
    check_names(suite, only)
    if rounds is not None and rounds < 1:
        raise BenchError(f"rounds is {rounds}, expected at least 1")
    if seed is not None and seed < 0:
        raise BenchError(f"seed is {seed}, expected at least 0")
    if l2_fetch_bytes is not None:
        if l2_fetch_bytes not in L2_FETCHES:
            raise BenchError(f"l2_fetch_bytes (--l2-fetch) is {l2_fetch_bytes}, expected {', '.join(map(str, L2_FETCHES))}")
        if all(part.device != "cuda" for part in SUITES[suite]):
            gpu_suites = ", ".join(name for name, parts in SUITES.items() if any(part.device == "cuda" for part in parts))
            raise BenchError(
                f"l2_fetch_bytes (--l2-fetch) is for GPUs, and the suite {suite} runs on none: choose one of {gpu_suites}, or "
                "leave it out"
            )
    names = _peers_of(suite) if peers is None else tuple(dict.fromkeys(peers))
    all_peers.check_names(names)
    if seed is None:
        seed = secrets.randbits(32)
    with ExitStack() as resources:
        rigs, missing = _rigs(suite, names, seed, l2_fetch_bytes, resources)
        work = [(rig, case) for rig, part in rigs for case in cases(part, rig.free_bytes(), only, budget)]
        try:
            reports = tuple(_reports(work, rounds, progress))
        except MismatchError as error:
            raise MismatchError(f"{error}; drawn by seed {seed}") from None
        cluster = next((workers for rig, _ in rigs if (workers := rig.cluster())), None)
        this_machine = machine(next((rig.cupy for rig, _ in rigs if rig.cupy is not None), None))
    took_part = {peer.name: peer for rig, _ in rigs for peer in rig.peers}
    packages = [
        *(package for rig, _ in rigs for package in rig.packages),
        *(package for peer in took_part.values() for package in peer.packages),
    ]
    return BenchReport(
        suite=suite,
        date=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        machine=this_machine,
        versions=versions(packages),
        settle_ms=1e3 * SETTLE_S,
        flushed_bytes={rig.device: rig.clock.flushed_bytes for rig, _ in rigs if rig.clock.flushed_bytes},
        peers={name: peer.bounds for name, peer in took_part.items()},
        missing={name: why for name, why in missing.items() if name not in took_part},
        cases=reports,
        seed=seed,
        cluster=cluster,
    )


def _reports(work: Sequence[tuple[Rig, Case]], rounds: int | None, progress: Progress | None) -> Iterator[CaseReport]:
    for number, (rig, case) in enumerate(work):
        if progress is not None:
            progress(number, len(work), case.name)
        yield rig.measure(case, rounds)
    if progress is not None:
        progress(len(work), len(work), "")


def _peers_of(suite: str) -> tuple[str, ...]:
    devices = {part.device for part in SUITES[suite]}
    return tuple(name for name, peer in PEERS.items() if devices & set(peer.devices))


def _rigs(
    suite: str, names: tuple[str, ...], seed: int, l2_fetch_bytes: int | None, resources: ExitStack
) -> tuple[list[tuple[Rig, SuitePart]], dict[str, str]]:
    """Return a rig for each part of a suite, and missing peers and devices with the reasons.

    If there are several parts, those without a device are left out. With `l2_fetch_bytes`, DeviceError is raised instead.
    """
    rigs: list[tuple[Rig, SuitePart]] = []
    missing = {}
    for part in SUITES[suite]:
        try:
            rig = _rig(part.device, names, seed, l2_fetch_bytes)
            resources.push(rig.resources)
        except DeviceError as error:
            if len(SUITES[suite]) == 1 or l2_fetch_bytes is not None:
                raise
            missing[part.device] = str(error)
            continue
        rigs.append((rig, part))
        missing.update(rig.missing)
    return rigs, missing


def _rig(device: str, names: tuple[str, ...], seed: int, l2_fetch_bytes: int | None) -> Rig:
    return ClusterRig(names, seed) if device == "cluster" else DeviceRig(device, names, seed, l2_fetch_bytes)
