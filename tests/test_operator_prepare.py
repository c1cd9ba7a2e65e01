"""Kernels that are planned and compiled ahead of the first call, over a driver that is not one (tests/kernels/host_driver.py):
what a call finds ready is what it does not compile, plan or allocate.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import dmlgather as dg
from dmlgather.backends import prepared_call
from dmlgather.backends.cuda import families, program
from tests import seeds
from tests.kernels.host_driver import installed
from tests.test_operator import COUNT, ROWS, WIDTH, gather
from tests.test_operator_devices import ArrayDriver, DeviceArray, aligned

TABLE = np.arange(ROWS * WIDTH, dtype=np.float32).reshape(ROWS, WIDTH)
PACKED = ((ROWS, WIDTH), "float32")
IDS = ((1, COUNT), "int64")


@pytest.fixture
def gpu() -> Iterator[ArrayDriver]:
    with installed(ArrayDriver()) as stand_in:
        yield stand_in


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The plans that were planned for a GPU."""
    found, plan = list[Any](), families.launches_for

    def launches_for(*arguments: Any) -> Any:
        found.append(arguments[0])
        return plan(*arguments)

    monkeypatch.setattr(program, "launches_for", launches_for)
    return found


@pytest.fixture
def ids() -> Any:
    return seeds.numpy_rng().integers(-ROWS, ROWS, (1, COUNT))


class Before:
    """What was done on a stand-in by now."""

    def __init__(self, gpu: ArrayDriver, planned: list[Any]) -> None:
        self._gpu, self._planned = gpu, planned
        self._counts = self._now()

    def _now(self) -> tuple[int, int, int]:
        return self._gpu.compiled, self._gpu.allocations, len(self._planned)

    def more(self) -> tuple[int, ...]:
        """Kernels compiled, memory allocated, and plans planned since."""
        return tuple(now - then for now, then in zip(self._now(), self._counts, strict=True))


def test_the_first_call_compiles_and_plans_nothing(gpu: ArrayDriver, planned: list[Any], ids: Any) -> None:
    op = dg.compile(gather())
    assert op.prepare("cuda:1") is None  # type: ignore[func-returns-value]
    assert not gpu.streams
    assert gpu.compiled
    assert planned
    before = Before(gpu, planned)
    result = op(DeviceArray(TABLE, 1), DeviceArray(ids, 1))
    out = DeviceArray(np.empty((COUNT, WIDTH), np.float32), 1)
    op(DeviceArray(TABLE, 1), DeviceArray(ids, 1), out=out)
    assert before.more() == (0, 0, 0)
    assert result.held.tobytes() == out.held.tobytes() == TABLE[ids[0]].tobytes()
    assert set(gpu.launched_on) == {1}
    op(DeviceArray(TABLE, 0), DeviceArray(ids, 0))  # which was not prepared
    assert before.more() != (0, 0, 0)


def test_buffers_and_addresses_are_prepared_too(gpu: ArrayDriver, planned: list[Any], ids: Any) -> None:
    room = 4 * ROWS * (WIDTH + 3)
    op = dg.compile(gather(data={"strides": (WIDTH + 3, 1), "total_tensor_size_in_bytes": room}))
    op.prepare()
    before = Before(gpu, planned)
    wide = np.zeros(ROWS * (WIDTH + 3), np.float32)
    wide.reshape(ROWS, WIDTH + 3)[:, :WIDTH] = TABLE
    out = np.zeros(COUNT * WIDTH, np.float32)
    op.run_buffers(*(DeviceArray(each.reshape(-1).view(np.uint8)) for each in (wide, ids)), out=DeviceArray(out.view(np.uint8)))
    assert before.more() == (0, 0, 0)
    assert out.tobytes() == TABLE[ids[0]].tobytes()
    held = [aligned(each) for each in (wide, ids, out)]
    held[2][...] = 0
    op.launch(*(each.ctypes.data for each in held))
    assert held[2].tobytes() == out.tobytes()
    assert before.more() == (0, 0, 0)


def test_layouts_are_those_of_the_calls_to_come(gpu: ArrayDriver, planned: list[Any], ids: Any) -> None:
    wide = np.zeros((ROWS, 2 * WIDTH), np.float32)
    wide[:, ::2] = TABLE
    strided = (*PACKED, wide[:, ::2].strides)
    out = np.zeros((COUNT, WIDTH), np.float32)
    op = dg.compile(gather())
    op.prepare("cuda", layouts=[[strided, IDS], [PACKED, IDS, ((COUNT, WIDTH), "float32", out[::-1].strides)]])
    before = Before(gpu, planned)
    assert op(DeviceArray(wide[:, ::2]), DeviceArray(ids)).held.tobytes() == TABLE[ids[0]].tobytes()
    op(DeviceArray(TABLE), DeviceArray(ids), out=DeviceArray(out[::-1]))
    assert out[::-1].tobytes() == TABLE[ids[0]].tobytes()
    assert before.more() == (0, 0, 0)
    op(DeviceArray(TABLE), DeviceArray(ids))  # packed, with a packed result: not in the list
    assert before.more()[2] == 1


