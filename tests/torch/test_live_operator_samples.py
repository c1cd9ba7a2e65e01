"""PyTorch's own samples of its operators: `dg.torch` gives PyTorch's bits, or says why not."""

from __future__ import annotations

import pytest
import torch

from tests import seeds
from tests.peers.torch import PYTORCH, both
from tests.torch.judge import TorchCall
from tests.torch.operator_samples import FUNCTIONS, SAMPLES, bad_samples, call_of, samples

pytestmark = pytest.mark.torch


def refused(call: TorchCall, text: str) -> bool:
    """Whether a call is one that docs/torch.md says is refused, and is told so."""
    halves = any(isinstance(each, torch.Tensor) and each.dtype is torch.complex32 for each in call.arguments)
    return (halves and "complex32" in text) or (call.keywords.get("max_norm") is not None and text.startswith("max_norm is"))


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_calls_give_pytorchs_bits_and_errors(name: str) -> None:
    chosen = samples(seeds.rng(), name, SAMPLES)
    for sample in (*chosen, *bad_samples(name)):
        said = both(call_of(name, sample))
        assert said.agree or PYTORCH.known_fault(said) or refused(said.call, said.ours.text), str(said)
    assert len(chosen) >= min(SAMPLES, 2)
