"""Operators that two libraries share: what a proof assumes of them, and that the libraries compute one function."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper

import dmlgather as dg
from dmlgather.dialects.shared_operators import NAMES
from dmlgather.equivalence import ASSUMPTIONS, Equivalence
from tests import seeds
from tests.equivalence.sharing import COMPARISONS, ONNX, arrays, in_jax, in_onnx, in_openvino, in_torch
from tests.onnx.modelling import parsed
from tests.openvino.runtime import openvino
from tests.seeds import ROOT

IN_OPENVINO = sorted(NAMES - {"gelu"})  # OpenVINO's has other attributes
IN_JAX = sorted(NAMES - {"gelu", "relu", "softmax", "log_softmax"})  # which JAX writes out


def run_in_onnxruntime(name: str, given: tuple[NDArray[Any], ...]) -> NDArray[Any]:
    session = onnxruntime.InferenceSession(in_onnx(name).SerializeToString(), providers=["CPUExecutionProvider"])
    (found,) = session.run(None, dict(zip(("x", "z"), given, strict=False)))
    return np.asarray(found)


def check(found: Equivalence, strict: Equivalence, name: str, other: str, *, exact: bool) -> None:
    """Exact rows need nothing; all others one assumption, which names both operators."""
    assert found.verdict == "proven", found
    if exact:
        assert (found.assumptions, strict) == ((), found)
        return
    (words,) = found.assumptions
    along = " \\(axis 1\\)" if "softmax" in name else ""
    pattern = f"ONNX's {ONNX[name]}{along} and {other}'s \\w+{along.replace('axis', '(axis|dim)')} give the same bits"
    assert re.fullmatch(pattern, words), words
    assert str(found) == f"proven: equal for all inputs of these shapes, provided that {words}"
    assert strict.verdict == "not proven"


@pytest.mark.parametrize("name", IN_OPENVINO)
def test_onnx_and_openvino(name: str, tmp_path: Path) -> None:
    path, model = in_openvino(name, tmp_path)
    found, strict = dg.equivalent(in_onnx(name), path), dg.equivalent(in_onnx(name), path, assume=())
    check(found, strict, name, "OpenVINO", exact=False)
    given = arrays(name, seeds.numpy_rng())
    compiled = openvino.Core().compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    np.testing.assert_allclose(compiled(list(given))[0], run_in_onnxruntime(name, given), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", IN_JAX)
def test_onnx_and_jax(name: str) -> None:
    import jax

    given = arrays(name, seeds.numpy_rng())
    with jax.enable_x64(True):
        function = in_jax()[name]
        found, strict = (dg.equivalent(in_onnx(name), function, *given, assume=assume) for assume in (ASSUMPTIONS, ()))
        np.testing.assert_allclose(np.asarray(function(*given)), run_in_onnxruntime(name, given), rtol=1e-4, atol=1e-6)
    check(found, strict, name, "JAX", exact=False)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_jax_compares_subnormal_numbers_as_zeros(dtype: str) -> None:
    import jax

    subnormal, zero = np.full((4, 4), np.finfo(dtype).smallest_subnormal, dtype), np.zeros((4, 4), dtype)
    with jax.enable_x64(True):
        assert np.asarray(jax.jit(lambda x, z: x == z)(subnormal, zero)).all()
    model = in_onnx("equal", {"float32": TensorProto.FLOAT, "float64": TensorProto.DOUBLE}[dtype])
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    assert not session.run(None, {"x": subnormal, "z": zero})[0].any()


@pytest.mark.torch
@pytest.mark.parametrize("name", sorted(NAMES))
def test_onnx_and_torch(name: str) -> None:
    import torch

    given = arrays(name, seeds.numpy_rng())
    function, tensors = in_torch()[name], [torch.from_numpy(each) for each in given]
    found, strict = (dg.equivalent(in_onnx(name), function, *tensors, assume=assume) for assume in (ASSUMPTIONS, ()))
    check(found, strict, name, "PyTorch", exact=name in COMPARISONS)
    np.testing.assert_allclose(function(*tensors).numpy(), run_in_onnxruntime(name, given), rtol=1e-4, atol=1e-6)


@pytest.mark.torch
def test_a_number_of_pytorch_is_a_constant_only_in_types_that_hold_it() -> None:
    import torch

    head = '<ir_version: 9, opset_import: ["" : 20]> agraph (float[4, 4] x) => (float[4, 4] y) <float c = {0.1}>'
    tensor = torch.zeros(4, 4)
    assert dg.equivalent(parsed(f"{head} {{ y = Mul(x, c) }}"), lambda x: x * 0.1, tensor)
    assert not dg.equivalent(parsed(f"{head} {{ y = Mul(x, c) }}"), lambda x: x * 0.09998, tensor)
    greater = parsed(f"{head} {{ t = Greater(x, c) y = Cast <to = 1> (t) }}")
    found = dg.equivalent(greater, lambda x: (x > 0.1).to(torch.float32), tensor)
    assert found.assumptions == ("ONNX's Cast and PyTorch's to give the same bits",)
    assert not (torch.tensor(0.1) > 0.1).item()  # the number is rounded to float32, as ONNX's constant is
    half = parsed(head.replace("float[", "float16[") + " { h = Cast <to = 10> (c) y = Mul(x, h) }")
    assert dg.equivalent(half, lambda x: x * 0.1, tensor.half()).verdict == "not proven"
    assert not torch.equal(tensor.half().fill_(3.0) * 0.1, tensor.half().fill_(3.0) * torch.full((4, 4), 0.1).half())


HEAD = '<ir_version: 9, opset_import: ["" : 20, "com.microsoft" : 1]> agraph ({type}[4, 4] x, {type}[4, 4] z) => ({type}[4, 4] y)'
ONES = "one = Constant <value_float = 1.0> () half = Constant <value_float = -0.0> ()"

NEAR: list[tuple[str, str]] = [
    ("y = Max(x, z)", "y = Max(z, x)"),
    ("y = Add(x, z)", "y = Add(z, x)"),
    ("y = Mul(x, z)", "y = Mul(z, x)"),
    ("y = Identity(x)", f"{ONES} y = Sub(x, half)"),
    ("y = Identity(x)", f"{ONES} y = Mul(x, one)"),
    ("y = Identity(x)", f"{ONES} y = Div(x, one)"),
    ("y = Gemm(x, z)", "y = MatMul(x, z)"),
    ("y = Gemm(x, z, z)", "p = MatMul(x, z) y = Add(p, z)"),
    ("y = Softmax <axis = 1> (x)", "e = Exp(x) a = Constant <value_ints = [1]> () s = ReduceSum(e, a) y = Div(e, s)"),
    ("y = LayerNormalization <epsilon = 1e-8> (x, z)", "y = LayerNormalization <epsilon = 1e-9> (x, z)"),
    ("y = Gelu(x)", 'y = Gelu <approximate = "tanh"> (x)'),
    ("y = Gelu(x)", "y = com.microsoft.Gelu(x)"),
    ("y = Mish(x)", "p = Softplus(x) h = Tanh(p) y = Mul(x, h)"),
    ("y = HardSwish(x)", "h = HardSigmoid <alpha = 0.16666667, beta = 0.5> (x) y = Mul(x, h)"),
    ("t = Transpose(x) y = Relu(t)", "r = Relu(x) y = Transpose(r)"),
    ("y = Pow(x, z)", "y = Pow(z, x)"),
]
"""Nodes that some would call equal; no two have the same bits for every input of every type."""


@pytest.mark.parametrize("type_", ["float16", "bfloat16", "float", "double"])
@pytest.mark.parametrize("row", range(len(NEAR)))
def test_what_nearly_computes_the_same_is_not_proven(row: int, type_: str) -> None:
    one, two = NEAR[row]
    cast = {"float16": 10, "bfloat16": 16, "float": 1, "double": 11}[type_]
    names = ("one", "half")
    two = "".join(
        f"{each}0 = Constant <value_float = {value}> () {each} = Cast <to = {cast}> ({each}0) "
        for each, value in zip(names, ("1.0", "-0.0"), strict=True)
    ) + two.removeprefix(ONES)
    models = [parsed(f"{HEAD.format(type=type_)} {{ {nodes} }}") for nodes in (one, two)]
    found = dg.equivalent(*models)
    assert found.verdict == "not proven", found
    assert dg.equivalent(models[0], models[0])


def test_libraries_are_compared_only_with_others() -> None:
    """Of one library, nothing is assumed: not even that Softmax gives the same in two versions."""
    found = dg.equivalent(in_onnx("softmax", opset=12), in_onnx("softmax", opset=13))
    assert (found.verdict, found.assumptions) == ("not proven", ())
    assert dg.equivalent(in_onnx("exp", opset=12), in_onnx("exp", opset=13))  # whose versions differ in types alone


def test_older_versions_of_softmax_are_no_row(tmp_path: Path) -> None:
    path, _ = in_openvino("softmax", tmp_path)
    assert dg.equivalent(in_onnx("softmax", opset=12), path).verdict == "not proven"


def test_attributes_that_change_results_are_no_row(tmp_path: Path) -> None:
    path, _ = in_openvino("softmax", tmp_path)
    assert dg.equivalent(in_onnx("softmax", axis=0), path).verdict == "not proven"
    path, _ = in_openvino("cast", tmp_path)
    assert dg.equivalent(in_onnx("cast", saturate=0), path).verdict == "not proven"


@pytest.mark.parametrize("dtype", ["int32", "int64", "uint8", "bool"])
def test_casts_of_floating_point_numbers_to_others_are_no_row(dtype: str) -> None:
    """Libraries differ: in what infinities, NaNs and large numbers become, and in whether a subnormal number is true."""
    import jax

    number = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    model = parsed(f"agraph (float[4] x) => ({dtype}[4] y) {{ y = Cast<to = {number}>(x) }}")
    x = np.array([np.inf, -np.inf, 3e9, 1e-40], np.float32)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    with jax.enable_x64(True):
        found = dg.equivalent(model, lambda x: x.astype(dtype), ((4,), "float32"))
        assert (found.verdict, found.assumptions) == ("not proven", ())
        assert session.run(None, {"x": x})[0].tolist() != jax.numpy.asarray(x).astype(dtype).tolist()


def test_what_is_assumed_is_chosen(tmp_path: Path) -> None:
    path, _ = in_openvino("exp", tmp_path)
    model = in_onnx("exp")
    assert dg.equivalent(model, path, assume=("exp", "softmax")).assumptions == (
        "ONNX's Exp and OpenVINO's Exp give the same bits",
    )
    assert dg.equivalent(model, path, assume=ASSUMPTIONS - {"exp"}).verdict == "not proven"
    assert dg.equivalent(model, path).to_json()["assumptions"] == ["ONNX's Exp and OpenVINO's Exp give the same bits"]
    with pytest.raises(ValueError, match="assume has 'exponent' in it, expected a collection of these: abs, add, cast"):
        dg.equivalent(model, path, assume=("exp", "exponent"))
    for wrong in ("exp", None, 5):
        with pytest.raises(ValueError, match=f"assume has {wrong!r}, expected a collection"):
            dg.equivalent(model, path, assume=wrong)  # type: ignore[arg-type]


def test_integers_have_no_row(tmp_path: Path) -> None:
    """They are looked into, and what is not, is compared by its name alone."""
    assert dg.equivalent(in_onnx("abs", TensorProto.INT32), in_onnx("abs", TensorProto.INT32))
    first = in_onnx("negative", TensorProto.INT32)
    assert dg.equivalent(first, lambda x: (-x)[np.array([2, 0])], ((4, 4), "int32")).assumptions == ()


INTEGERS: Mapping[str, Callable[[Any], Any]] = {
    "t = Cast <to = 3> (i)": lambda i: i.astype("int8"),
    "t = Cast <to = 2> (i)": lambda i: i.astype("uint8"),
    "w = Cast <to = 2> (i) t = Cast <to = 5> (w)": lambda i: i.astype("uint8").astype("int16"),
    "t = Add(i, two)": lambda i: i + 2,
    "t = Mul(i, two)": lambda i: i * 2,
    "t = Sub(two, i)": lambda i: 2 - i,
}
"""Integer arithmetic of ONNX on an index, and the same of JAX."""


@pytest.mark.parametrize("nodes", INTEGERS)
def test_integer_arithmetic_is_the_same_in_all_libraries(nodes: str) -> None:
    text = f"""<ir_version: 9, opset_import: ["" : 20]> agraph (float[7, 3] x, int32[4] i) => (float[4, 3] y)
        <int32 two = {{2}}> {{
        {nodes} high = Constant<value_int = 6>() low = Constant<value_int = 0>()
        u = Cast <to = 7> (t) j = Clip(u, low, high) y = Gather(x, j) }}"""

    def function(x: Any, i: Any) -> Any:
        return x[INTEGERS[nodes](i).astype("int32").clip(0, 6)]

    given = ((7, 3), "float32"), ((4,), "int32")
    found = dg.equivalent(parsed(text), function, *given, assume=())
    assert (found.verdict, found.assumptions) == ("proven", ()), str(found)
    wrong = dg.equivalent(parsed(text), lambda x, i: function(x, i[::-1]), *given)
    assert wrong.verdict == "different", str(wrong)


def test_the_page_lists_every_operator() -> None:
    page = (ROOT / "docs" / "equivalent.md").read_text("utf-8")
    rows = [line.split("|")[1].split(":")[1] for line in page.splitlines() if re.match(r"\| (comparisons|one|two|along) ", line)]
    assert sorted(name.strip() for row in rows for name in row.split(",")) == sorted(NAMES)


NAN, OTHER = float("nan"), -float("nan")


def test_nans_in_attributes_are_compared_by_their_bits() -> None:
    models = []
    for value in (NAN, OTHER):
        model = parsed("m (float[3] x) => (float[3] y) { y = LeakyRelu <alpha = 1.0> (x) }")
        model.graph.node[0].attribute[0].f = value
        models.append(model)
    x = np.full(3, -1, np.float32)
    sessions = [onnxruntime.InferenceSession(each.SerializeToString(), providers=["CPUExecutionProvider"]) for each in models]
    one, two = (session.run(None, {"x": x})[0].tobytes() for session in sessions)
    assert one != two
    assert dg.equivalent(*models).verdict == "not proven"
    assert dg.equivalent(models[0], models[0])


def test_nans_in_bodies_of_loops_are_compared_by_their_bits() -> None:
    import jax

    def filled(value: float) -> Any:
        def body(c: Any, _: Any) -> Any:
            return c, x.at[jax.numpy.array([9])].get(mode="fill", fill_value=value)

        x = jax.numpy.ones(3)
        return lambda y: jax.lax.scan(body, y.sum(), None, length=2)[1] + y

    y = np.ones(1, np.float32)
    assert dg.equivalent(filled(NAN), filled(NAN), y)
    assert not dg.equivalent(filled(NAN), filled(OTHER), y)


@pytest.mark.torch
def test_nans_beside_tensors_are_compared_by_their_bits() -> None:
    import torch

    x = torch.ones(3)
    assert (x + NAN).numpy().tobytes() != (x + OTHER).numpy().tobytes()
    functions: list[Any] = [lambda x: x + NAN, lambda x: x + OTHER, lambda x: torch.full_like(x, OTHER), lambda x: x.fill_(NAN)]
    for one in functions:
        for two in functions:
            assert bool(dg.equivalent(one, two, x)) == (one is two)


@pytest.mark.torch
def test_memory_that_nothing_wrote_equals_no_other() -> None:
    import torch

    x = torch.ones(3)
    made: list[Any] = [torch.empty_like, lambda x: x.new_empty(3) * 1, lambda x: torch.empty_strided((2, 2), (2, 1)) + x[0]]
    for function in made:
        assert dg.equivalent(function, function, x).verdict == "not proven"
