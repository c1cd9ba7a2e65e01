"""Random launches of every kernel in the interpreter, compared with the reference: `ci/heavy interpret`.

Each round has a plan for every variant, plans of any shape, and far apart ones. A round ends at its first failure, and the next
one begins. The commands that repeat failed rounds are printed last. Prints the share of instructions that were executed.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import partial

import numpy as np
from numpy.typing import NDArray

from dmlgather.backends.cuda.families import launches_for
from dmlgather.backends.cuda.variants import VARIANTS
from dmlgather.plan import IndexPlan
from dmlgather.selftest.random_plans import random_buffers, random_plan, random_runs
from tests import seeds
from tests.kernels import nvrtc
from tests.kernels.ptx import far
from tests.kernels.ptx.compile import ARCHITECTURES
from tests.kernels.ptx.coverage import UNREACHABLE, executed
from tests.kernels.ptx.draws import alignment_for, case_for
from tests.kernels.ptx.runs import Case, Kernels, differs

EACH = 2
"""Cases for each variant in a round."""
OTHERS = 40
"""Number of plans of any shape, of runs, and of far apart plans in a round."""
AT_ONCE = 4
"""Rounds of an architecture given to the worker processes at a time."""
MOST_FAILURES = 30
"""Number of failed rounds after which no more are run."""


@dataclass(slots=True)
class Round:
    """The result of a round. failure: the fault, if any. ran: for each kernel, the instructions that were executed."""

    architecture: str
    seed: int
    launches: int = 0
    failure: str = ""
    ran: dict[str, NDArray[np.bool_]] = field(default_factory=dict)


def run_round(architecture: str, seed: int, each: int) -> Round:
    """Run a round on an architecture up to the first failure. each: cases for each variant."""
    rng, kernels, done = random.Random(seed), Kernels(architecture), Round(architecture, seed)
    plan: IndexPlan | None = None
    try:
        for case in cases(rng, each):
            plan = case.plan
            done.launches += len(case.launches)
            if differs(case, kernels):
                raise AssertionError("the result is not the reference's")
        for _ in range(OTHERS):
            plan = far.far_plan(rng)
            alignment = alignment_for(plan, rng)
            launches = launches_for(plan, alignment, 0)
            done.launches += len(launches)
            far.agree(plan, launches, rng, alignment, kernels)
    except Exception as error:  # any exception: the other rounds still run
        done.failure = f"{type(error).__name__}: {error}\n{plan}"
    done.ran = {variant.name: executed(variant, kernels) for variant in VARIANTS}
    return done


def cases(rng: random.Random, each: int) -> Iterator[Case]:
    """Yield `each` cases for each variant, and cases of any shape."""
    for variant in VARIANTS:
        for _ in range(each):
            yield case_for(variant, rng)
    for draw in (random_plan, random_runs):
        for _ in range(OTHERS):
            plan = draw(rng)
            alignment, multiprocessors = alignment_for(plan, rng), rng.choice((0, 1, 132))
            buffers, specialise = random_buffers(plan, rng), rng.random() < 0.8
            yield Case.of(plan, buffers, alignment, multiprocessors=multiprocessors, specialise=specialise)


def rounds(launches: int, seed: int, architectures: Sequence[str], pool: Executor) -> Iterator[Round]:
    """Yield rounds on all architectures in turn, up to a number of launches or of failures."""
    total, failures, drawn = 0, 0, random.Random(seed)
    while total < launches and failures < MOST_FAILURES:
        jobs = [(name, drawn.getrandbits(48), EACH) for name in architectures for _ in range(AT_ONCE)]
        for done in pool.map(run_round, *zip(*jobs, strict=True)):
            total, failures = total + done.launches, failures + bool(done.failure)
            yield done


def command(done: Round) -> str:
    older = "--nvrtc12 " if nvrtc.version().startswith("12.") else ""
    return f"ci/heavy interpret {older}--round {done.seed} --architectures {done.architecture}"


def main(arguments: Sequence[str] | None = None, pool: Executor | None = None) -> int:
    """Run the command. Return its exit status: 1 for failures."""
    parser = argparse.ArgumentParser("ci/heavy interpret", description=__doc__)
    parser.add_argument("launches", nargs="?", type=int, default=20_000, help="of all architectures together (20000)")
    parser.add_argument("seed", nargs="?", type=int, help="(the run's)")
    parser.add_argument("--round", type=int, metavar="SEED", help="run this round alone")
    parser.add_argument("--architectures", nargs="+", default=ARCHITECTURES, help=f"({' '.join(ARCHITECTURES)})")
    chosen = parser.parse_args(arguments)
    seed = seeds.run_seed().value if chosen.seed is None else chosen.seed
    print(f"NVRTC {nvrtc.version()}, {f'round {chosen.round}' if chosen.round is not None else f'seed {seed}'}", flush=True)
    start, total, failed = time.perf_counter(), 0, list[Round]()
    ran: dict[str, dict[str, NDArray[np.bool_]]] = {name: {} for name in chosen.architectures}
    with pool or ProcessPoolExecutor(os.cpu_count()) as workers:
        if chosen.round is None:
            found = rounds(chosen.launches, seed, chosen.architectures, workers)
        else:
            found = workers.map(partial(run_round, seed=chosen.round, each=EACH), chosen.architectures)
        for done in found:
            total += done.launches
            if done.failure:
                failed.append(done)
                print(f"{done.architecture}, round {done.seed}:\n{done.failure}", file=sys.stderr, flush=True)
            for kernel, which in done.ran.items():
                ran[done.architecture][kernel] = ran[done.architecture].get(kernel, False) | which
    for name, kernels in ran.items():
        print(f"{name}: {share(kernels)}")
    outcome = f"{len(failed)} rounds failed" if failed else "no violation, every result right"
    print(f"{total} launches of {len(VARIANTS)} kernels in {time.perf_counter() - start:.0f} s: {outcome}")
    for done in failed:
        print(f"repeat: {command(done)}")
    return 1 if failed else 0


def share(ran: dict[str, NDArray[np.bool_]]) -> str:
    """Return the number of executed instructions, and known facts about the others."""
    every = sum(len(which) for which in ran.values())
    left = {variant.kind: 0 for variant in VARIANTS}
    for variant in VARIANTS:
        left[variant.kind] += int((~ran[variant.name]).sum())
    reasons = {kind: why for kind, (_, why) in UNREACHABLE.items()}
    notes = [f"\n  not {count} of {kind.value}: {reasons.get(kind, 'by chance')}" for kind, count in left.items() if count]
    return f"{1 - sum(left.values()) / every:.2%} of {every} PTX instructions were executed" + "".join(notes)


if __name__ == "__main__":
    sys.exit(main())
