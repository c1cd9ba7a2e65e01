"""The backend on the CPU: inputs by position and by name, defaults, functions, outputs' memory, single nodes."""

from __future__ import annotations

import tracemalloc
from typing import Any

import ml_dtypes
import numpy as np
import onnx.backend.base
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.parser import parse_model
from onnx.reference import ReferenceEvaluator

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
        ([TABLE], ValueError, "3 inputs ('table', 'ids', 'weights'; 'table', 'ids' have no default), and 1 were given"),
        ({"table": TABLE, "idx": IDS}, ValueError, "the inputs are 'table', 'ids', 'weights'; missing: 'ids'; unknown: 'idx'"),
        (TABLE, TypeError, "inputs is of type ndarray, expected a list of arrays, or a dict of arrays by name"),
        ([TABLE, [0, 1]], TypeError, "input 'ids': expected an array (NumPy, CuPy, or any with __dlpack__"),
        (
            [TABLE, WEIGHTS],
            TypeError,
            "input 'ids' has type float, but the model declares int64[K]; convert with .astype('int64')",
        ),
        ([TABLE[0], IDS], ValueError, "input 'table' has shape [4], but the model declares float[N,M]: rank 1, not 2"),
        ([TABLE, IDS, WEIGHTS[:2]], ValueError, "declares float[N]: N is 3 in dimension 0 of 'table', but 2 in dimension 0"),
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
    model = parse_model('<ir_version: 8, opset_import: ["" : 13]> m (float[2,3] x) => (float[3,2] y) { y = Transpose(x) }')
    with pytest.raises(
        ValueError, match=r"input 'x' has shape \[2, 4\], but the model declares float\[2,3\]: dimension 1 is 4, not 3"
    ):
        Backend.run_model(model, [np.ones((2, 4), np.float32)])
    assert Backend.run_model(model, [np.ones((2, 3), np.float32)])[0].shape == (3, 2)


def test_an_output_of_another_type_than_stated_is_refused() -> None:
    model = parse_model('<ir_version: 8, opset_import: ["" : 13]> m (float[2] x) => (double[2] y) { y = Identity(x) }')
    with pytest.raises(TypeError, match=r"output 'y' has type float, but the model declares double\[2\]"):
        Backend.run_model(model, [np.ones(2, np.float32)])


def test_outputs_share_no_memory_with_anything() -> None:
    model = parse_model("""
    <ir_version: 8, opset_import: ["" : 13]>
    m (float[2,3] x, int64[1] i)
    => (float[2,3] a, float[2,3] b, float[3,2] c, float[2] w, int64[2] s, float[6] d, float[6] e, float[1,3] g)
    <float[2] w = {1.0, 2.0}, int64[1] flat = {-1}>
    {
      a = Identity(x)
      b = Cast <to = 1> (x)
      c = Transpose(x)
      s = Shape(x)
      d = Reshape(x, flat)
      e = Identity(d)
      g = Gather(x, i)
    }""")
    x, i = np.arange(6, dtype=np.float32).reshape(2, 3), np.array([1])
    prepared = Backend.prepare(model)
    first, second = prepared.run([x, i]), prepared.run([x, i])
    everything = [x, *first, *second]
    for number, one in enumerate(everything):
        assert not any(np.shares_memory(one, other) for other in everything[number + 1 :])
    for array in first:
        assert array.flags.c_contiguous
        assert array.flags.writeable
        array[...] = 0
    again = prepared.run([x, i])
    assert [array.tobytes() for array in again] == [array.tobytes() for array in second]
    assert again.w.tolist() == [1, 2]  # type: ignore[attr-defined] # a named tuple


def test_functions_inside_the_model_are_run() -> None:
    model = parse_model("""
    <ir_version: 8, opset_import: ["" : 13, "local" : 1]>
    m (float[3,4] x, int64[2] i) => (float[2,3] y) { y = local.outer <along = 1> (x, i) }
    <domain: "local", opset_import: ["" : 13, "local" : 1]>
    outer <along> (a, b) => (c) { t = local.inner <ax: int = @along> (a, b) c = Identity(t) }
    <domain: "local", opset_import: ["" : 13]>
    inner <ax> (a, b) => (c) { t = Transpose(a) u = Transpose(t) v = Gather <axis: int = @ax> (u, b) c = Transpose(v) }
    <domain: "local", opset_import: ["" : 13]>
    unused (a) => (b) { b = Relu(a) }""")
    x, i = np.arange(12, dtype=np.float32).reshape(3, 4), np.array([3, 0])
    (found,) = Backend.run_model(model, [x, i])
    assert found.tobytes() == np.ascontiguousarray(x[:, [3, 0]].T).tobytes()


