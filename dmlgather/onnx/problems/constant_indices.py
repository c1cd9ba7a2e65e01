"""Check indices that are constants against the sizes of the axes that they index."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dmlgather.dialects.export_codes import CODES
from dmlgather.dialects.problem import Problem
from dmlgather.directml import Finding
from dmlgather.onnx.problems.gather import GatherND, GatherProblem


def index_out_of_range(problem: Problem, indices: Any, known: Sequence[bool] | None = None) -> Finding | None:
    """A finding about the first index, in the order of the array, that is out of range; None where there is none.

    indices: the array of a gather's indices, on the host. known: whether the size of each dimension of data is known; indices
    into the others are not checked. By default all are known.
    """
    if not isinstance(problem, GatherProblem) or 0 in problem.output.shape:
        return None
    values = np.asarray(indices).reshape(problem.indices.shape)
    if not isinstance(problem, GatherND):
        values = values[..., None]
    sizes = np.array([problem.data.shape[axis] for axis in problem.lookup_axes], np.int64)
    checked = np.array([known is None or known[axis] for axis in problem.lookup_axes], bool)
    bad = checked & ((values < (-sizes if problem.wraps else 0)) | (values >= sizes))
    if not bad.any():
        return None
    place = tuple(map(int, np.unravel_index(np.argmax(bad), bad.shape)))
    axis = problem.lookup_axes[place[-1]]
    size = problem.data.shape[axis]
    return CODES["EXP111"].finding(
        f"indices[{','.join(map(str, place[: problem.indices.rank]))}]",
        expected=f"{-size if problem.wraps else 0} … {size - 1}, as data has size {size} in dimension {axis}",
        got=str(values[place]),
        remedy="correct the constant: ONNX refuses such an index when the node runs, and DirectML reads another element",
    )
