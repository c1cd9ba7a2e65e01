"""Thousands of random chains of ONNX nodes, on both devices without a GPU; `ci/chains` runs them."""

from __future__ import annotations

import random

import pytest

from tests.chain_count import CHAINS
from tests.onnx.chain_runs import check_chain


@pytest.mark.heavy
def test_fused_chains_give_what_onnxruntime_gives() -> None:
    seed = random.SystemRandom().getrandbits(63)
    print(f"random.Random({seed})")
    rng = random.Random(seed)
    judged = 0
    while judged < CHAINS:
        own = rng.getrandbits(63)
        print(f"check_chain({own})")
        judged += check_chain(own, ("cpu", "reference")) is not None
