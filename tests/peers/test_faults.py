"""Each fault of a peer is in the versions that its row names, and in no other; tests/torch does the same with PyTorch's."""

from __future__ import annotations

from typing import Any

import pytest

from tests.peers.faults import Peer, PeerFault, leaves_out_at_most, leaving_out_at_most
from tests.peers.jax import BITS, LAX
from tests.peers.live import check
from tests.peers.numpy import NUMPY
from tests.peers.onnx_reference import REFERENCE
from tests.peers.onnxruntime import CLAMPS, ONNXRUNTIME, SELECTS
from tests.peers.openvino import BROADCAST, EVALUATE, FAMILY

PEERS: tuple[Peer[Any], ...] = (ONNXRUNTIME, CLAMPS, SELECTS, REFERENCE, EVALUATE, FAMILY, BROADCAST, LAX, BITS, NUMPY)


@pytest.mark.parametrize(
    ("peer", "fault"), [pytest.param(peer, fault, id=f"{peer.name}: {fault.title}") for peer in PEERS for fault in peer.faults]
)
def test_a_fault_is_in_the_versions_that_its_row_names(peer: Peer[Any], fault: PeerFault[Any]) -> None:
    place, number = f"PEERS[{PEERS.index(peer)}]", peer.faults.index(fault)
    check(peer, fault, f"from tests.peers.test_faults import PEERS; {place}.answers({place}.faults[{number}].example)")


EVEN = Peer[int](
    "a peer of even numbers",
    "pytest",
    lambda number: (number, number),
    (
        PeerFault("odd numbers", "", "", lambda number: number % 2 == 1, 1),
        PeerFault("the number 2 of versions long gone", "", "", lambda number: number == 2, 2, versions="<1"),
    ),
)


def draws() -> None:
    assert [EVEN.known_fault(number) is not None for number in range(4)] == [False, True, False, True]


def test_the_filter_counts_what_it_leaves_out() -> None:
    with leaving_out_at_most(0.5) as count:
        draws()
    assert (count.asked, count.left_out) == (4, {"a peer of even numbers: odd numbers": 2})


def test_a_test_fails_whose_draws_are_mostly_left_out() -> None:
    with pytest.raises(AssertionError, match=r"left out 2 of 4 problems: \{'a peer of even numbers: odd numbers': 2\}"):
        leaves_out_at_most(0.4)(draws)()
