"""The seven worked examples of the page of Gather-8, as data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Example:
    """One worked example: what goes in, and what the page says comes out."""

    name: str
    indices: Any
    data: Any
    output: Any
    axis: int
    batch_dims: int = 0

    def arrays(self, dtype: str = "int32", index_dtype: str = "int32") -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
        """data, indices and output."""
        return np.array(self.data, dtype), np.array(self.indices, index_dtype), np.array(self.output, dtype)

    @property
    def versions(self) -> tuple[int, ...]:
        """The versions that say so too: negative indices came with 8, batch_dims with 7."""
        if np.min(self.indices) < 0:
            return (8,)
        return (7, 8) if self.batch_dims else (1, 7, 8)


TWO_ROWS = [[1, 2, 3, 4, 5], [6, 7, 8, 9, 10]]
TWO_ROWS_TAKEN = [[1, 1, 5], [10, 6, 6]]

EXAMPLES = (
    Example("1: batch_dims left out", indices=[0, 0, 4], data=[1, 2, 3, 4, 5], output=[1, 1, 5], axis=0),
    Example(
        "2: one batch dimension",
        indices=[[0, 0, 4], [4, 0, 0]],
        data=TWO_ROWS,
        output=TWO_ROWS_TAKEN,
        axis=1,
        batch_dims=1,
    ),
    Example(
        "3: two batch dimensions",
        indices=[[[0, 0, 4], [4, 0, 0]], [[1, 2, 4], [4, 3, 2]]],
        data=[TWO_ROWS, [[11, 12, 13, 14, 15], [16, 17, 18, 19, 20]]],
        output=[TWO_ROWS_TAKEN, [[12, 13, 15], [20, 19, 18]]],
        axis=2,
        batch_dims=2,
    ),
    Example(
        "4: axis behind batch_dims",
        indices=[[1, 2, 4], [4, 3, 2]],
        data=[
            [[[1, 2, 3, 4], [5, 6, 7, 8], [9, 10, 11, 12], [13, 14, 15, 16], [17, 18, 19, 20]]],
            [[[21, 22, 23, 24], [25, 26, 27, 28], [29, 30, 31, 32], [33, 34, 35, 36], [37, 38, 39, 40]]],
        ],
        output=[
            [[[5, 6, 7, 8], [9, 10, 11, 12], [17, 18, 19, 20]]],
            [[[37, 38, 39, 40], [33, 34, 35, 36], [29, 30, 31, 32]]],
        ],
        axis=2,
        batch_dims=1,
    ),
    Example(
        "5: negative batch_dims",
        indices=[[0, 0, 4], [4, 0, 0]],
        data=TWO_ROWS,
        output=TWO_ROWS_TAKEN,
        axis=1,
        batch_dims=-1,
    ),
    Example("6: negative indices", indices=[0, -2, -1], data=[1, 2, 3, 4, 5], output=[1, 4, 5], axis=0),
    Example("7: indices out of range", indices=[3, 10, -20], data=[1, 2, 3, 4, 5], output=[4, 0, 0], axis=0),
)
