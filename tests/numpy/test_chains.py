"""Chains in NumPy's spelling: the bits of NumPy, fused; as graphs, plans and descriptors; and what errors say."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

import dmlgather as dg
from dmlgather.directml import FeatureLevel
from tests import seeds
from tests.dialects import binding, drafting
from tests.dialects.binding import codes
from tests.dialects.outcomes import content, tried
from tests.dialects.refusals import Refusals, check_refused, each_of
from tests.numpy.random_chains import check_chain

X = ((4, 10, 6), "float32")
IDS = ((3,), "int64")


@settings(max_examples=60, deadline=None)
@given(drafting.seeds)
def test_chains_give_what_numpy_gives(seed: int) -> None:
    check_chain(seed)


def test_a_chain_is_one_pass_where_one_plan_says_it() -> None:
    chain = dg.index[:, IDS][..., ::2].transpose(2, 0, 1)
    fused = chain.fused(X)
    assert len(fused.launches) == 1
    assert fused.launches[0].plan == dg.canonicalise(chain.plan(X))
    assert replace(fused.graph, labels={}) == dg.fuse(chain.problems(X)).graph
    data, ids = seeds.numpy_rng().random(X[0], np.float32), np.array([9, -1, 0])
    known = dg.index[:, ids][..., ::2].transpose(2, 0, 1)
    assert (known(data) == data[:, ids][..., ::2].transpose(2, 0, 1)).all()
    assert (fused(data, *known.indices) == known(data)).all()


def test_two_gathers_are_one_launch_but_two_plans() -> None:
    chain = dg.index[IDS][:, [0, 2]]
    assert len(chain.fused(X).launches) == 1, "their indices are joined"
    with pytest.raises(ValueError, match=re.escape("dg.index[int64 [3]][:, int64 [2]] is 2 plans: ")):
        chain.plan(X)
    with pytest.raises(ValueError, match=r"has 2 steps: call problems\(x\), or fused\(x\)"):
        chain.problem(X)


def test_joined_index_tensors_are_no_plan_of_the_index_arrays() -> None:
    chain, table = dg.index[((300,), "int64")][:, ((4,), "int32")], ((1000, 1000), "float32")
    assert len(chain.fused(table).launches) == 1
    with pytest.raises(ValueError, match="is 2 plans: "):
        chain.plan(table)
    data, rows, columns = (
        seeds.numpy_rng().random(table[0], np.float32),
        np.arange(-100, 200),
        np.array([5, -1, 0, 7], np.int32),
    )
    assert (dg.index[rows][:, columns](data) == data[rows][:, columns]).all()


def test_the_policy_of_a_chain_holds_in_each_step() -> None:
    data = np.arange(24).reshape(4, 6)
    far, ids = np.array([0, 9]), np.array([5, -9])
    chain = dg.index[far][:, ids]
    assert chain(data, out_of_bounds="clamp").tolist() == [[5, 0], [23, 18]]
    assert chain(data, out_of_bounds=dg.Fill(-1)).tolist() == [[5, -1], [-1, -1]]
    assert chain(data, out_of_bounds=dg.Fill(7)).tolist() == [[5, 7], [7, 7]], "not what an equal key would have kept"
    with pytest.raises(IndexError, match=r"indices\[1\] = 9 is out of range for axis 0 of size 4"):
        chain(data)
    with pytest.raises(IndexError, match="9"):  # although the slice drops its row
        dg.index[far][:1](data)


@pytest.mark.parametrize("level", ["1_0", "2_1", "6_4"])
def test_descriptors_of_a_chain_run_in_order(level: str) -> None:
    data, at = seeds.numpy_rng().random(X[0], np.float32), FeatureLevel.parse(level)
    chain = dg.index[:, [9, -1, 0]].transpose(0, 2, 1)[..., 1:].reshape(8, -1)
    descs = chain.to_directml(data, level)
    assert isinstance(descs, tuple)
    assert descs[0].operator.name == "GATHER"
    (indices,) = chain.indices
    first, rest = descs[:1], descs[1:]
    made = binding.run(first, data=data, indices=indices, sizes=np.array(10), level=at, device="cpu")
    gathered = made[: 4 * 4 * 3 * 6].view(np.float32)
    made = binding.run(rest, data=gathered, indices=None, sizes=np.array(0), level=at, device="cpu")
    assert made.tobytes() == chain(data).tobytes()


def test_a_chain_is_described_in_all_its_steps_or_not_at_all() -> None:
    assert codes(dg.index[0][:, [6]].to_directml(X)) == ["EXP111"]
    assert codes(dg.index[:, IDS].transpose(0, 1).to_directml(X)) == ["EXP101"]
    assert len(dg.index[:, IDS][0][((2,), "int8")].differences(X)) == 2


REFUSALS: Refusals = {
    ValueError: {
        "axes is (0,), but there are 2 dimensions: expected each once": lambda x: dg.index[0].transpose(0).problems(x),
        "...names an axis of data": lambda x: dg.index[0].transpose([1, 1]).problems(x),
        "shape is (7, -1), but data is float32 [10, 6]: no size for -1": lambda x: dg.index[0].reshape(7, -1).problems(x),
        "shape is (-1, -1)...at most one -1": lambda x: dg.index[0].reshape(-1, -1).problems(x),
        "shape is (-2,), expected sizes of 0 or more": lambda x: dg.index[0].reshape((-2,)).problems(x),
        "shape is [7], which has 7 elements, but data is float32 [10, 6], which has 60": lambda x: (
            dg.index[0].reshape(7).problems(x)
        ),
        "shape is (0, -1)...no size for -1": lambda x: dg.index[0:0].reshape(0, -1).problems(x),
        "order is 'A', expected 'C' or 'F', which do not depend on how an array lies in memory": (
            lambda x: dg.index[...].reshape(24, order="A")
        ),
        "copy is False, but the result is a new array: leave copy out": lambda x: dg.index[...].reshape(24, copy=False),
    }
}


@each_of(REFUSALS)
def test_a_step_that_does_not_fit_is_refused(call: Callable[..., Any], error: type[Exception], message: str) -> None:
    check_refused(call, error, message, X)


_AXES: tuple[tuple[Any, ...], ...] = (
    *((), (None,), ((2, 0, -2),), ([1, 0, 2],), (np.array([1, 2, 0]),), (range(3),)),
    *(((),), ([],), (None, None, None), ("210",), ({0, 1, 2},), (0, 1), (0.0, 1, 2)),
    *((0, 0, 1), (3, 0, 1), (True, 0, 2), ((0, 1), 2)),
)
_SHAPES: tuple[tuple[Any, ...], ...] = (
    *((-1,), ((4, -1),), ([2, 12],), (np.array([6, 4]),), (np.int8(24),), (None,)),
    *((), ((),), (5, -1), (-1, -1), ("24",), (24.0,), ([[24]],), (True, 24), (2, None)),
)
CALLS: tuple[tuple[str, tuple[Any, ...], dict[str, Any]], ...] = (
    *(("transpose", axes, {}) for axes in _AXES),
    *(("reshape", shape, {}) for shape in _SHAPES),
    *(("reshape", (6, 4), {"order": order}) for order in ("C", "F", "c", "f", None, "K")),
    *(("reshape", (shape,), {"order": "F"}) for shape in ((4, -1), -1, None, (5, -1), (2, 2, 2, 3))),
    *(("reshape", (6, 4), {"copy": copy}) for copy in (None, True)),
)
"""Methods of an array with arguments, good and bad."""


@pytest.mark.parametrize(("method", "arguments", "options"), CALLS, ids=str)
def test_methods_take_what_numpys_take(method: str, arguments: tuple[Any, ...], options: dict[str, Any]) -> None:
    data = np.arange(24).reshape(2, 3, 4)
    found, expected = (tried(_called, target, method, arguments, options, data) for target in (dg.index[...], data))
    if isinstance(expected, Exception):
        assert isinstance(expected, type(found)), (expected, found)
    else:
        assert content(found) == content(expected)


def _called(target: Any, method: str, arguments: tuple[Any, ...], options: dict[str, Any], data: Any) -> Any:
    made = getattr(target, method)(*arguments, **options)
    return made if isinstance(made, np.ndarray) else made(data)


def test_take_along_axis_none_takes_from_the_flat_array() -> None:
    data, ids = np.arange(24).reshape(2, 3, 4), np.array([23, -2, 0])
    assert dg.index.take_along_axis(ids, None)(data).tolist() == np.take_along_axis(data, ids, None).tolist()


def test_a_chain_is_shown_as_it_is_written() -> None:
    assert repr(dg.index[:, IDS][0].transpose(1, 0).reshape(-1)) == "dg.index[:, int64 [3]][0].transpose(1, 0).reshape(-1)"
    assert repr(dg.index[...].transpose().reshape(None).reshape(())) == "dg.index[...].transpose().reshape(None).reshape(())"
    assert repr(dg.index.take_along_axis([3], None)) == "dg.index.reshape(-1).take_along_axis(int64 [1], 0)"


def test_an_expression_is_no_sequence() -> None:
    with pytest.raises(TypeError, match="'IndexExpression' object is not iterable"):
        list(dg.index[::2])  # type: ignore[call-overload] # what a user may try
