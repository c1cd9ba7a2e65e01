"""`dg.index` on data of a GPU, by index arrays and masks from the host and from there. Judge: NumPy's own brackets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest import mock

import numpy as np
import pytest

import dmlgather as dg
from tests import seeds

pytestmark = pytest.mark.gpu

SHAPE = (6, 5, 4)
MASK = np.array([True, False, True, True, False])
WIDE_MASK = np.arange(30).reshape(6, 5) % 4 == 1


def _host(values: Any) -> Any:
    return values


KEYS: dict[str, Callable[[Callable[[Any], Any]], Any]] = {
    "list": lambda there: [0, 4],
    "nested lists": lambda there: (slice(None), [[0], [4]], [3, 1]),
    "range": lambda there: (..., range(3, -1, -1)),
    "array": lambda there: (slice(None), np.array([4, -5, 0], np.int32)),
    "array of uint64": lambda there: np.array([5, 0], np.uint64),
    "list of bools": lambda there: (0, [True, False, False, True, True]),
    "mask": lambda there: (slice(None, None, -1), MASK),
    "mask of two dimensions": lambda there: WIDE_MASK,
    "mask of nothing": lambda there: np.zeros(6, bool),
    "mask without dimensions": lambda there: (np.array(True), slice(2)),
    "beside an integer": lambda there: (5, [1, 2], 0),
    "empty": lambda there: [],
    "array there": lambda there: (slice(None), there(np.array([4, -5, 0]))),
    "array of uint64 there": lambda there: there(np.array([5, 0], np.uint64)),
    "mask there": lambda there: (slice(None), there(MASK)),
    "mask of two dimensions there": lambda there: (there(WIDE_MASK), 1),
    "mask of nothing there": lambda there: there(np.zeros(6, bool)),
    "true there": lambda there: there(np.array(True)),
    "false there": lambda there: there(np.array(False)),
    "integer there": lambda there: (there(np.array(3)), slice(None, None, 2)),
    "array there beside a list": lambda there: (there(np.array([[5], [-1]])), slice(None), [3, 1]),
    "mask there beside an array": lambda there: (there(WIDE_MASK[:, 0]), np.array([4, 0])[:1]),
    "array beside a mask there": lambda there: (np.array([1]), there(MASK)),
}


@pytest.mark.parametrize("name", KEYS)
def test_brackets_are_those_of_numpy(cupy: Any, name: str) -> None:
    x = seeds.numpy_rng().random(SHAPE, np.float32)
    expression, expected = dg.index[KEYS[name](cupy.asarray)], x[KEYS[name](_host)]
    found = expression(cupy.asarray(x))
    assert type(found) is cupy.ndarray
    assert (found.shape, found.get().tobytes()) == (expected.shape, expected.tobytes())
    out = cupy.zeros(expected.shape, np.float32)
    assert expression(cupy.asarray(x), out=out) is out
    assert out.get().tobytes() == expected.tobytes()
    moved = expression(x, device="cuda")
    assert type(moved) is np.ndarray
    assert moved.tobytes() == expected.tobytes()


@pytest.mark.parametrize("name", [name for name in KEYS if name not in ("true there", "false there")])
def test_brackets_keep_the_order_of_a_stream(cupy: Any, name: str) -> None:
    """The expression is gone as soon as it was called, and memory that it had is written again."""
    x = seeds.numpy_rng().random(SHAPE, np.float32)
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        data = cupy.asarray(x).copy()
        found = dg.index[KEYS[name](lambda values: cupy.asarray(values).copy())](data)
        noise = [cupy.full(size, 77, np.int64) for size in (1, 2, 3, 4, 8, 16, 64)]
    stream.synchronize()
    assert found.get().tobytes() == x[KEYS[name](_host)].tobytes()
    outside = dg.index[KEYS[name](_host)](data, stream=stream)
    noise += [cupy.full(size, 77, np.int64) for size in (1, 2, 3, 4, 8, 16, 64)]
    stream.synchronize()
    assert outside.get().tobytes() == x[KEYS[name](_host)].tobytes()


@pytest.mark.parametrize("indices", [[[3], [0]], np.array([[3], [-4]], np.int8)], ids=["list", "array"])
def test_other_steps_are_those_of_numpy(cupy: Any, indices: Any) -> None:
    x = seeds.numpy_rng().random((2, 4), np.float32)
    chain = dg.index.take_along_axis(indices, axis=1)[[1, 0, 1]].transpose().reshape(3, -1)
    expected = np.take_along_axis(x, np.asarray(indices), 1)[[1, 0, 1]].transpose().reshape(3, -1)
    assert chain(cupy.asarray(x)).get().tobytes() == expected.tobytes()
    there = dg.index.take_along_axis(cupy.asarray(indices), axis=1)[cupy.asarray([False, True])][[0, 0]]
    assert there(cupy.asarray(x)).get().tobytes() == np.take_along_axis(x, np.asarray(indices), 1)[[1, 1]].tobytes()
    with pytest.raises(IndexError, match=r"indices has type bool, but must be an array of integers"):
        dg.index.take_along_axis(cupy.asarray([[True], [False]]), axis=1)


def test_index_arrays_are_moved_once(cupy: Any) -> None:
    x = seeds.numpy_rng().random(SHAPE, np.float32)
    data, expression = cupy.asarray(x), dg.index[[0, 5], :, [1, 2]][[1, 0, 1]]
    first = expression(data)
    with mock.patch.object(cupy, "asarray", side_effect=AssertionError("moved again")):
        again = expression(data)
    expected = x[[0, 5], :, [1, 2]][[1, 0, 1]]
    assert first.get().tobytes() == again.get().tobytes() == expected.tobytes()
    assert expression(x).tobytes() == expected.tobytes()


@pytest.mark.gpu(devices=2)
def test_brackets_run_on_the_gpu_of_their_data(cupy: Any) -> None:
    x = seeds.numpy_rng().random(SHAPE, np.float32)
    expression = dg.index[:, [0, 4]][..., MASK[:4]]
    with cupy.cuda.Device(1):
        mask = cupy.asarray(MASK)
    for number in (0, 1, 0):
        with cupy.cuda.Device(number):
            data = cupy.asarray(x)
        found = expression(data)
        assert found.device.id == number
        assert found.get().tobytes() == x[:, [0, 4]][..., MASK[:4]].tobytes()
    with cupy.cuda.Device(1):
        data = cupy.asarray(x)
    found = dg.index[:, mask](data)  # the mask is read where it is, whatever the current GPU
    assert (found.device.id, found.get().tobytes()) == (1, x[:, MASK].tobytes())
    with pytest.raises(TypeError, match=r"index arrays lie on different devices \(cuda:1, cuda:0\); move them to one"):
        dg.index[:, mask, cupy.asarray([0])](cupy.asarray(x))
    with pytest.raises(TypeError, match=r"x on cuda:0, indices on cuda:1\); move them to one"):
        dg.index[:, mask](cupy.asarray(x))


def test_arrays_of_a_gpu_change_no_device_by_themselves(cupy: Any) -> None:
    x = np.zeros(SHAPE, np.float32)
    for key in (cupy.asarray([0, 4]), (slice(None), cupy.asarray(MASK)), (cupy.asarray([0]), [1])):
        with pytest.raises(TypeError, match=r"x on cpu, indices on cuda:0\); move them to one, or say device="):
            dg.index[key](x)
    assert dg.index[:, cupy.asarray(MASK)](x, device="cpu").shape == (6, 3, 4)


@pytest.mark.parametrize(
    "name",
    [
        "nested lists",
        "list of bools",
        "mask of two dimensions",
        "mask of nothing",
        "mask there",
        "array there beside a list",
        "empty",
    ],
)
def test_brackets_of_pytorch_take_arrays_of_a_gpu(cupy: Any, name: str) -> None:
    """`dg.torch.index` on arrays of CuPy, where its rules are NumPy's."""
    x = seeds.numpy_rng().random(SHAPE, np.float32)
    expected = x[KEYS[name](_host)]
    found = dg.torch.index(cupy.asarray(x), KEYS[name](cupy.asarray))
    assert (type(found), found.shape, found.get().tobytes()) == (cupy.ndarray, expected.shape, expected.tobytes())


def test_a_placeholder_does_not_run_on_a_gpu_either(cupy: Any) -> None:
    for device in (None, "cuda"):
        with pytest.raises(TypeError, match="has a placeholder for an index array: write the array itself to run it"):
            dg.index[[0, 1], ((2,), "int64")](cupy.zeros(SHAPE, np.float32), device=device)


def test_errors_are_those_of_the_host(cupy: Any) -> None:
    x = np.zeros(SHAPE, np.float32)
    for key, there in (([0, 6], [0, 6]), ((0, MASK[:4]), (0, MASK[:4])), ((0, MASK[:4]), (0, cupy.asarray(MASK[:4])))):
        with pytest.raises(IndexError) as host:
            dg.index[key](x)
        with pytest.raises(IndexError) as device:
            dg.index[there](cupy.asarray(x))
        assert str(device.value) == str(host.value)
