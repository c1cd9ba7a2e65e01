"""Indices that are constants, compared with the sizes of the axes that they index."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from dmlgather.dialects.problem import Problem


class OutOfRange(NamedTuple):
    """An index that is out of range. place: in the array of indices, "indices[0,2]". valid: "-5 … 4, as data has size 5 …"."""

    place: str
    value: int
    valid: str


def first_out_of_range(problem: Problem, indices: Any, known: Sequence[bool] | None = None) -> OutOfRange | None:
    """The first index, in the order of the array, that is out of range; None where there is none.

    problem: one that looks up `indices`, an array on the host. known: whether the size of each dimension of data is known;
    indices into the others are not checked. By default all are known.
    """
    if 0 in problem.output.shape or not problem.lookup_axes:
        return None
    per_place = len(problem.lookup_axes)  # 1, but for index tuples
    values = np.asarray(indices).reshape(-1, per_place)
    sizes = np.array([problem.data.shape[axis] for axis in problem.lookup_axes], np.int64)
    checked = np.array([known is None or known[axis] for axis in problem.lookup_axes], bool)
    bad = checked & ((values < (-sizes if problem.wraps else 0)) | (values >= sizes))
    if not bad.any():
        return None
    first = int(np.argmax(bad))
    place = np.unravel_index(first, np.shape(indices))
    axis = problem.lookup_axes[first % per_place]
    size = problem.data.shape[axis]
    low = -size if problem.wraps else 0
    return OutOfRange(
        f"indices[{','.join(str(each) for each in place)}]",
        int(values.reshape(-1)[first]),
        f"{low} … {size - 1}, as data has size {size} in dimension {axis}",
    )
