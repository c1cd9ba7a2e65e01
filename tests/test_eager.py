"""Properties of the eager functions of all dialects. Judges: NumPy's indexing and Python's protocols."""

from __future__ import annotations

import copy
import inspect
import pickle
import pydoc
import re
import sys
import warnings
from typing import Any

import numpy as np
import pytest
from onnx import helper

import dmlgather as dg
from dmlgather.calls import prepared
from dmlgather.calls.eager import EagerFunction
from dmlgather.onnx.problems.gather import Gather
from tests import processes
from tests.at_once import at_once
from tests.tensorlib import Tensor

PUBLIC = [getattr(module, name) for module in (dg.onnx, dg.openvino, dg.lax) for name in module.__all__]
EVERY = [found for found in PUBLIC if isinstance(found, EagerFunction)]
DATA = np.arange(12, dtype=np.float32).reshape(4, 3)
INDICES = np.array([3, 0], np.int64)
NODE = helper.make_node("Gather", ["x", "i"], ["y"])


@pytest.mark.parametrize("function", EVERY, ids=repr)
def test_functions_are_pickled_by_name(function: Any) -> None:
    assert pickle.loads(pickle.dumps(function)) is function
    assert copy.deepcopy(function) is function


@pytest.mark.parametrize("function", EVERY, ids=repr)
def test_help_shows_the_arguments(function: Any) -> None:
    signature = inspect.signature(function)
    assert list(signature.parameters)[-4:] == ["out", "out_of_bounds", "device", "stream"]
    assert signature.return_annotation is inspect.Signature.empty
    assert function.__doc__
    shown = pydoc.plain(pydoc.render_doc(function))
    first = next(iter(signature.parameters))
    assert re.search(rf"^{function.__name__}\(\s*{first}: [^)]*out_of_bounds: [^)]*\)$", shown, re.MULTILINE)


def test_a_library_without_from_dlpack_gets_a_numpy_array() -> None:
    result = dg.onnx.gather(Tensor(DATA), Tensor(INDICES))
    assert isinstance(result, np.ndarray)
    assert result.tobytes() == DATA[INDICES].tobytes()


