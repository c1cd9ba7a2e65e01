"""What all eager functions share, whatever the dialect: judged by NumPy's indexing and Python's own protocols."""

from __future__ import annotations

import copy
import inspect
import pickle
import pydoc
import re
import sys
from typing import Any

import numpy as np
import pytest
from onnx import helper

import dmlgather as dg
from dmlgather.eager import EagerFunction

PUBLIC = [getattr(module, name) for module in (dg.onnx, dg.openvino, dg.lax) for name in module.__all__]
EVERY = [found for found in PUBLIC if isinstance(found, EagerFunction)]
DATA = np.random.default_rng().random((4, 3), np.float32)
INDICES = np.array([3, 0], np.int64)


class OnlyDLPack:
    """An array of a library that exports DLPack and takes none."""

    def __init__(self, array: Any) -> None:
        self._array = array

    def __dlpack__(self, **options: Any) -> Any:
        return self._array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._array.__dlpack_device__()  # type: ignore[no-any-return]


@pytest.mark.parametrize("function", EVERY, ids=repr)
def test_functions_are_pickled_by_name(function: Any) -> None:
    assert pickle.loads(pickle.dumps(function)) is function
    assert copy.deepcopy(function) is function


@pytest.mark.parametrize("function", EVERY, ids=repr)
def test_help_shows_the_arguments(function: Any) -> None:
    signature = inspect.signature(function)
    assert list(signature.parameters)[-2:] == ["out_of_bounds", "device"]
    assert signature.return_annotation is inspect.Signature.empty
    assert function.__doc__
    shown = pydoc.plain(pydoc.render_doc(function))
    first = next(iter(signature.parameters))
    assert re.search(
        rf"^{function.__name__}\(\s*{first}: [^)]*out_of_bounds: [^)]*\)$", shown, re.MULTILINE
    )  # in one line or more


def test_a_library_that_takes_no_dlpack_gets_numpy_s_array() -> None:
    result = dg.onnx.gather(OnlyDLPack(DATA), OnlyDLPack(INDICES))
    assert isinstance(result, np.ndarray)
    assert result.tobytes() == DATA[INDICES].tobytes()


@pytest.mark.parametrize(
    ("device", "error", "words"),
    [
        (0, TypeError, "device is 0 of type int, expected a name such as 'cpu'"),
        ("tpu", ValueError, "device is 'tpu', expected 'cpu'"),
    ],
)
def test_no_device(device: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        dg.onnx.gather(DATA, INDICES, device=device)
    with pytest.raises(error, match=words):
        dg.onnx.gather.plan(DATA, INDICES, device=device)


def test_strings_cannot_be_filled() -> None:
    with pytest.raises(ValueError, match=r"out_of_bounds is Fill\('x'\), but strings cannot be filled"):
        dg.onnx.gather(np.array(["a", "b"]), np.array([5]), out_of_bounds=dg.Fill("x"))


def test_what_is_no_node_or_no_type_is_named() -> None:
    with pytest.raises(TypeError, match=r"node is of type str, expected an onnx\.NodeProto"):
        dg.onnx.to_directml("Gather", {}, {})
    node = helper.make_node("Gather", ["x", "i"], ["y"])
    with pytest.raises(TypeError, match="'x' has type 'foo' in dtypes"):
        dg.onnx.to_directml(node, {"x": (3,), "i": (1,)}, {"x": "foo", "i": "int64"})


def test_the_type_whose_bits_another_holds_is_named() -> None:
    node = helper.make_node("Gather", ["x", "i"], ["y"])
    report = dg.onnx.to_directml(node, {"x": (3,), "i": (1,)}, {"x": "complex64", "i": "int64"}, "3_0")
    assert isinstance(report, dg.Report)
    assert {finding.got for finding in report.errors} == {"UINT64, which holds complex64"}
    assert {str(finding.level) for finding in report.errors} == {"4_1"}


def test_a_type_of_ml_dtypes_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    with pytest.raises(TypeError, match="bfloat16 is a type of the package ml_dtypes, which is missing: pip install ml-dtypes"):
        dg.onnx.gather.plan(((3,), "bfloat16"), ((1,), "int64"))


def test_onnx_s_word_for_strings_is_a_type() -> None:
    node = helper.make_node("Gather", ["x", "i"], ["y"])
    reports = [dg.onnx.to_directml(node, [(3,), (1,)], [kind, "int64"]) for kind in ("string", str)]
    for report in reports:
        assert isinstance(report, dg.Report)
        assert [finding.got for finding in report.errors] == ["strings"]
    assert dg.onnx.gather.plan(((3,), "string"), ((1,), "int64")) == dg.onnx.gather.plan(((3,), object), ((1,), "int64"))


@pytest.mark.parametrize("device", [None, "reference"])
def test_a_result_that_no_array_can_be_is_refused(device: Any) -> None:
    nothing = np.zeros((1, 0, 2, 2), np.float32)
    shape = re.escape(f"(1, 0, {2**41}, {2**41})")
    with pytest.raises(
        ValueError, match=rf"the result has shape {shape} of float32, but an array spans at most {sys.maxsize} bytes"
    ):
        dg.onnx.depth_to_space(nothing, 2**40, device=device)
    assert dg.onnx.depth_to_space(nothing, 2**20, device=device).shape == (1, 0, 2**21, 2**21)
