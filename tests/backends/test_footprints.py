"""Signatures and their consequences: the places of elements, and arrays that cannot be read or written. Judge: NumPy's views."""

from __future__ import annotations

import random
import types
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dmlgather.backends import footprints
from dmlgather.backends.arrays import view_signatures
from dmlgather.backends.devices import CPU, Device
from dmlgather.backends.footprints import READ_ONLY, WRITEABLE, Footprint, Signature, share_memory, signature_on
from dmlgather.plan import Layout


def signature(array: Any) -> Signature:
    return signature_on(CPU, array)


def footprint(array: np.ndarray[Any, Any], name: str = "x") -> Footprint:
    return footprints.logical(name, signature(array))


def random_view(rng: random.Random, base: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    cuts = tuple(slice(rng.randint(0, 2), rng.choice((None, 3)), rng.choice((1, 2, -1, -2))) for _ in base.shape)
    view = base[cuts].transpose(rng.sample(range(base.ndim), base.ndim))
    return np.broadcast_to(view, (2, *view.shape)) if rng.random() < 0.3 else view


@given(st.integers(0, 2**64 - 1).map(random.Random))
def test_a_footprint_addresses_every_element_of_a_view(rng: random.Random) -> None:
    base = np.arange(5 * 6 * 7, dtype=np.int32).reshape(5, 6, 7)
    view = random_view(rng, base)
    found = footprint(view)
    flat = found.flat(view)
    assert flat.shape == (found.layout.extent,)
    assert not flat.size or np.shares_memory(flat, base)
    assert found.layout.sizes == view.shape
    seen = [
        flat[found.layout.offset + sum(a * b for a, b in zip(at, found.layout.strides, strict=True))]
        for at in np.ndindex(view.shape)
    ]
    assert seen == view.reshape(-1).tolist()
    if flat.size:
        low, high = np.lib.array_utils.byte_bounds(view)
        pointer = view.ctypes.data
        assert (pointer + found.start, pointer + found.end) == (low, high)


@given(st.integers(0, 2**64 - 1).map(random.Random))
def test_views_share_memory_as_numpy_says(rng: random.Random) -> None:
    base = np.zeros((4, 5, 6), np.int16)
    left, right = random_view(rng, base), random_view(rng, base)
    found = share_memory(footprint(left), left.ctypes.data, footprint(right), right.ctypes.data)
    assert found == np.shares_memory(left, right)


def test_signatures_differ_by_type_shape_strides_and_writability() -> None:
    array = np.zeros((4, 6), np.float32)
    frozen = array.view()
    frozen.flags.writeable = False
    others = [array[:3], array.T, array[:, ::-1], array.view(np.int32), array.astype(">f4"), frozen, array.reshape(6, 4)]
    assert len({*view_signatures([array, *others])}) == len(others) + 1
    assert view_signatures([array]) == view_signatures([array.copy()]) == [(np.dtype("f4"), (4, 6), (24, 4), WRITEABLE)]
    assert view_signatures([frozen]) == [(np.dtype("f4"), (4, 6), (24, 4), READ_ONLY)]


@pytest.mark.parametrize("other", [None, [1.0], np.float32(1), np.matrix, np.ma.zeros(3), np.zeros(3).view(np.recarray)])
def test_only_plain_arrays_have_signatures(other: Any) -> None:
    assert view_signatures([other]) == [None]


def test_a_signature_on_a_gpu_has_device_and_alignment() -> None:
    def lying(pointer: int, number: int = 0) -> Any:
        memory = types.SimpleNamespace(ptr=pointer, device_id=number)
        return types.SimpleNamespace(dtype=np.dtype("f4"), shape=(3,), strides=(-4,), data=memory)

    gpu = Device("cuda", 1)
    found = signature_on(gpu, lying(1024 + 12))
    assert found == signature_on(gpu, lying(4096 + 12))
    assert len({found, signature_on(gpu, lying(1024 + 8)), signature_on(Device("cuda"), lying(1024 + 12))}) == 3
    at = footprints.logical("x", found)
    assert (at.start, at.end, at.misaligned, at.alignment) == (-8, 4, 4, 4)
    assert footprints.device_of(signature_on(gpu, lying(0, 1))) == gpu
    assert footprints.logical("x", signature_on(gpu, lying(1024 + 8))).alignment == 16


def test_strides_must_be_whole_elements() -> None:
    records = np.zeros(4, dtype=[("a", "i1"), ("b", "f4")])
    with pytest.raises(ValueError, match=r"x: strides \(5,\) \(bytes\) are not multiples of the element size, 4 bytes"):
        footprint(records["b"])


def test_outputs_that_cannot_be_written_are_refused() -> None:
    with pytest.raises(ValueError, match="read-only"):
        footprints.check_output(footprint(np.broadcast_to(np.zeros(1), (4,))))
    twice = np.lib.stride_tricks.as_strided(np.zeros(4), (2, 3), (8, 8))
    with pytest.raises(ValueError, match="elements share an address"):
        footprints.check_output(footprint(twice))
    footprints.check_output(footprint(np.zeros((4, 6))[::-2, ::3]))


def test_a_buffer_has_the_described_layout() -> None:
    raw = np.zeros(35, np.uint8)[1:]  # an odd address is usable
    described = footprints.buffer("x", signature(raw), Layout((2, 2), (4, 1), 0, 8), np.dtype(np.float32))
    flat = described.flat(raw)
    assert flat.shape == (8,)
    assert flat.dtype == np.float32
    assert flat.ctypes.data == raw.ctypes.data
    assert (described.start, described.end) == (0, 32)
    longer = np.zeros(9, np.float32)
    described = footprints.buffer("x", signature(longer), Layout((2, 2), (4, 1), 0, 8), np.dtype(np.float32))
    assert described.flat(longer).shape == (8,)
    assert np.shares_memory(described.flat(longer), longer)
