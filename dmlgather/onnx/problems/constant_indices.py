"""Check indices that are constants against the sizes of the axes that they index."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dmlgather.dialects.export_codes import CODES
from dmlgather.dialects.problem import Problem
from dmlgather.directml import Finding
from dmlgather.onnx.problems.gather import GatherProblem


def index_out_of_range(problem: Problem, indices: Any, known: Sequence[bool] | None = None) -> Finding | None:
    """A finding about the first index, in the order of the array, that is out of range; None where there is none.

    indices: the array of a gather's indices, on the host. known: whether the size of each dimension of data is known; indices
    into the others are not checked. By default all are known.
    """
    if not isinstance(problem, GatherProblem) or 0 in problem.output.shape or not problem.lookup_axes:
        return None
    per_place = len(problem.lookup_axes)  # 1, but for GatherND
    values = np.asarray(indices).reshape(-1, per_place)
    sizes = np.array([problem.data.shape[axis] for axis in problem.lookup_axes], np.int64)
    checked = np.array([known is None or known[axis] for axis in problem.lookup_axes], bool)
    bad = checked & ((values < (-sizes if problem.wraps else 0)) | (values >= sizes))
    if not bad.any():
        return None
    first = int(np.argmax(bad))
    place = tuple(map(int, np.unravel_index(first, problem.indices.shape)))
    axis = problem.lookup_axes[first % per_place]
    size = problem.data.shape[axis]
    return CODES["EXP111"].finding(
        f"indices[{','.join(map(str, place))}]",
        expected=f"{-size if problem.wraps else 0} … {size - 1}, as data has size {size} in dimension {axis}",
        got=str(values.reshape(-1)[first]),
        remedy="correct the constant: ONNX refuses such an index when the node runs, and DirectML reads another element",
    )
