"""Views against NumPy, over packed arrays and over arrays whose dimensions lie in another order, apart or reversed."""

from __future__ import annotations

import random
from typing import Any

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


def some_view(rng: random.Random, values: NDArray[Any], least: int = 1) -> tuple[Problem, NDArray[Any]]:
    """A view of these values, and what NumPy makes of it. least: of elements along each dimension of a slice."""
    data = TensorType(values.shape, values.dtype)
    kind = rng.choice((ReshapeView, TransposeView, ExpandView, SliceView, StridedView, StridedView, StridedView))
    if kind is ReshapeView:
        factors = [factor for size in values.shape for factor in {4: (2, 2)}.get(size, (size,))]
        rng.shuffle(factors)
        return ReshapeView(data, (*factors, 1)), values.reshape(*factors, 1)
    if kind is TransposeView:
        order = tuple(rng.sample(range(values.ndim), values.ndim))
        return TransposeView(data, order), values.transpose(order)
    if kind is ExpandView:
        shape = (*(rng.randint(1, 3) for _ in range(rng.randint(0, 2))), *(3 if n == 1 else n for n in values.shape))
        return ExpandView(data, shape), np.broadcast_to(values, shape)
    if kind is SliceView:
        slices = [slice(rng.randrange(n), None, rng.choice((1, 2, -1, -2))) for n in values.shape]
        walks = [range(n)[part][: rng.randint(least, n)] for part, n in zip(slices, values.shape, strict=True)]
        windows = tuple(Window(walk.start, len(walk), walk.step) for walk in walks)
        return SliceView(data, windows), values[np.ix_(*walks)] if walks else values
    while True:
        sizes = tuple(rng.randint(1, 4) for _ in range(rng.randint(0, 4)))
        strides = tuple(rng.choice((-3, -1, 0, 1, 1, 2, 4, 6)) for _ in sizes)
        offset = rng.randint(0, values.size - 1)
        places = offset + sum(np.indices(sizes)[axis] * step for axis, step in enumerate(strides)) if sizes else np.array(offset)
        if places.min() >= 0 and places.max() < values.size:
            return StridedView(data, sizes, strides, offset), values.reshape(-1)[places]


def test_views_are_numpys() -> None:
    rng = seeds.rng()
    for _ in range(600):
        shape = tuple(rng.randint(1, 4) for _ in range(rng.randint(0, 4)))
        values = np.arange(np.prod(shape), dtype=np.int32).reshape(shape)
        problem, right = some_view(rng, values, 0)
        packed = isinstance(problem, ReshapeView | StridedView)
        assert (made(problem, values, Layout.packed(shape) if packed else some_layout(rng, shape)) == right).all(), problem


def test_a_reshape_that_splits_dimensions_takes_any_layout() -> None:
    rng = seeds.rng()
    values = np.arange(24, dtype=np.int32).reshape(4, 2, 3)
    for _ in range(20):
        view = ReshapeView(TensorType(values.shape, values.dtype), (2, 2, 1, 2, 1, 3, 1))
        assert (made(view, values, some_layout(rng, values.shape)) == values.reshape(view.output.shape)).all()


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
