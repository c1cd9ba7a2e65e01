"""Strided layouts: where the elements of a tensor are in its buffer. All strides, offsets and addresses are in elements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

EXACT_OVERLAP_ELEMENTS = 2**20
"""Above this number of elements, `overlaps` compares only strides."""


def packed_strides(sizes: Sequence[int]) -> tuple[int, ...]:
    """Return the strides of a row-major array without gaps, in elements. A size of 0 counts as 1, so no stride is 0."""
    strides: list[int] = []
    step = 1
    for size in reversed(sizes):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


def unravel(number: int, sizes: Sequence[int]) -> tuple[int, ...]:
    """Return the coordinates of element `number` in row-major order."""
    position = []
    for size in reversed(sizes):
        number, coordinate = divmod(number, size)
        position.append(coordinate)
    return tuple(reversed(position))


def dot(steps: Sequence[int], strides: Sequence[int]) -> int:
    """Return the distance after `steps[i]` steps along each dimension i."""
    return sum(step * stride for step, stride in zip(steps, strides, strict=True))


def reach(sizes: Sequence[int], strides: Sequence[int], offset: int = 0) -> tuple[int, int]:
    """Return the lowest and the highest address of a strided tensor. No size may be 0."""
    low = high = offset
    for size, stride in zip(sizes, strides, strict=True):
        if stride < 0:
            low += (size - 1) * stride
        else:
            high += (size - 1) * stride
    return low, high


def overlaps(sizes: Sequence[int], strides: Sequence[int]) -> bool | None:
    """Return True if two elements share an address, False if none do, and None if this is unknown.

    For large tensors, it is False if each stride is larger than the span of all dimensions with smaller strides.
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
    """Return the coordinates of an element at `address`, or None if there is none. In dimensions of stride 0, they are 0."""
    if 0 in sizes:
        return None
    order = sorted(range(len(sizes)), key=lambda axis: -abs(strides[axis]))
    spans = [(sizes[axis] - 1) * abs(strides[axis]) for axis in order]
    position = [0] * len(sizes)
    failed: set[tuple[int, int]] = set()

    def search(depth: int, distance: int, span: int) -> bool:
        # Reach `distance` by steps along the dimensions order[depth:], whose span is `span`.
        if depth == len(order):
            return distance == 0
        if (depth, distance) in failed:
            return False
        axis, step, span = order[depth], abs(strides[order[depth]]), span - spans[depth]
        if step == 0:
            return search(depth + 1, distance, span)
        first = max(0, -((span - distance) // step))
        for count in range(first, min(sizes[axis] - 1, distance // step) + 1):
            position[axis] = count if strides[axis] > 0 else sizes[axis] - 1 - count
            if search(depth + 1, distance - count * step, span):
                return True
        failed.add((depth, distance))
        return False

    low, high = reach(sizes, strides)
    if not low <= address <= high:
        return None
    return tuple(position) if search(0, address - low, high - low) else None


@dataclass(frozen=True, slots=True)
class Layout:
    """The positions of a tensor's elements in a buffer, counted in elements. Strides may be 0 or negative.

    `offset`: address of element (0, …, 0).
    `extent`: size of the buffer.
    """

    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    extent: int

    @classmethod
    def packed(cls, sizes: Sequence[int]) -> Layout:
        """Return the layout of a row-major tensor that fills its buffer."""
        return cls(tuple(sizes), packed_strides(sizes), 0, prod(sizes))

    @property
    def is_packed(self) -> bool:
        """True if the elements are in row-major order, without gaps, from address 0 on."""
        if 0 in self.sizes:
            return True
        steps = zip(self.sizes, self.strides, packed_strides(self.sizes), strict=True)
        return self.offset == 0 and all(size == 1 or step == packed for size, step, packed in steps)

    def address(self, position: Sequence[int]) -> int:
        """Return the address of the element at coordinates `position`."""
        return self.offset + dot(position, self.strides)

    def split(self, axis: int, parts: Sequence[int]) -> Layout:
        """Return the layout with dimension `axis` reshaped to dimensions of sizes `parts`."""
        steps = [step * self.strides[axis] for step in packed_strides(parts)]
        sizes, strides = list(self.sizes), list(self.strides)
        sizes[axis : axis + 1], strides[axis : axis + 1] = parts, steps
        return replace(self, sizes=tuple(sizes), strides=tuple(strides))

    def permuted(self, order: Sequence[int]) -> Layout:
        """Return the transposed layout. Its dimension i is dimension `order[i]` of this layout."""
        sizes, strides = (tuple(each[axis] for axis in order) for each in (self.sizes, self.strides))
        return replace(self, sizes=sizes, strides=strides)

    def position(self, address: int) -> tuple[int, ...] | None:
        """Return the coordinates of an element at `address`, or None if there is no element."""
        return coordinates(address - self.offset, self.sizes, self.strides)


def common_split(layout: Layout, other: Layout) -> Layout | None:
    """Find the fewest sizes to which both layouts can be reshaped without a copy. Return `layout` with these sizes, or None.

    Example: `layout` has sizes {4,6} and no gaps; `other` has sizes {2,12} and strides {20,1}. `other` has a gap after 12
    elements, so {24} is impossible. The result has sizes {2,12}.
    """
    if 0 in layout.sizes:
        return replace(layout, sizes=(0,), strides=(1,))
    own_dims, other_dims = _merged_dims(layout), _merged_dims(other)
    split: list[tuple[int, int]] = []
    while own_dims and other_dims:
        (size, step), (other_size, other_step) = own_dims.pop(), other_dims.pop()
        part = min(size, other_size)
        if size % part or other_size % part:
            return None
        split.append((part, step))
        if size > part:
            own_dims.append((size // part, step * part))
        if other_size > part:
            other_dims.append((other_size // part, other_step * part))
    sizes, strides = zip(*reversed(split), strict=True) if split else ((), ())
    return replace(layout, sizes=tuple(sizes), strides=tuple(strides))


def _merged_dims(layout: Layout) -> list[tuple[int, int]]:
    dims: list[tuple[int, int]] = []
    for size, step in zip(layout.sizes, layout.strides, strict=True):
        if size > 1 and dims and dims[-1][1] == size * step:
            dims[-1] = (dims[-1][0] * size, step)
        elif size > 1:
            dims.append((size, step))
    return dims


def blocks(depth: Layout, space: Layout, size: int, *, channels_last: bool) -> tuple[Layout, Layout]:
    """Return the two tensors of a depth-to-space operator, reshaped so that a plain copy between them does the work.

    `depth`: shape [n, c · size², h, w, …].
    `space`: shape [n, c, h · size, w · size, …].
    `channels_last`: True if the second dimension of `depth` is (row, column, channel), False for (channel, row, column).
    """
    channels, height, width = space.sizes[1:4]
    parts, order = ((size, size, channels), (0, 3, 4, 1, 5, 2)) if channels_last else ((channels, size, size), (0, 1, 4, 2, 5, 3))
    further = range(len(order), len(depth.sizes) + 2)
    depth = depth.split(1, parts).permuted((*order, *further))
    return depth, space.split(3, (width // size, size)).split(2, (height // size, size))
