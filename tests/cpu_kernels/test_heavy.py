"""Tests that take minutes: other processors, and ENGINE_ROUNDS rounds of random cases (ci/heavy engine)."""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain
from pathlib import Path

import pytest

from hatch_build import LOOPS
from tests import built
from tests.cpu_kernels import building, engine_build
from tests.cpu_kernels.cases import Case, run
from tests.cpu_kernels.engines import small_engine
from tests.cpu_kernels.entry import entry_cases
from tests.cpu_kernels.far import far_cases
from tests.cpu_kernels.making import (
    forced_cases,
    hostile_cases,
    load_cases,
    measured_cases,
    random_case,
    random_cases,
    random_settings,
    view_cases,
)
from tests.cpu_kernels.processors import ARM64, HASWELL, OLDEST, SETS, X86_64, Emulated

pytestmark = pytest.mark.heavy

ROUNDS = int(os.environ.get("ENGINE_ROUNDS", "10"))
"""Rounds of each of the long tests. A time limit would draw more on a faster machine, so a seed would not repeat a run."""


def rounds(rng: random.Random) -> Iterator[random.Random]:
    """Return a separate generator for each round."""
    return (random.Random(rng.getrandbits(64)) for _ in range(ROUNDS))


def everything(rng: random.Random) -> Iterator[Case]:
    shares = (far_cases(rng), view_cases(rng), load_cases(rng), hostile_cases(rng, 0.1), random_cases(rng, 3000))
    return chain(*shares, measured_cases(rng), entry_cases(rng, 3000))


@pytest.mark.parametrize("flags", [engine_build.ADDRESS, engine_build.FAST], ids=["sanitized", "for use"])
@pytest.mark.parametrize("size", ["measured", "small"])
def test_random_cases_equal_the_reference(flags: tuple[str, ...], size: str, rng: random.Random, tmp_path: Path) -> None:
    driver = engine_build.Driver(flags, engine_build.ENGINE if size == "measured" else small_engine(tmp_path)).path()
    for one in rounds(rng):
        run(driver, everything(one), tmp_path)


def test_every_extreme_index_passes_the_sanitizers(rng: random.Random, tmp_path: Path) -> None:
    run(engine_build.Driver(engine_build.ADDRESS).path(), hostile_cases(rng), tmp_path)


def test_random_calls_have_no_race(rng: random.Random, tmp_path: Path) -> None:
    driver = engine_build.Driver(engine_build.THREAD).path()
    for one in rounds(rng):
        settings = (replace(random_settings(one), threads=one.choice((2, 3, 4))) for _ in range(1000))
        run(driver, (random_case(one, each, callers=one.choice((1, 2, 4, 8))) for each in settings), tmp_path)


def test_the_engine_for_arm64_equals_the_reference(rng: random.Random, tmp_path: Path) -> None:
    """The cases run on an emulated processor. The clang of zig compiles the engine."""
    launcher = ARM64.launcher()
    compiler = (sys.executable, "-m", "ziglang", "cc", "-target", "aarch64-linux-musl")
    driver = engine_build.Driver(("-O2", "-static"), compiler=compiler, processor="aarch64").path()
    cases = chain((case.forced("neon") for case in far_cases(rng)), forced_cases(rng, "neon", 800))
    run(driver, cases, tmp_path, launcher)


@pytest.mark.parametrize(
    ("target", "isa"), [("aarch64-linux-gnu", "neon"), ("aarch64-macos", "neon"), ("x86_64-windows-gnu", "avx512")]
)
def test_copy_loops_compile_for_other_platforms(target: str, isa: str, tmp_path: Path) -> None:
    flags = next(sets[isa] for sets in LOOPS.values() if isa in sets)
    command = [sys.executable, "-m", "ziglang", "cc", "-target", target, *engine_build.FAST, f"-DISA={isa}", *flags]
    built.run([*command, "-c", str(building.KERNELS / "copy_loops.c"), "-o", str(tmp_path / "loops.o")])


@X86_64
@pytest.mark.parametrize("processor", [HASWELL, OLDEST], ids=["AVX2", "oldest"])
def test_the_engine_uses_the_loops_of_an_emulated_x86_64(processor: Emulated, rng: random.Random, tmp_path: Path) -> None:
    """The engine is built for use. It has the processor's loops, uses the best of them, and refuses the missing ones."""
    launcher = processor.launcher()
    some = random_case(rng)
    refused = [replace(some.forced(name), accepted=False, callers=0) for name in SETS if name not in processor.sets]
    best = [random_case(rng).forced("best") for _ in range(200)]
    cases = chain(refused, best, *(forced_cases(rng, name, 300) for name in processor.sets))
    run(engine_build.Driver(engine_build.FAST).path(), cases, tmp_path, launcher)
