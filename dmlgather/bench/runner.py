"""Run a suite: make each case, compare every contender's bits, then time them in turns."""

from __future__ import annotations

import datetime
import platform
from collections.abc import Callable, Mapping

import numpy as np

from dmlgather import __version__
from dmlgather.backends import cpu
from dmlgather.backends.devices import processor
from dmlgather.bench import peers as known
from dmlgather.bench.case import Array, Case, Problem
from dmlgather.bench.errors import BenchError, MismatchError
from dmlgather.bench.peers import Peer
from dmlgather.bench.report import BenchReport, CaseReport, Machine, Timing, Versus
from dmlgather.bench.suites import SUITES
from dmlgather.bench.timing import interleave
from dmlgather.operator import CompiledOperator
from dmlgather.operator import compile as prepare
from dmlgather.plan import Layout
from dmlgather.wording import counted

ROUNDS = 15

Progress = Callable[[int, int, str], None]
"""Called before each case with how many are done, how many there are, and the case's name; at the end with an empty name."""


def run(
    suite: str = "smoke",
    peers: tuple[str, ...] = ("numpy",),
    *,
    rounds: int = ROUNDS,
    scale: float | None = None,
    progress: Progress | None = None,
) -> BenchReport:
    """Run `suite` against `peers`, `rounds` times in turns. scale: instead of the suite's own, for a quick look.

    Raises BenchError for an unknown suite or peer or a count below 1, MismatchError when a result differs.
    """
    if suite not in SUITES:
        raise BenchError(f"unknown suite {suite!r}; expected one of: {', '.join(SUITES)}")
    if rounds < 1:
        raise BenchError(f"rounds is {rounds}, expected at least 1")
    chosen, against = SUITES[suite], known.find(tuple(peers))
    size = chosen.scale if scale is None else scale
    reports = []
    for number, case in enumerate(chosen.cases):
        if progress is not None:
            progress(number, len(chosen.cases), case.name)
        reports.append(_case(case, size, against, rounds))
    if progress is not None:
        progress(len(chosen.cases), len(chosen.cases), "")
    return BenchReport(
        suite=suite,
        scale=size,
        rounds=rounds,
        date=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        machine=Machine(platform=platform.platform(), processor=processor(), cpus=cpu.cpus()),
        versions={"python": platform.python_version(), "dmlgather": __version__, "numpy": np.__version__},
        cases=tuple(reports),
    )


def _case(case: Case, scale: float, against: Mapping[str, Peer], rounds: int) -> CaseReport:
    problem = case.make(scale)
    operator = prepare(problem.desc, device="cpu")
    out = np.empty_like(operator(*problem.arrays))
    versus = []
    for name, peer in against.items():
        ours, theirs = _ours(operator, problem, out if peer.into else None), peer.bind(problem, np.empty_like(out))
        _compare(case.name, name, ours(), theirs())
        seconds = interleave({"ours": ours, "theirs": theirs}, rounds)
        versus.append(Versus(peer=name, ours=Timing.of(seconds["ours"]), theirs=Timing.of(seconds["theirs"])))
    return CaseReport(
        name=case.name,
        what=case.what,
        operator=problem.desc.operator.name,
        output_bytes=out.nbytes,
        spelling=problem.numpy.text,
        recipe=cpu.prepare(operator.lower([_layout(array) for array in (*problem.arrays, out)])).describe(),
        versus=tuple(versus),
    )


def _layout(array: Array) -> Layout:
    return Layout.strided(array.shape, [step // array.itemsize for step in array.strides])


def _ours(operator: CompiledOperator, problem: Problem, out: Array | None) -> Callable[[], Array]:
    def call() -> Array:
        result: Array = operator(*problem.arrays, out=out)
        return result

    return call


def _compare(case: str, peer: str, ours: Array, theirs: Array) -> None:
    """MismatchError, naming the first position, unless both results have the same shape and bits."""
    if ours.shape != theirs.shape:
        raise MismatchError(f"{case}: the result has shape {ours.shape}, {peer}'s has {theirs.shape}")
    bits = f"u{ours.dtype.itemsize}"
    differ = np.argwhere(np.ascontiguousarray(ours).view(bits) != np.ascontiguousarray(theirs).view(bits))
    if len(differ):
        at = tuple(map(int, differ[0]))
        raise MismatchError(
            f"{case}: not {peer}'s bits in {counted(len(differ), 'element')}, first at {list(at)}: {ours[at]} and {theirs[at]}"
        )
