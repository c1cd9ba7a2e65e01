"""Views against NumPy, over packed arrays and over arrays whose dimensions lie in another order, apart or reversed."""

from __future__ import annotations

import random

import numpy as np
import pytest
from numpy.typing import NDArray

from dmlgather.backends import reference
from dmlgather.dialects.problem import Problem, TensorType
from dmlgather.dialects.views import ExpandView, ReshapeView, SliceView, StridedView, TransposeView
from dmlgather.dialects.windows import Window
from dmlgather.plan import Layout
from tests import seeds


def made(problem: Problem, values: NDArray[np.int32], layout: Layout) -> NDArray[np.int32]:
    """What the reference makes of `values` that lie in memory by `layout`."""
    memory = np.full(layout.extent, -1, np.int32)
    for position in np.ndindex(values.shape):
        memory[layout.address(position)] = values[position]
    shape = problem.output.shape
    result = np.full(int(np.prod(shape)), -2, np.int32)
    reference.prepare(problem.lower([layout, Layout.packed(shape)])).run(memory, None, result)
    return result.reshape(shape)


def some_layout(rng: random.Random, shape: tuple[int, ...]) -> Layout:
    order = rng.sample(range(len(shape)), len(shape))
    gap = rng.choice((1, 1, 3))
    strides, step = [0] * len(shape), gap
    for axis in order:
        strides[axis], step = step, step * shape[axis]
    flipped = [axis for axis in range(len(shape)) if rng.random() < 0.3]
    offset = sum((shape[axis] - 1) * strides[axis] for axis in flipped)
    for axis in flipped:
        strides[axis] = -strides[axis]
    return Layout(shape, tuple(strides), offset, step)


def test_views_are_numpys() -> None:
    rng = seeds.rng()
    for _ in range(150):
        shape = tuple(rng.randint(1, 4) for _ in range(rng.randint(0, 4)))
        data = TensorType(shape, np.dtype(np.int32))
        values = np.arange(np.prod(shape), dtype=np.int32).reshape(shape)
        layout = some_layout(rng, shape)
        order = tuple(rng.sample(range(len(shape)), len(shape)))
        assert (made(TransposeView(data, order), values, layout) == values.transpose(order)).all()
        wide = (*(rng.randint(1, 3) for _ in range(rng.randint(0, 2))), *(rng.choice((1, 3)) if n == 1 else n for n in shape))
        assert (made(ExpandView(data, wide), values, layout) == np.broadcast_to(values, wide)).all()
        windows, slices = [], []
        for size in shape:
            start, step = rng.randrange(size), rng.choice((-2, -1, 1, 2))
            room = start // -step if step < 0 else (size - 1 - start) // step
            count = rng.randint(0, room + 1)
            windows.append(Window(start, count, step))
            slices.append([start + step * number for number in range(count)])
        expected = values[np.ix_(*slices)] if shape else values
        assert (made(SliceView(data, tuple(windows)), values, layout) == expected).all()
        factors = [factor for size in shape for factor in {4: (2, 2)}.get(size, (size,))]
        packed = Layout.packed(shape)
        rng.shuffle(factors)
        assert (made(ReshapeView(data, tuple(factors)), values, packed) == values.reshape(factors)).all()
        split = tuple(factor for size in shape for factor in (*{4: (2, 2)}.get(size, (size,)), 1))
        assert (made(ReshapeView(data, split), values, layout) == values.reshape(split)).all()


def test_a_strided_view_is_numpys() -> None:
    values = np.arange(24, dtype=np.int32)
    view = StridedView(TensorType((4, 6), values.dtype), (3, 2, 2), (7, -1, 0), 2)
    expected = np.lib.stride_tricks.as_strided(values[2:], (3, 2, 2), (28, -4, 0))
    assert (made(view, values.reshape(4, 6), Layout.packed((4, 6))) == expected).all()


def test_a_reshape_that_strides_cannot_say_is_refused() -> None:
    view = ReshapeView(TensorType((2, 3), np.dtype(np.int8)), (3, 2))
    with pytest.raises(ValueError, match="cannot be viewed in shape \\[3, 2\\]: copy it first"):
        view.lower([Layout((2, 3), (1, 2), 0, 6), Layout((3, 2), (1, 3), 0, 6)])
    with pytest.raises(ValueError, match="data is not packed"):
        StridedView(TensorType((2, 3), np.dtype(np.int8)), (2,), (1,)).lower([Layout((2, 3), (1, 2), 0, 6), Layout.packed((2,))])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda data: ReshapeView(data, (5,)),
            "shape is \\[5\\], which has 5 elements, but data is .*, which has 6",
        ),
        (lambda data: TransposeView(data, (0, 0)), "order is \\[0, 0\\], which is no permutation of the 2 dimensions"),
        (lambda data: ExpandView(data, (2, 2)), "shape \\[2, 3\\] cannot be broadcast to \\[2, 2\\]"),
        (lambda data: SliceView(data, (Window.whole(2), Window(1, 3, 1))), "is not inside dimension 1"),
        (lambda data: SliceView(data, (Window.whole(2),)), "taken has 1 window, but"),
        (lambda data: StridedView(data, (2,), (5,), 1), "reaches input elements 1 … 6"),
        (lambda data: StridedView(data, (2,), ()), "strides has 0 entries and shape has 1"),
    ],
)
def test_views_that_leave_their_data_are_refused(make: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make(TensorType((2, 3), np.dtype(np.int8)))  # type: ignore[operator] # a function of the type