def test_an_array_stands_for_arrays_like_it(gpu: ArrayDriver, planned: list[Any], ids: Any) -> None:
    room = np.zeros(TABLE.nbytes + 32, np.uint8)
    at = -room.ctypes.data % 16 + 4
    odd = room[at : at + TABLE.nbytes].view(np.float32).reshape(TABLE.shape)
    odd[...] = TABLE
    op = dg.compile(gather())
    op.prepare("cuda", layouts=[[DeviceArray(odd), DeviceArray(ids)], [TABLE[::-1], ids]])
    before = Before(gpu, planned)
    for data, expected in ((odd, TABLE), (TABLE[::-1], TABLE[::-1])):
        assert op(DeviceArray(data), DeviceArray(ids)).held.tobytes() == expected[ids[0]].tobytes()
    assert before.more() == (0, 0, 0)


def test_the_device_it_was_compiled_for(gpu: ArrayDriver, planned: list[Any], ids: Any) -> None:
    op = dg.compile(gather(), device="cuda:1")
    op.prepare(layouts=[[(*PACKED, (4, 4 * ROWS)), IDS]])
    before = Before(gpu, planned)
    assert op(np.asfortranarray(TABLE), ids).tobytes() == TABLE[ids[0]].tobytes()
    assert before.more() == (0, 0, 0)
    with pytest.raises(ValueError, match="device is cuda:0, but the operator was compiled for cuda:1"):
        op.prepare("cuda")


@pytest.mark.parametrize("device", ["cpu", "reference"])
def test_the_cpu_is_prepared_likewise(device: str, ids: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    op = dg.compile(gather(), device=device)
    op.prepare(layouts=[[(*PACKED, (4, 4 * ROWS)), IDS]])
    monkeypatch.setattr(prepared_call, "_host_program", lambda *_: pytest.fail("prepared again"))
    assert op(np.asfortranarray(TABLE), ids).tobytes() == TABLE[ids[0]].tobytes()


REFUSED: dict[str, tuple[Any, type[Exception], str]] = {
    "type": ([((ROWS, WIDTH), "float64"), IDS], TypeError, r"input_tensor: expected float32 elements .*, got float64; convert"),
    "shape": (
        [PACKED, ((1, COUNT + 1), "int64")],
        ValueError,
        r"indices_tensor: expected shape \(1, \d+\), .* got",
    ),
    "out": ([PACKED, IDS, ((COUNT, WIDTH), "int32")], TypeError, r"out: expected float32 elements .*, got int32; convert"),
    "count": ([PACKED], TypeError, r"GATHER takes 2 input arrays \(input_tensor, indices_tensor\), .* got 1 array: state one"),
    "too many": ([PACKED, IDS, PACKED, IDS], TypeError, r"takes 2 input arrays .* got 4 arrays: state one"),
    "no array": (
        [PACKED, "int64"],
        TypeError,
        r"indices_tensor is str, expected an array, \(shape, dtype\) or \(shape, dtype, str",
    ),
    "not nested": (PACKED, TypeError, r"input_tensor is stated as \(\d+, \d+\), expected \(shape, dtype\) or"),
    "no type": ([((ROWS, WIDTH), "float7"), IDS], TypeError, r"input_tensor is stated as .*'float7'.*, such as \(\(2, 3\), 'f"),
    "strides": (
        [(*PACKED, (4,)), IDS],
        ValueError,
        r"input_tensor is stated as .*, expected a stride in bytes for each of the 2",
    ),
    "no whole stride": (
        [(*PACKED, (4 * WIDTH + 2, 4)), IDS],
        ValueError,
        r"strides .* bytes are not whole elements of 4 bytes; pass",
    ),
    "overlap": ([PACKED, IDS, ((COUNT, WIDTH), "float32", (0, 4))], ValueError, r"out has strides .* so that elements share an"),
}


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("name", REFUSED)
def test_layouts_that_do_not_fit_the_descriptor(gpu: ArrayDriver, device: str, name: str) -> None:
    layout, error, words = REFUSED[name]
    with pytest.raises(error, match=rf"^layouts\[1\]: .*(?:{words})"):
        dg.compile(gather()).prepare(device, layouts=[[PACKED, IDS], layout])


def test_indices_at_an_odd_address_are_refused(gpu: ArrayDriver, ids: Any) -> None:
    room = np.zeros(ids.nbytes + 32, np.uint8)
    at = -room.ctypes.data % 16 + 4
    odd = room[at : at + ids.nbytes].view(np.int64).reshape(ids.shape)
    with pytest.raises(ValueError, match=r"^layouts\[0\]: indices_tensor: the elements lie 4 bytes past a multiple of 8"):
        dg.compile(gather()).prepare("cuda", layouts=[[TABLE, DeviceArray(odd)]])


def test_where_no_call_runs() -> None:
    op = dg.compile(gather())
    with pytest.raises(ValueError, match=r"device is reference, where no arrays lie: compile\(…, device='reference'\)"):
        op.prepare("reference")
    with pytest.raises(ValueError, match="device is 'gpu', expected 'cpu', 'cuda'"):
        op.prepare("gpu")


def test_without_a_gpu_it_says_what_is_missing(no_cupy: None) -> None:
    for layouts in (None, [[PACKED, IDS]]):
        with pytest.raises(dg.DeviceError, match=r"^CuPy cannot be imported .*pip install"):
            dg.compile(gather()).prepare("cuda", layouts=layouts)
