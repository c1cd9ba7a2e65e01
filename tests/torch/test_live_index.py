"""x[…] as PyTorch reads it: what counts as a tuple, a list, a mask or an integer."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import dmlgather as dg
from tests.peers.torch import asked
from tests.torch.judge import same_bits

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore:indexing with dtype torch.uint8:UserWarning")]

X = torch.arange(24.0).reshape(2, 3, 4)
PAIR = torch.tensor([1, 0])

KEYS: list[Any] = [
    (),
    ...,
    (..., ...),
    None,
    (0, 0, 0),
    (0, 0, 0, None),
    (0, 0, 0, 0),
    PAIR,
    (slice(None), PAIR),
    (PAIR, slice(None), PAIR),
    (0, slice(None), PAIR),
    (slice(None), PAIR, ..., PAIR),
    (PAIR, None, PAIR),
    (None, PAIR, None, PAIR),
    (True, PAIR),
    (PAIR, True),
    (True, ..., PAIR),
    (True, True),
    (True, False),
    False,
    torch.tensor(1),
    torch.tensor(-3),
    torch.tensor([2**40]),
    torch.tensor(1, dtype=torch.int16),
    torch.tensor(1, dtype=torch.uint8),
    torch.tensor([1], dtype=torch.int16),
    torch.tensor(1.0),
    (torch.tensor([1], dtype=torch.int32), torch.tensor([0])),
    [0, 1],
    [0] * 33,
    [[0, 1]],
    [[0, 1], [1, 2]],
    ([0, 1], [1, 2]),
    [[[0, 1], [1, 2]]],
    [PAIR, PAIR],
    [0, slice(None)],
    [[0], 1],
    [None],
    [...],
    [[]],
    [],
    (slice(None), []),
    (slice(None), (0, 1)),
    (slice(None), range(2)),
    (slice(None), [torch.tensor(1), 0]),
    ((0, 1, 1), PAIR[:1]),
    ((0, 1, 1), ...),
    ((0, 1, 1), None),
    ((0, 1, 1), slice(2)),
    ((0, 1), np.array([2, 0])),
    ((0, 1), torch.tensor([True, False, False])),
    ((1,), range(2)),
    ((0, 1), True),
    ((0, 1), 1.5),
    [(0, 1), PAIR],
    (slice(None), [[0, 1], [1]]),
    [True, False],
    (slice(None), [True, False, True]),
    (slice(None), torch.tensor([True, False])),
    torch.tensor([[True, False, True], [False, True, True]]),
    np.array([0, 1]),
    np.array([0, 1], np.int16),
    np.array([0, 1], np.uint8),
    (slice(None), np.array(1)),
    np.int64(1),
    np.uint8(1),
    np.bool_(True),
    np.float32(1),
    1.5,
    1j,
    "a",
    b"a",
    {},
    2**63,
    slice(torch.tensor(0), torch.tensor(1)),
    slice(torch.tensor([0]), None),
    slice(None, None, torch.tensor(2)),
    slice(None, None, -1),
    slice(None, None, 0),
    slice(1.5),
    (slice(None), slice(2**63, None)),
]


@pytest.mark.parametrize("key", KEYS)
def test_a_key_means_what_it_means_to_pytorch(key: Any) -> None:
    said = asked("index", X, key)
    assert said.agree, str(said)


@pytest.mark.parametrize(
    ("shape", "key"),
    [
        ((3, 0), (slice(None), torch.tensor([7]))),
        ((3, 0), torch.tensor([7])),
        ((0, 0), torch.tensor([0])),
        ((0, 3), (slice(None), torch.tensor([7]))),
        ((3, 4), (torch.tensor([9]), slice(0))),
        ((3, 0, 4), (slice(None), slice(None), torch.tensor([9]))),
        ((3, 0, 0), (torch.tensor([9]), torch.tensor([9]))),
        ((0, 3), torch.tensor([], dtype=torch.int64)),
    ],
)
def test_indices_of_no_elements_are_not_looked_at(shape: tuple[int, ...], key: Any) -> None:
    said = asked("index", torch.zeros(shape), key)
    assert said.agree, str(said)


@pytest.mark.parametrize("key", [(..., PAIR), (0, ..., PAIR), (..., PAIR, 0), (..., PAIR, slice(None), 1)])
def test_an_ellipsis_stands_for_all_that_is_not_named(key: Any) -> None:
    said = asked("index", torch.arange(120.0).reshape(2, 3, 4, 5), key)
    assert said.agree, str(said)


@pytest.mark.parametrize(("shape", "dim"), [((3, 0), 0), ((0, 3), 1), ((0, 3), 0), ((3, 3), 0), ((3, 3), 1), ((3,), 0)])
def test_a_bad_index_of_index_select_raises_pytorchs_class(shape: tuple[int, ...], dim: int) -> None:
    said = asked("index_select", torch.zeros(shape), dim, torch.tensor([7]))
    assert said.agree, str(said)
    assert said.live.error


def test_lists_that_pytorch_takes_are_refused() -> None:
    assert X[:, [1.5]].shape == (2, 1, 4)
    for wrong in ([1.5], [None]):
        with pytest.raises(IndexError, match=r"entry 1 is .*, expected integers or bools"):
            dg.torch.index(X, (slice(None), wrong))
    assert same_bits(dg.torch.index(X, (..., ..., 0)), X[..., 0])


def test_a_pair_of_a_shape_and_a_type_stands_for_a_tensor() -> None:
    for dtype in ("int64", np.int64, np.dtype("int64"), torch.int64, int):
        assert dg.torch.index.plan(X, ((2,), dtype)).shape == (2, 3, 4)
        assert dg.torch.index.plan(X, (slice(None), ((2,), dtype))).shape == (2, 2, 4)
    assert dg.torch.index.plan(X, ((0, 1), PAIR)).shape == (2, 4)


def test_arrays_of_several_libraries_go_together() -> None:
    for data in (X, X.numpy()):
        found = dg.torch.index(data, (slice(None), np.array([2, 0]), torch.tensor([3, 1])))
        assert type(found) is type(data)
        assert torch.equal(torch.as_tensor(found), X[:, [2, 0], [3, 1]])
