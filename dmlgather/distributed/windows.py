"""Windows of a chunked axis: which of their elements each chunk gives, with the phase of the step kept across chunk borders."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from dmlgather.dialects.windows import Window
from dmlgather.directml import OperatorDesc, lower

WIDEST_STEP = 2**31 - 1
"""What SLICE1's strides hold, forwards and backwards."""


@dataclass(frozen=True, slots=True)
class Part:
    """What one chunk gives of a window along one axis: the chunk's number, and the window in that chunk's own elements."""

    chunk: int
    window: Window


def parts(window: Window, sizes: Sequence[int]) -> tuple[Part, ...]:
    """The window's elements chunk by chunk, in the window's order: the last chunk first where the step is negative.

    window: inside the axis, which the chunks make up, of these sizes in elements. Chunks without an element are left out. A step
    that is wider than `WIDEST_STEP` is taken element by element; a single element has step 1.
    """
    borders = list(pairwise((0, *accumulate(sizes))))
    found = []
    for chunk, (begin, end) in _walked(borders, window.step):
        taken = _steps_inside(window, begin, end)
        count = len(taken) if abs(window.step) <= WIDEST_STEP else 1
        for first in taken[:: max(count, 1)]:
            start = window.start + first * window.step - begin
            found.append(Part(chunk, Window(start, count, window.step if count > 1 else 1)))
    return tuple(found)


def is_whole(window: Window, size: int) -> bool:
    """Whether the window is all of an axis of that size, in order."""
    return window == Window(0, size, 1)


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


def _walked(borders: Sequence[tuple[int, int]], step: int) -> Iterable[tuple[int, tuple[int, int]]]:
    """The chunks' numbers and borders in the direction of the step."""
    numbered = list(enumerate(borders))
    return numbered if step > 0 else reversed(numbered)


def _steps_inside(window: Window, begin: int, end: int) -> range:
    """The steps k, of the window's 0 … count - 1, with begin <= start + step · k < end."""
    if window.step > 0:
        first, stop = (-((window.start - border) // window.step) for border in (begin, end))
    else:
        first, stop = ((window.start - border) // -window.step + 1 for border in (end, begin))
    return range(max(first, 0), min(stop, window.count))
