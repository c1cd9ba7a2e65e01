"""Plans with the shapes of operators over packed arrays, each with the same operation in NumPy, for tests of backends."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dmlgather.plan import IndexPlan, IndexType, Lookup, OutOfBounds, packed_strides

Spelling = Callable[[NDArray[Any], NDArray[Any]], NDArray[Any]]
FILL = bytes(range(0xF0, 0x100))


@dataclass(frozen=True, slots=True)
class Shaped:
    """A plan, the shapes of its input and indices, and its NumPy equivalent for valid, non-negative indices."""

    plan: IndexPlan
    input_shape: tuple[int, ...]
    index_shape: tuple[int, ...]
    numpy: Spelling


@dataclass(frozen=True, slots=True)
class Kind:
    """Properties that operators leave open: the size of an element, the type of an index, the policy."""

    element_bytes: int = 4
    index_type: IndexType = IndexType.INT64
    policy: OutOfBounds = OutOfBounds.CLAMP

    def plan(
        self, shape: tuple[int, ...], in_strides: tuple[int, ...], lookups: Sequence[Lookup], extents: tuple[int, int]
    ) -> IndexPlan:
        """Return a plan with a packed output. extents: sizes of the input and of the indices."""
        return IndexPlan(
            shape=shape,
            out_strides=packed_strides(shape),
            in_strides=in_strides,
            element_bytes=self.element_bytes,
            in_extent=extents[0],
            out_extent=prod(shape),
            lookups=tuple(lookups),
            index_type=self.index_type,
            index_extent=extents[1],
            out_of_bounds=self.policy,
            fill=FILL[: self.element_bytes] if self.policy is OutOfBounds.FILL else b"",
        )

    def lookup(self, strides: tuple[int, ...], offset: int, limit: int, in_stride: int) -> Lookup:
        """Return a lookup into an axis of `limit` positions. Negative indices count from its end."""
        return Lookup(strides, offset, limit, limit if self.index_type.signed else 0, in_stride)


FLOATS = Kind()


def readable(plan: IndexPlan) -> bool:
    """Return True if the plan may run: under CLAMP and PROMISE it must index no axis of size 0."""
    return plan.empty or plan.out_of_bounds in (OutOfBounds.FILL, OutOfBounds.RAISE) or all(k.limit for k in plan.lookups)


def gather(shape: Sequence[int], index_shape: Sequence[int], axis: int = 0, kind: Kind = FLOATS) -> Shaped:
    """output[outer, i, inner] = input[outer, indices[i], inner]."""
    shape, index_shape = tuple(shape), tuple(index_shape)
    outer, inner = shape[:axis], shape[axis + 1 :]
    steps = packed_strides(shape)
    moving = (*(0 for _ in outer), *packed_strides(index_shape), *(0 for _ in inner))
    standing = (*steps[:axis], *(0 for _ in index_shape), *steps[axis + 1 :])
    lookup = kind.lookup(moving, 0, shape[axis], steps[axis])
    plan = kind.plan((*outer, *index_shape, *inner), standing, [lookup], (prod(shape), prod(index_shape)))
    return Shaped(plan, shape, index_shape, lambda data, indices: np.take(data, indices, axis))


def gather_elements(shape: Sequence[int], axis: int, kind: Kind = FLOATS) -> Shaped:
    """output[o] = input[o with indices[o] on the axis]."""
    shape = tuple(shape)
    steps = packed_strides(shape)
    standing = tuple(0 if number == axis else step for number, step in enumerate(steps))
    lookup = kind.lookup(steps, 0, shape[axis], steps[axis])
    plan = kind.plan(shape, standing, [lookup], (prod(shape), prod(shape)))
    return Shaped(plan, shape, shape, lambda data, indices: np.take_along_axis(data, indices.astype(np.int64), axis))


def gather_nd(shape: Sequence[int], tuples: int, depth: int, kind: Kind = FLOATS) -> Shaped:
    """output[i, inner] = input[indices[i, 0], …, indices[i, depth-1], inner]."""
    shape = tuple(shape)
    steps, inner = packed_strides(shape), shape[depth:]
    moving = (depth, *(0 for _ in inner))
    lookups = [kind.lookup(moving, k, shape[k], steps[k]) for k in range(depth)]
    plan = kind.plan((tuples, *inner), (0, *steps[depth:]), lookups, (prod(shape), tuples * depth))
    return Shaped(plan, shape, (tuples, depth), lambda data, indices: data[tuple(indices[:, k] for k in range(depth))])


def view(shape: Sequence[int], select: Callable[[NDArray[Any]], NDArray[Any]], element_bytes: int = 4) -> Shaped:
    """output = select(input), where `select` returns a view of NumPy: slices, reversals, transpositions."""
    shape = tuple(shape)
    numbered = np.zeros(shape, np.int8)
    seen = select(numbered)
    plan = IndexPlan(
        shape=seen.shape,
        out_strides=packed_strides(seen.shape),
        in_strides=seen.strides,
        element_bytes=element_bytes,
        in_extent=prod(shape),
        out_extent=seen.size,
        in_offset=seen.__array_interface__["data"][0] - numbered.__array_interface__["data"][0],
    )
    return Shaped(plan, shape, (), lambda data, _: select(data))
