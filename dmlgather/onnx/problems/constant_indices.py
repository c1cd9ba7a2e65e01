"""Indices that are constants: whether each lies inside the axis that it looks up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dmlgather.dialects.export_codes import CODES
from dmlgather.dialects.problem import Problem
from dmlgather.directml import Finding
from dmlgather.onnx.problems.gather import Gather, GatherElements, GatherND

_Gathering = Gather | GatherElements | GatherND


def outside(problem: Problem, indices: Any, known: Sequence[bool] | None = None) -> Finding | None:
    """The first index, in the order of the array, that is out of range; None where there is none.

    indices: the array of a gather's indices, on the host. known: whether the size of each dimension of data is known, by default
    all are; others are not judged.
    """
    if not isinstance(problem, _Gathering) or 0 in problem.output.shape:
        return None
    values = np.asarray(indices).reshape(problem.indices.shape)
    tuples = isinstance(problem, GatherND)
    components = np.moveaxis(values, -1, 0) if tuples else [values]
    worst: tuple[tuple[int, ...], int] | None = None
    for number, (axis, component) in enumerate(zip(problem.lookup_axes, components, strict=True)):
        size = problem.data.shape[axis]
        bad = (component < (-size if problem.wraps else 0)) | (component >= size)
        if bad.any() and (known is None or known[axis]):
            first = tuple(int(at) for at in np.unravel_index(np.argmax(bad), bad.shape))
            place = (*first, number) if tuples else first
            worst = min(worst or (place, axis), (place, axis))
    return None if worst is None else _finding(problem, values, *worst)


def _finding(problem: _Gathering, values: np.ndarray[Any, Any], place: tuple[int, ...], axis: int) -> Finding:
    size = problem.data.shape[axis]
    return CODES["EXP111"].finding(
        f"indices[{','.join(map(str, place))}]",
        expected=f"{-size if problem.wraps else 0} … {size - 1}, as data has size {size} in dimension {axis}",
        got=str(values[place]),
        remedy="correct the constant: ONNX refuses such an index when the node runs, and DirectML reads another element",
    )
