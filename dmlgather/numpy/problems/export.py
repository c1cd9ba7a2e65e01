"""From NumPy's index expressions to DirectML: the descriptors, or why there are none, and where the two differ."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from dmlgather.dialects.export_codes import CODES
from dmlgather.dialects.exporter import Exporter, Unlike, first_out_of_range, index_bounds
from dmlgather.dialects.problem import Problem
from dmlgather.dialects.view_forms import FORMS, VIEW_FORMS, needed_by_indexing
from dmlgather.directml import Finding
from dmlgather.numpy.problems.take_along_axis import TakeAlongAxis, take_along_axis_form


def _unlike(problem: Problem, _: None) -> Unlike | None:
    """The indices, of unknown values, for which the descriptors give elements and NumPy an IndexError."""
    if not problem.lookup_axes:
        return None
    bounds = index_bounds((problem.data.shape[axis] for axis in problem.lookup_axes), problem.tensors[1].dtype.kind == "i")
    mend = "compare the indices with these bounds before they are bound, unless all are known to be in range"
    return Unlike("indices", bounds, "an IndexError in NumPy", mend)


EXPORTER = Exporter(
    {**FORMS, **VIEW_FORMS, TakeAlongAxis: take_along_axis_form},
    lambda problem: f"NumPy {problem.name}",
    needed_by_indexing,
    {"data": "x"},
    _unlike,
)


def out_of_range(problem: Problem, indices: NDArray[Any]) -> Finding | None:
    """The finding about the first index that is out of range; None where there is none. indices: their values."""
    wrong = first_out_of_range(problem, indices)
    if wrong is None:
        return None
    return CODES["EXP111"].finding(
        wrong.place,
        expected=wrong.valid.replace("data", "x"),
        got=str(wrong.value),
        remedy="correct the index: NumPy raises an IndexError for it, and DirectML reads another element",
    )