def test_names_inside_functions_hide_none_of_the_model() -> None:
    """The same names mean one value in the model and another in each call; u_1 is what u could be called in the first."""
    model = parse_model("""
    <ir_version: 8, opset_import: ["" : 13, "local" : 1]>
    m (float[3,4] t, int64[2] i, float[2,2] c) => (float[2,2] y, float[2,2] c_1, float[3,4] u_1)
    <int64[2] t_1 = {0, 1}>
    {
      u_1 = Identity(t)
      t_3 = Constant <value = int64[2] {1, 0}> ()
      a = local.both (t, i, t_1)
      y = local.both (a, t_3, t_3)
      c_1 = Identity(c)
    }
    <domain: "local", opset_import: ["" : 13]>
    rows (c, t) => (y) { t_1 = Identity(c) t_2 = Transpose(t_1) t_3 = Transpose(t_2) y = Gather(t_3, t) }
    <domain: "local", opset_import: ["" : 13, "local" : 1]>
    both (x, t, t_1) => (c) { u = local.rows (x, t) v = local.rows (u, t_1) c = Gather <axis = 1> (v, t) }""")
    x, i, c = np.arange(12, dtype=np.float32).reshape(3, 4), np.array([2, 0]), np.ones((2, 2), np.float32)
    found = Backend.run_model(model, [x, i, c])
    expected: Any = ReferenceEvaluator(model).run(None, {"t": x, "i": i, "c": c})
    assert [array.tobytes() for array in found] == [np.ascontiguousarray(array).tobytes() for array in expected]


def test_values_are_dropped_after_their_last_use() -> None:
    count, size = 12, 2**18
    nodes = [helper.make_node("Gather", [f"v{n}", "i"], [f"v{n + 1}"], axis=1) for n in range(count)]
    inputs = [
        helper.make_tensor_value_info("v0", TensorProto.FLOAT, [1, size]),
        helper.make_tensor_value_info("i", TensorProto.INT64, [size]),
    ]
    graph = helper.make_graph(nodes, "chain", inputs, [helper.make_tensor_value_info(f"v{count}", TensorProto.FLOAT, [1, size])])
    prepared = Backend.prepare(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8))
    data, order = np.arange(size, dtype=np.float32)[None], np.arange(size)[::-1].copy()
    prepared.run([data, order])
    tracemalloc.start()
    try:
        (found,) = prepared.run([data, order])
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert found.tobytes() == data.tobytes()
    assert peak < 5 * data.nbytes  # two values, and what the CPU's recipe needs beside them; all twelve would be 12


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
    <float[3] x = {1.0, 2.0, 3.0}> { i = Constant <value_int = -1>() y = Gather(x, i) }""")
    (found,) = Backend.run_model(model, [])
    assert (found.shape, found.tolist()) == ((), 3.0)
    (found,) = Backend.run_node(helper.make_node("Gather", ["x", "i"], ["y"]), [TABLE, np.int64(1)])
    assert found.tobytes() == TABLE[1].tobytes()


def test_operators_around_the_family() -> None:
    """Indices are computed, tensors joined, repeated and cut: all that `dg.onnx.index_graph` has steps for."""
    model = parse_model("""
    <ir_version: 8, opset_import: ["" : 17]>
    m (float[N,4] x, int64[K] i, bool[K] b) => (float[a,b] y, float[c,d] z, float[e,f] w, int64[g] r)
    <int64[2] twice = {2, 1}, int64 one = {1}, int64 zero = {0}>
    {
      n = Shape <start = 0, end = 1> (x)
      j = Add(i, n)
      k = Where(b, i, j)
      m = Mod(k, n)
      picked = Gather(x, m)
      joined = Concat <axis = 0> (picked, x)
      y = Tile(joined, twice)
      z, w = Split <axis = 1> (x)
      l = Size(x)
      r = Range(zero, l, one)
    }""")
    feeds = {"x": TABLE, "i": np.array([2, -3, 1]), "b": np.array([True, False, False])}
    expected: Any = ReferenceEvaluator(model).run(None, feeds)
    for _ in range(2):
        found = Backend.run_model(model, feeds)
        assert [array.tobytes() for array in found] == [np.ascontiguousarray(array).tobytes() for array in expected]
        assert [array.dtype for array in found] == [array.dtype for array in expected]


# Single nodes


def test_one_node_under_the_opset_that_is_asked_for() -> None:
    axes = helper.make_node("Squeeze", ["x"], ["y"], axes=[0])
    data = TABLE[None]
    for options in ({"opset_version": 11}, {"opset_imports": {"": 11}}, {"opset_imports": [helper.make_opsetid("", 11)]}):
        assert Backend.run_node(axes, [data], **options)[0].tobytes() == TABLE.tobytes()
    with pytest.raises(ValueError, match="Unrecognized attribute: axes for operator Squeeze"):
        Backend.run_node(axes, [data])
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
        Backend.run_node(helper.make_node("Identity", ["x"], ["y"]), [TABLE], opset=13)


def test_defaults_that_no_node_reads_stay_optional() -> None:
    graph = helper.make_graph(
        [helper.make_node("Identity", ["x"], ["y"])],
        "g",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, [3, 4]) for name in ("x", "unread")],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [3, 4])],
        [numpy_helper.from_array(TABLE, "unread")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    assert Backend.run_model(model, [TABLE])[0].tobytes() == TABLE.tobytes()
    assert Backend.run_model(model, {"x": TABLE})[0].tobytes() == TABLE.tobytes()
