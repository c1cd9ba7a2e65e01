"""Fused and unfused chains give the same bits, or the same error. Judge: the reference backend, step by step."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from dmlgather.backends import arrays
from dmlgather.backends.cuda.families import launches_for
from dmlgather.backends.devices import CPU
from dmlgather.dialects.problem import Problem
from dmlgather.fusion import fuse, fusing
from dmlgather.fusion import fused as running
from dmlgather.fusion.fusing import JoinedIndices
from dmlgather.fusion.prepared_graph import GraphCall
from dmlgather.plan import IndexPlan, OutOfBounds, compose
from dmlgather.selftest.random_plans import random_buffers
from tests import seeds
from tests.chain_count import CHAINS, each_seed
from tests.fusion.random_graphs import RandomGraph, random_chain, step_by_step
from tests.kernels.ptx.runs import Case, differs
from tests.noticing import BrokenPrograms


def check(example: RandomGraph, device: str) -> None:
    """Assert that the fused graph gives the results of its separate steps."""
    expected = step_by_step(example)
    fused = fuse(example.graph)
    if isinstance(expected, str):
        with pytest.raises(IndexError, match=f"^{re.escape(expected)}$"):
            fused.run(example.values, device=device)
        return
    found = fused.run(example.values, device=device)
    for name in example.graph.outputs:
        assert found[name].shape == expected[name].shape
        assert found[name].tobytes() == expected[name].tobytes()


def check_many(count: int, device: str) -> None:
    """Run `check` for this number of random chains of 2 to 8 steps."""

    def check_one(seed: int) -> None:
        rng = random.Random(seed)
        check(random_chain(rng, rng.randint(2, 8)), device)

    each_seed(check_one, count)


def poison(patch: pytest.MonkeyPatch) -> None:
    """Fill arrays that a run allocates with ones."""
    allocate = arrays.allocate

    def filled(*args: Any, **kwargs: Any) -> Any:
        found = allocate(*args, **kwargs)
        found.reshape(-1).view(np.uint8)[...] = 255
        return found

    patch.setattr(arrays, "allocate", filled)
    patch.setattr(running, "_NEW", GraphCall(lambda shape, dtype: filled(CPU, shape, dtype)))


@pytest.fixture(autouse=True)
def poisoned(monkeypatch: pytest.MonkeyPatch) -> None:
    poison(monkeypatch)


@pytest.mark.parametrize("device", ["cpu", "reference"])
def test_random_fused_chains_equal_their_steps(device: str) -> None:
    check_many(40, device)


@pytest.mark.parametrize("device", ["cpu", "reference"])
def test_dead_steps_of_random_chains_raise_as_unfused(device: str) -> None:

    def check_one(seed: int) -> None:
        rng = random.Random(seed)
        example = random_chain(rng, rng.randint(2, 8))
        middle = rng.choice([name for name in example.graph.types if name not in example.graph.constants])
        check(replace(example, graph=replace(example.graph, outputs=(middle,))), device)

    each_seed(check_one, 40)


@pytest.mark.heavy
@pytest.mark.parametrize("device", ["cpu", "reference"])
def test_thousands_of_fused_chains_equal_their_steps(device: str) -> None:
    check_many(CHAINS // 2, device)


def test_most_chains_become_few_launches_for_a_gpu() -> None:
    rng = random.Random(1)
    examples = [fuse(random_chain(rng, 6).graph) for _ in range(30)]
    problems = sum(isinstance(step.work, Problem) for fused in examples for step in fused.source.steps)
    launches = [launch for fused in examples for launch in fused.launches]
    assert len(launches) < problems / 2
    for launch in launches:
        assert launch.plan.empty or launches_for(launch.plan, 16)


@pytest.mark.heavy
def test_kernels_run_launches_of_fused_chains() -> None:
    rng = seeds.rng()
    for _ in range(150):
        for launch in fuse(random_chain(rng, rng.randint(2, 8)).graph).launches:
            assert not differs(Case.of(launch.plan, random_buffers(launch.plan, rng), 16))


def shifted(plan: IndexPlan, *_: Any) -> IndexPlan:
    """Return a place one element further, if there is one."""
    try:
        return replace(plan, in_offset=plan.in_offset + 1)
    except ValueError:
        return plan


def clamping(plan: IndexPlan, *_: Any) -> IndexPlan:
    reads = all(lookup.limit for lookup in plan.lookups)
    return replace(plan, out_of_bounds=OutOfBounds.CLAMP, fill=b"") if reads else plan


def from_the_start(plan: IndexPlan, *_: Any) -> IndexPlan:
    return replace(plan, lookups=tuple(replace(lookup, index_offset=0) for lookup in plan.lookups)) if _inside(plan) else plan


def _inside(plan: IndexPlan) -> bool:
    return all(min(lookup.index_strides, default=0) >= 0 for lookup in plan.lookups)


def unchecked(*_: Any) -> None:
    """Replace a check and accept everything."""


def always(*_: Any) -> bool:
    return True


FAULTS: dict[str, tuple[Any, str, Callable[..., Any]]] = {
    "a wrong offset": (compose, "_composed", shifted),
    "indices that are not checked any more": (compose, "_check_coverage", unchecked),
    "a policy for another": (compose, "_check_mergeable", unchecked),
    "an index of an index": (compose, "_check_values", unchecked),
    "a policy that is dropped": (fusing, "all_in_range", always),
    "indices from the start of their view": (fusing, "compose_indices", from_the_start),
    "known indices that are not in range": (fusing, "with_known_indices", clamping),
    "the wrong one of joined indices": (JoinedIndices, "read_by", from_the_start),
}
"""The broken function of a module, and a function that changes its result."""


def judge(name: str, seed: int) -> tuple[str, str]:
    place, function, fault = FAULTS[name]
    right = getattr(place, function)

    def wrong() -> str:
        try:
            check(random_chain(random.Random(seed), 6), "reference")
        except (AssertionError, IndexError, ValueError, pytest.fail.Exception) as error:
            return f"{type(error).__name__}: {error}"
        return ""

    with pytest.MonkeyPatch.context() as patch:
        poison(patch)
        sound = wrong()
        patch.setattr(place, function, fault if fault is unchecked else lambda *args: fault(right(*args)))
        return sound, wrong()


PROGRAMS = BrokenPrograms("tests/fusion/test_random_chains.py", FAULTS, judge)


@pytest.mark.parametrize("name", FAULTS)
def test_a_wrong_merge_is_noticed(name: str) -> None:
    PROGRAMS.check(name)
