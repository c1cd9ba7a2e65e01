"""jax.lax.gather: rules and lowering. Source: its page in JAX's documentation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from dmlgather.dialects.element_types import ElementTypes
from dmlgather.dialects.lowering import index_type as plan_index_type
from dmlgather.dialects.problem import Problem, TensorType, whole
from dmlgather.lax.problems.dimension_numbers import GatherDimensionNumbers
from dmlgather.lax.problems.gather_modes import fill_bytes, mode_of
from dmlgather.lax.problems.shape_rules import check_shapes
from dmlgather.plan import IndexPlan, Layout, Lookup, OutOfBounds, build

INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")

FLOAT8 = (
    "float8_e3m4",
    "float8_e4m3",
    "float8_e4m3b11fnuz",
    "float8_e4m3fn",
    "float8_e4m3fnuz",
    "float8_e5m2",
    "float8_e5m2fnuz",
    "float8_e8m0fnu",
)

OPERANDS = (
    "bool",
    *INTEGERS,
    *("int2", "int4", "uint2", "uint4"),
    *("bfloat16", "float16", "float32", "float64"),
    *FLOAT8,
    "float4_e2m1fn",
    *("complex64", "complex128"),
)

TYPES = ElementTypes({name: name for name in OPERANDS})
"""JAX's element types. Those that NumPy lacks come from ml_dtypes, whose arrays have at least a byte per element."""


@dataclass(frozen=True)
class LaxGather(Problem):
    """result[…] = operand[start + window offset], one window per index vector.

    data: JAX's operand, of rank r. indices: JAX's start_indices, of rank >= 1; the last dimension holds the index vectors.
    slice_sizes: the r sizes of a window, as integers or one integer. out_of_bounds: CLAMP moves the window inside; FILL writes
    `fill`, the bytes of one element, to the whole window; PROMISE runs as CLAMP.
    """

    data: TensorType
    indices: TensorType
    numbers: GatherDimensionNumbers
    slice_sizes: tuple[int, ...]
    out_of_bounds: OutOfBounds = OutOfBounds.PROMISE
    fill: bytes = b""

    name = "gather"
    inputs = ("data", "indices")

    def __post_init__(self) -> None:
        TYPES.check("lax.gather", "operand", self.data.dtype, OPERANDS)
        index_type = TYPES.name_of(self.indices.dtype)
        if index_type in INTEGERS or index_type not in OPERANDS:
            TYPES.check("lax.gather", "start_indices", self.indices.dtype, INTEGERS)
        object.__setattr__(self, "slice_sizes", _sizes(self.slice_sizes))
        check_shapes(self.data.shape, self.indices.shape, self.numbers, self.slice_sizes)
        if index_type not in INTEGERS:  # a ValueError, and after the shapes, as in JAX
            raise ValueError(f"start_indices has type {index_type}, but lax.gather takes {', '.join(INTEGERS)}")

    @classmethod
    def from_call(
        cls, data: TensorType, indices: TensorType, dimension_numbers: Any, slice_sizes: Any, *, mode: Any, fill_value: Any
    ) -> LaxGather:
        """The problem of a call with JAX's arguments. dimension_numbers: a GatherDimensionNumbers, dmlgather's or JAX's.

        TypeError for shapes that do not go together, ValueError for another mode and for indices that are no integers.
        """
        policy, numbers = mode_of(mode), GatherDimensionNumbers.of(dimension_numbers)
        problem = cls(data, indices, numbers, slice_sizes, policy)
        return replace(problem, fill=fill_bytes(fill_value, data.dtype)) if policy is OutOfBounds.FILL else problem

    @property
    def arguments(self) -> tuple[str, ...]:
        return ("operand", "start_indices")

    @property
    def windowed(self) -> tuple[int, ...]:
        """The dimensions of operand that the result keeps, in order."""
        dropped = (*self.numbers.collapsed_slice_dims, *self.numbers.operand_batching_dims)
        return tuple(dimension for dimension in range(self.data.rank) if dimension not in dropped)

    @property
    def sources(self) -> tuple[tuple[str, int], ...]:
        """Where each dimension of the result comes from: ("window", operand's dimension) or ("indices", start_indices')."""
        windows, batches = iter(self.windowed), iter(range(self.indices.rank - 1))
        rank = len(self.windowed) + self.indices.rank - 1
        return tuple(
            ("window", next(windows)) if dimension in self.numbers.offset_dims else ("indices", next(batches))
            for dimension in range(rank)
        )

    @property
    def output(self) -> TensorType:
        """The sizes of windows at offset_dims, those of start_indices elsewhere."""
        sizes = {"window": self.slice_sizes, "indices": self.indices.shape}
        return TensorType(tuple(sizes[kind][dimension] for kind, dimension in self.sources), self.data.dtype)

    @property
    def lookup_axes(self) -> tuple[int, ...]:
        return self.numbers.start_index_map

    @property
    def lookup_windows(self) -> tuple[int, ...]:
        return tuple(self.slice_sizes[axis] for axis in self.lookup_axes)

    def _lower(self, layouts: Sequence[Layout]) -> IndexPlan:
        data, indices, output = layouts
        batching = dict(zip(self.numbers.start_indices_batching_dims, self.numbers.operand_batching_dims, strict=True))
        in_strides, index_strides = [], []
        for source, dimension in self.sources:
            window = source == "window"
            along = dimension if window else batching.get(dimension)
            in_strides.append(0 if along is None else data.strides[along])
            index_strides.append(0 if window else indices.strides[dimension])
        lookups = [
            Lookup(
                index_strides=tuple(index_strides),
                index_offset=indices.offset + component * indices.strides[-1],
                limit=max(data.sizes[axis] - self.slice_sizes[axis] + 1, 0),
                wrap=0,
                in_stride=data.strides[axis],
            )
            for component, axis in enumerate(self.lookup_axes)
        ]
        kind = plan_index_type(self.indices.dtype)
        return build(data, output, in_strides, self.data.dtype.itemsize, lookups=lookups, indices=indices, index_type=kind)


def _sizes(sizes: Any) -> tuple[int, ...]:
    try:
        values = (sizes,) if isinstance(sizes, int) else tuple(sizes)  # one integer: of an operand of rank 1
    except TypeError:
        raise TypeError(f"slice_sizes is {sizes!r} of type {type(sizes).__name__}, expected a sequence of integers") from None
    return tuple(whole(f"slice_sizes[{number}]", value) for number, value in enumerate(values))
