"""Fused and unfused chains give the same bits, or raise for the same step; the reference backend, step by step, is the judge."""

from __future__ import annotations

import random

import numpy as np
import pytest

from dmlgather.fusion import fuse
from tests.fusion.random_graphs import RandomGraph, compute, random_chain, step_by_step


def check(example: RandomGraph, device: str) -> None:
    """Assert that the fused graph gives what its steps give one by one."""
    fused = fuse(example.graph)
    expected = step_by_step(example)
    if isinstance(expected, str):
        with pytest.raises(IndexError):
            fused.run(example.values, compute=compute, device=device)
        return
    found = fused.run(example.values, compute=compute, device=device)
    for name in example.graph.outputs:
        assert found[name].shape == expected[name].shape
        assert found[name].tobytes() == expected[name].tobytes()


@pytest.mark.parametrize("device", ["cpu", "reference"])
def test_fused_is_unfused(device: str) -> None:
    seed = random.SystemRandom().getrandbits(64)
    print(f"random.Random({seed})")
    rng = random.Random(seed)
    for _ in range(100):
        check(random_chain(rng, rng.randint(2, 8)), device)


def test_a_chain_of_views_is_one_launch() -> None:
    rng = random.Random(1)
    assert np.mean([len(fuse(random_chain(rng, 6).graph).launches) for _ in range(50)]) < 3
