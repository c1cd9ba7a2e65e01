"""The DirectML forms of the shared views: they validate, and give NumPy's bits; overlapping windows are read from repetitions."""

from __future__ import annotations

import numpy as np
import pytest

import dmlgather as dg
from dmlgather.dialects.exporter import LEVELS, Exporter
from dmlgather.dialects.problem import Problem, TensorType
from dmlgather.dialects.view_forms import VIEW_FORMS
from dmlgather.dialects.views import StridedView, TransposeView
from dmlgather.plan import overlaps
from tests import seeds
from tests.dialects import binding
from tests.dialects.test_views import some_view

EXPORTER = Exporter(VIEW_FORMS, lambda problem: problem.name)


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
