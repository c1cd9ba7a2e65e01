"""From the arguments of jax.lax.gather to its problem."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from dmlgather.dialects.problem import TensorType
from dmlgather.lax.problems.dimension_numbers import GatherDimensionNumbers
from dmlgather.lax.problems.gather import LaxGather
from dmlgather.lax.problems.gather_modes import fill_bytes, mode_of
from dmlgather.plan import OutOfBounds


def gather_call(
    data: TensorType, indices: TensorType, dimension_numbers: Any, slice_sizes: Any, *, mode: Any, fill_value: Any
) -> LaxGather:
    """The problem of a call. dimension_numbers: ours or JAX's; mode, fill_value: as JAX takes them.

    TypeError for shapes that do not go together, ValueError for another mode and for indices that are no integers.
    """
    policy, numbers = mode_of(mode), GatherDimensionNumbers.of(dimension_numbers)
    problem = LaxGather(data, indices, numbers, slice_sizes, policy)
    return replace(problem, fill=fill_bytes(fill_value, data.dtype)) if policy is OutOfBounds.FILL else problem
