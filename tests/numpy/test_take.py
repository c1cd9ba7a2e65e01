"""`dg.index.take` with NumPy's modes, judged by numpy.take.

Under "wrap", NumPy counts far indices back step by step, so that those at the ends of a type are judged by Python's remainders.
"""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dmlgather as dg
from tests import seeds
from tests.dialects import drafting
from tests.dialects.binding import only
from tests.dialects.outcomes import content
from tests.gpus import host, placed

Array = np.ndarray[Any, Any]
MODES = ("raise", "clip", "wrap")
TYPES = [np.dtype(kind) for kind in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")]
FAR = 10_000
"""How far out of range NumPy counts indices back in no time."""


def drawn(seed: int, mode: Any, dtype: np.dtype[Any]) -> tuple[Array, Array, int | None]:
    """Data, indices and an axis. Sizes are larger than some types of indices can say."""
    rng = np.random.default_rng(seed)
    shape = tuple(int(size) for size in rng.choice([1, 2, 3, 5, 300], rng.integers(1, 4), p=[0.2, 0.25, 0.25, 0.25, 0.05]))
    axis = None if rng.random() < 0.2 else int(rng.integers(-len(shape), len(shape)))
    size = int(np.prod(shape)) if axis is None else shape[axis]
    limits = np.iinfo(dtype)
    near = [-size, size - 1] if mode == "raise" else [-FAR, FAR]
    low, high = max(near[0], int(limits.min)), min(near[1], int(limits.max))
    some = tuple(int(each) for each in rng.integers(0, 4, rng.integers(0, 3)))
    indices = rng.integers(low, high, some, endpoint=True).astype(dtype)
    if mode == "clip" and indices.size and rng.random() < 0.5:
        indices.flat[0], indices.flat[-1] = limits.min, limits.max
    data = rng.integers(0, 2**16, shape, np.uint16).view(np.float16)
    return (data[::-1] if rng.random() < 0.3 else data), indices, axis


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("mode", MODES)
@settings(max_examples=40, deadline=None)
@given(drafting.seeds)
def test_every_mode_is_numpys(mode: Any, dtype: np.dtype[Any], seed: int) -> None:
    data, indices, axis = drawn(seed, mode, dtype)
    right = np.take(data, indices, axis=axis, mode=mode)
    expression = dg.index.take(indices, axis, mode)
    for device in (None, None, "reference"):
        found = expression(data, device=device)
        assert content(found) == content(right), (data.shape, axis)
    out = np.full(right.shape, -1, right.dtype)
    assert expression(data, out=out) is out
    assert out.tobytes() == right.tobytes()


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("size", [1, 3, 127, 300, 2**16 + 1])
def test_indices_at_the_ends_of_their_type_wrap_or_clip(dtype: np.dtype[Any], size: int) -> None:
    limits, data = np.iinfo(dtype), np.arange(size)
    values = [int(limits.min), int(limits.min) + 1, int(limits.max) - 1, int(limits.max)]
    indices = np.array(values, dtype)
    signed = [value - 2**64 if value >= 2**63 else value for value in values]  # as NumPy reads unsigned 64-bit integers
    assert dg.index.take(indices, mode="wrap")(data).tolist() == [value % size for value in signed]
    assert dg.index.take(indices, mode="clip")(data).tolist() == np.take(data, indices, mode="clip").tolist()


@pytest.mark.parametrize("mode", MODES)
def test_indices_may_be_all_that_numpy_takes(mode: Any) -> None:
    data = np.arange(12).reshape(3, 4)
    taken: list[Any] = [2, -1, [], [[1, 0]], True, [True, False], np.int8(1), np.array(2), [[], []]]
    for indices in taken:
        for axis in (0, 1, -1, None):
            found, right = dg.index.take(indices, axis, mode)(data), np.take(data, indices, axis=axis, mode=mode)
            assert content(found) == content(right)
    faulty: list[Any] = [np.array([0.5]), np.array([], np.float64)]
    for wrong in faulty:
        with pytest.raises(TypeError):
            np.take(data, wrong, mode=mode)
        with pytest.raises(TypeError, match=r"^indices has type \S+, but take needs integers$"):
            dg.index.take(wrong, mode=mode)


@pytest.mark.parametrize("mode", MODES)
def test_an_axis_without_elements_has_none_to_take(mode: Any) -> None:
    for shape, indices, axis in (((0, 3), [], 0), ((3, 0), [1], 0), ((0,), [], 0)):
        ids = np.array(indices, int)
        assert dg.index.take(ids, axis, mode)(np.zeros(shape)).shape == np.take(np.zeros(shape), ids, axis=axis, mode=mode).shape
    with pytest.raises(IndexError):
        np.take(np.zeros((0, 3)), [0], axis=0, mode=mode)
    with pytest.raises(IndexError):
        dg.index.take([0], 0, mode)(np.zeros((0, 3)))


def test_a_chain_may_have_several_modes() -> None:
    rng = seeds.numpy_rng()
    data, ids, more = rng.random((5, 6, 7)), rng.integers(-20, 20, 4), rng.integers(-20, 20, (2, 3)).astype(np.int8)
    chain = dg.index[::-1].take(ids, 1, "wrap").transpose(2, 0, 1).take(more, 0, "clip").take([1, -1, 9], -1, "wrap")
    right = data[::-1].take(ids, 1, mode="wrap").transpose(2, 0, 1).take(more, 0, mode="clip").take([1, -1, 9], -1, mode="wrap")
    assert chain(data).tobytes() == right.tobytes()
    assert pickle.loads(pickle.dumps(chain))(data).tobytes() == right.tobytes()
    fused = chain.fused(data)
    assert fused(data, *chain.indices).tobytes() == right.tobytes()
    assert str(chain).endswith(".take(int64 [3], -1, mode='wrap')")


def test_expressions_of_other_modes_are_kept_apart() -> None:
    data, ids = np.arange(4), np.array([-1, 5])
    for _ in range(2):
        assert dg.index.take(ids, 0, "clip")(data).tolist() == [0, 3]
        assert dg.index.take(ids, 0, "wrap")(data).tolist() == [3, 1]
        with pytest.raises(IndexError, match=r"indices\[1\] = 5 is out of range for axis 0 of size 4"):
            dg.index.take(ids, 0)(data)
        assert dg.index.take(ids, 0)(data, out_of_bounds="clamp").tolist() == [3, 3]


def test_a_mode_has_a_plan_or_says_why_not() -> None:
    data = ((3, 4), "float32")
    clip, wrap = (dg.index.take(((2,), "int8"), 1, mode) for mode in ("clip", "wrap"))
    assert (clip.plan(data).out_of_bounds, [each.wrap for each in clip.plan(data).lookups]) == (dg.OutOfBounds.CLAMP, [0])
    assert dg.index.take(((2,), "int8"), 1).plan(data) == dg.index[:, ((2,), "int8")].plan(data)
    for ask in (wrap.plan, wrap.problem, wrap.problems):
        with pytest.raises(
            ValueError, match=r"takes indices modulo a size, but a plan cannot compute remainders: call fused\(x\)"
        ):
            ask(data)
    for expression, words in ((clip, "clip them (numpy.clip)"), (wrap, "take their remainders by the size of the axis")):
        finding = only(expression.to_directml(data))
        assert finding.code == "EXP106"
        assert finding.remedy == f"{words}, and describe brackets with the result"
        assert expression.differences(data) == ()
        with pytest.raises(
            ValueError, match=r"out_of_bounds is given, but \.take\(.*\) has a mode, which is also a rule for indices out of"
        ):
            expression.fused(data, out_of_bounds="clamp")
    with pytest.raises(ValueError, match="mode is 'loop', expected one of 'raise', 'clip', 'wrap'"):
        dg.index.take([0], 0, "loop")
    with pytest.raises(ValueError, match=r"axis is 2, but data has rank 2: expected -2 … 1"):
        dg.index.take([0], 2, "wrap").fused(data)


@pytest.mark.parametrize("mode", ["clip", "wrap"])
def test_a_translation_to_onnx_has_the_mode(mode: Any) -> None:
    expression = dg.index.take(((5,), "int64"), 1, mode)
    found = dg.translate(expression.fused(((3, 4), "float32")).graph, "onnx")
    assert found.ok, found  # run in onnxruntime


@pytest.mark.gpu
@pytest.mark.parametrize("mode", MODES)
@settings(max_examples=30, deadline=None)
@given(drafting.seeds, st.sampled_from(TYPES))
def test_a_gpu_takes_what_numpy_takes(mode: Any, seed: int, dtype: np.dtype[Any]) -> None:
    data, indices, axis = drawn(seed, mode, dtype)
    right = np.take(data, indices, axis=axis, mode=mode)
    for ids in (indices, placed(indices)):  # the former is moved there
        expression = dg.index.take(ids, axis, mode)
        for _ in range(2):
            found = expression(placed(data))
            assert content(host(found)) == content(right)


@pytest.mark.gpu
def test_cupy_s_take_wraps(cupy: Any) -> None:
    data, ids = cupy.arange(12, dtype=np.float32).reshape(3, 4), cupy.asarray([-1, 4, 9, -9])
    assert dg.index.take(ids, 1, "wrap")(data).get().tolist() == cupy.take(data, ids, axis=1).get().tolist()
