"""Thousands of random plans under AddressSanitizer and UBSan, the tile under ThreadSanitizer; and proof that they notice."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dmlgather.backends.cuda.variants import VARIANTS, KernelKind, Variant
from dmlgather.selftest.kernel_plans import plan_for
from dmlgather.selftest.random_plans import random_buffers, random_plan, unwritable_fill
from tests.kernels import build, sanitized
from tests.kernels.sanitized import Case, SanitizerError, mismatches, mutated, noticed
from tests.kernels.units import KERNELS

PLANS = 2000


def random_case(rng: random.Random) -> Case:
    plan, alignment = random_plan(rng, elements=400), rng.choice((16, 16, 8, 4, 2, 1))
    if unwritable_fill(plan, alignment):
        alignment = plan.element_bytes
    return Case.of(plan, random_buffers(plan, rng), alignment, specialise=rng.random() < 0.8)


def test_random_plans_and_every_variant_are_clean(rng: random.Random, tmp_path: Path) -> None:
    cases = [random_case(rng) for _ in range(PLANS)]
    for variant in VARIANTS:
        plan, alignment = plan_for(variant, rng, elements=600)
        cases.append(Case.of(plan, random_buffers(plan, rng), alignment))
    assert {launch.variant for case in cases for launch in case.launches} == set(VARIANTS)
    assert mismatches(cases, sanitized.run(build.batch(build.ADDRESS), cases, tmp_path)) == []


def test_one_byte_too_few_and_a_misaligned_buffer_are_caught(rng: random.Random, tmp_path: Path) -> None:
    """The batch program's buffers are exact, and no better aligned than a case says."""
    program = build.batch(build.ADDRESS)
    variant = Variant(KernelKind.GATHER, 2, 16, lookups=1, index_bytes=8, checked=False, invariant=True)
    plan, alignment = plan_for(variant, rng)
    whole = Case.of(plan, random_buffers(plan, rng), alignment)
    with pytest.raises(SanitizerError, match="misaligned address"):
        sanitized.run(program, [whole, replace(whole, in_at=8, out_at=8)], tmp_path)
    last = plan.out_reach
    assert last is not None
    short = whole.buffers.out.view(np.uint8)[: (last[1] + 1) * plan.element_bytes - 1]
    with pytest.raises(SanitizerError, match=r"case 1\n(.|\n)*heap-buffer-overflow"):
        sanitized.run(program, [whole, replace(whole, buffers=replace(whole.buffers, out=short))], tmp_path)


WRAP = "    value += value < 0 ? static_cast"
MUTATIONS = {
    "no clamp": ("lookup.cuh", "good ? static_cast<u32>(value) : last", "static_cast<u32>(value)"),
    "no lower clamp": ("lookup.cuh", "static_cast<u32>(lookup.below) : upper", "static_cast<u32>(value) : upper"),
    "indices cut to 32 bits": ("lookup.cuh", WRAP, f"    value = static_cast<s32>(value);\n{WRAP}"),
    "left-over elements a chunk too far": ("copy.cuh", "from.in += (Unroll - 1)", "from.in += Unroll"),
    "left-over elements read the first index": ("copy.cuh", "from.index[k] += (Unroll - 1) * a.lookup[k].walk", ""),
    "one thread too many": ("copy.cuh", "if (thread >= a.threads) return;", "if (thread > a.threads) return;"),
}
"""Header, text, and the text that breaks it."""


@pytest.mark.heavy
@pytest.mark.parametrize("name", MUTATIONS)
def test_a_broken_kernel_is_caught(name: str, rng: random.Random, tmp_path: Path) -> None:
    """By a sanitizer's report or by a wrong result; without the mutation, the same cases pass (see above)."""
    header, before, after = MUTATIONS[name]
    kernels = mutated(tmp_path, header, before, after)
    unit = "gather1_index64.cu"
    variants = [variant for variant in VARIANTS if variant.unit == unit] * 3
    cases = []
    for variant in variants:
        plan, alignment = plan_for(variant, rng, elements=600)
        cases.append(Case.of(plan, random_buffers(plan, rng), alignment))
    program = build.batch(build.ADDRESS, kernels, (unit,))
    assert noticed(cases, program, tmp_path)


def test_the_tile_has_no_race(rng: random.Random, tmp_path: Path) -> None:
    cases = tiles(rng)
    assert mismatches(cases, sanitized.run(build.batch(build.THREAD, KERNELS, ("slice.cu",)), cases, tmp_path)) == []


@pytest.mark.heavy
def test_a_missing_barrier_is_caught(rng: random.Random, tmp_path: Path) -> None:
    kernels = mutated(tmp_path, "tile.cuh", "__syncthreads();", "")
    with pytest.raises(SanitizerError, match="data race"):
        sanitized.run(build.batch(build.THREAD, kernels, ("slice.cu",)), tiles(rng), tmp_path)


def tiles(rng: random.Random) -> list[Case]:
    cases = []
    for variant in VARIANTS:
        if variant.kind is KernelKind.TRANSPOSE:
            plan, alignment = plan_for(variant, rng)
            cases.append(Case.of(plan, random_buffers(plan, rng), alignment))
    return cases
