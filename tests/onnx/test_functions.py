"""Devices, kinds of array and bad indices of ONNX's functions."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

import dmlgather as dg
from dmlgather.backends import outcomes
from tests import tensorlib
from tests.dialects.contract import as_it_is
from tests.dialects.drafting import seeds
from tests.gpus import NUMBERS, host, placed
from tests.onnx.calling import run
from tests.onnx.specification import Call
from tests.onnx.strategies import axis_of, bad_indices_call
from tests.seeds import numpy_rng
from tests.tensorlib import Tensor

DEVICES = ("cpu", "reference", pytest.param("cuda", marks=pytest.mark.gpu))


def bad_indices(call: Call) -> list[tuple[int, tuple[int, ...], int, int, int]]:
    """Address, position, value, axis and axis size of every index that the page calls an error, lowest address first."""
    found = []
    for position in np.ndindex(call.indices.shape):
        axis = axis_of(call, position)
        size, value = call.data.shape[axis], int(call.indices[position])
        if not (0 if (call.operator, call.version) == ("Gather", 1) else -size) <= value < size:
            address = sum(at * step for at, step in zip(position, call.indices.strides, strict=True))
            found.append((address, position, value, axis, size))
    return sorted(found)


@pytest.mark.parametrize("device", DEVICES)
def test_the_first_bad_index_in_memory_is_named_on_every_device(device: str) -> None:
    @settings(max_examples=200, deadline=None)
    @given(seeds)
    def check(seed: int) -> None:
        call = bad_indices_call(seed)
        bad = bad_indices(call)
        if not bad:  # a later change of the same position undid the fault
            return
        _, position, value, axis, size = bad[0]
        lowest = 0 if (call.operator, call.version) == ("Gather", 1) else -size
        valid = f"{lowest} … {size - 1}"
        message = (
            f"indices[{', '.join(map(str, position))}] = {value} is out of range for axis {axis} of size {size}: valid indices"
        )
        if device == "cuda" and call.data.dtype not in NUMBERS:
            return
        with pytest.raises(IndexError) as refusal:
            run(call, placed if device == "cuda" else as_it_is, device=device)
        assert str(refusal.value).startswith(f"{message} are {valid}"), str(call)

    check()


def test_components_of_a_broadcast_tuple_are_told_apart() -> None:
    tuples = np.broadcast_to(np.array([[3]]), (1, 2))
    with pytest.raises(IndexError, match=r"indices\[0, 1\] = 3 is out of range for axis 1 of size 2: valid indices are -2 … 1"):
        dg.onnx.gather_nd(np.zeros((5, 2)), tuples)
    overlapping = np.lib.stride_tricks.sliding_window_view(np.array([0, 3, 0]), 2)
    with pytest.raises(IndexError, match=r"indices\[0, 1\] = 3 is out of range for axis 1 of size 2"):
        dg.onnx.gather_nd(np.zeros((5, 2)), overlapping)
    with pytest.raises(IndexError, match=r"indices\[1, 0\] = 3 is out of range for axis 0 of size 2"):
        dg.onnx.gather_nd(np.zeros((2, 5)), overlapping)


@pytest.mark.gpu(devices=2)
def test_arrays_stay_on_their_gpu_or_on_the_host(cupy: Any) -> None:
    data, indices = numpy_rng().random((5, 3)), np.array([4, -5, 0])
    result = dg.onnx.gather(placed(data, 1), placed(indices, 1))
    assert isinstance(result, cupy.ndarray)
    assert (result.device.id, result.get().tobytes()) == (1, data[indices].tobytes())
    assert isinstance(dg.onnx.gather(data, indices), np.ndarray)


@pytest.mark.gpu(devices=2)
@pytest.mark.parametrize("device", ["cpu", "reference", "cuda", "cuda:1"])
def test_device_moves_the_arrays_there_and_hands_the_result_back(cupy: Any, device: str) -> None:
    data, indices = numpy_rng().random((5, 3)), np.array([4, -5, 0])
    for first, second in ((data, indices), (placed(data), placed(indices)), (placed(data, 1), indices)):
        result = dg.onnx.gather(first, second, device=device)
        assert type(result) is type(first)
        assert isinstance(first, np.ndarray) or result.device == first.device
        assert host(result).tobytes() == data[indices].tobytes()


@pytest.mark.gpu
def test_a_bad_index_is_raised_whatever_other_threads_run(monkeypatch: pytest.MonkeyPatch) -> None:
    data, good_index, bad_index = (placed(item) for item in (np.zeros((4, 2)), np.array([1]), np.array([9])))
    ask = outcomes.DeviceOutcome.bad_index
    others: list[threading.Thread] = []

    def ask_after_another_thread(call: outcomes.DeviceOutcome) -> Any:
        if not others:
            others.append(threading.Thread(target=dg.onnx.gather, args=(data, good_index)))
            others[0].start()
            others[0].join()
        return ask(call)

    monkeypatch.setattr(outcomes.DeviceOutcome, "bad_index", ask_after_another_thread)
    with pytest.raises(IndexError, match=r"indices\[0\] = 9"):
        dg.onnx.gather(data, bad_index)
    assert others


@pytest.mark.gpu(devices=2)
def test_arrays_on_two_devices_need_a_device() -> None:
    data, indices = np.zeros((5, 3)), np.array([0])
    for pair in ((placed(data), indices), (data, placed(indices)), (placed(data), placed(indices, 1))):
        with pytest.raises(TypeError, match=r"different devices \(data on \S+, indices on \S+\).*device="):
            dg.onnx.gather(*pair)


@pytest.mark.gpu
def test_bounds_on_a_gpu_are_refused(cupy: Any) -> None:
    with pytest.raises(TypeError, match=r"starts lies on cuda:0, but its values decide the result's shape.*\.get\(\)"):
        dg.onnx.slice(cupy.zeros(4), cupy.array([1]), [3])
    assert dg.onnx.slice(cupy.arange(4), [-1], [0], steps=[-2]).get().tolist() == [3, 1]


def test_subclasses_of_numpy_arrays_are_taken_as_plain_ones(tmp_path: Path) -> None:
    mapped = np.memmap(tmp_path / "data", np.int32, "w+", shape=(2, 2))
    mapped[...] = [[1, 2], [3, 4]]
    with pytest.warns(PendingDeprecationWarning):
        matrix = np.asmatrix([[1, 2], [3, 4]])
    for data in (matrix, mapped):
        found = dg.onnx.gather(data, np.array([[1, 0]]))
        assert type(found) is np.ndarray
        assert found.tolist() == [[[3, 4], [1, 2]]]


def test_other_libraries_get_their_own_kind_back(monkeypatch: pytest.MonkeyPatch) -> None:
    tensorlib.install(monkeypatch)
    data = numpy_rng().random((4, 3))
    found = dg.onnx.gather(Tensor(data), Tensor(np.array([3, 1])))
    assert isinstance(found, Tensor)
    assert found.array.tobytes() == data[[3, 1]].tobytes()
    assert dg.onnx.slice(Tensor(data), Tensor(np.array([-1])), [0], steps=[-2]).array.tobytes() == data[[3, 1]].tobytes()


def test_the_other_byte_order_is_kept_for_data_alone() -> None:
    data = np.arange(4, dtype=">f4")
    found = dg.onnx.gather(data, np.array([3, -3]))
    assert (found.dtype.str, found.tolist()) == (">f4", [3.0, 1.0])
    with pytest.raises(TypeError, match=r"indices has type '>i8' with the other byte order; convert with \.astype\('int64'\)"):
        dg.onnx.gather(data, np.array([0], ">i8"))
    with pytest.raises(TypeError, match="ends has type '>i4' with the other byte order"):
        dg.onnx.slice(data, [0], np.array([1], ">i4"))


def test_strides_of_part_of_an_element_are_refused() -> None:
    records = np.zeros(4, [("a", "i1"), ("b", "f4")])
    with pytest.raises(ValueError, match=r"data: strides \(5,\) \(bytes\) are not multiples of the element size, 4 bytes; pass"):
        dg.onnx.gather(records["b"], np.array([0]))
