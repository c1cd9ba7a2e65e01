"""Where nodes are placed, why they are not fused, and in how many parts; onnxruntime itself is asked what it folds."""

from __future__ import annotations

from pathlib import Path

import pytest

from dmlgather.onnx_checking.checked_model import Certainty, ProviderVerdict
from tests.onnx_checking.modelling import parsed
from tests.onnx_checking.optimising import optimised
from tests.onnx_checking.provider.asking import asked, codes, nodes_of, only, summary

V = ProviderVerdict
SHAPE = "s = Shape(x)"

X, IN_IF = "float[N,3] x", "{ u = Neg(x) }, else_branch = e () => (v) { v = Abs(x) }>"
OTHERWISE = "fused with its neighbours if the adapter has {}, otherwise the CPU"

CASES: dict[str, tuple[str, str, ProviderVerdict, str]] = {
    # The chains of the rule for the CPU
    "an element of a shape": (X, f"{SHAPE} z = Gather(s, one)", V.SHAPE, "Shape → Gather"),
    "a slice of a shape": (X, f"{SHAPE} z = Slice(s, one, two)", V.SHAPE, "Shape → Slice"),
    "behind others": (X, f"{SHAPE} t = Add(s, one) u = Mul(t, two) z = Gather(u, one)", V.SHAPE, "Shape → Add → Mul → Gather"),
    "by an index that is a size": (f"{X}, float[9] y", "n = Size(x) z = Gather(y, n)", V.SHAPE, "Size → Gather"),
    "of float16, which stays": (f"{X}, float16[9] y", "n = Size(x) z = Gather(y, n)", V.ADAPTER, "int64"),
    "of work of the device": (
        *(f"{X}, float[9] y", "n = Size(x) t = Neg(y) z = Gather(t, n)", V.ADAPTER, "if the adapter has int64"),
    ),
    "of a large constant": (X, "n = Size(x) z = Gather(large, n)", V.ADAPTER, "int64"),
    "of a constant of 100": (X, "n = Size(x) z = Gather(small, n)", V.SHAPE, "Size → Gather"),
    "bounds from a shape": (X, f"{SHAPE} z = Slice(x, s, s)", V.SINGLE, "starts 's' is computed"),
    "a branch inside": (
        f"bool c, {X}, float[9] y",
        f"{SHAPE} z = If(c) <then_branch = t () => (u) {{ u = Gather(s, one) }}, else_branch = e () => (v) {{ v = Neg(s) }}>",
        *(V.ADAPTER, "If in the graph"),
    ),
    # Single kernels, and why
    "all is known": ("float[4,3] x, int32[2] i", "z = Gather(x, i)", V.FUSED, "fused"),
    "a bound is an initializer": ("float[4,3] x", "z = Slice(x, one, two)", V.FUSED, "fused"),
    "a bound is an input": ("float[4,3] x, int64[1] b", "z = Slice(x, one, b)", V.SINGLE, "ends 'b' is computed"),
    "a size has a name": (f"{X}, int32[2] i", "z = Gather(x, i)", V.SINGLE, "'x' are not numbers before the run: float[N,3]"),
    "a rank is not known": (
        *("float[] x, int32[2] i", "y = Reshape(x, i) z = Gather(y, i)"),
        *(V.SINGLE, "the sizes of 'y' are not numbers before the run: float[unk__0,unk__1]"),
    ),
    "a size is 0": ("float[4,0] x, int32[2] i", "z = Gather(x, i)", V.SINGLE, "'x' has a size of 0"),
    "control flow beside": (
        "bool c, float[4,3] x, int32[2] i",
        f"w = If(c) <then_branch = t () => (u) {IN_IF} z = Gather(w, i)",
        *(V.SINGLE, "If in the graph"),
    ),
    # Types
    "strings": ("string[4] x, int64[2] i", "z = Gather(x, i)", V.TYPE, "no kernel for type string"),
    "bfloat16": ("bfloat16[4] x, int64[2] i", "z = Gather(x, i)", V.TYPE, "no kernel for type bfloat16"),
    "bool": ("bool[4] x, int32[2] i", "z = Gather(x, i)", V.FUSED, "fused"),
    "double": ("double[4] x, int32[2] i", "z = Gather(x, i)", V.ADAPTER, OTHERWISE.format("double")),
    "64 bits in the indices": ("float[4] x, int64[2] i", "z = Gather(x, i)", V.ADAPTER, "otherwise the CPU; with int32 indices"),
    "64 bits in the data too": ("int64[4] x, int64[2] i", "z = Gather(x, i)", V.ADAPTER, OTHERWISE.format("int64")),
    "64 bits in the bounds": ("float[4] x", "z = Slice(x, one, two)", V.FUSED, "fused"),
    "blocks of 16 bits": ("int16[1,4,2,2] x", "z = DepthToSpace<blocksize = 2>(x)", V.FUSED, "fused"),
}


@pytest.mark.parametrize("case", CASES)
def test_where_a_node_runs(tmp_path: Path, case: str) -> None:
    inputs, nodes, verdict, text = CASES[case]
    constants = "<int64[1] one = {1}, int64[1] two = {2}, float[101] large, float[100] small>"
    model = parsed(f"g ({inputs}) => (float[A] z) {constants} {{ {nodes} }}")
    model.graph.output[0].type.tensor_type.Clear()
    for value in [*model.graph.value_info]:
        if value.name in ("large", "small"):
            size = value.type.tensor_type.shape.dim[0].dim_value
            tensor = model.graph.initializer.add(name=value.name, data_type=1, dims=[size])
            tensor.float_data.extend([0.0] * size)
            model.graph.value_info.remove(value)
    found = asked(tmp_path, model)
    node = only(found)
    assert node.verdict is verdict
    assert text in node.text
    assert node.certainty is Certainty.READ
    assert not codes(found)
    assert (node.part is None) is (verdict in (V.SHAPE, V.TYPE))


