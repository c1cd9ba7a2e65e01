"""docs/dialects.md: PyTorch's column of the table of notations, in live PyTorch."""

from __future__ import annotations

import pytest

import dmlgather as dg
from tests.dialects.test_notations import ROWS, VALUES

pytestmark = pytest.mark.torch


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[1])
def test_a_row_does_the_same_as_pytorch(row: tuple[str, ...]) -> None:
    import torch

    known = {name: torch.from_numpy(value) for name, value in VALUES.items()}
    expected = eval(row[1], {"torch": torch, **known}).contiguous().numpy()
    found = eval(row[2], {"dg": dg, **VALUES})(VALUES["x"])
    assert (found.shape, found.tobytes()) == (expected.shape, expected.tobytes())
