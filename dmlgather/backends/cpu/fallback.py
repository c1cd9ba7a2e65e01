"""Plans executed by NumPy, on one thread, by the first recipe in `RECIPES` that fits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dmlgather.backends.cpu.geometry import Geometry
from dmlgather.backends.cpu.lookups import Addresses, Box, Resolved, boxes, fit
from dmlgather.plan import IndexPlan, OutOfBounds
from dmlgather.wording import counted

BLOCK = 2**16
"""Most units in a block, and most bytes in a unit."""
TEMPORARY = 2**20
"""Most bytes of the temporary array of numpy.take."""

BoundCall = Callable[[], int | None]
"""Function that executes a plan. Under RAISE, it returns the smallest offset of a bad index."""


@dataclass(frozen=True, slots=True)
class Buffers:
    """The arrays of one call. If the elements are Python objects, NumPy copies them and counts their references."""

    data: NDArray[Any]
    indices: NDArray[Any] | None
    out: NDArray[Any]

    def dtype(self, plain: np.dtype[Any]) -> np.dtype[Any]:
        """Return `plain`, the data type for a unit of bytes. For Python references, return the arrays' own data type."""
        return self.data.dtype if self.data.dtype.hasobject else plain


@dataclass(frozen=True, slots=True)
class Recipe:
    """One way to execute a plan by NumPy.

    `why`: the reason to choose it, as `explain` prints it. `when`: function that returns True if it can execute a plan.
    `bind`: function that prepares a call on buffers. Both functions take the plan, and the largest number of units in a block.
    """

    name: str
    why: str
    when: Callable[[Geometry, int], bool]
    bind: Callable[[Geometry, int, Buffers], BoundCall]


class NumpyProgram:
    """A canonical plan prepared for NumPy. It is immutable and thread-safe."""

    def __init__(self, canonical: IndexPlan, block: int = 0) -> None:
        self._plan, self._block = canonical, block or BLOCK

    def bind(self, data: NDArray[Any], indices: NDArray[Any] | None, out: NDArray[Any]) -> BoundCall:
        """Return a function that executes the plan on these buffers. The caller has checked the buffers."""
        if data.dtype.hasobject:
            geometry, buffers = self._references, Buffers(data, indices, out)
        else:
            geometry, buffers = self._bytes, Buffers(data.view(np.uint8), indices, out.view(np.uint8))
        return self._recipe(geometry).bind(geometry, self._block, buffers)

    def describe(self) -> str:
        """Return the text for `explain`: the chosen recipe, the reason for it, and the units that it moves."""
        recipe, geometry = self._recipe(self._bytes), self._bytes
        moved = f"{list(geometry.shape)} units of {counted(geometry.unit, 'byte')}" if not self._plan.empty else "nothing"
        return f"{recipe.name}: {recipe.why}; moves {moved}"

    def _recipe(self, geometry: Geometry) -> Recipe:
        return next(recipe for recipe in RECIPES if recipe.when(geometry, self._block))

    @cached_property
    def _bytes(self) -> Geometry:
        return Geometry.of(self._plan, self._block)

    @cached_property
    def _references(self) -> Geometry:
        return Geometry.of(self._plan, 0)


def _fill(geometry: Geometry, _: int, buffers: Buffers) -> BoundCall:
    return partial(np.copyto, geometry.target(buffers.out, geometry.word), geometry.fill_item(geometry.word))


def _copy(geometry: Geometry, _: int, buffers: Buffers) -> BoundCall:
    word = buffers.dtype(geometry.word)
    source: NDArray[Any] = np.ndarray(geometry.shape, word, buffers.data, geometry.in_offset, geometry.in_strides)
    return partial(np.copyto, geometry.target(buffers.out, word), source)


def _slices(geometry: Geometry, block: int, buffers: Buffers) -> BoundCall:
    word, dims = buffers.dtype(geometry.word), geometry.still
    addresses = Addresses(geometry, dims, buffers.indices, origin=0, pitch=1)
    target = geometry.target(buffers.out, word)
    shape, strides = geometry.shape[dims:], geometry.in_strides[dims:]
    fill = geometry.fill_item(word) if geometry.fill else None

    def move(box: Box, resolved: Resolved) -> None:
        filled = np.broadcast_to(False if resolved.bad is None else resolved.bad, resolved.values.shape)
        part = target[box]
        for place, address in zip(np.ndindex(filled.shape), resolved.values.ravel().tolist(), strict=True):
            source: NDArray[Any] = np.ndarray(shape, word, buffers.data, address, strides)
            np.copyto(part[place], fill if fill is not None and filled[place] else source)

    return partial(_by_blocks, addresses, fit(addresses.shape, block), move)


def _take(geometry: Geometry, block: int, buffers: Buffers) -> BoundCall:
    if not geometry.reads:
        addresses = Addresses(geometry, geometry.rank, buffers.indices, origin=0, pitch=1)
        # Nothing is copied, because the output is empty or no index is valid. Only check the indices.
        return partial(_by_blocks, addresses, fit(geometry.shape, block), lambda *_: None)
    item = buffers.dtype(geometry.item)
    target = geometry.target(buffers.out, item)
    origin, window = geometry.window(buffers.data, item)
    fill = geometry.fill_item(item) if geometry.fill else None
    # take() would copy a whole window that is strided, or a whole output that is not contiguous.
    plain = window.flags.c_contiguous and not item.hasobject

    def move(box: Box, resolved: Resolved) -> None:
        part = target[box]
        if plain and part.flags.c_contiguous:
            window.take(resolved.values, 0, part, "wrap")
        else:
            part[...] = window[resolved.values]
        if fill is not None and resolved.bad is not None:
            np.copyto(part, fill, where=resolved.bad)

    addresses = Addresses(geometry, geometry.rank, buffers.indices, origin, geometry.pitch)
    units = block if plain and target.flags.c_contiguous else min(block, TEMPORARY // geometry.unit)
    return partial(_by_blocks, addresses, fit(geometry.shape, units), move)


def _by_blocks(addresses: Addresses, sizes: tuple[int, ...], move: Callable[[Box, Resolved], None]) -> int | None:
    """Call `move` for each block of units. Return None, or under RAISE the smallest offset of a bad index.

    From the first block with a bad index on, blocks are checked but not moved.
    """
    smallest: int | None = None
    for box in boxes(addresses.shape, sizes):
        resolved = addresses.of(box)
        if resolved.offset is not None:
            smallest = resolved.offset if smallest is None else min(resolved.offset, smallest)
        if smallest is None:
            move(box, resolved)
    return smallest


RECIPES = (
    Recipe(
        "fill",
        "an indexed axis is empty, so every element is the fill value",
        lambda geometry, _: geometry.policy is OutOfBounds.FILL and not geometry.reads,
        _fill,
    ),
    Recipe("copy", "no lookups, so one strided copy moves all", lambda geometry, _: not geometry.lookups, _copy),
    Recipe(
        "slices",
        "each lookup moves a large slice, which is copied as one strided block",
        lambda geometry, block: geometry.reads and geometry.slice_bytes > max(block, geometry.unit),
        _slices,
    ),
    Recipe("take", "units are taken at the addresses that the indices lead to", lambda *_: True, _take),
)
