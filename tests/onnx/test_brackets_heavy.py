"""Thousands of GatherNDs with constant positions of every kind, fused, against onnxruntime: ci/heavy index runs them."""

from __future__ import annotations

import pytest

from tests.chain_count import each_seed
from tests.onnx.chain_runs import check_tuples

pytestmark = pytest.mark.heavy


def test_random_tuples_give_onnxruntimes_bits() -> None:
    each_seed(lambda seed: check_tuples(seed, ("cpu", "reference")), 2_000)
