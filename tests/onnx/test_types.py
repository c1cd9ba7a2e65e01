"""Every type of every version: those it lists move bit for bit on every device, all others are refused with the list."""

from __future__ import annotations

import random
import re
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import dmlgather as dg
from dmlgather.plan import IndexPlan
from tests import gpus, seeds
from tests.dialects.outcomes import Array, content
from tests.onnx.calling import FUNCTIONS, plan, run
from tests.onnx.drafts import DTYPES, MAKERS, SMALL, finished
from tests.onnx.specification import LOOKS_UP, VERSIONS, Call, expected, listed, type_name
from tests.onnx.strategies import ROWS
from tests.test_devices_agree import EXECUTIONS

NUMBERS = [np.dtype(item) for item in DTYPES if np.dtype(item).kind not in "OUST"]
STRINGS = ("O", "U", "S", "T")
WITHOUT_NAME = ("datetime64[s]", "timedelta64[ns]", "V5", [("a", "i4")], "longdouble", "clongdouble")
"""NumPy types that ONNX does not know at all."""


def onnx_types() -> dict[str, np.dtype[Any]]:
    """Every tensor type of the installed onnx that NumPy can hold."""
    numbers = [number for name, number in TensorProto.DataType.items() if name != "UNDEFINED"]
    dtypes = [np.dtype(helper.tensor_dtype_to_np_dtype(number)) for number in numbers]
    return {str(type_name(dtype)): dtype for dtype in dtypes}


def call_of(operator: str, opset: int, dtype: Any, index_type: Any = "int64") -> Call:
    """A small good call, but for its types."""
    data = np.zeros((2, 2), dtype)
    if operator in ("DepthToSpace", "SpaceToDepth"):
        return Call(
            operator, opset, (data.reshape(1, 4, 1, 1) if operator == "DepthToSpace" else data[None, None],), {"blocksize": 2}
        )
    if operator == "Slice":
        bounds = {name: np.zeros(2, index_type) for name in ("starts", "ends")}
        return Call(operator, opset, (data,), bounds if opset >= 10 else {name: [0, 0] for name in bounds})
    return Call(operator, opset, (data, np.zeros((2, 2), index_type)), {})


def names_in(message: str) -> set[str]:
    """The types that a message says are taken."""
    found = re.search(r"but \w+-\d+ takes (.*)$", message)
    assert found is not None, message
    return {f"tensor({name})" for name in found[1].split(", ")}


@pytest.mark.parametrize(("operator", "version"), ROWS)
def test_data_types_are_those_of_the_schema(operator: str, version: int) -> None:
    types = listed(operator, version, "data")
    assert types <= set(onnx_types())
    for name, dtype in onnx_types().items():
        call = call_of(operator, version, dtype)
        if name in types:
            assert plan(call).element_bytes == (8 if dtype.hasobject else dtype.itemsize)
            continue
        for function in (plan, run):
            with pytest.raises(TypeError, match=r"^data has type ") as refusal:
                function(call)
            assert names_in(str(refusal.value)) == types
            assert f"{operator}-{version}" in str(refusal.value)


@pytest.mark.parametrize(
    ("operator", "version"), [row for row in ROWS if row[0] in LOOKS_UP or (row[0] == "Slice" and row[1] >= 10)]
)
def test_index_types_are_those_of_the_schema(operator: str, version: int) -> None:
    inputs = ("starts", "ends") if operator == "Slice" else ("indices",)
    types = listed(operator, version, inputs[0])
    for name, dtype in onnx_types().items():
        call = call_of(operator, version, "float32", dtype)
        if name in types:
            run(call)
            continue
        with pytest.raises(TypeError, match=rf"^{inputs[0]} has type ") as refusal:
            run(call)
        assert names_in(str(refusal.value)) == types


@pytest.mark.parametrize("dtype", WITHOUT_NAME, ids=str)
@pytest.mark.parametrize("operator", FUNCTIONS)
def test_types_that_onnx_does_not_know_are_refused(operator: str, dtype: Any) -> None:
    call = call_of(operator, 13, dtype)
    for function in (plan, run):
        with pytest.raises(TypeError, match=r"^data has type ") as refusal:
            function(call)
        assert names_in(str(refusal.value)) == listed(operator, 13, "data")


def test_c_names_of_one_type_are_one_type() -> None:
    data, indices = np.arange(3, dtype="longlong"), np.array([2, 0], "longlong")
    assert dg.onnx.gather(data, indices).tolist() == [2, 0]
    assert dg.onnx.gather_nd(data, indices[:, None]).tolist() == [2, 0]
    assert dg.onnx.slice(data, np.array([1], "longlong"), np.array([3], "int64")).tolist() == [1, 2]


