"""A thousand good and a thousand bad calls against PyTorch: bits of results, and the classes of errors."""

from __future__ import annotations

import random
from collections import Counter

import pytest
import torch

from tests import seeds
from tests.peers.faults import PeerFault
from tests.peers.live import check
from tests.peers.torch import PYTORCH, Answered, both
from tests.torch.drafts import MAKERS, draft
from tests.torch.judge import bits, ours

pytestmark = pytest.mark.torch

CALLS = 1_000
"""Good ones, and bad ones."""


def test_calls_give_pytorchs_bits_and_errors() -> None:
    rng = seeds.rng()
    good, bad, left_out = Counter[str](), Counter[str](), 0
    while min(good.total(), bad.total()) < CALLS:
        operation = rng.choice(list(MAKERS))
        said = both(draft(rng, operation, faulty=rng.random() < 0.7))
        if said.agree:
            (bad if said.live.error else good)[operation] += 1
        else:
            assert PYTORCH.known_fault(said), str(said)
            left_out += 1
    assert min(good[name] for name in MAKERS) >= 15, good
    assert min(bad[name] for name in MAKERS) >= 5, bad
    assert left_out <= 0.2 * (good.total() + bad.total())


def test_devices_agree() -> None:
    rng = random.Random(17)
    for operation in MAKERS:
        for _ in range(8):
            call = draft(rng, operation, faulty=False)
            assert ours(call).same_bits(ours(call, device="reference")), call


def test_results_are_new_packed_tensors() -> None:
    rng = random.Random(5)
    for operation in MAKERS:
        for _ in range(10):
            call = draft(rng, operation, faulty=False)
            tensors = [each for each in call.arguments if isinstance(each, torch.Tensor)]
            before = [bits(each) for each in tensors]
            for result in ours(call).tensors:
                assert result.is_contiguous()
                assert not result.requires_grad
                result.zero_()
            assert [bits(each) for each in tensors] == before, call


@pytest.mark.parametrize("fault", PYTORCH.faults, ids=lambda fault: fault.title)
def test_a_fault_is_in_the_versions_that_its_row_names(fault: PeerFault[Answered]) -> None:
    check(PYTORCH, fault)
