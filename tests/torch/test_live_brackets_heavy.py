"""Brackets of every kind, with positions in and out of range, by `dg.torch.index` against PyTorch: ci/heavy torch runs them."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch

from tests.chain_count import CHAINS, each_seed
from tests.dialects.brackets import Spelling, random_bits, some_key
from tests.peers.torch import asked

pytestmark = [pytest.mark.torch, pytest.mark.heavy]

TYPES = ("float32", "int32", "uint8", "float16", "bool", "complex64", "int64")
SPELLING = Spelling(types=("int64", "int64", "int32"), backwards=False)


def check_call(rng: random.Random) -> bool:
    """`dg.torch.index` gives PyTorch's bits or its error. Returns whether PyTorch raises."""
    bits = random_bits(rng, rng.choice(TYPES))
    key = some_key(rng, bits.shape, SPELLING, far=0.2)
    entries = tuple(torch.from_numpy(entry) if isinstance(entry, np.ndarray) else entry for entry in key)
    said = asked("index", torch.from_numpy(bits.copy()), entries)
    assert said.agree, str(said)
    return said.live.error is not None


def test_brackets_give_pytorchs_bits_or_its_error() -> None:
    raised = sum(each_seed(lambda seed: check_call(random.Random(seed)), CHAINS))
    assert 0 < raised < CHAINS