@pytest.mark.parametrize(
    ("device", "error", "words"),
    [
        (0, TypeError, "device is 0 of type int, expected a name such as 'cpu'"),
        ("tpu", ValueError, "device is 'tpu', expected 'cpu'"),
    ],
)
def test_an_unknown_device_is_refused(device: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        dg.onnx.gather(DATA, INDICES, device=device)
    with pytest.raises(error, match=words):
        dg.onnx.gather.plan(DATA, INDICES, device=device)


def test_to_directml_takes_nodes_alone() -> None:
    with pytest.raises(TypeError, match=r"node is of type str, expected an onnx\.NodeProto"):
        dg.onnx.to_directml("Gather", {}, {})


def test_a_finding_names_complex64_held_as_uint64() -> None:
    report = dg.onnx.to_directml(NODE, {"x": (3,), "i": (1,)}, {"x": "complex64", "i": "int64"}, "3_0")
    assert isinstance(report, dg.Report)
    assert {finding.got for finding in report.errors} == {"UINT64, which holds complex64"}
    assert {str(finding.level) for finding in report.errors} == {"4_1"}


def test_bfloat16_without_ml_dtypes_names_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    with pytest.raises(TypeError, match="bfloat16 is a type of the package ml_dtypes, which is missing: pip install ml-dtypes"):
        dg.onnx.gather.plan(((3,), "bfloat16"), ((1,), "int64"))


def test_the_onnx_type_string_means_python_strings() -> None:
    reports = [dg.onnx.to_directml(NODE, [(3,), (1,)], [kind, "int64"]) for kind in ("string", str)]
    for report in reports:
        assert isinstance(report, dg.Report)
        assert [finding.got for finding in report.errors] == ["strings"]
    assert dg.onnx.gather.plan(((3,), "string"), ((1,), "int64")) == dg.onnx.gather.plan(((3,), object), ((1,), "int64"))


@pytest.mark.parametrize("device", [None, "reference"])
def test_a_result_larger_than_any_array_is_refused(device: Any) -> None:
    nothing = np.zeros((1, 0, 2, 2), np.float32)
    shape = re.escape(f"(1, 0, {2**41}, {2**41})")
    with pytest.raises(
        ValueError, match=rf"the result has shape {shape} of float32, but an array spans at most {sys.maxsize} bytes"
    ):
        dg.onnx.depth_to_space(nothing, 2**40, device=device)
    assert dg.onnx.depth_to_space(nothing, 2**20, device=device).shape == (1, 0, 2**21, 2**21)


TWICE = range(2)


def constructed(monkeypatch: pytest.MonkeyPatch, kind: type) -> list[Any]:
    """Return a list that collects new problems of class `kind`."""
    problems: list[Any] = []
    original: Any = kind.__dict__["__post_init__"]

    def make(problem: Any) -> None:
        problems.append(problem)
        original(problem)

    monkeypatch.setattr(kind, "__post_init__", make)
    return problems


def test_a_repeated_call_constructs_no_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    prepared.forget()
    problems = constructed(monkeypatch, Gather)
    numbers = iter(range(100))

    def call(**arguments: Any) -> int:
        data, indices = DATA + next(numbers), np.roll(INDICES, next(numbers))
        before = len(problems)
        result = dg.onnx.gather(data, indices, **arguments)
        assert result.tobytes() == data.take(indices, arguments.get("axis", 0)).tobytes()
        return len(problems) - before

    dg.onnx.gather(DATA, INDICES)  # from now on, the function knows its array arguments
    clamping, filling = {"axis": -2, "out_of_bounds": "clamp"}, {"out_of_bounds": dg.Fill(0.0)}
    for arguments in ({}, {"axis": 0}, clamping, filling, {"device": "cpu"}):
        call(**arguments)
        assert [call(**arguments) for _ in TWICE] == [0, 0], arguments
    prepared.forget()
    assert call() == 1


def test_keyword_order_does_not_swap_arrays() -> None:
    data, indices = np.array([1, 0, 3]), np.array([2, 0, 1])
    for _ in range(3):
        assert dg.onnx.gather(data=data, indices=indices).tolist() == [3, 1, 0]
        assert dg.onnx.gather(indices=indices, data=data).tolist() == [3, 1, 0]
        assert dg.onnx.gather(data, indices=indices).tolist() == [3, 1, 0]


@pytest.mark.parametrize(
    ("good", "bad", "words"),
    [
        ({"axis": 1}, {"axis": True}, "axis is True of type bool, expected an integer"),
        ({"axis": 0}, {"axis": 0.0}, r"axis is 0\.0 of type float, expected an integer"),
        ({"axis": 0}, {"axis": False}, "axis is False of type bool, expected an integer"),
        ({"opset": 13}, {"opset": 13.0}, r"opset is 13\.0 of type float, expected an integer"),
    ],
)
def test_a_wrong_argument_type_is_refused_at_every_call(good: dict[str, Any], bad: dict[str, Any], words: str) -> None:
    for _ in range(3):
        dg.onnx.gather(DATA, INDICES[:1] - 2, **good)
        with pytest.raises(TypeError, match=words):
            dg.onnx.gather(DATA, INDICES[:1] - 2, **bad)


def test_equal_fill_values_keep_their_own_bits() -> None:
    for _ in range(3):
        for value in (0.0, -0.0, 0, False):
            filled = dg.onnx.gather(DATA, np.array([9]), out_of_bounds=dg.Fill(value))
            assert filled.tobytes() == np.full((1, 3), value, np.float32).tobytes()


def test_bounds_are_read_at_each_call() -> None:
    starts, ends = [0], np.array([2])
    for start, end in ((0, 2), (1, 2), (1, 3), (0, 2)):
        starts[0], ends[0] = start, end
        assert dg.onnx.slice(DATA, starts, [end]).tobytes() == DATA[start:end].tobytes()
        assert dg.onnx.slice(DATA, np.array(starts), ends).tobytes() == DATA[start:end].tobytes()


@pytest.mark.parametrize("kind", [np.ma.array, memoryview, np.ndarray.tolist])
def test_other_array_classes_are_refused_after_a_plain_array(kind: Any) -> None:
    for _ in range(3):
        dg.onnx.gather(DATA, INDICES)
        with pytest.raises(TypeError, match=r"^data: expected "):
            dg.onnx.gather(kind(DATA), INDICES)


def test_an_array_resized_in_place_is_read_with_its_new_shape() -> None:
    data: Any = np.arange(12)
    for shape in ((12,), (3, 4), (4, 3)):
        data.resize(shape, refcheck=False)
        assert dg.onnx.gather(data, INDICES[1:]).tobytes() == data[[0]].tobytes()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # deprecated since NumPy 2.5
        data.dtype = np.dtype("u8")
    assert dg.onnx.gather(data, INDICES[1:]).dtype == np.uint64


def test_a_bad_index_raises_at_every_call() -> None:
    for bad in (4, -5, 7):
        with pytest.raises(
            IndexError, match=rf"indices\[1\] = {bad} is out of range for axis 0 of size 4: valid indices are -4 … 3"
        ):
            dg.onnx.gather(DATA, np.array([0, bad]))
    assert dg.onnx.gather(DATA, np.array([0, 1])).tobytes() == DATA[:2].tobytes()


def test_strings_keep_their_type() -> None:
    words = np.array(["a", "bcd", "e"])
    for _ in range(3):
        assert dg.onnx.gather(words, np.array([1, 1, 0])).tolist() == ["bcd", "bcd", "a"]
        assert dg.onnx.gather(words, np.array([1])).dtype == words.dtype


def test_threads_may_call_a_function_at_once() -> None:
    def calls(seed: int) -> bool:
        rng = np.random.default_rng(seed)
        for _ in range(100):
            data, indices = rng.random((rng.integers(1, 9), 3)), rng.integers(0, 1, rng.integers(1, 4))
            if not np.array_equal(dg.onnx.gather(data, indices), data[indices]):
                return False
        return True

    prepared.forget()
    assert all(at_once(calls, range(8)))


def test_a_function_returns_the_problem_of_a_call() -> None:
    stated = dg.onnx.gather.problem(DATA, INDICES)
    assert (stated.name, stated.output.shape, stated.plan()) == (
        "Gather",
        DATA[INDICES].shape,
        dg.onnx.gather.plan(DATA, INDICES),
    )
    clamped = dg.onnx.gather.problem(DATA, INDICES, out_of_bounds="clamp")
    assert clamped.plan() == dg.onnx.gather.plan(DATA, INDICES, out_of_bounds="clamp") != stated.plan()
    assert dg.onnx.slice.problem(DATA, [0], [1], out_of_bounds="clamp") == dg.onnx.slice.problem(DATA, [0], [1])


def test_the_second_call_takes_the_fast_path() -> None:
    def entered(call: Any) -> int:
        """Return the number of Python functions that a call enters."""
        frames: list[str] = []
        sys.setprofile(lambda _frame, event, _: frames.append(event))
        try:
            call()
        finally:
            sys.setprofile(None)
        return frames.count("call")

    function = EagerFunction(dg.onnx.gather._request)  # a function that was never called
    first, second, third = (entered(lambda: function(DATA, INDICES)) for _ in range(3))
    assert second == third < 20 < first


@pytest.mark.parametrize(
    "call",
    [
        "dg.onnx.gather(table, np.array([1]))",
        "dg.index[[1]](table)",
        "dg.compile(dg.Slice1OperatorDesc.of(table, [0], [2], [1]))(table)",
    ],
)
def test_a_call_on_the_host_imports_no_cuda_module(call: str) -> None:
    code = f"import sys, numpy as np, dmlgather as dg; table = np.arange(4.0, dtype=np.float32); {call}; print(*sys.modules)"
    loaded = processes.run([sys.executable, "-c", code], check=True).stdout.split()
    assert "dmlgather.backends.cpu" in loaded
    assert not [name for name in loaded if "cuda" in name or name == "cupy"]