@pytest.mark.parametrize("kind", ["int32", "int64"])
def test_int32_indices_where_they_help(tmp_path: Path, kind: str) -> None:
    """ONNX has no GatherND with int32 indices; and data of 64 bits need the adapter anyway."""
    nodes = "a = Gather(x, i) b = GatherElements(x, i) d = Gather(y, i) z = Concat<axis = 0>(a, b)"
    model = parsed(f"g (float[4] x, double[4] y, {kind}[2] i) => (float[4] z, double[2] d) {{ {nodes} }}")
    counts = summary(asked(tmp_path, model))
    assert (counts.directml, counts.either, counts.converted) == ((2, 1, 0) if kind == "int32" else (0, 3, 2))
    assert ("(2 always with int32 indices)" in counts.text) is (kind == "int64")
    model = parsed("g (float[4] x, int64[2,1] i) => (float[2] z) { z = GatherND(x, i) }")
    assert (summary(asked(tmp_path, model)).either, summary(asked(tmp_path, model)).converted) == (1, 0)


PARTS = {
    "neighbours": ("a = Gather(x, i) b = Neg(a) z = Gather(b, i)", 1),
    "side by side": ("a = Gather(x, i) b = Gather(y, i) z = Neg(x)", 2),
    "side by side, then joined": ("a = Gather(x, i) b = Gather(y, i) z = Add(a, b)", 1),
    "cut between them": ("a = Gather(x, i) b = Slice(a, m, m) z = Gather(b, i)", 3),
    "cut by an outer node": ("a = Gather(x, i) s = NonZero(a) z = Gather(s, i)", 2),
    "closed, and then passed by": ("a = Gather(x, i) s = Slice(a, m, m) b = Neg(a) z = Gather(b, i)", 3),
}


@pytest.mark.parametrize("case", PARTS)
def test_how_many_parts(tmp_path: Path, case: str) -> None:
    """By the partitioner's rule: a node joins the open parts that it reads from; one that is not fused closes them."""
    nodes, parts = PARTS[case]
    model = parsed(f"g (float[4,3] x, float[4,3] y, int32[2] i, int64[1] m) => (float[A,B] z) {{ {nodes} }}")
    model.graph.output[0].type.tensor_type.Clear()
    assert summary(asked(tmp_path, model)).parts == parts


def test_nodes_without_a_verdict(tmp_path: Path) -> None:
    model = """g (float[4] x, int32[2] i) => (float[2] z, float[2] w) <bool c = {1}> {
        z = Gather(x, i)
        w = If(c) <then_branch = t () => (float[2] u) { u = Neg(z) }, else_branch = e () => (float[2] v) { v = Gather(x, i) }>
    }"""
    found = nodes_of(asked(tmp_path, model))
    assert found.keys() == {"Gather_0"}, "no run reaches the other one"


FOLDED = {
    "constants": ("w = Gather(table, i)", True),
    "constants, behind another node": ("u = Neg(table) w = Gather(u, i)", True),
    "an element of a shape of numbers": ("s = Shape(x) t = Gather(s, i) w = Cast<to = 1>(t)", True),
    "an element of a shape with a name": ("s = Shape(y) t = Gather(s, i) w = Cast<to = 1>(t)", False),
    "behind elements that are counted": ("n = NonZero(table) s = Shape(n) t = Gather(s, i) w = Cast<to = 1>(t)", False),
    "behind elements that are chosen": ("b = Cast<to = 9>(table) n = Compress<axis = 0>(table, b) w = Gather(n, i)", False),
    "an input": ("w = Gather(x, i)", False),
    "an initializer that is an input": ("w = Gather(default, i)", False),
}


@pytest.mark.parametrize("case", FOLDED)
def test_nodes_are_folded_where_onnxruntime_folds_them(tmp_path: Path, case: str) -> None:
    nodes, folded = FOLDED[case]
    inputs = "float[4,3] x, float[N,3] y, float[3] default = {1, 2, 3}"
    constants = "<float[3] table = {1, 2, 3}, int32[1] i = {1}>"
    model = parsed(f"g ({inputs}) => (float[A] z) {constants} {{ {nodes} z = Identity(w) }}")
    model.graph.output[0].type.tensor_type.ClearField("shape")
    assert (only(asked(tmp_path, model)).verdict is V.FOLDED) is folded
    left = [node.op_type for node in optimised(model, "extended").graph.node]
    assert ("Gather" not in left) is folded


def test_a_shape_without_a_kernel_of_the_provider_is_no_shape(tmp_path: Path) -> None:
    """Shape-23 is on the CPU without the provider's doing, and what reads it stays; Shape-21 is the provider's."""
    text = "g (float[N,3] x) => (int64[1] z) <int64[1] one = {1}> { s = Shape(x) z = Gather(s, one) }"
    verdicts = {}
    for opset in (22, 23):
        verdicts[opset] = only(asked(tmp_path, f'<ir_version: 10, opset_import: ["" : {opset}]> {text}')).verdict
    assert verdicts == {22: V.SHAPE, 23: V.ADAPTER}


def test_a_node_in_a_function_is_inferred(tmp_path: Path) -> None:
    model = """<ir_version: 9, opset_import: ["" : 17, "d" : 1]>
        g (float[4,3] x, int32[2] i) => (float[2,3] z) { z = d.Rows(x, i) }
        <domain: "d", opset_import: ["" : 17]> Rows (a, b) => (c) { c = Gather(a, b) }"""
    node = only(asked(tmp_path, model))
    assert (node.verdict, node.certainty) == (V.FUSED, Certainty.INFERRED)
