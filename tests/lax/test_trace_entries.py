"""Tracing: what entries say, in print and as data, and what a trace takes."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from functools import partial
from typing import Any

import jax
import jax.extend
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import dmlgather as dg
from tests import seeds
from tests.lax.everyday import IDX, X
from tests.lax.executing import executed


def test_a_difference_is_found_and_shown() -> None:
    """JAX narrows indices to 32 bits under fill: 2^32 + 1 reads element 1, where the plan fills."""
    numbers = lax.GatherDimensionNumbers((), (0,), (0,))
    with jax.enable_x64(True):
        x, starts = jnp.arange(5, dtype=jnp.int32), jnp.array([[3], [2**32 + 1]])
        fill = partial(lax.gather, dimension_numbers=numbers, slice_sizes=(1,), mode="fill", fill_value=-1)
        trace = executed(lambda x, i: lax.scan(lambda c, _: (c, fill(x, i)), 0, None, length=2), x, starts)
    (entry,) = trace
    assert not trace.equal
    assert (entry.runs.count, entry.runs.equal) == (2, False)
    assert entry.runs.note == "in run 1 result[1] is 0xffffffff by the plan and 0x00000001 in JAX"
    assert str(entry.runs).startswith("2, DIFFERENT: in run 1")


def test_64_bit_arrays() -> None:
    with jax.enable_x64(True):
        x = jnp.asarray(np.frombuffer(seeds.numpy_rng().bytes(8 * 40), np.float64).reshape(8, 5))
        trace = executed(lambda x, i, k: (x[i], x[k], jnp.take(x, i, axis=0)), x, IDX.astype(np.int64), -3)
    assert trace.equal
    assert {entry.operand.dtype for entry in trace} == {"float64"}
    assert {entry.indices.dtype for entry in trace if entry.indices} <= {"int64", "int32"}


def test_starts_written_into_an_equation_make_it_a_slice() -> None:
    (entry,) = dg.lax.trace(lambda x: lax.dynamic_slice(x, (3, 1), (2, 3)), X)
    assert str(entry.directml) == "SLICE from 1_0"
    assert entry.directml is not None
    assert isinstance(entry.directml.descriptors[0], dg.SliceOperatorDesc)
    assert entry.directml.descriptors[0].offsets[-2:] == (3, 1)


def test_a_slice_of_a_scalar_and_functions_without_any() -> None:
    (entry,) = executed(lambda x: lax.dynamic_slice_p.bind(x, slice_sizes=()), np.float32(3))
    assert entry.equation == "dynamic_slice float32[], int32[0] -> float32[]"
    assert entry.runs.equal
    trace = executed(lambda x: x + 1, X)
    assert (len(trace), str(trace.trace), trace.equal) == (0, "no gathers or slices", False)


def test_arguments_are_what_make_jaxpr_takes() -> None:
    struct: Any = jax.ShapeDtypeStruct
    tree = {"x": struct((8, 5), np.float32), "idx": [struct((3,), np.int32)]}
    trace = dg.lax.trace(lambda tree, *, scale: tree["x"][tree["idx"][0]] * scale, tree, scale=2.0)
    assert [entry.equation for entry in trace] == ["gather float32[8,5], int32[3,1] -> float32[3,5]"]
    with pytest.raises(TypeError, match="fn is of type str, expected a function of JAX's arrays"):
        dg.lax.trace("model.onnx", X)  # type: ignore[arg-type] # what a user may try
    (entry,) = executed(lambda x, *, i: x[i], X, i=IDX)
    assert entry.runs.equal


def test_source_lines_are_the_users() -> None:
    def fn(x: Any, i: Any) -> Any:
        rows = x[i]
        return jnp.take_along_axis(rows, i[:, None], axis=1)

    here = fn.__code__.co_firstlineno
    trace = dg.lax.trace(fn, X, IDX)
    lines = {(entry.source.line, entry.source.function.split(".")[-1]) for entry in trace if entry.source}
    assert lines == {(here + 1, "fn"), (here + 2, "fn")}
    assert all(entry.source and entry.source.file == __file__ for entry in trace)
    (entry,) = dg.lax.trace(partial(jnp.take, axis=0), X, IDX)
    assert entry.source is None or entry.source.file == __file__


def test_the_table_and_plain_data() -> None:
    trace = dg.lax.trace(lambda x, i: (x[i], x[::-1]), X, IDX)
    head, first, second = str(trace).splitlines()
    assert head.split() == ["equation", "mode", "bytes", "DirectML", "launch", "where", "source"]
    assert re.split(r"  +", first) == [
        "gather float32[8,5], int32[3,1] -> float32[3,5]",
        "promise_in_bounds",
        "132",
        "GATHER from 1_0",
        str(trace[0].launches[0]),
        "-",
        f"test_trace_entries.py:{trace[0].source.line if trace[0].source else None}",
    ]
    assert second.startswith("rev float32[8,5] -> float32[8,5]")
    plain = json.loads(json.dumps(trace.to_json()))
    entry = plain["entries"][0]
    assert entry["operand"] == {"shape": [8, 5], "dtype": "float32"}
    assert entry["bytes_moved"] == {"index": 12, "read": 60, "written": 60, "total": 132}
    assert entry["directml"]["descriptors"][0]["type"] == "DML_OPERATOR_GATHER"
    assert (entry["mode"], entry["fill"], entry["no_plan"]) == ("promise_in_bounds", None, None)
    assert entry["plan"] == str(trace[0].plan)
    assert (plain["entries"][1]["indices"], plain["entries"][1]["mode"]) == (None, None)


def test_descriptors_of_an_entry_run() -> None:
    trace = dg.lax.trace(lambda x, i: x[i], X, np.abs(IDX) % 8)
    assert trace[0].directml is not None
    (desc,) = trace[0].directml.descriptors
    found = dg.compile(desc, "cpu", "1_0")(
        X.reshape(desc.tensor("input_tensor").sizes),
        (np.abs(IDX) % 8).astype(np.uint32).reshape(desc.tensor("indices_tensor").sizes),
    )
    assert found.tobytes() == X[np.abs(IDX) % 8].tobytes()


def test_jax_is_loaded_on_use_and_named_where_it_is_missing() -> None:
    script = (
        "import sys, dmlgather as dg\n"
        "assert 'jax' not in sys.modules\n"
        "sys.modules['jax'] = None\n"
        "try: dg.lax.trace(abs, 1)\n"
        "except ModuleNotFoundError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    assert "tracing a function needs the package jax, which is not installed" in done.stdout
    assert "(dmlgather's extra jax)" in done.stdout


def test_an_operand_without_elements_is_listed() -> None:
    trace = executed(lambda x: x[:, 0:0][::-1], np.ones((8, 5), np.float32))
    assert [entry.primitive for entry in trace] == ["slice", "rev"]
    assert trace.equal
