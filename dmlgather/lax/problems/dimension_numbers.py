"""Which dimensions of operand, indices and result go together. Source: jax.lax.GatherDimensionNumbers."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, fields
from typing import Any

from dmlgather.calls.keys import plain
from dmlgather.dialects.problem import whole


@plain
@dataclass(frozen=True)
class GatherDimensionNumbers:
    """The same as jax.lax.GatherDimensionNumbers. Dimensions are counted from 0; any sequence of integers is kept as a tuple.

    The last dimension of the indices holds the index vectors. The other dimensions of the indices appear in the result, at the
    positions that offset_dims leaves.

    >>> dg.lax.GatherDimensionNumbers(offset_dims=(1,), collapsed_slice_dims=[0], start_index_map=[0]).start_index_map
    (0,)
    """

    offset_dims: tuple[int, ...]
    """Dimensions of the result that run through a window, ascending."""

    collapsed_slice_dims: tuple[int, ...]
    """Dimensions of the operand with a window size of 1 that the result leaves out, ascending."""

    start_index_map: tuple[int, ...]
    """The operand's dimension that each component of an index vector is a start in."""

    operand_batching_dims: tuple[int, ...] = ()
    """Dimensions of the operand that run along with dimensions of the indices, ascending; the result leaves them out too."""

    start_indices_batching_dims: tuple[int, ...] = ()
    """The dimensions of the indices that operand_batching_dims run along with, in the same order."""

    def __post_init__(self) -> None:
        for field in fields(self):
            values = getattr(self, field.name)
            if not isinstance(values, Sequence) or isinstance(values, str | bytes):
                raise TypeError(f"{field.name} is {values!r}, expected a tuple of integers")
            dims = tuple(whole(f"{field.name}[{number}]", value) for number, value in enumerate(values))
            object.__setattr__(self, field.name, dims)

    @classmethod
    def of(cls, numbers: Any) -> GatherDimensionNumbers:
        """From dmlgather's or JAX's object. TypeError for anything else, and, as in JAX, for lists in JAX's object."""
        if isinstance(numbers, cls):
            return numbers
        names = [field.name for field in fields(cls)]
        if not all(hasattr(numbers, name) for name in names):
            raise TypeError(
                f"dimension_numbers is of type {type(numbers).__name__}, expected GatherDimensionNumbers, JAX's or dmlgather's"
            )
        values = {name: getattr(numbers, name) for name in names}
        for name, dims in values.items():
            if not isinstance(dims, Hashable):
                raise TypeError(
                    f"{name} is {dims!r} of type {type(dims).__name__}, expected a tuple, as JAX's own object must hold"
                )
        return cls(**values)
