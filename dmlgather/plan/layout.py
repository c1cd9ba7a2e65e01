"""Strided layouts: where the elements of a tensor lie in its buffer, counted in elements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

EXACT_OVERLAP_ELEMENTS = 2**20
"""Up to this many elements `overlaps` enumerates every address; above it, only a sufficient test is made."""


def packed_strides(sizes: Sequence[int]) -> tuple[int, ...]:
    """Row-major strides in elements; a size of 0 counts as 1 so that no stride collapses to 0."""
    strides: list[int] = []
    step = 1
    for size in reversed(sizes):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


def unravel(number: int, sizes: Sequence[int]) -> tuple[int, ...]:
    """The coordinates of element `number`, counted row by row, of a tensor of these sizes."""
    found = []
    for size in reversed(sizes):
        number, coordinate = divmod(number, size)
        found.append(coordinate)
    return tuple(reversed(found))


def dot(steps: Sequence[int], strides: Sequence[int]) -> int:
    """The distance (elements) of so many steps along each dimension."""
    return sum(step * stride for step, stride in zip(steps, strides, strict=True))


def reach(sizes: Sequence[int], strides: Sequence[int], offset: int = 0) -> tuple[int, int]:
    """First and last address (elements) touched by a non-empty strided tensor."""
    low = high = offset
    for size, stride in zip(sizes, strides, strict=True):
        if stride < 0:
            low += (size - 1) * stride
        else:
            high += (size - 1) * stride
    return low, high


def overlaps(sizes: Sequence[int], strides: Sequence[int]) -> bool | None:
    """Whether two coordinates share an address: True, False, or None where neither can be shown.

    Exact for up to `EXACT_OVERLAP_ELEMENTS` elements. Above that the sufficient test decides: sorted by stride, each
    stride is larger than the span of the smaller ones.
    """
    if 0 in sizes:
        return False
    dims = sorted((abs(stride), size) for size, stride in zip(sizes, strides, strict=True) if size > 1)
    if dims and dims[0][0] == 0:
        return True
    span = 0
    for stride, size in dims:
        if stride <= span:
            break
        span += (size - 1) * stride
    else:
        return False
    total = prod(size for _, size in dims)
    if total > EXACT_OVERLAP_ELEMENTS:
        return None
    addresses = {0}
    count = 1
    for stride, size in dims:
        addresses = {address + step * stride for address in addresses for step in range(size)}
        count *= size
        if len(addresses) < count:
            return True
    return False


def coordinates(address: int, sizes: Sequence[int], strides: Sequence[int]) -> tuple[int, ...] | None:
    """The first coordinates (row-major order not implied) whose strided address is `address`; None when there are none.

    Dimensions of stride 0 get coordinate 0. Negative strides are allowed.
    """
    if 0 in sizes:
        return None
    order = sorted(range(len(sizes)), key=lambda axis: -abs(strides[axis]))
    spans = [(sizes[axis] - 1) * abs(strides[axis]) for axis in order]
    found = [0] * len(sizes)
    hopeless: set[tuple[int, int]] = set()

    def search(position: int, rest: int, room: int) -> bool:
        # `rest` counts from the lowest address, so that a negative stride is walked from its far end.
        if position == len(order):
            return rest == 0
        if (position, rest) in hopeless:
            return False
        axis, step, room = order[position], abs(strides[order[position]]), room - spans[position]
        if step == 0:
            return search(position + 1, rest, room)
        first = max(0, -((room - rest) // step))
        for count in range(first, min(sizes[axis] - 1, rest // step) + 1):
            found[axis] = count if strides[axis] > 0 else sizes[axis] - 1 - count
            if search(position + 1, rest - count * step, room):
                return True
        hopeless.add((position, rest))
        return False

    low, high = reach(sizes, strides)
    if not low <= address <= high:
        return None
    return tuple(found) if search(0, address - low, high - low) else None


@dataclass(frozen=True, slots=True)
class Layout:
    """Where a tensor's elements lie.

    sizes: elements per dimension. strides: elements per step of each dimension, 0 and negative allowed.
    offset: address of element (0, …, 0), in elements from the start of the buffer. extent: elements the buffer owns.
    """

    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    extent: int

    @classmethod
    def packed(cls, sizes: Sequence[int]) -> Layout:
        """The row-major layout of `sizes` in a buffer of exactly that many elements."""
        return cls(tuple(sizes), packed_strides(sizes), 0, prod(sizes))

    def address(self, position: Sequence[int]) -> int:
        """The address of the element at these coordinates, in elements from the start of the buffer."""
        return self.offset + dot(position, self.strides)

    def split(self, axis: int, parts: Sequence[int]) -> Layout:
        """One dimension as several, outermost first; the product of their sizes is its size."""
        steps = [step * self.strides[axis] for step in packed_strides(parts)]
        sizes, strides = list(self.sizes), list(self.strides)
        sizes[axis : axis + 1], strides[axis : axis + 1] = parts, steps
        return replace(self, sizes=tuple(sizes), strides=tuple(strides))

    def permuted(self, order: Sequence[int]) -> Layout:
        """The same elements with the dimensions in another order."""
        sizes, strides = (tuple(each[axis] for axis in order) for each in (self.sizes, self.strides))
        return replace(self, sizes=sizes, strides=strides)

    def position(self, address: int) -> tuple[int, ...] | None:
        """Coordinates of the element at `address` (elements from the start of the buffer), None between elements."""
        return coordinates(address - self.offset, self.sizes, self.strides)


def common_split(layout: Layout, other: Layout) -> Layout | None:
    """`layout` with its dimensions merged and split so that `other`, split likewise, has the same sizes; both have as many
    elements, in row-major order. None where strides cannot say it.
    """
    if 0 in layout.sizes:
        return replace(layout, sizes=(0,), strides=(1,))
    inner, outer = (_merged(each) for each in (layout, other))
    found: list[tuple[int, int]] = []
    while inner and outer:
        (size, step), (limit, limit_step) = inner.pop(), outer.pop()
        part = min(size, limit)
        if size % part or limit % part:
            return None
        found.append((part, step))
        if size > part:
            inner.append((size // part, step * part))
        if limit > part:
            outer.append((limit // part, limit_step * part))
    sizes, strides = zip(*reversed(found), strict=True) if found else ((), ())
    return replace(layout, sizes=tuple(sizes), strides=tuple(strides))


def _merged(layout: Layout) -> list[tuple[int, int]]:
    """Sizes with strides, without sizes of 1, neighbours that are walked as one dimension merged."""
    dims: list[tuple[int, int]] = []
    for size, step in zip(layout.sizes, layout.strides, strict=True):
        if size > 1 and dims and dims[-1][1] == size * step:
            dims[-1] = (dims[-1][0] * size, step)
        elif size > 1:
            dims.append((size, step))
    return dims


def blocks(depth: Layout, space: Layout, size: int, *, channels_last: bool) -> tuple[Layout, Layout]:
    """Both tensors with the dimensions batch, channel, row of blocks, row in the block, column of blocks, column in the block.

    depth: [n, c · size², h, w, …], whose channels are counted (row in the block, column in the block, channel) if
    `channels_last`, else (channel, row, column). space: [n, c, h · size, w · size, …]. Further dimensions stay last.
    """
    channels, height, width = space.sizes[1:4]
    parts, order = ((size, size, channels), (0, 3, 4, 1, 5, 2)) if channels_last else ((channels, size, size), (0, 1, 4, 2, 5, 3))
    further = range(len(order), len(depth.sizes) + 2)
    depth = depth.split(1, parts).permuted((*order, *further))
    return depth, space.split(3, (width // size, size)).split(2, (height // size, size))
