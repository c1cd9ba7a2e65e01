"""Check indices that are constants against the sizes of the axes that they index."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dmlgather.dialects.constant_indices import first_out_of_range
from dmlgather.dialects.export_codes import CODES
from dmlgather.dialects.problem import Problem
from dmlgather.directml import Finding
from dmlgather.onnx.problems.gather import GatherProblem


def index_out_of_range(problem: Problem, indices: Any, known: Sequence[bool] | None = None) -> Finding | None:
    """A finding about the first index that is out of range; None where there is none. Arguments as of `first_out_of_range`."""
    wrong = first_out_of_range(problem, indices, known) if isinstance(problem, GatherProblem) else None
    if wrong is None:
        return None
    return CODES["EXP111"].finding(
        wrong.place,
        expected=wrong.valid,
        got=str(wrong.value),
        remedy="correct the constant: ONNX refuses such an index when the node runs, and DirectML reads another element",
    )
