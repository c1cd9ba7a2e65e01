"""Arguments of the CPU backend: any data type and address, read-only inputs, very large buffers; and the ones it refuses."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from numpy.typing import NDArray

from dmlgather.backends import reference
from dmlgather.backends.cpu import prepare
from dmlgather.plan import IndexPlan, IndexType, Lookup, OutOfBounds
from dmlgather.selftest.random_plans import random_buffers
from tests import seeds
from tests.backends.shapes import Kind, Shaped, gather, gather_elements, gather_nd, view
from tests.backends.test_cpu import LOOKING, generators, readable_plan
from tests.backends.ways import BLOCKS, Way


def moved(array: NDArray[Any], by: int) -> NDArray[Any]:
    """Return a copy of `array` that begins `by` bytes after a 64-byte boundary."""
    room = np.empty(array.nbytes + 64 + by, np.uint8)
    start = -room.ctypes.data % 64 + by
    copy = room[start : start + array.nbytes].view(array.dtype)
    copy[...] = array
    return copy


@settings(max_examples=150, deadline=None)
@given(generators)
def test_buffers_at_any_address_are_taken(way: Way, rng: Any) -> None:
    plan = readable_plan(rng)
    buffers = random_buffers(plan, rng)
    data, out = moved(buffers.data, rng.choice((1, 2, 3, 4, 8))), moved(buffers.out, rng.choice((1, 2, 5, 8)))
    indices = None if buffers.indices is None else moved(buffers.indices, rng.choice((1, 2, 4)))
    expected = buffers.out.copy()
    bad = reference.run(plan, buffers.data, buffers.indices, expected)
    for block in BLOCKS:
        written = moved(out, 1)
        assert way.prepare(plan, block).run(data, indices, written) == bad
        assert bad is not None or written.tobytes() == expected.tobytes()


def references(things: list[object]) -> list[int]:
    return [sys.getrefcount(thing) for thing in things]


SELECTING: list[Shaped] = [
    *(make(Kind(8)) for make in LOOKING.values()),
    view((30, 40), lambda x: x.T, 8),
    view((30, 40, 3), lambda x: x[::-1, :, ::-1], 8),
    view((30, 40), lambda x: x[3:-3], 8),
]


@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize("shaped", SELECTING)
def test_python_objects_are_shared_and_counted(shaped: Shaped, block: int, way: Way) -> None:
    noise = seeds.numpy_rng()
    things = [object() for _ in range(7)]
    data = np.empty(shaped.plan.in_extent, object)
    data[:] = [things[number] for number in noise.integers(0, 7, data.size)]
    limit = min((lookup.limit for lookup in shaped.plan.lookups), default=1)
    indices = noise.integers(-limit, limit, shaped.index_shape)
    out = np.full(shaped.plan.out_extent, things[0], object)
    program = way.prepare(shaped.plan, block)
    program.run(data, indices.reshape(-1), out)
    expected = shaped.numpy(data.reshape(shaped.input_shape), indices).reshape(-1)
    assert all(mine is theirs for mine, theirs in zip(out, expected, strict=True))
    held = references(things)
    again = np.full(out.size, None, object)
    program.run(data, indices.reshape(-1), again)
    assert references(things) == [before + list(out).count(thing) for before, thing in zip(held, things, strict=True)]
    del again
    assert references(things) == held


def test_strings_move_as_objects() -> None:
    shaped = gather_elements((5, 13), 1, Kind(16))
    words = ["", "a", "ab", "long enough to live outside the element itself", "e"] * 13
    data, indices = np.array(words, np.dtypes.StringDType()), seeds.numpy_rng().integers(0, 13, (5, 13))
    with pytest.raises(
        TypeError, match=r"StringDType\(\) elements point into memory of their own array; convert .*astype\(object\)"
    ):
        prepare(shaped.plan).run(data, indices.reshape(-1), np.zeros(65, data.dtype))
    out = np.zeros(65, object)
    prepare(gather_elements((5, 13), 1, Kind(8)).plan).run(data.astype(object), indices.reshape(-1), out)
    assert out.tolist() == [words[13 * row + at] for row in range(5) for at in indices[row]]


def test_object_elements_refuse_fill_bytes_and_other_types() -> None:
    plan = gather((4, 2), (3,), 0, Kind(8, policy=OutOfBounds.FILL)).plan
    objects, indices = np.zeros(8, object), np.zeros(3, np.int64)
    with pytest.raises(TypeError, match=r"FILL writes raw bytes, but object elements are references"):
        prepare(plan).run(objects, indices, np.zeros(6, object))
    plan = gather((4, 2), (3,), 0, Kind(8)).plan
    with pytest.raises(TypeError, match=r"the input holds object elements, the output float64"):
        prepare(plan).run(objects, indices, np.zeros(6))
    with pytest.raises(TypeError, match=r"the input holds float64 elements, the output object"):
        prepare(plan).run(np.zeros(8), indices, objects)


@pytest.mark.parametrize(
    "dtype", ["?", "i1", "f2", ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, "f4", "U1", "f8", "M8[ns]", "c8", "c16", "U4", "V16"]
)
def test_every_data_type_moves_as_bits(dtype: Any, way: Way) -> None:
    dtype = np.dtype(dtype)
    bits = seeds.numpy_rng().bytes(40 * 6 * dtype.itemsize)
    data = np.frombuffer(bits, f"V{dtype.itemsize}").view(dtype) if dtype.kind != "U" else np.resize("abc", 240).astype(dtype)
    for shaped in (gather((40, 6), (11,), 0, Kind(dtype.itemsize)), gather((40, 6), (4,), 1, Kind(dtype.itemsize))):
        indices = seeds.numpy_rng().integers(0, 6, shaped.index_shape)
        out = np.zeros(shaped.plan.out_extent, dtype)
        way.prepare(shaped.plan).run(data, indices, out)
        raw = data.view(f"V{dtype.itemsize}").reshape(shaped.input_shape)
        assert out.tobytes() == shaped.numpy(raw, indices).tobytes()


def test_inputs_may_be_read_only_and_the_output_may_not(way: Way) -> None:
    for shaped in (*(make(Kind()) for make in LOOKING.values()), view((6, 5), lambda x: x.T)):
        data = np.arange(shaped.plan.in_extent, dtype=np.float32)
        indices = np.zeros(shaped.index_shape, np.int64)
        out = np.zeros(shaped.plan.out_extent, np.float32)
        data.flags.writeable = indices.flags.writeable = False
        for block in BLOCKS:
            way.prepare(shaped.plan, block).run(data, indices.reshape(-1), out)
            assert out.tobytes() == shaped.numpy(data.reshape(shaped.input_shape), indices).tobytes()
        out.flags.writeable = False
        with pytest.raises(ValueError, match="the output buffer is read-only"):
            way.prepare(shaped.plan).run(data, indices.reshape(-1), out)


def test_the_last_row_of_the_input_may_be_cut_short(way: Way) -> None:
    # A tensor with padded rows ends with its last element, without the last padding.
    lookup = Lookup((0, 1), index_offset=0, limit=5, wrap=5, in_stride=1)
    plan = IndexPlan(
        (50, 40), (40, 1), (8, 0), 4, in_extent=49 * 8 + 5, out_extent=2000, lookups=(lookup,),
        index_type=IndexType.INT64, index_extent=40,
    )  # fmt: skip
    data = seeds.numpy_rng().random(49 * 8 + 5).astype(np.float32)
    indices = seeds.numpy_rng().integers(-5, 5, 40)
    padded = np.concatenate([data, np.zeros(3, np.float32)]).reshape(50, 8)[:, :5]
    for block in BLOCKS:
        out = np.zeros(2000, np.float32)
        way.prepare(plan, block).run(data, indices, out)
        assert out.tobytes() == padded[:, indices].tobytes()


@pytest.fixture
def huge(tmp_path: Path) -> NDArray[np.uint8]:
    """Return more than 2^32 bytes in a sparse file. Only written pages use memory."""
    return np.memmap(tmp_path / "huge", np.uint8, "w+", shape=(2**32 + 4096,)).view(np.ndarray)


def test_offsets_beyond_32_bits_are_exact(huge: NDArray[np.uint8], way: Way) -> None:
    # 2^31 rows of 2 bytes and 2,048 more. An index truncated to 32 bits would read row 1.
    rows = huge.view(np.uint16)
    rows[1], rows[2**31 + 1], rows[-1] = 0x1111, 0x2222, 0x3333
    lookup = Lookup((1,), index_offset=0, limit=rows.size, wrap=rows.size, in_stride=1)
    plan = IndexPlan(
        (5,), (1,), (0,), 2, in_extent=rows.size, out_extent=5, lookups=(lookup,), index_type=IndexType.INT64, index_extent=5
    )
    out = np.zeros(5, np.uint16)
    way.prepare(plan).run(rows, np.array([2**31 + 1, 1, -1, 2**32 + 1, -(2**63)]), out)
    assert out.tolist() == [0x2222, 0x1111, 0x3333, 0x3333, 0]

    far = IndexPlan((3,), (1,), (2**31,), 1, in_extent=huge.size, out_extent=3, in_offset=2)
    huge[2], huge[2**31 + 2], huge[2**32 + 2] = 7, 8, 9
    small = np.zeros(3, np.uint8)
    way.prepare(far).run(huge, None, small)
    assert small.tolist() == [7, 8, 9]

    scatter = IndexPlan((3,), (2**31,), (1,), 1, in_extent=3, out_extent=huge.size, out_offset=5)
    way.prepare(scatter).run(np.array([4, 5, 6], np.uint8), None, huge)
    assert huge[[5, 2**31 + 5, 2**32 + 5]].tolist() == [4, 5, 6]


def test_unsuitable_buffers_are_refused(way: Way) -> None:
    plan = gather_nd((5, 6), 7, 2).plan
    data, indices, out = np.zeros(30, "f4"), np.zeros(14, "i8"), np.zeros(7, "f4")
    program = way.prepare(plan)
    program.run(data, indices, out)
    refused: list[tuple[Any, Any, Any, str]] = [
        (data[:29], indices, out, r"the input buffer has 29 elements, expected at least 30"),
        (data, indices[:13], out, r"the index buffer has 13 elements, expected at least 14"),
        (data, indices, out[:6], r"the output buffer has 6 elements, expected at least 7"),
        (data.astype("f8"), indices, out, r"the input buffer's elements have 8 bytes, expected 4"),
        (data, indices.astype("u8"), out, r"the index buffer has data type uint64, expected int64"),
        (data, indices.astype(">i8"), out, r"the index buffer has data type >i8, expected int64"),
        (data, indices.astype("i4"), out, r"the index buffer's elements have 4 bytes, expected 8"),
        (data, None, out, r"the plan looks up indices, got no index buffer"),
        (np.zeros(60, "f4")[::2], indices, out, r"the input buffer has shape \(30,\) and strides \(8,\)"),
        (data.reshape(5, 6), indices, out, r"expected one contiguous dimension"),
    ]
    for *buffers, message in refused:
        with pytest.raises(ValueError, match=message):
            program.run(*buffers)
