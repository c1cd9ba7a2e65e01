"""`dg.openvino.gather` on the page's examples, in every index type, under every policy and on every kind of array."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import dmlgather as dg
from tests import seeds, tensorlib
from tests.gpus import SECOND, placed
from tests.openvino.examples import EXAMPLES, Example
from tests.openvino.judge import judge
from tests.openvino.specification import INTEGERS, expected
from tests.openvino.specification import gather as called
from tests.tensorlib import Tensor
from tests.test_devices_agree import EDGES, EXECUTIONS, executed

GATHER = dg.openvino.gather
DEVICES = ("cpu", "reference", SECOND)
PAIRS = [pytest.param(example, version, id=f"{example.name}-v{version}") for example in EXAMPLES for version in example.versions]
TABLE = np.arange(12, dtype=np.float32).reshape(3, 4) + 1
BAD = np.array([[0, 2], [3, -4]])


@pytest.mark.parametrize(("example", "version"), PAIRS)
def test_examples_are_written_here_as_openvino_evaluates_them(example: Example, version: int) -> None:
    data, indices, output = example.arrays()
    found = judge(called(version, data, indices, example.axis, example.batch_dims))
    assert isinstance(found, np.ndarray)
    assert (found.shape, found.tobytes()) == (output.shape, output.tobytes())


@pytest.mark.parametrize("execution", EXECUTIONS)
@pytest.mark.parametrize(("example", "version"), PAIRS)
def test_examples_in_every_backend(example: Example, version: int, execution: str) -> None:
    data, indices, output = example.arrays()
    plan = GATHER.plan(data, indices, example.axis, example.batch_dims, version=version)
    assert executed(execution, plan, data, indices) == output.tobytes()


@pytest.mark.parametrize("execution", EXECUTIONS)
@pytest.mark.parametrize("version", [1, 7, 8])
@pytest.mark.parametrize("size", [0, 1, 5, 128, 300])
def test_indices_are_compared_in_their_full_width(size: int, version: int, execution: str) -> None:
    data = seeds.numpy_rng().random(size)
    for kind in INTEGERS:
        info = np.iinfo(kind)
        values = sorted(value for value in {*EDGES, -size - 1, -size, -1, 0, 1, size - 1, size} if info.min <= value <= info.max)
        wrapped = [value + size if value < 0 and version == 8 else value for value in values]
        right = np.array([data[value] if 0 <= value < size else 0.0 for value in wrapped])
        indices = np.array(values, kind)
        assert executed(execution, GATHER.plan(data, indices, 0, version=version), data, indices) == right.tobytes(), kind


def test_versions_are_not_taken_for_one_another() -> None:
    indices = np.array([-1, 0])
    for version in (8, 7, 1, 8):  # the same arrays: programs are kept
        row = TABLE[2] if version == 8 else np.zeros(4, np.float32)
        assert GATHER(TABLE, indices, 0, version=version).tolist() == [row.tolist(), TABLE[0].tolist()]


@pytest.mark.parametrize("device", DEVICES)
def test_policies_in_the_place_of_zeros(device: str) -> None:
    def found(choice: Any, version: int = 8) -> Any:
        return GATHER(TABLE, BAD, 0, version=version, out_of_bounds=choice, device=device)

    first, last, sevens = TABLE[0].tolist(), TABLE[2].tolist(), [7.0] * 4
    assert found(None).tolist() == [[first, last], [[0.0] * 4, [0.0] * 4]]
    assert found("clamp").tolist() == [[first, last], [last, first]]
    assert found(dg.Fill(7)).tolist() == [[first, last], [sevens, sevens]]
    with pytest.raises(IndexError, match=r"^indices\[1, 0\] = 3 is out of range for axis 0 of size 3: valid indices are -3 … 2$"):
        found("raise")
    with pytest.raises(IndexError, match=r"^indices\[1, 0\] = 3 .* valid indices are 0 … 2$"):
        found("raise", version=7)
    good = np.array([2, 0])
    for choice in ("promise", "raise", "clamp", dg.Fill(7)):
        assert GATHER(TABLE, good, 0, out_of_bounds=choice, device=device).tobytes() == TABLE[good].tobytes()


def test_negative_indices_of_old_versions_follow_the_policy() -> None:
    negative = np.array([-1])
    assert GATHER(TABLE, negative, 0, version=7, out_of_bounds="clamp").tolist() == [TABLE[0].tolist()]
    assert GATHER(TABLE, negative, 0, version=1, out_of_bounds=dg.Fill(7)).tolist() == [[7.0] * 4]
    with pytest.raises(IndexError, match=r"indices\[0\] = -1 is out of range for axis 1 of size 4: valid indices are 0 … 3"):
        GATHER(TABLE, negative, 1, version=7, out_of_bounds="raise")
    with pytest.raises(IndexError, match=r"indices\[0\] = 0 .* axis 0 of size 0: valid indices are none"):
        GATHER(TABLE[:0], np.array([0]), 0, out_of_bounds="raise")


def test_the_twin_plans_from_arrays_types_and_pairs() -> None:
    class Stated:
        shape, dtype = (2, 5, 4), np.dtype(ml_dtypes.bfloat16)

    indices = np.zeros((2, 3), np.uint8)
    plan = GATHER.plan(np.zeros(Stated.shape, ml_dtypes.bfloat16), indices, -2, -1)
    assert (plan.shape, plan.element_bytes, plan.fill) == ((2, 3, 4), 2, bytes(2))
    assert GATHER.plan(Stated(), indices, np.array([1]), 1) == plan
    assert GATHER.plan(((2, 5, 4), "bfloat16"), ((2, 3), "uint8"), 1, 1, version=8, device="cuda:7") == plan
    assert GATHER.plan(((2, 5, 4), "bfloat16"), ((2, 3), "uint8"), 1, 1, version=7) == plan  # no negative values to differ on
    assert GATHER.plan(((2, 5, 4), "bfloat16"), ((2, 3), "int8"), 1, 1, version=7) != plan
    clamped = GATHER.plan(((2, 5, 4), "bfloat16"), indices, 1, 1, out_of_bounds="clamp")
    assert (clamped.out_of_bounds.value, clamped.fill) == ("clamp", b"")


@pytest.mark.parametrize("kind", [ml_dtypes.float8_e5m2, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e8m0fnu, ml_dtypes.bfloat16])
def test_types_that_numpy_has_no_letter_for_may_be_strided(kind: Any) -> None:
    data = np.arange(64, dtype=np.uint8).view(kind)[::-2]
    assert GATHER(data, np.array([0, -1, 99]), 0).tobytes() == expected(called(8, data, np.array([0, -1, 99]), 0)).tobytes()


def test_data_of_the_other_byte_order_stay_so() -> None:
    data = TABLE.astype(">f4")
    found = GATHER(data, np.array([1, 9]), 0)
    assert (found.dtype, found.tobytes()) == (np.dtype(">f4"), data[1].tobytes() + bytes(16))


@pytest.mark.parametrize("index", [np.int64(-1), np.uint8(2), np.array(2, np.int16)])
def test_a_scalar_index_takes_the_axis_away(index: Any) -> None:
    assert GATHER(TABLE, index, 0).tobytes() == TABLE[2].tobytes()
    element = GATHER(TABLE[0], index, 0)
    assert isinstance(element, np.ndarray)
    assert (element.shape, element.tobytes()) == ((), TABLE[0, int(index)].tobytes())
    assert GATHER(TABLE, np.array(-4), 0).tobytes() == bytes(16)


@pytest.mark.parametrize("kind", INTEGERS, ids=str)
def test_the_axis_may_be_an_array_of_one_integer(kind: Any) -> None:
    indices = np.array([3, 0])
    right = TABLE[:, indices].tobytes()
    for axis in (kind.type(1), np.array(1, kind), np.array([1], kind), np.array([1], kind.newbyteorder())):
        assert GATHER(TABLE, indices, axis).tobytes() == right
    if kind.kind == "i":
        assert GATHER(TABLE, indices, np.array([-1], kind)).tobytes() == right


def test_other_libraries_get_their_own_kind_back(monkeypatch: pytest.MonkeyPatch) -> None:
    tensorlib.install(monkeypatch)
    indices = np.array([1, -1])
    for given in (indices, Tensor(indices)):
        found = GATHER(Tensor(TABLE), given, Tensor(np.array([1])))
        assert isinstance(found, Tensor)
        assert found.array.tobytes() == TABLE[:, indices].tobytes()
    assert isinstance(GATHER(TABLE, Tensor(indices), 1), np.ndarray)


@pytest.mark.gpu(devices=2)
def test_arrays_stay_on_their_gpu_unless_told_otherwise(cupy: Any) -> None:
    indices = np.array([1, -1, 8])
    right = expected(called(8, TABLE, indices, 0)).tobytes()
    for device in (None, "cpu", "cuda"):
        found = GATHER(placed(TABLE, 1), placed(indices, 1), np.array([0]), device=device)
        assert isinstance(found, cupy.ndarray)
        assert (found.device.id, found.get().tobytes()) == (1, right)
    with pytest.raises(TypeError, match=r"different devices \(data on cpu, indices on cuda:0\)"):
        GATHER(TABLE, placed(indices), 0)
    with pytest.raises(IndexError, match=r"indices\[2\] = 8 is out of range for axis 0 of size 3"):
        GATHER(placed(TABLE), placed(indices), 0, out_of_bounds="raise")
