"""Windows of a chunked axis, cut at the borders of chunks: the step goes on from chunk to chunk as if there were no borders."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from dmlgather.dialects.windows import Window
from dmlgather.directml import OperatorDesc, lower

WIDEST_STEP = 2**31 - 1
"""What SLICE1's strides hold, forwards and backwards."""


@dataclass(frozen=True, slots=True)
class ChunkWindow:
    """What one chunk gives of a window along one axis: the chunk's number, and the window in that chunk's own elements."""

    chunk: int
    window: Window


def chunk_windows(window: Window, sizes: Sequence[int]) -> tuple[ChunkWindow, ...]:
    """The window's elements chunk by chunk, in the window's order: the last chunk first where the step is negative.

    window: inside the axis, which the chunks make up, of these sizes in elements. Chunks without an element are left out. A step
    that is wider than `WIDEST_STEP` is taken element by element; a single element has step 1.
    """
    borders = list(enumerate(pairwise((0, *accumulate(sizes)))))
    found = []
    for chunk, (begin, end) in borders if window.step > 0 else reversed(borders):
        taken = _steps_inside(window, begin, end)
        count = len(taken) if abs(window.step) <= WIDEST_STEP else 1
        for first in taken[:: max(count, 1)]:
            start = window.start + first * window.step - begin
            found.append(ChunkWindow(chunk, Window(start, count, window.step if count > 1 else 1)))
    return tuple(found)


def windows_of(desc: OperatorDesc) -> tuple[Window, ...]:
    """What a SLICE or SLICE1 descriptor takes of each dimension of its input, as its lowering says.

    desc: without findings of severity ERROR.
    """
    input_tensor = desc.tensor("input_tensor")
    packed = type(input_tensor)(data_type=input_tensor.data_type, sizes=input_tensor.sizes).layout()
    plan = lower(desc, {"input_tensor": packed})
    starts = packed.position(plan.in_offset)
    assert starts is not None
    steps = [walk // stride for walk, stride in zip(plan.in_strides, packed.strides, strict=True)]
    return tuple(Window(*each) for each in zip(starts, plan.shape, steps, strict=True))


def _steps_inside(window: Window, begin: int, end: int) -> range:
    """The steps k, of the window's 0 … count - 1, with begin <= start + step · k < end."""
    if window.step > 0:
        first, stop = (-((window.start - border) // window.step) for border in (begin, end))
    else:
        first, stop = ((window.start - border) // -window.step + 1 for border in (end, begin))
    return range(max(first, 0), min(stop, window.count))
