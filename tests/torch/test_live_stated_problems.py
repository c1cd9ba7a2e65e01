"""The problem of a call says all that PyTorch does: its plan, in the reference, gives PyTorch's bits, or raises where it does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import dmlgather as dg
from tests.stated_calls import LOOKING, Looking, indices
from tests.test_stated_problems import called, planned, same
from tests.torch.judge import LIVE

pytestmark = pytest.mark.torch

ROWS = [row for row in LOOKING if row.function.__module__.startswith("dmlgather.torch")]


def tensors(given: Any) -> Any:
    """The arguments, with tensors in the place of arrays."""
    if isinstance(given, tuple):
        return tuple(map(tensors, given))
    return torch.from_numpy(given) if isinstance(given, np.ndarray) else given


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_plans_give_what_pytorch_gives(row: Looking) -> None:
    for dtype in row.types:
        for i in indices(row.size, dtype):
            args = row.arguments(i)
            found = called(LIVE[row.function.__name__], *tensors(args))
            expected = found if isinstance(found, str) else found.contiguous().numpy()
            try:
                problem = row.function.problem(*args)
            except ValueError:
                assert row.function is dg.torch.take_along_dim
                assert same(called(row.function, *args), expected)
                continue
            assert same(planned(problem.plan(), *row.read(i)), expected), i
