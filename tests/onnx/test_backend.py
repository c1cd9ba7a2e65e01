"""The backend on the CPU: inputs by position and by name, defaults, outputs' memory, single nodes."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import onnx.backend.base
import pytest
from onnx import TensorProto, ValueInfoProto, helper, numpy_helper
from onnx.parser import parse_model

import dmlgather as dg
from dmlgather.onnx import Backend
from tests.at_once import at_once

LOOKUP = parse_model("""
<ir_version: 8, opset_import: ["" : 13]>
lookup (float[N,M] table, int64[K] ids, float[N] weights) => (float[K,M] rows, float[K] picked)
<float[3] weights = {1.0, 2.0, 4.0}>
{
  rows = Gather(table, ids)
  picked = Gather(weights, ids)
}""")
TABLE = np.arange(12, dtype=np.float32).reshape(3, 4)
IDS = np.array([2, -3])
DEEP = TABLE[None, None]
WEIGHTS = np.array([8, 16, 32], np.float32)


def test_it_is_a_backend_of_onnx() -> None:
    assert issubclass(Backend, onnx.backend.base.Backend)
    assert isinstance(Backend.prepare(LOOKUP), onnx.backend.base.BackendRep)
    assert dg.onnx.Backend is Backend


@pytest.mark.parametrize(
    ("inputs", "picked"),
    [
        ([TABLE, IDS], [4, 1]),
        ((TABLE, IDS, WEIGHTS), [32, 8]),
        ({"ids": IDS, "table": TABLE}, [4, 1]),
        ({"weights": WEIGHTS, "ids": IDS, "table": TABLE}, [32, 8]),
    ],
)
def test_inputs_by_position_and_by_name_with_defaults(inputs: Any, picked: list[int]) -> None:
    prepared = Backend.prepare(LOOKUP)
    for _ in range(2):
        found = prepared.run(inputs)
        assert isinstance(found, tuple)
        assert found[0].tobytes() == TABLE[[2, 0]].tobytes()
        assert found[1].tolist() == picked
        assert found["rows"] is found[0]  # type: ignore[call-overload] # onnx's tuple that can be indexed by name
        assert Backend.run_model(LOOKUP, inputs)[1].tolist() == picked


@pytest.mark.parametrize(
    ("inputs", "kind", "facts"),
    [
        (
            [TABLE],
            ValueError,
            "inputs has 1 array, but the model has the inputs ['table', 'ids', 'weights'] and requires ['table', 'ids']",
        ),
        ([TABLE, IDS, WEIGHTS, IDS], ValueError, "inputs has 4 arrays, but"),
        ({"table": TABLE, "idx": IDS}, ValueError, "the given inputs are ['table', 'idx'], but the model has "),
        (TABLE, TypeError, "inputs is of type ndarray, expected a list of arrays, or a dict of arrays by name"),
        ([TABLE, [0, 1]], TypeError, "input 'ids': expected an array (NumPy, CuPy, or any with __dlpack__"),
        (
            [TABLE, WEIGHTS],
            TypeError,
            "input 'ids' has type float, but the model declares int64[K]",
        ),
        ([TABLE[0], IDS], ValueError, "input 'table' has shape [4], but the model declares float[N,M]"),
        ([TABLE, IDS, WEIGHTS[:2]], ValueError, "input 'weights' has shape [2], but the model declares float[N], N = 3"),
        (
            [TABLE, np.array([0, 3])],
            IndexError,
            "Gather node that gives 'rows': indices[1] = 3 is out of range for axis 0 of size 3",
        ),
    ],
)
def test_wrong_inputs_are_named(inputs: Any, kind: type[Exception], facts: str) -> None:
    with pytest.raises(kind) as caught:
        Backend.prepare(LOOKUP).run(inputs)
    assert facts in str(caught.value)


def test_fixed_sizes_are_checked() -> None:
    model = parse_model(
        '<ir_version: 8, opset_import: ["" : 13]> m (float[2,3] x, int64[1] i) => (float[1,3] y) { y = Gather(x, i) }'
    )
    with pytest.raises(ValueError, match=r"input 'x' has shape \[2, 4\], but the model declares float\[2,3\]"):
        Backend.run_model(model, [np.ones((2, 4), np.float32), IDS[:1]])


def test_outputs_share_no_memory_with_anything() -> None:
    model = parse_model("""
    <ir_version: 8, opset_import: ["" : 13]>
    m (float[2,3] x, int64[1] i) => (float[2,3] x, float[2,3] a, float[1,3] g, float[2] w)
    <float[2] w = {1.0, 2.0}, int64[1] zero = {0}, int64[1] end = {9}> { a = Slice(x, zero, end) g = Gather(x, i) }""")
    x, i = np.arange(6, dtype=np.float32).reshape(2, 3), np.array([1])
    prepared = Backend.prepare(model)
    first, second = prepared.run([x, i]), prepared.run([x, i])
    everything = [x, *first, *second]
    for number, one in enumerate(everything):
        assert not any(np.shares_memory(one, other) for other in everything[number + 1 :])
    for array in first:
        array[...] = 0
    again = prepared.run([x, i])
    assert [array.tobytes() for array in again] == [array.tobytes() for array in second]
    assert again.w.tolist() == [1, 2]  # type: ignore[attr-defined] # a named tuple


@pytest.mark.parametrize("domain", ["", "ai.onnx"])
@pytest.mark.parametrize("imported", ["", "ai.onnx"])
def test_both_names_of_the_domain_and_outputs_without_a_shape(domain: str, imported: str) -> None:
    inputs = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, None),
        helper.make_tensor_value_info("i", TensorProto.INT64, [2]),
    ]
    node = helper.make_node("Gather", ["x", "i"], ["y"], domain=domain, axis=-1)
    graph = helper.make_graph([node], "g", inputs, [ValueInfoProto(name="y")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid(imported, 13)], ir_version=8)
    assert Backend.is_compatible(model)
    assert Backend.run_model(model, [TABLE, IDS])[0].tobytes() == np.ascontiguousarray(TABLE[:, IDS]).tobytes()


def test_threads_share_a_prepared_model() -> None:
    prepared = Backend.prepare(LOOKUP)

    def run(number: int) -> bool:
        table = TABLE + number
        return bool(np.array_equal(prepared.run([table, IDS])[0], table[[2, 0]]))

    assert all(at_once(lambda first: all(map(run, range(first, 100, 4))), range(4)))


def test_strings_and_bfloat16() -> None:
    text = '<ir_version: 8, opset_import: ["" : 13]> g ({0}[N,2] x, int64[2] i) => ({0}[2,2] y) {{ y = Gather(x, i) }}'
    words = Backend.prepare(parse_model(text.format("string")))
    for dtype in (object, np.str_):
        (found,) = words.run([np.array([["a", "bb"], ["é", ""]], dtype), np.array([1, 0])])
        assert (found.dtype, found.tolist()) == (np.dtype(object), [["é", ""], ["a", "bb"]])
    half = np.array([[1.5, np.nan], [-0.0, 3.0], [2.0, 1e-40]], ml_dtypes.bfloat16)
    (found,) = Backend.run_model(parse_model(text.format("bfloat16")), [half, np.array([1, 2])])
    assert (found.dtype, found.tobytes()) == (half.dtype, half[1:].tobytes())


def test_a_model_without_inputs_and_scalars() -> None:
    model = parse_model("""
    <ir_version: 8, opset_import: ["" : 13]> m () => (float y)
    <float[3] x = {1.0, 2.0, 3.0}, int64 i = {-1}> { y = Gather(x, i) }""")
    (found,) = Backend.run_model(model, [])
    assert (found.shape, found.tolist()) == ((), 3.0)
    (found,) = Backend.run_node(helper.make_node("Gather", ["x", "i"], ["y"]), [TABLE, np.int64(1)])
    assert found.tobytes() == TABLE[1].tobytes()


# Single nodes


def test_one_node_under_the_opset_that_is_asked_for() -> None:
    deep = helper.make_node("DepthToSpace", ["x"], ["y"], blocksize=1, mode="CRD")
    data = TABLE[None, None]
    for options in ({"opset_version": 11}, {"opset_imports": {"": 11}}, {"opset_imports": [helper.make_opsetid("", 11)]}):
        assert Backend.run_node(deep, [data], **options)[0].tobytes() == TABLE.tobytes()
    with pytest.raises(ValueError, match="DepthToSpace node that gives 'y': DepthToSpace-1 has no attribute 'mode'"):
        Backend.run_node(deep, [data], opset_version=10)
    slicing = helper.make_node("Slice", ["x", "starts", "ends", "", "steps"], ["y"], name="cut")
    bounds = {"starts": np.array([-1]), "ends": np.array([-9]), "steps": np.array([-2])}
    (found,) = Backend.run_node(slicing, {"x": TABLE, **bounds}, outputs_info=[(np.dtype(np.float32), (2, 4))])
    assert found.tobytes() == TABLE[::-2].tobytes()
    assert Backend.run_node(slicing, [TABLE, *bounds.values()])[0].tobytes() == found.tobytes()
    with pytest.raises(ValueError, match=r"Slice node 'cut': steps is .* but a step cannot be 0"):
        Backend.run_node(slicing, [TABLE, bounds["starts"], bounds["ends"], np.array([0])])


def test_options_that_do_not_exist_are_refused() -> None:
    with pytest.raises(TypeError, match="prepare has no option 'threads'"):
        Backend.prepare(LOOKUP, threads=4)
    with pytest.raises(TypeError, match="run has no option 'stream'"):
        Backend.prepare(LOOKUP).run([TABLE, IDS], stream=1)
    with pytest.raises(TypeError, match="run_node has no option 'opset'"):
        Backend.run_node(helper.make_node("SpaceToDepth", ["x"], ["y"]), [TABLE], opset=13)


def test_defaults_that_no_node_reads_stay_optional() -> None:
    graph = helper.make_graph(
        [helper.make_node("SpaceToDepth", ["x"], ["y"], blocksize=1)],
        "g",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 1, 3, 4]) for name in ("x", "unread")],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 1, 3, 4])],
        [numpy_helper.from_array(TABLE, "unread")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    assert Backend.run_model(model, [DEEP])[0].tobytes() == TABLE.tobytes()
    assert Backend.run_model(model, {"x": DEEP})[0].tobytes() == TABLE.tobytes()


def test_without_a_gpu_cuda_is_not_supported(no_cupy: None) -> None:
    assert Backend.supports_device("CPU")
    assert not Backend.supports_device("CUDA")
    assert not Backend.is_compatible(LOOKUP, "CUDA")
    with pytest.raises(dg.DeviceError, match="CuPy cannot be imported"):
        Backend.prepare(LOOKUP, "CUDA")
