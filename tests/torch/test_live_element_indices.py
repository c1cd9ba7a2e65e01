"""Traces of programs that select by a tensor without dimensions, whose element only a run tells."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import dmlgather as dg
from tests.torch.fused_chains import agrees, same_run

pytestmark = pytest.mark.torch

X = torch.arange(24.0).reshape(4, 3, 2)
TABLE = torch.arange(6.0).reshape(2, 3)


@pytest.mark.parametrize("dtype", [torch.int64, torch.int16])
@pytest.mark.parametrize(
    "fn",
    [
        lambda x, i: x[i],
        lambda x, i: x[:, i, None],
        lambda x, i: x[..., 1:, 0][i, i],
        lambda x, i: x[1:][i - 1],
        lambda x, i: x[i][i] + x[-1, i],
        lambda x, i: x.select(1, i),
        lambda x, i: x[i.item()],
        lambda x, i: x[i[None].item(), :1],
    ],
)
def test_an_index_without_dimensions(fn: Callable[..., Any], dtype: torch.dtype) -> None:
    traced = agrees(fn, X, torch.tensor(1, dtype=dtype))
    same_run(traced, fn, X, torch.tensor(0, dtype=dtype))
    same_run(traced, fn, X.flip(0), torch.tensor(-1, dtype=dtype))
    assert traced.run(X.numpy(), np.array(1, str(dtype).removeprefix("torch."))).tolist() == fn(X, torch.tensor(1)).tolist()


@pytest.mark.parametrize("shape", [(2, 3), (2, 0)])
@pytest.mark.parametrize("position", [2, -3, 2**40])
def test_it_is_checked_as_in_pytorch(shape: tuple[int, ...], position: int) -> None:
    x, i = torch.zeros(shape), torch.tensor(position)
    traced = dg.torch.trace(lambda x, i: x[i], torch.zeros(shape), torch.tensor(1))
    calls: tuple[Callable[..., Any], ...] = (lambda x, i: x[i], traced.run)
    for call in calls:
        with pytest.raises(IndexError, match=str(position)):
            call(x, i)


def test_it_is_a_gather() -> None:
    (entry,) = dg.torch.trace(lambda x, i: x[:, i], TABLE, torch.tensor(1))
    assert (entry.equation, str(entry.directml)) == (
        "select.int float32[2,3], int64[] -> float32[2]",
        "GATHER from 1_0 (EXP201)",
    )
    assert dg.equivalent(lambda x, i: x[i], lambda x, i: x[i[None]][0], TABLE, torch.tensor(1)).verdict == "proven"
    assert dg.equivalent(lambda x, i: x[i], lambda x, i: x.index_select(0, i), TABLE, torch.tensor(1)).verdict == "different"
    rows = torch.export.Dim("rows", min=2)
    (entry,) = dg.torch.trace(lambda x, i: x[i], TABLE, torch.tensor(1), dynamic_shapes=({0: rows}, None))
    assert str(entry.dynamic) == "[x[0],3], [] -> [3]: taken from 1_0 provided x[0] >= 1"


@pytest.mark.parametrize("fn", [lambda x, i: x[i:], lambda x, i: x[i.item() + 1], lambda x, i: x[: i.item()]])
def test_other_numbers_that_follow_from_elements_are_refused(fn: Callable[..., Any]) -> None:
    with pytest.raises(ValueError, match=r"is known only when the program runs: it follows from elements, as item\(\) and the"):
        dg.torch.trace(fn, TABLE, torch.tensor(1))
