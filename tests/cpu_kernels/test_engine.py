"""The engine gives the reference's bits in buffers of exact size, with sanitizers, as built for use, on each instruction set."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain
from pathlib import Path

import pytest

from dmlgather.plan import IndexPlan, OutOfBounds
from dmlgather.selftest.random_plans import random_buffers, random_plan
from tests.backends.shapes import Kind, gather
from tests.cpu_kernels import engine_build, processors
from tests.cpu_kernels.cases import AT_END, Case, EngineError, Memory, Part, Settings, plan_words, run
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
from tests.cpu_kernels.processors import SETS

pytestmark = pytest.mark.slow
"""Compiling the engine with sanitizers takes half a minute. tests/backends tests the installed engine."""

LOOPS = ("run", "strided", "short run", "tiled", "transposed", "picked")
WORK = ("looked-up units", "looked-up runs", "looked-up parts", "index checks", "constant fill", "nothing", *LOOPS)
"""The names of kinds of work and of inner loops of copies in `dmlgather_describe`."""


def all_kinds(rng: random.Random, count: int) -> Iterator[Case]:
    """Return random plans, each kind of box, each class of units, some hostile indices, and far apart elements."""
    return chain(random_cases(rng, count), view_cases(rng), load_cases(rng), hostile_cases(rng, 0.05), far_cases(rng))


def test_every_kind_of_work_passes_the_sanitizers(rng: random.Random, tmp_path: Path) -> None:
    said = run(engine_build.Driver(engine_build.ADDRESS).path(), all_kinds(rng, 800), tmp_path)
    for name in WORK:
        assert any(name in line for line in said), f"no program has {name}"


def test_small_blocks_pass_the_sanitizers(rng: random.Random, tmp_path: Path) -> None:
    """Stores past the cache, columns of blocks, parts of runs and tiles need large plans in the engine for use."""
    plain = (replace(random_settings(rng), block_units=0) for _ in range(800))
    cases = chain((random_case(rng, settings) for settings in plain), view_cases(rng), load_cases(rng))
    said = run(engine_build.Driver(engine_build.ADDRESS, small_engine(tmp_path)).path(), cases, tmp_path)
    for name in ("looked-up units", "looked-up runs", "run"):
        assert any(f"streamed {name}" in line for line in said), f"no program has streamed {name}"


@pytest.mark.parametrize("loops", SETS)
def test_the_loops_of_each_instruction_set_equal_the_reference(loops: str, rng: random.Random, tmp_path: Path) -> None:
    """The engine for use has the measured block sizes. Pages before and behind the buffers are inaccessible."""
    processors.need(loops)
    run(engine_build.Driver(engine_build.FAST).path(), forced_cases(rng, loops, 150), tmp_path)


def test_the_optimised_engine_equals_the_reference(rng: random.Random, tmp_path: Path) -> None:
    cases = chain(far_cases(rng), measured_cases(rng), entry_cases(rng, 300))
    run(engine_build.Driver(engine_build.FAST).path(), cases, tmp_path)


def test_any_words_are_refused_or_executed_safely(rng: random.Random, tmp_path: Path) -> None:
    run(engine_build.Driver(engine_build.ADDRESS).path(), entry_cases(rng, 3000), tmp_path)


def test_blocks_of_any_size_pass_the_sanitizers(rng: random.Random, tmp_path: Path) -> None:
    sizes = (2**63 - 1, 2**63 - 16, 2**62, 2**31)
    cases = [random_case(rng, replace(random_settings(rng), block_units=size)) for size in sizes for _ in range(150)]
    said = run(engine_build.Driver(engine_build.ADDRESS).path(), cases, tmp_path)
    for name in ("looked-up units", "looked-up runs", "run"):
        assert any(name in line for line in said), f"no program has {name}"


def test_threads_do_not_race(rng: random.Random, tmp_path: Path) -> None:
    """The cases have helpers of one call, and callers that share a program."""
    cases = []
    for _ in range(300):
        settings = replace(random_settings(rng), threads=rng.choice((2, 3, 4)), block_units=rng.choice((1, 7, 40)))
        cases.append(random_case(rng, settings, callers=rng.choice((1, 2, 4))))
    run(engine_build.Driver(engine_build.THREAD).path(), cases, tmp_path)


def test_thousands_of_dimensions_need_little_stack(rng: random.Random, tmp_path: Path) -> None:
    cases: list[Case] = []
    while len(cases) < 10:
        plan = random_plan(rng, elements=60)
        if plan.empty or any(lookup.limit == 0 for lookup in plan.lookups):
            continue
        case, settings = random_case(rng, plan=plan), random_settings(rng)
        cases.append(replace(case, words=plan_words(_among_ones(plan, 50_000, rng), settings)))
    run(engine_build.Driver(engine_build.ADDRESS).path(), cases, tmp_path)


def _among_ones(plan: IndexPlan, ones: int, rng: random.Random) -> IndexPlan:
    """Return the same plan with additional dimensions of size 1 and any strides."""
    places = sorted(rng.randrange(ones) for _ in plan.shape)

    def mixed(own: tuple[int, ...], between: int) -> tuple[int, ...]:
        found = [between] * (ones + len(own))
        for number, (place, value) in enumerate(zip(places, own, strict=True)):
            found[place + number] = value
        return tuple(found)

    return replace(
        plan,
        shape=mixed(plan.shape, 1),
        out_strides=mixed(plan.out_strides, 2**62),
        in_strides=mixed(plan.in_strides, -(2**63)),
        lookups=tuple(replace(lookup, index_strides=mixed(lookup.index_strides, 2**63 - 1)) for lookup in plan.lookups),
    )


@pytest.mark.parametrize("flags", [engine_build.ADDRESS, engine_build.FAST], ids=["sanitized", "for use"])
def test_the_driver_notices_wrong_cases(flags: tuple[str, ...], rng: random.Random, tmp_path: Path) -> None:
    """Wrong cases have buffers that are a byte too small, or a different byte, offset or verdict. The driver names the case."""
    driver = engine_build.Driver(flags).path()
    plan = gather((9, 70), (12,), 0, Kind(1, policy=OutOfBounds.RAISE)).plan
    buffers = random_buffers(plan, rng)
    assert buffers.indices is not None
    buffers.indices[:] = 8
    right = Case.of(plan, buffers, Settings(), at=(AT_END, AT_END, AT_END))
    wrong = {
        "returned": replace(right, returned=3),
        "byte of the output": replace(right, expected=_cut(right.expected, flipped=True)),
        "accepted": replace(right, accepted=False),
        "input": replace(right, data=_cut(right.data)),
        "indices": replace(right, indices=_cut(right.indices)),
        "output": replace(right, out=_cut(right.out), expected=_cut(right.expected)),
    }
    for name, case in wrong.items():
        with pytest.raises(EngineError) as caught:
            run(driver, [right, case, right], tmp_path)
        assert caught.value.number == 1, name
        if name in ("returned", "byte of the output", "accepted"):
            assert name in caught.value.report
        elif flags == engine_build.ADDRESS:
            assert "AddressSanitizer" in caught.value.report
        else:
            assert "exit code -11" in caught.value.report


def _cut(memory: Memory, *, flipped: bool = False) -> Memory:
    """Return a buffer without its last byte, or with a different one."""
    (part,) = memory.parts
    if flipped:
        return replace(memory, parts=(Part(0, part.content[:-1] + bytes([part.content[-1] ^ 1])),))
    return Memory(memory.size - 1, memory.at, (Part(0, part.content[:-1]),))