def drawn(operator: str, dtype: Any) -> Call:
    """A random good call of the newest version with that data type; it states its seed."""
    while True:
        seed = seeds.seed()
        rng = random.Random(seed)
        call = finished(rng, MAKERS[operator](rng, VERSIONS[operator][-1], dtype, SMALL), "", seed)
        if expected(call).size > 1:
            return call


def executed(found: IndexPlan, call: Call, execution: str) -> bytes:
    """The bytes that a plan over packed buffers writes, in one execution."""
    width = f"V{call.data.itemsize}"
    data = np.frombuffer(call.data.tobytes(), width)
    indices = None
    if found.lookups:
        indices = np.array(call.indices, order="C").reshape(-1)
    out = np.frombuffer(np.random.default_rng(call.seed).bytes(found.elements * call.data.itemsize), width).copy()
    assert EXECUTIONS[execution](found, data, indices, out) is None
    return out.tobytes()


@pytest.mark.parametrize("dtype", NUMBERS, ids=str)
@pytest.mark.parametrize("operator", FUNCTIONS)
def test_every_type_moves_bit_for_bit_everywhere(operator: str, dtype: np.dtype[Any]) -> None:
    for _ in range(5):
        call = drawn(operator, dtype)
        wanted = expected(call)
        for device in ("cpu", "reference"):
            assert content(run(call, device=device)) == content(wanted), (device, str(call))
        found = plan(call)
        for execution in EXECUTIONS:
            assert executed(found, call, execution) == wanted.tobytes(), (execution, str(call))


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", NUMBERS, ids=str)
@pytest.mark.parametrize("operator", FUNCTIONS)
def test_every_type_of_cupy_moves_bit_for_bit_on_a_gpu(operator: str, dtype: np.dtype[Any]) -> None:
    """The others are refused, with what to do."""
    for _ in range(5):
        call = drawn(operator, dtype)
        if dtype in gpus.NUMBERS:
            for found in (run(call, device="cuda"), run(call, gpus.placed).get()):
                assert content(found) == content(expected(call)), str(call)
        else:
            with pytest.raises(TypeError, match=rf"^CuPy has no type for {dtype} \(.*\): pass a view of an integer type$"):
                run(call, device="cuda")


@pytest.mark.parametrize("form", STRINGS)
@pytest.mark.parametrize("operator", FUNCTIONS)
def test_strings_come_back_as_they_came(operator: str, form: str) -> None:
    for _ in range(10):
        call = drawn(operator, form)
        wanted = expected(call)
        for device in (None, "cpu", "reference"):
            found = run(call, device=device)
            assert content(found) == content(wanted), str(call)
            assert not np.shares_memory(found, call.data), str(call)


def test_a_string_scalar_is_sliced_to_itself() -> None:
    assert dg.onnx.slice(np.array("word"), [], []).tolist() == "word"


def test_objects_keep_their_identity() -> None:
    data: Array = np.empty(2, object)
    data[:] = ["x" * 100, "y" * 100]
    assert dg.onnx.gather(data, np.array([1]))[0] is data[1]


def test_missing_strings_survive() -> None:
    data = np.array(["a", None], np.dtypes.StringDType(na_object=None))
    found = dg.onnx.gather(data, np.array([1, 0]))
    assert found.dtype == data.dtype
    assert found.tolist() == [None, "a"]


@pytest.mark.parametrize("form", STRINGS)
@pytest.mark.parametrize("operator", FUNCTIONS)
def test_strings_do_not_go_to_a_gpu(operator: str, form: str) -> None:
    for device in ("cuda", "cuda:1"):
        with pytest.raises(TypeError, match=r"data has type .*strings run on the CPU alone, and the device is cuda:[01]"):
            run(drawn(operator, form), device=device)


def test_the_example_types_are_all_that_the_newest_versions_list() -> None:
    for operator, versions in VERSIONS.items():
        assert {type_name(np.dtype(item)) for item in DTYPES} == listed(operator, versions[-1], "data")


def test_the_versions_are_those_of_the_installed_onnx() -> None:
    history = [schema for schema in onnx.defs.get_all_schemas_with_history() if schema.domain == "" and schema.name in VERSIONS]
    assert set(ROWS) == {(schema.name, schema.since_version) for schema in history}
