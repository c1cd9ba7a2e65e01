"""Programs of every kind, compared in any mixture; ONNX Runtime's own optimisation is a rewrite by another hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import onnxruntime
import pytest

import dmlgather as dg
from dmlgather.equivalence import Equivalence
from dmlgather.files import FileError
from dmlgather.graph_sources import read_program
from tests.onnx.modelling import parsed

ROOT = Path(__file__).parents[2]
IR = ROOT / "examples" / "openvino" / "three_gathers.xml"

HEADS = """agraph (float[2, 16, 12] x, int64[5] ids) => (float[2, 5, 3, 4] y) {
    half = Constant<value_ints = [12]>()
    zero = Constant<value_ints = [0]>()
    last = Constant<value_ints = [2]>()
    step = Constant<value_ints = [1]>()
    shape = Constant<value_ints = [2, 16, 3, 4]>()
    kept = Slice(x, zero, half, last, step)
    heads = Reshape(kept, shape)
    front = Transpose<perm = [1, 0, 2, 3]>(heads)
    taken = Gather<axis = 0>(front, ids)
    back = Transpose<perm = [1, 0, 2, 3]>(taken)
    same = Identity(back)
    y = Relu(same)
}"""

TABLE = ((3, 2), "float32")

X, IDS = jnp.zeros((2, 16, 12), "float32"), jnp.zeros(5, "int32")


def optimised(model: onnx.ModelProto, folder: Path) -> onnx.ModelProto:
    """What ONNX Runtime makes of a model before it runs it."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.optimized_model_filepath = str(folder / "optimised.onnx")
    onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return onnx.load(folder / "optimised.onnx")


def test_a_model_before_and_after_optimisation(tmp_path: Path) -> None:
    model = parsed(HEADS)
    after = optimised(model, tmp_path)
    assert len(after.graph.node) < len(model.graph.node)
    assert dg.equivalent(model, after)
    after.graph.node[-1].CopyFrom(onnx.helper.make_node("Sigmoid", after.graph.node[-1].input, ["y"]))
    found = dg.equivalent(model, after)
    assert (found.verdict, found.step) == ("not proven", "Relu node that gives 'y'")


def test_a_counterexample_holds_in_onnxruntime(tmp_path: Path) -> None:
    """Two models of which one takes the first row away."""
    graph = "agraph (float[5, 6] x, int64[3] i) => (float[3, 6] y)"
    bounds = "s = Constant<value_ints = [1]>() e = Constant<value_ints = [9]>() a = Constant<value_ints = [0]>()"
    texts = (f"{graph} {{ y = Gather(x, i) }}", f"{graph} {{ {bounds} t = Slice(x, s, e, a) y = Gather(t, i) }}")
    paths = [tmp_path / "one.onnx", tmp_path / "two.onnx"]
    for path, text in zip(paths, texts, strict=True):
        onnx.save(parsed(text), path)
    found = dg.equivalent(*paths)
    assert found.verdict == "different"
    assert found.counterexample is not None
    assert found.counterexample.output == "y"
    one, two = (
        onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, dict(found.counterexample.inputs))[0]
        for path in paths
    )
    assert (one[found.counterexample.position], two[found.counterexample.position]) == found.counterexample.values
    assert one[found.counterexample.position] != two[found.counterexample.position]


def test_onnx_and_jax() -> None:
    """JAX wraps and clamps where ONNX raises, and takes narrower indices."""
    model = parsed(HEADS.replace("Relu", "Identity"))
    found = dg.equivalent(model, lambda x, ids: x[:, :, :12].reshape(2, 16, 3, 4)[:, ids], X, IDS, given="valid")
    assert found, found
    assert "compared for the values of int32" in found.reason


def test_numpys_notation_and_jax() -> None:
    ids = ((3,), "int32")
    assert dg.equivalent(dg.index[:, ids, ::-1], lambda x, i: x[:, i][..., ::-1], X, ids, given="valid")


def test_directml_and_onnx() -> None:
    """DirectML clamps: ONNX with a Clip before it. Sizes have leading 1s there."""
    desc = dg.GatherOperatorDesc.of(((1, 1, 5, 6), "FLOAT32"), ((1, 1, 1, 3), "INT64"), axis=2, index_dimensions=1)
    clip = "lo = Constant<value_int = -5>() hi = Constant<value_int = 4>() j = Clip(i, lo, hi)"
    model = parsed(f"agraph (float[5, 6] x, int64[3] i) => (float[3, 6] y) {{ {clip} y = Gather(x, j) }}")
    assert dg.equivalent(desc, model)


