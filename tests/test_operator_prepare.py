"""Kernels that are planned and compiled before the first call. A prepared call compiles, plans and allocates nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import dmlgather as dg
from dmlgather.backends import prepared_call
from dmlgather.backends.cuda import driver, program
from dmlgather.calls import prepared
from tests import seeds
from tests.gpus import nothing_new, placed
from tests.test_operator import COUNT, ROWS, WIDTH, gather

TABLE = np.arange(ROWS * WIDTH, dtype=np.float32).reshape(ROWS, WIDTH)
PACKED = ((ROWS, WIDTH), "float32")
IDS = ((1, COUNT), "int64")


@pytest.fixture
def ids() -> Any:
    return seeds.numpy_rng().integers(-ROWS, ROWS, (1, COUNT))


@contextmanager
def ready() -> Iterator[None]:
    """Fail if the block plans, compiles or allocates anything except results."""
    with pytest.MonkeyPatch.context() as patch, nothing_new(results=True):
        patch.setattr(program, "launches_for", lambda *arguments: pytest.fail("planned"))
        yield


@contextmanager
def unready() -> Iterator[None]:
    """Fail unless the block plans, compiles or allocates something."""
    with pytest.raises(pytest.fail.Exception), ready():
        yield


@pytest.fixture
def forgotten() -> None:
    driver._compiled.cache_clear()
    prepared.forget()


@pytest.mark.gpu(devices=2)
def test_the_first_call_compiles_and_plans_nothing(forgotten: None, ids: Any) -> None:
    op = dg.compile(gather())
    assert op.prepare("cuda:1") is None  # type: ignore[func-returns-value]
    x, i, out = placed(TABLE, 1), placed(ids, 1), placed(np.empty((COUNT, WIDTH), np.float32), 1)
    with ready():
        result: Any = op(x, i)
        op(x, i, out=out)
    assert result.get().tobytes() == out.get().tobytes() == TABLE[ids[0]].tobytes()
    with unready():
        op(placed(TABLE), placed(ids))


@pytest.mark.gpu
def test_prepare_covers_buffers_and_addresses(forgotten: None, ids: Any) -> None:
    room = 4 * ROWS * (WIDTH + 3)
    op = dg.compile(gather(data={"strides": (WIDTH + 3, 1), "total_tensor_size_in_bytes": room}))
    op.prepare()
    wide = np.zeros(ROWS * (WIDTH + 3), np.float32)
    wide.reshape(ROWS, WIDTH + 3)[:, :WIDTH] = TABLE
    held = [
        placed(aligned(each)) for each in (wide.view(np.uint8), ids.reshape(-1).view(np.uint8), np.zeros(COUNT * WIDTH * 4, "u1"))
    ]
    with ready():
        op.run_buffers(*held[:2], out=held[2])
    assert held[2].get().tobytes() == TABLE[ids[0]].tobytes()
    held[2].fill(0)
    with ready():
        op.launch(*(each.data.ptr for each in held))
    assert held[2].get().tobytes() == TABLE[ids[0]].tobytes()


@pytest.mark.gpu
def test_prepare_covers_the_stated_layouts_only(forgotten: None, ids: Any) -> None:
    wide = np.zeros((ROWS, 2 * WIDTH), np.float32)
    wide[:, ::2] = TABLE
    strided = (*PACKED, wide[:, ::2].strides)
    out = placed(aligned(np.zeros((COUNT, WIDTH), np.float32)))
    op = dg.compile(gather())
    op.prepare("cuda", layouts=[[strided, IDS], [PACKED, IDS, ((COUNT, WIDTH), "float32", out[::-1].strides)]])
    x, packed, i = placed(aligned(wide)), placed(aligned(TABLE)), placed(aligned(ids))
    with ready():
        found: Any = op(x[:, ::2], i)
        op(packed, i, out=out[::-1])
    assert found.get().tobytes() == out[::-1].get().tobytes() == TABLE[ids[0]].tobytes()
    with unready():
        op(packed, i)  # packed arrays with a packed result are not in the list


@pytest.mark.gpu
def test_prepare_takes_example_arrays_as_layouts(forgotten: None, ids: Any) -> None:
    odd, backwards, i = placed(aligned(TABLE, 4)), placed(aligned(TABLE))[::-1], placed(aligned(ids))
    op = dg.compile(gather())
    op.prepare("cuda", layouts=[[odd, i], [aligned(TABLE)[::-1], ids]])
    for data, expected in ((odd, TABLE), (backwards, TABLE[::-1])):
        with ready():
            found: Any = op(data, i)
        assert found.get().tobytes() == expected[ids[0]].tobytes()


@pytest.mark.gpu(devices=2)
def test_prepare_uses_the_device_of_compile(forgotten: None, ids: Any) -> None:
    op = dg.compile(gather(), device="cuda:1")
    op.prepare(layouts=[[(*PACKED, (4, 4 * ROWS)), IDS]])
    with ready():
        assert op(np.asfortranarray(TABLE), ids).tobytes() == TABLE[ids[0]].tobytes()
    with pytest.raises(ValueError, match="device is cuda:0, but the operator was compiled for cuda:1"):
        op.prepare("cuda")


@pytest.mark.parametrize("device", ["cpu", "reference"])
def test_prepare_works_for_the_cpu(device: str, ids: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    op = dg.compile(gather(), device=device)
    op.prepare(layouts=[[(*PACKED, (4, 4 * ROWS)), IDS]])
    monkeypatch.setattr(prepared_call, "_host_program", lambda *_: pytest.fail("prepared again"))
    assert op(np.asfortranarray(TABLE), ids).tobytes() == TABLE[ids[0]].tobytes()


REFUSED: dict[str, tuple[Any, type[Exception], str]] = {
    "type": ([((ROWS, WIDTH), "float64"), IDS], TypeError, r"input_tensor: expected float32 elements .*, got float64; convert"),
    "shape": ([PACKED, ((1, COUNT + 1), "int64")], ValueError, r"indices_tensor: expected shape \(1, \d+\), .* got"),
    "out": ([PACKED, IDS, ((COUNT, WIDTH), "int32")], TypeError, r"out: expected float32 elements .*, got int32; allocate"),
    "count": (
        [PACKED],
        TypeError,
        r"GATHER takes 2 input arrays \(input_tensor, indices_tensor\), .* got 1 array: state each array",
    ),
    "too many": ([PACKED, IDS, PACKED, IDS], TypeError, r"takes 2 input arrays .* got 4 arrays: state each array"),
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
        r"strides .* are not multiples of the element size, 4 bytes; pass",
    ),
    "overlap": ([PACKED, IDS, ((COUNT, WIDTH), "float32", (0, 4))], ValueError, r"out has strides .* so that elements share an"),
}


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
@pytest.mark.parametrize("name", REFUSED)
def test_layouts_that_do_not_fit_the_descriptor_are_refused(device: str, name: str) -> None:
    layout, error, words = REFUSED[name]
    with pytest.raises(error, match=rf"^layouts\[1\]: .*(?:{words})"):
        dg.compile(gather()).prepare(device, layouts=[[PACKED, IDS], layout])


@pytest.mark.gpu
def test_indices_at_an_odd_address_are_refused(ids: Any) -> None:
    with pytest.raises(ValueError, match=r"^layouts\[0\]: indices_tensor: the elements lie 4 bytes past a multiple of 8"):
        dg.compile(gather()).prepare("cuda", layouts=[[TABLE, placed(aligned(ids, 4))]])


def test_prepare_refuses_devices_on_which_no_call_runs() -> None:
    op = dg.compile(gather())
    with pytest.raises(ValueError, match=r"device is reference, but no arrays lie there: compile\(…, device='reference'\)"):
        op.prepare("reference")
    with pytest.raises(ValueError, match="device is 'gpu', expected 'cpu', 'cuda'"):
        op.prepare("gpu")


def aligned(array: np.ndarray[Any, Any], past: int = 0) -> np.ndarray[Any, Any]:
    """Return a packed copy at an address that is this many bytes past a multiple of 16."""
    room = np.empty(array.nbytes + 32, np.uint8)
    start = -room.ctypes.data % 16 + past
    copy: np.ndarray[Any, Any] = room[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy
