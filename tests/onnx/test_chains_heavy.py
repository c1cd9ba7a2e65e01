"""Thousands of random chains of ONNX nodes, on both devices without a GPU; `ci/heavy chains` runs them."""

from __future__ import annotations

import pytest

from tests.chain_count import CHAINS, each_seed
from tests.onnx.chain_runs import check_chain


@pytest.mark.heavy
def test_fused_chains_give_what_onnxruntime_gives() -> None:
    judged = each_seed(lambda seed: check_chain(seed, ("cpu", "reference")) is not None)
    assert sum(judged) > CHAINS // 2
