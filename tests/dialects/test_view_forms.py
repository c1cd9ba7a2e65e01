"""The DirectML forms of the shared views: they validate, and give NumPy's bits; overlapping windows are read from repetitions."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import dmlgather as dg
from dmlgather.dialects.exporter import LEVELS, Exporter
from dmlgather.dialects.problem import Problem, TensorType
from dmlgather.dialects.view_forms import VIEW_FORMS
from dmlgather.dialects.views import ExpandView, ReshapeView, SliceView, StridedView, TransposeView
from dmlgather.dialects.windows import Window
from dmlgather.plan import overlaps
from tests import seeds
from tests.dialects import binding

EXPORTER = Exporter(VIEW_FORMS, lambda problem: problem.name)


def some_view(rng: random.Random, values: NDArray[Any]) -> tuple[Problem, NDArray[Any]]:
    """A view of these values, and what NumPy makes of it."""
    data = TensorType(values.shape, values.dtype)
    kind = rng.choice((ReshapeView, TransposeView, ExpandView, SliceView, StridedView, StridedView, StridedView))
    if kind is ReshapeView:
        return ReshapeView(data, (values.size, 1)), values.reshape(-1, 1)
    if kind is TransposeView:
        order = tuple(rng.sample(range(values.ndim), values.ndim))
        return TransposeView(data, order), values.transpose(order)
    if kind is ExpandView:
        shape = (*(rng.randint(1, 3) for _ in range(rng.randint(0, 2))), *(3 if n == 1 else n for n in values.shape))
        return ExpandView(data, shape), np.broadcast_to(values, shape)
    if kind is SliceView:
        slices = [slice(rng.randrange(n), None, rng.choice((1, 2, -1))) for n in values.shape]
        windows = [Window(part.start, len(range(n)[part]), part.step) for part, n in zip(slices, values.shape, strict=True)]
        return SliceView(data, tuple(windows)), values[tuple(slices)]
    while True:
        sizes = tuple(rng.randint(1, 4) for _ in range(rng.randint(0, 4)))
        strides = tuple(rng.choice((-3, -1, 0, 1, 1, 2, 4, 6)) for _ in sizes)
        offset = rng.randint(0, values.size - 1)
        places = offset + sum(np.indices(sizes)[axis] * step for axis, step in enumerate(strides)) if sizes else np.array(offset)
        if places.min() >= 0 and places.max() < values.size:
            return StridedView(data, sizes, strides, offset), values.reshape(-1)[places]


def test_forms_give_numpys_bits() -> None:
    rng = seeds.rng()
    shared = taken = 0
    for _ in range(400):
        shape = tuple(rng.randint(1, 4) for _ in range(rng.randint(0, 4)))
        dtype = rng.choice(("uint8", "float16", "float32", "int64", "complex128"))
        values = np.random.default_rng(rng.getrandbits(32)).integers(1, 200, shape).astype(dtype)
        problem, right = some_view(rng, values)
        level = rng.choice(LEVELS)
        descs = EXPORTER.express(problem, level)
        if isinstance(descs, dg.Report):
            assert level < dg.FeatureLevel.parse("4_1"), str(descs)
            continue
        assert all(dg.validate(desc, level).ok for desc in descs)
        found = binding.run(descs, data=values, indices=None, sizes=np.array(0), level=level, device="cpu")
        assert found[: right.nbytes].tobytes() == right.tobytes(), problem
        taken += 1
        if isinstance(problem, StridedView):
            shared += len(descs) > 1
            for tensor in (desc.tensor("input_tensor") for desc in descs):
                kept = [(n, step) for n, step in zip(tensor.sizes, tensor.strides or (), strict=False) if step]
                assert not overlaps([n for n, _ in kept], [step for _, step in kept]), problem
    assert taken > 200
    assert shared


@pytest.mark.parametrize(
    ("problem", "operators"),
    [
        (TransposeView(TensorType((2, 3), np.dtype("f4")), (1, 0)), ["SLICE1"]),
        (StridedView(TensorType((6,), np.dtype("f4")), (3, 2), (2, 1)), ["SLICE1"]),
        (StridedView(TensorType((6,), np.dtype("f4")), (4, 3), (1, 1)), ["SLICE1", "SLICE1"]),
        (StridedView(TensorType((3, 3), np.dtype("f4")), (2,), (4,), 1), ["SLICE1"]),
        (StridedView(TensorType((9,), np.dtype("f4")), (2, 2), (4, 1), 3), ["SLICE1", "SLICE1"]),
    ],
)
def test_only_overlapping_windows_take_two(problem: Problem, operators: list[str]) -> None:
    descs = EXPORTER.express(problem, dg.FeatureLevel.parse("6_4"))
    assert isinstance(descs, tuple)
    assert [desc.operator.name for desc in descs] == operators
