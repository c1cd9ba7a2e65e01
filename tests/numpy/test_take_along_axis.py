"""take_along_axis: the bits and errors of NumPy's, and GATHER_ELEMENTS."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

import dmlgather as dg
from tests.dialects import binding
from tests.dialects.binding import LEVELS
from tests.dialects.drafting import seeds
from tests.dialects.outcomes import tried
from tests.dialects.refusals import Refusals, check_refused, each_of

X = ((4, 10, 6), "float32")


@settings(max_examples=100, deadline=None)
@given(seeds)
def test_calls_give_what_numpy_gives(seed: int) -> None:
    rng = random.Random(seed)
    shape = [rng.randint(0 if rng.random() < 0.1 else 1, 4) for _ in range(rng.randint(1, 4))]
    data = np.random.default_rng(seed).random(shape, np.float32)
    sizes = [rng.choice((size, size, size, 1, 2, 4)) for size in shape]
    if rng.random() < 0.05:
        sizes.append(1)
    axis = rng.randint(-len(shape), len(shape) - 1 + (rng.random() < 0.05))
    ids = np.random.default_rng(seed).integers(-3, 3, sizes).astype(rng.choice(("int64", "int16", "uint64", "float32", "bool")))
    expected, found = tried(np.take_along_axis, data, ids, axis), tried(_ours, data, ids, axis)
    if isinstance(expected, Exception):
        assert isinstance(expected, type(found)), (shape, ids, axis, expected, found)
        return
    assert not isinstance(found, Exception), (shape, ids, axis, found)
    assert (found.shape, found.tobytes()) == (expected.shape, expected.tobytes()), (shape, ids, axis)
    level = rng.choice(LEVELS)
    descs = dg.index.take_along_axis(ids, axis).to_directml(data, level)
    if isinstance(descs, dg.Report):
        reasons = {"EXP102"} if 0 in (*found.shape, *shape) else {"EXP106"} if level < LEVELS[2] else {"EXP104"}
        assert {finding.code for finding in descs.findings} <= reasons, (shape, ids, axis, descs)
        return
    (indices,) = dg.index.take_along_axis(ids, axis).indices
    descs = binding.check(descs, level, found, data=data, indices=indices, sizes=np.array(shape[axis]))
    assert descs[-1].operator.name == "GATHER_ELEMENTS"


def _ours(data: Any, ids: Any, axis: Any) -> Any:
    return dg.index.take_along_axis(ids, axis)(data)


def test_take_along_axis_has_placeholders_and_policies() -> None:
    placeholder = ((4, 3, 6), "int64")
    chain = dg.index.take_along_axis(placeholder, 1)
    assert repr(chain) == "dg.index.take_along_axis(int64 [4, 3, 6], 1)"
    desc = chain.to_directml(X)
    assert isinstance(desc, dg.GatherElementsOperatorDesc)
    assert desc.axis == 1
    (finding,) = chain.differences(X)
    assert (finding.code, finding.expected) == ("EXP201", "indices from -10 to 9")
    data = np.arange(6).reshape(2, 3)
    assert dg.index.take_along_axis([[5], [-1]])(data, out_of_bounds="clamp").tolist() == [[2], [5]]
    with pytest.raises(IndexError, match=r"indices\[0, 0\] = 5 is out of range for axis 1 of size 3"):
        dg.index.take_along_axis([[5], [-1]])(data)
    far = dg.index.take_along_axis([[5], [-1]]).to_directml(data)
    assert isinstance(far, dg.Report)
    assert far.findings[0].code == "EXP111"


@pytest.mark.parametrize("dtype", ["int64", "int16", "uint8", "float64"])
@pytest.mark.parametrize(
    ("shape", "indices", "axis"),
    [((0, 3), (0, 3), 0), ((0, 3), (1, 0), 1), ((2, 0), (2, 0), 1), ((2, 3), (0, 3), 0), ((0,), (0,), 0)],
)
def test_without_elements_nothing_is_filled(dtype: str, shape: tuple[int, ...], indices: tuple[int, ...], axis: int) -> None:
    """Elements of integers may be indices of a further step."""
    data, ids = np.zeros(shape, dtype), np.zeros(indices, np.int64)
    expression = dg.index.take_along_axis(ids, axis)
    expected = np.take_along_axis(data, ids, axis)
    for chain in (expression, expression[None], dg.index[::-1].take_along_axis(ids, axis)):
        found = chain(data, out_of_bounds=dg.Fill(7))
        assert (found.size, found.dtype) == (0, expected.dtype)
        assert found.shape[-expected.ndim :] == expected.shape


REFUSALS: Refusals = {
    IndexError: {
        "indices has type float64, but must be an array of integers": lambda data: _ours(data, [[0.5]], 0),
        "indices has type bool": lambda data: _ours(data, [[True]], 0),
        "indices has size 2 in dimension 1, and data has size 3: sizes must be equal, or 1, except along": (
            lambda data: _ours(data, [[0, 0]], 0)
        ),
    },
    ValueError: {
        "indices is int64 [1] and data is int64 [2, 3]: expected equal ranks": lambda data: _ours(data, [0], 0),
        "indices is int64 [] and data": lambda data: _ours(data, 0, 0),
        "axis is 2, but data has rank 2: expected -2 … 1": lambda data: _ours(data, [[0]], 2),
        "indices is int64 [1, 1] and data is int64 [6]: expected equal ranks": lambda data: _ours(data, [[0]], None),
    },
    TypeError: {"axis is '0' of type str, expected an integer": lambda data: _ours(data, [[0]], "0")},
}


@each_of(REFUSALS)
def test_indices_that_do_not_fit_are_refused(call: Callable[..., Any], error: type[Exception], message: str) -> None:
    check_refused(call, error, message, np.arange(6).reshape(2, 3))


def test_an_expression_without_steps_says_so() -> None:
    assert repr(dg.index) == "dg.index"
    with pytest.raises(ValueError, match="has no steps: write brackets behind it"):
        dg.index(np.arange(3))