def test_files(tmp_path: Path) -> None:
    onnx.save(parsed(HEADS), tmp_path / "a.onnx")
    assert dg.equivalent(tmp_path / "a.onnx", str(tmp_path / "a.onnx"))
    assert dg.equivalent(IR, IR, inputs={"tokens": (2, 3)})
    assert dg.equivalent(ROOT / "examples/directml/chain.json", ROOT / "examples/directml/chain.json")
    assert read_program(ROOT / "examples/directml/gather_1.json").buffers


def test_open_sizes_of_either_model() -> None:
    one = parsed("agraph (float[N, 6] x, int64[M] i) => (float[M, 6] y) { y = Gather(x, i) }")
    two = parsed("agraph (float[rows, 6] x, int64[3] i) => (float[3, 6] y) { j = Identity(i) y = Gather(x, j) }")
    assert dg.equivalent(one, two, inputs={"N": 9, "M": 3, "rows": 9})
    assert dg.equivalent(one, two, inputs={"x": (9, 6), "i": 3})
    with pytest.raises(ValueError, match="inputs names 'K', which neither program has"):
        dg.equivalent(one, two, inputs={"N": 9, "M": 3, "rows": 9, "K": 1})


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.onnx", b"{", "a.onnx: is no ONNX model, or a damaged one"),
        ("a.onnx", b"", "a.onnx: holds no graph"),
        ("a.json", b"{", "a.json"),
        ("a.json", b"{}", "a.json:1:1: expected a model"),
        ("a.xml", b"<net/>", "a.xml: "),
        ("a.txt", b"", "a.txt: its name does not say what it is: expected an ONNX model"),
    ],
)
def test_files_that_are_no_programs(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(FileError, match=message):
        read_program(tmp_path / name)


def test_what_is_no_program() -> None:
    with pytest.raises(TypeError, match="first is of type int, which is no program: expected a path"):
        dg.equivalent(3, 4)
    with pytest.raises(TypeError, match="second is of type list and holds int, NoneType, which is no program"):
        dg.equivalent(dg.index[0], [3, 4, None], TABLE)
    with pytest.raises(TypeError, match="second is of type tuple and holds nothing"):
        dg.equivalent(dg.index[0], (), TABLE)
    with pytest.raises(TypeError, match="give an array, or its \\(shape, dtype\\), behind the programs"):
        dg.equivalent(dg.index[0], dg.index[0])


def test_functions_need_their_arguments() -> None:
    with pytest.raises(TypeError, match=r"first has parameters \(x, i\), and 1 example to call it with: missing .* 'i'; give"):
        dg.equivalent(lambda x, i: x[i], dg.index[0], TABLE)
    with pytest.raises(TypeError, match=r"second has parameters \(x\), and 0 examples to call it with"):
        dg.equivalent(dg.index[0].problem(TABLE), lambda x: x[0])


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"inputs": ["N"]}, TypeError, r"inputs is of type list, expected a mapping from names to shapes, such as \{'x': "),
        ({"given": None}, ValueError, "given is None, expected 'any' or 'valid'"),
        ({"seed": None}, TypeError, "seed is None of type NoneType, expected an integer"),
        ({"seed": -1}, ValueError, "seed is -1, expected an integer of 0 or more"),
    ],
)
def test_other_arguments_are_refused(options: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        dg.equivalent(dg.index[0], dg.index[0], TABLE, **options)


def test_examples_that_no_program_reads_are_refused() -> None:
    with pytest.raises(TypeError, match="got 2 examples, of which the programs read 1: leave the rest out"):
        dg.equivalent(dg.index[0], dg.index[0], TABLE, TABLE)
    with pytest.raises(TypeError, match="the first example is of type int, expected an array or a pair"):
        dg.equivalent(dg.index[0], dg.index[0], 3)
    problem = dg.index[0].problem(TABLE)
    with pytest.raises(TypeError, match="got 1 example, of which the program reads none"):
        dg.translate(problem, "jax", TABLE)
    with pytest.raises(ValueError, match="inputs names 'x', which the program does not have"):
        dg.translate(problem, "jax", inputs={"x": (1,)})


def test_a_jaxpr_is_compared_with_what_needs_an_example() -> None:
    data = np.zeros((3, 2), np.float32)
    assert dg.equivalent(jax.make_jaxpr(lambda x: x[::2])(data), dg.index[::2], data)


def test_results_read_well() -> None:
    found = dg.equivalent(dg.index[1:], dg.index[:-1], ((3, 2), "float32"))
    assert str(found).splitlines()[:3] == [
        "different: output 'result0' differs for some inputs",
        "output 'result0'[0, 0]",
        "  first: 2.0 from data[1, 0]",
    ]
    assert found.to_json()["counterexample"]["sources"] == ["data[1, 0]", "data[0, 0]"]
    assert Equivalence("proven").to_json()["counterexample"] is None
