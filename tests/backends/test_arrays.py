"""Arrays become operands without copies; what cannot be used is refused by name. Judged by NumPy's own views."""

from __future__ import annotations

import random
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dmlgather.backends import arrays
from dmlgather.backends.devices import CPU, Device, stream_pointer
from dmlgather.plan import Layout


class Foreign:
    """Another library's host array: DLPack only."""

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self._array = array

    def __dlpack__(self, **arguments: Any) -> Any:
        return self._array.__dlpack__(**arguments)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)


class ForeignBfloat16(Foreign):
    """DLPack refuses the type, the array protocol takes it."""

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray[Any, Any]:
        return self._array


@given(st.integers(0, 2**64 - 1).map(random.Random))
def test_an_operand_addresses_every_element_of_a_view(rng: random.Random) -> None:
    base = np.arange(5 * 6 * 7, dtype=np.int32).reshape(5, 6, 7)
    cuts = tuple(slice(rng.randint(0, 2), None, rng.choice((1, 2, -1, -2))) for _ in range(3))
    view = base[cuts].transpose(rng.sample(range(3), 3))
    if rng.random() < 0.3:
        view = np.broadcast_to(view, (2, *view.shape))
    operand = arrays.logical(view, CPU, "x")
    flat = operand.flat()
    assert flat.shape == (operand.layout.extent,)
    assert np.shares_memory(flat, base)
    seen = [
        flat[operand.layout.offset + sum(a * b for a, b in zip(at, operand.layout.strides, strict=True))]
        for at in np.ndindex(view.shape)
    ]
    assert seen == view.reshape(-1).tolist()


def test_dlpack_and_the_array_protocol_share_memory() -> None:
    ours = np.arange(6, dtype=np.float32)
    adopted, device = arrays.adopt(Foreign(ours))
    assert device == CPU
    assert np.shares_memory(adopted, ours)
    half = np.arange(6).astype(ml_dtypes.bfloat16)
    adopted, device = arrays.adopt(ForeignBfloat16(half))
    assert adopted.dtype == half.dtype
    assert np.shares_memory(adopted, half)


def test_values_without_memory_are_refused() -> None:
    with pytest.raises(TypeError, match=r"got list: wrap Python values with numpy\.asarray"):
        arrays.adopt([1, 2, 3])


def test_strides_must_be_whole_elements() -> None:
    records = np.zeros(4, dtype=[("a", "i1"), ("b", "f4")])
    with pytest.raises(ValueError, match=r"x: strides \(5,\) bytes are not whole elements of 4 bytes"):
        arrays.logical(records["b"], CPU, "x")


@pytest.mark.parametrize(
    ("out", "message"),
    [
        (lambda base: base[2:6], "out overlaps input 0"),
        (lambda base: np.broadcast_to(base[:1], (4,)), "read-only"),
    ],
)
def test_outputs_that_cannot_be_written_are_refused(out: Any, message: str) -> None:
    base = np.zeros(10, np.int32)
    source = arrays.logical(base[:4], CPU, "x")
    with pytest.raises(ValueError, match=message):
        arrays.check_output(arrays.logical(out(base), CPU, "out"), [source])


def test_interleaved_views_of_one_buffer_do_not_overlap() -> None:
    base = np.zeros((4, 6), np.int32)
    left, right = (arrays.logical(base[:, cut], CPU, "x") for cut in (slice(0, 3), slice(3, 6)))
    arrays.check_output(left, [right])


def test_an_output_that_writes_one_address_twice_is_refused() -> None:
    with pytest.raises(ValueError, match="elements share an address"):
        arrays.check_output_layout(Layout((2, 3), (1, 1), 0, 4))


def test_a_buffer_is_read_through_the_described_layout() -> None:
    raw = np.zeros(33, np.uint8)[1:]  # odd address: still usable
    operand = arrays.buffer(raw, CPU, Layout((2, 2), (4, 1), 0, 8), np.dtype(np.float32))
    assert operand.flat().shape == (8,)
    assert operand.flat().dtype == np.float32
    assert np.shares_memory(operand.flat(), raw)


@pytest.mark.parametrize(
    ("name", "expected"),
    [("cpu", CPU), ("cuda", Device("cuda", 0)), ("cuda:3", Device("cuda", 3)), ("reference", Device("reference"))],
)
def test_devices_have_names(name: str, expected: Device) -> None:
    assert Device.parse(name) == expected
    assert Device.parse(str(expected)) == expected


@pytest.mark.parametrize("name", ["gpu", "cuda:", "cuda:-1", "CPU", "cpu:0", ""])
def test_unknown_devices_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match=r"expected 'cpu', 'cuda', 'cuda:N'"):
        Device.parse(name)


def test_streams_belong_to_gpus() -> None:
    class Stream:
        ptr = 77

    class Protocol:
        def __cuda_stream__(self) -> tuple[int, int]:
            return (0, 99)

    gpu = Device("cuda")
    assert [stream_pointer(item, gpu) for item in (5, Stream(), Protocol())] == [5, 77, 99]
    assert stream_pointer(None, CPU) == 0
    with pytest.raises(TypeError, match="the CPU, which has no streams"):
        stream_pointer(5, CPU)
    with pytest.raises(TypeError, match="stream is str"):
        stream_pointer("default", gpu)
