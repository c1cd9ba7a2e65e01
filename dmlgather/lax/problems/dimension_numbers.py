"""Which dimensions of operand, indices and result go together. Source: jax.lax.GatherDimensionNumbers."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, fields
from typing import Any

from dmlgather.dialects.problem import whole


@dataclass(frozen=True)
class GatherDimensionNumbers:
    """What jax.lax.GatherDimensionNumbers says. Dimensions are counted from 0; any sequence of integers is kept as a tuple.

    The last dimension of the indices holds the index vectors; the others come out in the result, at what offset_dims leaves.
    """

    offset_dims: tuple[int, ...]
    """Dimensions of the result that walk through a window, ascending."""

    collapsed_slice_dims: tuple[int, ...]
    """Dimensions of the operand whose window size is 1 and that the result lacks, ascending."""

    start_index_map: tuple[int, ...]
    """Dimension of the operand that each component of an index vector starts in."""

    operand_batching_dims: tuple[int, ...] = ()
    """Dimensions of the operand that run along with the indices, ascending; the result lacks them as well."""

    start_indices_batching_dims: tuple[int, ...] = ()
    """Dimensions of the indices that they run along with, in the same order."""

    def __post_init__(self) -> None:
        for field in fields(self):
            values = getattr(self, field.name)
            if not isinstance(values, Sequence) or isinstance(values, str | bytes):
                raise TypeError(f"{field.name} is {values!r}, expected a tuple of integers")
            dims = tuple(whole(f"{field.name}[{number}]", value) for number, value in enumerate(values))
            object.__setattr__(self, field.name, dims)

    @classmethod
    def of(cls, given: Any) -> GatherDimensionNumbers:
        """Ours, from ours or JAX's own. TypeError for anything else, and as in JAX for lists in JAX's own."""
        if isinstance(given, cls):
            return given
        names = [field.name for field in fields(cls)]
        if not all(hasattr(given, name) for name in names):
            raise TypeError(
                f"dimension_numbers is of type {type(given).__name__}, expected GatherDimensionNumbers, JAX's or dmlgather's"
            )
        values = {name: getattr(given, name) for name in names}
        for name, dims in values.items():
            if not isinstance(dims, Hashable):
                raise TypeError(
                    f"{name} is {dims!r} of type {type(dims).__name__}, expected a tuple, as JAX's own object must hold"
                )
        return cls(**values)
