"""Compiled operators on arrays: accepted arguments, results and errors. Judge: NumPy's indexing."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import dmlgather as dg
from tests import seeds, tensorlib
from tests.tensorlib import Tensor

ROWS, WIDTH, COUNT = 50, 24, 9


def gather(data_type: str = "FLOAT32", index_type: str = "INT64", **tensors: Any) -> dg.GatherOperatorDesc:
    """Return an operator that gathers rows of a [ROWS, WIDTH] table."""
    return dg.GatherOperatorDesc(
        input_tensor=dg.BufferTensorDesc(data_type=data_type, sizes=(ROWS, WIDTH), **tensors.get("data", {})),
        indices_tensor=dg.BufferTensorDesc(data_type=index_type, sizes=(1, COUNT), **tensors.get("indices", {})),
        output_tensor=dg.BufferTensorDesc(data_type=data_type, sizes=(COUNT, WIDTH), **tensors.get("output", {})),
        axis=0,
        index_dimensions=1,
    )


@pytest.fixture
def table() -> np.ndarray[Any, np.dtype[np.float32]]:
    return seeds.numpy_rng().random((ROWS, WIDTH), dtype=np.float32)


@pytest.fixture
def ids() -> np.ndarray[Any, np.dtype[np.int64]]:
    return seeds.numpy_rng().integers(-ROWS, ROWS, (1, COUNT))


def test_the_result_is_a_new_array_of_the_output_sizes(table: Any, ids: Any) -> None:
    result = dg.compile(gather())(table, ids)
    assert isinstance(result, np.ndarray)
    assert result.flags.c_contiguous
    assert result.tobytes() == table[ids[0]].tobytes()


def test_arrays_are_read_and_written_with_their_own_strides(table: Any, ids: Any) -> None:
    op = dg.compile(gather())
    spread = np.repeat(np.repeat(table, 2, axis=0), 3, axis=1)[::2, ::3]
    flipped = np.ascontiguousarray(table[::-1, ::-1])[::-1, ::-1]
    columns = np.asfortranarray(table)
    out = np.full((COUNT, 2 * WIDTH), -1, np.float32)
    for view in (spread, flipped, columns):
        assert op(view, np.repeat(ids, 2, axis=1)[:, ::2]).tobytes() == table[ids[0]].tobytes()
        assert op(view, ids, out=out[::-1, ::2]) is not None
        assert (out[::-1, ::2] == table[ids[0]]).all()
        assert (out[:, 1::2] == -1).all()


def test_buffers_are_read_with_the_described_strides(table: Any, ids: Any) -> None:
    padded = {"strides": (WIDTH + 8, 1), "total_tensor_size_in_bytes": 4 * ROWS * (WIDTH + 8)}
    op = dg.compile(gather(data=padded, output={"strides": (1, COUNT)}))
    buffer = np.zeros((ROWS, WIDTH + 8), np.float32)
    buffer[:, :WIDTH] = table
    expected = table[ids[0]]
    assert op(buffer.reshape(-1), ids).tobytes() == expected.tobytes()
    raw_out = np.zeros(4 * COUNT * WIDTH, np.uint8)
    op(buffer.view(np.uint8).reshape(-1), ids.view(np.uint8).reshape(-1), out=raw_out)
    assert raw_out.tobytes() == expected.T.tobytes()
    op.run_buffers(buffer.view(np.uint8).reshape(-1), ids.view(np.uint8).reshape(-1), out=raw_out)
    assert raw_out.tobytes() == expected.T.tobytes()


def test_a_bound_operator_reads_the_current_indices(table: Any, ids: Any) -> None:
    out = np.empty((COUNT, WIDTH), np.float32)
    bound = dg.compile(gather()).bind(table, ids, out=out)
    for _ in range(3):
        ids[...] = seeds.numpy_rng().integers(-ROWS, ROWS, ids.shape)
        assert bound() is None  # type: ignore[func-returns-value] # as its docstring says
        assert out.tobytes() == table[ids[0]].tobytes()
    fixed = r"^stream is ndarray \(the arrays of a bound operator are fixed, and a call takes none\)"
    with pytest.raises(TypeError, match=fixed):
        bound(table)


def test_a_result_belongs_to_the_library_of_its_input(table: Any, ids: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    tensorlib.install(monkeypatch)
    result = dg.compile(gather())(Tensor(table), Tensor(ids))
    assert isinstance(result, Tensor)
    assert result.array.tobytes() == table[ids[0]].tobytes()


def test_nan_payloads_survive(ids: Any) -> None:
    bits = seeds.numpy_rng().integers(0, 2**16, (ROWS, WIDTH), dtype=np.uint16) | 0x7C01
    result = dg.compile(gather("FLOAT16"))(bits.view(np.float16), ids)
    assert result.tobytes() == bits[ids[0]].tobytes()


@pytest.mark.parametrize("bad", [ROWS, -ROWS - 1, 2**32 + 1, -(2**63), 2**63 - 1])
def test_each_policy_treats_a_bad_index_as_documented(table: Any, ids: Any, bad: int) -> None:
    ids[0, 3] = bad
    good = np.clip(np.where(ids[0] < 0, ids[0] + ROWS * (ids[0] >= -ROWS), ids[0]), 0, ROWS - 1)
    expected = table[good]
    for policy in (None, "clamp", "promise"):
        assert dg.compile(gather(), out_of_bounds=policy)(table, ids).tobytes() == expected.tobytes()
    expected[3] = 2.5
    assert dg.compile(gather(), out_of_bounds=dg.Fill(2.5))(table, ids).tobytes() == expected.tobytes()
    message = rf"IndicesTensor\[0, 3\] = {bad} is out of range for axis 0 of size {ROWS}: valid indices are -{ROWS} … {ROWS - 1}"
    for device in (None, "cpu", "reference"):
        with pytest.raises(IndexError, match=message):
            dg.compile(gather(), device=device, out_of_bounds="raise")(table, ids)


def test_the_first_bad_index_in_memory_is_named(table: Any, ids: Any) -> None:
    ids[0, [2, 6]] = (ROWS + 1, -ROWS - 5)
    op = dg.compile(gather(), out_of_bounds="raise")
    with pytest.raises(IndexError, match=r"IndicesTensor\[0, 2\] = 51 "):
        op(table, ids)
    reversed_memory = np.ascontiguousarray(ids[:, ::-1])[:, ::-1]
    with pytest.raises(IndexError, match=r"IndicesTensor\[0, 6\] = -55 "):
        op(table, reversed_memory)
    with pytest.raises(IndexError, match=r"IndicesTensor\[0, 6\] = -55 "):
        op.raise_if_bad()


def test_a_bad_index_of_gather_nd_names_its_axis() -> None:
    desc = dg.GatherNDOperatorDesc(
        input_tensor=dg.BufferTensorDesc(data_type="INT32", sizes=(3, 4)),
        indices_tensor=dg.BufferTensorDesc(data_type="INT32", sizes=(2, 2)),
        output_tensor=dg.BufferTensorDesc(data_type="INT32", sizes=(1, 2)),
        input_dimension_count=2,
        indices_dimension_count=2,
    )
    data = np.arange(12, dtype=np.int32).reshape(3, 4)
    op = dg.compile(desc, out_of_bounds="raise")
    with pytest.raises(
        IndexError, match=r"IndicesTensor\[1, 1\] = 4 is out of range for axis 1 of size 4: valid indices are -4 … 3"
    ):
        op(data, np.array([[2, 3], [1, 4]], np.int32))
    with pytest.raises(IndexError, match=r"IndicesTensor\[0, 0\] = -4 is out of range for axis 0 of size 3"):
        op(data, np.array([[-4, 3], [1, 4]], np.int32))


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (
            lambda x, i, o: (x.astype(np.float64), i, o),
            TypeError,
            r"input_tensor: expected float32 elements .*got float64; convert with \.astype\('float32'\)$",
        ),
        (
            lambda x, i, o: (x.view(np.int32), i, o),
            TypeError,
            r"\.astype\('float32'\), or keep the bits with \.view\('float32'\)$",
        ),
        (lambda x, i, o: (x, i, o.astype(np.float64)), TypeError, r"got float64; allocate an array of float32$"),
        (lambda x, i, o: (x, i.astype(np.int32), o), TypeError, r"indices_tensor: expected int64 elements"),
        (lambda x, i, o: (x[:-1], i, o), ValueError, r"input_tensor: expected shape \(50, 24\).*got float32 of shape \(49, 24\)"),
        (lambda x, i, o: (x, i[0, :-1], o), ValueError, r"indices_tensor: .*at least 72 bytes.*with 64 bytes"),
        (lambda x, i, o: (x, i, o[:-1]), ValueError, r"output_tensor: expected shape \(9, 24\)"),
        (lambda x, i, o: (x, i, x[:COUNT]), ValueError, r"out overlaps input_tensor"),
        (lambda x, i, o: (x, i, np.broadcast_to(o[:1], o.shape)), ValueError, r"read-only"),
        (lambda x, i, o: (x.tolist(), i, o), TypeError, r"got list"),
    ],
)
def test_wrong_arrays_are_refused_by_name(table: Any, ids: Any, change: Any, error: type[Exception], message: str) -> None:
    x, i, out = change(table, ids, np.empty((COUNT, WIDTH), np.float32))
    with pytest.raises(error, match=message):
        dg.compile(gather())(x, i, out=out)


@pytest.mark.parametrize("wanted", ["INT32", "INT64", "UINT32", "UINT64"])
@pytest.mark.parametrize("given", ["i4", "i8", "u4", "u8"])
def test_the_advised_conversion_keeps_the_index_values(table: Any, wanted: str, given: str) -> None:
    op, ids = dg.compile(gather(index_type=wanted)), np.arange(COUNT, dtype=given)[None]
    if (expected := np.dtype(wanted.lower())) != ids.dtype and not (given[0] == "i" and wanted.startswith("U")):
        with pytest.raises(TypeError, match=rf"got {ids.dtype}; convert with \.astype\('{expected}'\)$"):
            op(table, ids)
    assert op(table, ids.astype(expected)).tobytes() == table[ids[0]].tobytes()


@pytest.mark.parametrize("wanted", ["UINT32", "UINT64"])
@pytest.mark.parametrize("given", ["i1", "i2", "i4", "i8"])
def test_the_advice_for_signed_indices_keeps_negative_ones(table: Any, wanted: str, given: str) -> None:
    """The advice is run. Judge: NumPy."""
    op, ids = dg.compile(gather(index_type=wanted)), np.array([[-2, 0, -ROWS, ROWS - 1, -1, 3, -7, 8, 1]], given)
    with pytest.raises(TypeError, match=rf"got {ids.dtype}; convert with numpy\.where") as refused:
        op(table, ids)
    (advice,) = re.findall(r"convert with (.*\)), where n is the size of the indexed axis", str(refused.value))
    converted = eval(advice, {"numpy": np, "ids": ids, "n": ROWS})
    assert op(table, converted).tobytes() == table[ids[0]].tobytes()


def test_launch_checks_its_addresses() -> None:
    op = dg.compile(gather())
    with pytest.raises(TypeError, match="launch takes 3 addresses"):
        op.launch(0, 16)
    with pytest.raises(ValueError, match="not a multiple of 16 bytes"):
        op.launch(0, 16, 24)


def test_compile_reports_every_error_of_a_descriptor() -> None:
    wrong = gather("INT4").model_copy(update={"axis": 7})
    with pytest.raises(dg.DescriptorError) as caught:
        dg.compile(wrong)
    assert len(caught.value.report.errors) >= 2
    assert all(finding.code in str(caught.value) for finding in caught.value.report.errors)
    with pytest.raises(dg.DescriptorError, match="INT64"):
        dg.compile(gather(), level="2_1")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"device": "gpu"}, "device is 'gpu'"),
        ({"level": "7_0"}, "7_0"),
        ({"out_of_bounds": "fill"}, r"dmlgather\.Fill\(value\)"),
        ({"out_of_bounds": dg.Fill(1e300)}, "cannot be stored as float32"),
        ({"out_of_bounds": dg.Fill("x")}, "is not one number"),
        ({"out_of_bounds": dg.Fill([1, 2])}, "is not one number"),
        ({"out_of_bounds": dg.Fill(1 + 2j)}, "is not one number of a type that float32 can hold"),
    ],
)
def test_wrong_options_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        dg.compile(gather(), **arguments)


@pytest.mark.parametrize(
    ("data_type", "value"),
    [("UINT8", 256), ("INT32", 1.5), ("UINT64", -1), ("UINT64", 2.0**64), ("INT64", 2**63), ("INT8", float("nan"))],
)
def test_a_fill_value_must_fit(data_type: str, value: Any) -> None:
    with pytest.raises(ValueError, match=r"Fill value .* cannot be stored as"):
        dg.compile(gather(data_type), out_of_bounds=dg.Fill(value))


def test_explain_shows_the_plan_and_each_device() -> None:
    text = str(dg.compile(gather()).explain())
    parts = (
        "GATHER, lowest feature level 3_0",
        "plan",
        "canonical",
        "16-byte elements",
        "cpu",
        "cuda",
        f"{COUNT * 8} of indices",
    )
    assert all(part in text for part in parts), text


@pytest.mark.parametrize("devices", [(), ("cpu",)])
def test_compare_needs_two_devices(table: Any, ids: Any, devices: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="at least two different devices"):
        dg.compare(gather(), table, ids, devices=devices)


@pytest.mark.parametrize("devices", [("cpu", "cpu"), ("cuda", "cuda:0"), ("reference", "cpu", "reference")])
def test_compare_takes_each_device_once(table: Any, ids: Any, devices: tuple[str, ...]) -> None:
    for against in (None, np.zeros((COUNT, WIDTH), np.float32)):
        with pytest.raises(ValueError, match=f"^{', '.join(devices)} name {devices[-1]} twice, .*: name each device once$"):
            dg.compare(gather(), table, ids, devices=devices, against=against)


@pytest.mark.parametrize("function", [dg.validate, dg.minimum_level, dg.compile])
def test_values_other_than_descriptors_are_refused(function: Any) -> None:
    for wrong in (None, 5, dg.BufferTensorDesc(data_type="FLOAT32", sizes=[1]), {"type": "DML_OPERATOR_GATHER"}):
        with pytest.raises(TypeError, match="expected an operator descriptor such as GatherOperatorDesc, got"):
            function(wrong)
