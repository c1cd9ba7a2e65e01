"""Models of which onnxruntime's optimisations make its own operators, and nodes of those that its tools write."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper, parser

from dmlgather.onnx.problems.data_types import data_type

Constant = tuple[str, tuple[int, ...]] | NDArray[Any] | list[int] | list[float] | float
"""Random elements of a type and a shape; an array; or what becomes one of int64 or float32."""

SIZES: Mapping[str, tuple[int, ...]] = {"N": (1, 3), "S": (2, 5), "T": (4, 1), "H": (9, 12), "W": (11, 8), "P": (3, 6)}
"""The sizes of each name, run by run."""


@dataclass(frozen=True)
class Case:
    """nodes, inputs: in ONNX's text format. constants: by name; those of QUANTIZED are there as well. opset: of ONNX."""

    nodes: str
    inputs: str
    constants: Mapping[str, Constant] = field(default_factory=dict)
    opset: int = 17

    def model(self, rng: np.random.Generator) -> onnx.ModelProto:
        """The model, whose output is Z."""
        imports = f'"" : {self.opset}, "com.microsoft" : 1, "com.microsoft.nchwc" : 1'
        text = f"<ir_version: 10, opset_import: [{imports}]> g ({self.inputs}) => () {{ {self.nodes} }}"
        model = parser.parse_model(text)
        model.graph.output.add(name="Z")
        for name, constant in ({**QUANTIZED, **self.constants}).items():
            if any(name in node.input for node in model.graph.node):
                model.graph.initializer.append(_tensor(name, constant, rng))
        return model

    def feeds(self, run: int, rng: np.random.Generator) -> dict[str, NDArray[Any]]:
        """Inputs of the sizes of a run. Integers are 0 or 1."""
        found = {}
        for value in self.model(rng).graph.input:
            dims = value.type.tensor_type.shape.dim
            shape = tuple(SIZES[dim.dim_param][run] if dim.dim_param else dim.dim_value for dim in dims)
            dtype = data_type(value.type.tensor_type.elem_type)
            assert dtype is not None
            found[value.name] = _random(dtype.name, shape, rng)
        return found


def _tensor(name: str, constant: Constant, rng: np.random.Generator) -> TensorProto:
    if isinstance(constant, tuple) and constant[0] == "int4":
        return helper.make_tensor(name, TensorProto.INT4, constant[1], rng.integers(-8, 8, constant[1]).ravel().tolist())
    if isinstance(constant, tuple):
        return numpy_helper.from_array(_random(*constant, rng), name)
    array = np.asarray(constant)
    return numpy_helper.from_array(array.astype(np.float32) if array.dtype == np.float64 else array, name)


def _random(dtype: str, shape: tuple[int, ...], rng: np.random.Generator) -> NDArray[Any]:
    whole = np.dtype(dtype).kind in "iub"
    return (rng.integers(0, 2, shape) if whole else 0.1 + np.abs(rng.standard_normal(shape))).astype(dtype)


def f(*shape: int) -> Constant:
    """Random float32 numbers above 0.1."""
    return "float32", shape


def b(*shape: int) -> Constant:
    """Random bytes, 0 or 1."""
    return "uint8", shape


def _quantized(value: str, name: str) -> str:
    return f"{name}_q = QuantizeLinear({value}, s, z) {name} = DequantizeLinear({name}_q, s, z)"


def _between(nodes: str, back: bool = True) -> str:
    """Nodes that make c of X as a, of Y as b, and of weights w, all of them quantized. back: whether c is quantized as well."""
    first = [_quantized(value, name) for value, name in (("X", "a"), ("Y", "b")) if f"{name}," in nodes or f"{name})" in nodes]
    weights = ["w = DequantizeLinear(V, s, z)"] if "w)" in nodes else []
    return " ".join([*first, *weights, nodes, _quantized("c", "Z") if back else "Z = Relu(c)"])


QUANTIZED: dict[str, Constant] = {"s": 0.1, "z": b()}

_ERF = "d = Div({0}, r) e = Erf(d) p = Add(e, one) m = Mul({0}, p) Z = Mul(m, half)"
_ERF_CONSTANTS: dict[str, Constant] = {"r": 2**0.5, "one": 1.0, "half": 0.5}
_NORM = (
    "m = ReduceMean<axes = [-1]>({0}) d = Sub({0}, m) p = Pow(d, two) v = ReduceMean<axes = [-1]>(p) e = Add(v, half) "
    "q = Sqrt(e) n = Div(d, q) g = Mul(n, G) Z = Add(g, B)"
)
_RMS = "p = Pow({0}, two) v = ReduceMean<axes = [-1]>(p) e = Add(v, half) q = Sqrt(e) n = Div({0}, q) Z = Mul(n, G)"
_NORM_CONSTANTS: dict[str, Constant] = {"two": 2.0, "half": 0.5, "G": f(8), "B": f(8)}
_DYNAMIC = (
    "q, qs, qz = DynamicQuantizeLinear(X) m = MatMulInteger(q, V, qz, z) c = Cast<to = 1>(m) t = Mul(qs, s) p = Mul(c, t) "
    "Z = Add(p, B)"
)

PATTERNS: Mapping[str, Case] = {
    "conv and relu": Case(
        "c = Conv<pads = [1,1,1,1], strides = [2,2]>(X, V, B) Z = Relu(c)",
        "float[N,16,H,W] X",
        {"V": f(16, 16, 3, 3), "B": f(16)},
    ),
    "conv of the same size and leaky relu": Case(
        'c = Conv<auto_pad = "SAME_UPPER", strides = [2,2]>(X, V) Z = LeakyRelu<alpha = 0.1>(c)',
        "float[N,3,H,W] X",
        {"V": f(32, 3, 3, 3)},
    ),
    "conv along one axis and clip": Case(
        "c = Conv<dilations = [2]>(X, V) Z = Clip(c, low, high)", "float[N,3,H] X", {"V": f(16, 3, 3), "low": 0.0, "high": 6.0}
    ),
    "two convs that are added": Case(
        "c = Conv<pads = [1,1,1,1]>(X, V, B) d = Conv<pads = [1,1,1,1]>(X, U, B) t = Add(c, d) Z = Relu(t)",
        "float[N,16,H,W] X",
        {"V": f(16, 16, 3, 3), "U": f(16, 16, 3, 3), "B": f(16)},
    ),
    "convs and pools": Case(
        "c = Conv(X, V) t = Sigmoid(c) m = Mul(c, t) p = MaxPool<kernel_shape = [2,2], strides = [2,2], ceil_mode = 1>(m) "
        "d = Conv<group = 16>(p, U) g = GlobalAveragePool(d) Z = Flatten(g)",
        "float[N,3,H,W] X",
        {"V": f(16, 3, 3, 3), "U": f(16, 1, 3, 3)},
    ),
    "convs that are joined and enlarged": Case(
        "c = Conv(X, V) d = Conv(X, V) j = Concat<axis = 1>(c, d) p = AveragePool<kernel_shape = [3,3], pads = [1,1,1,1]>(j) "
        'u = Resize<mode = "nearest", coordinate_transformation_mode = "asymmetric", nearest_mode = "floor">(p, , scales) '
        "e = Conv(u, U) Z = GlobalMaxPool(e)",
        "float[N,3,H,W] X",
        {"V": f(16, 3, 3, 3), "U": f(32, 32, 3, 3), "scales": [1.0, 1.0, 2.0, 2.0]},
    ),
    "conv of channels that fill no block": Case("c = Conv(X, V) Z = Relu(c)", "float[N,24,H,W] X", {"V": f(16, 24, 3, 3)}),
    "conv of few channels at the end": Case("c = Conv(X, V) Z = Relu(c)", "float[N,16,H,W] X", {"V": f(20, 16, 3, 3)}),
    "gemm and relu": Case("c = Gemm<transB = 1>(X, V, B) Z = Relu(c)", "float[N,8] X", {"V": f(16, 8), "B": f(16)}),
    "a layer and tanh": Case("m = MatMul(X, V) c = Add(m, B) Z = Tanh(c)", "float[N,8] X", {"V": f(8, 16), "B": f(16)}),
    "product of scaled and transposed": Case(
        "c = Mul(X, half) t = Transpose<perm = [0,2,1]>(Y) Z = MatMul(c, t)", "float[N,S,8] X, float[N,T,8] Y", {"half": 0.5}
    ),
    "product of two transposed": Case(
        "c = Transpose<perm = [0,1,3,2]>(X) t = Transpose<perm = [0,1,3,2]>(Y) m = MatMul(c, t) Z = Div(m, half)",
        "float[N,4,8,S] X, float[N,4,T,8] Y",
        {"half": 0.5},
    ),
    "product of transposed batches": Case(
        "c = Transpose<perm = [1,2,0,3]>(X) t = Transpose<perm = [1,2,0,3]>(Y) Z = MatMul(c, t)",
        "float[S,N,3,4] X, float[4,N,3,T] Y",
    ),
    "gelu": Case(_ERF.format("X"), "float[N,S,8] X", _ERF_CONSTANTS),
    "gelu with a bias": Case("x = Add(X, B) " + _ERF.format("x"), "float[N,S,8] X", _ERF_CONSTANTS | {"B": f(8)}),
    "quick gelu": Case("a = Mul(X, k) t = Sigmoid(a) Z = Mul(X, t)", "float[N,S,8] X", {"k": 1.702}),
    "layer norm before opset 17": Case(_NORM.format("X"), "float[N,S,8] X", _NORM_CONSTANTS, opset=13),
    "skip layer norm": Case("x = Add(X, Y) " + _NORM.format("x"), "float[N,S,8] X, float[N,S,8] Y", _NORM_CONSTANTS, opset=13),
    "root mean square norm": Case(_RMS.format("X"), "float[N,S,8] X", _NORM_CONSTANTS),
    "dynamically quantized product": Case(_DYNAMIC, "float[N,S,8] X", {"V": b(8, 16), "B": f(16)}),
    "quantized conv": Case(_between("c = Conv(a, w)"), "float[N,8,H,W] X", {"V": b(16, 8, 3, 3)}),
    "quantized product": Case(_between("c = MatMul(a, w)", back=False), "float[N,S,8] X", {"V": b(8, 16)}),
    "quantized gemm": Case(_between("c = Gemm<transB = 1>(a, w)"), "float[N,8] X", {"V": b(16, 8)}),
    "quantized gemm to float": Case(_between("c = Gemm<transB = 1>(a, w)", back=False), "float[N,8] X", {"V": b(16, 8)}),
    "quantized add": Case(_between("c = Add(a, b)"), "float[N,S,8] X, float[S,8] Y"),
    "quantized mul": Case(_between("c = Mul(a, b)"), "float[N,1,8] X, float[S,1] Y"),
    "quantized sigmoid": Case(_between("c = Sigmoid(a)"), "float[N,S] X"),
    "quantized leaky relu": Case(_between("c = LeakyRelu(a)"), "float[N,S] X"),
    "quantized softmax": Case(_between("c = Softmax(a)"), "float[N,S] X"),
    "quantized mean of all pixels": Case(_between("c = GlobalAveragePool(a)"), "float[N,4,H,W] X"),
    "quantized means": Case(_between("c = AveragePool<kernel_shape = [3,3], strides = [2,2]>(a)"), "float[N,4,H,W] X"),
    "quantized concat": Case(_between("c = Concat<axis = 1>(a, b)"), "float[N,S,8] X, float[N,T,8] Y"),
    "quantized where": Case(_between("c = Where(C, a, b)"), "float[N,S,8] X, float[N,S,8] Y, bool[N,S,8] C"),
    "quantized network": Case(
        _between(
            f"d = Conv<pads = [1,1,1,1]>(a, w) {_quantized('d', 'e')} g = MaxPool<kernel_shape = [2,2]>(e) "
            f"{_quantized('g', 'h')} u = DequantizeLinear(U, s, z) k = Conv(h, u) {_quantized('k', 'l')} "
            f"m = AveragePool<kernel_shape = [2,2]>(l) {_quantized('m', 'n')} c = GlobalAveragePool(n)"
        ),
        "float[N,8,H,W] X",
        {"V": b(16, 8, 3, 3), "U": b(16, 16, 3, 3)},
    ),
    "weights of 4 bits": Case(
        "w = DequantizeLinear<axis = 0, block_size = 16>(V, U) Z = MatMul(X, w)",
        "float[N,S,32] X",
        {"V": ("int4", (32, 8)), "U": f(2, 8)},
        opset=21,
    ),
}
"""Of each, an optimisation of onnxruntime makes at least one of its own operators."""

_BERT: dict[str, Constant] = {"E": f(10, 8), "F": f(10, 8), "D": f(2, 8), "G": f(8), "B": f(8)}
_QUANTIZED_BERT: dict[str, Constant] = {"E": b(10, 8), "F": b(10, 8), "D": b(2, 8), "G": b(8), "B": b(8)}

NODES: Mapping[str, Case] = {
    "attention": Case("Z, p = com.microsoft.Attention<num_heads = 2>(X, V, B)", "float[N,S,8] X", {"V": f(8, 48), "B": f(48)}),
    "attention with other values, and a past": Case(
        "Z, p = com.microsoft.Attention<num_heads = 2>(X, V, B, , Y)",
        "float[N,S,8] X, float[2,N,2,P,8] Y",
        {"V": f(8, 48), "B": f(48)},
    ),
    "attention of three widths": Case(
        "Z = com.microsoft.Attention<num_heads = 2, qkv_hidden_sizes = [16, 16, 24]>(X, V, B)",
        "float[N,S,8] X",
        {"V": f(8, 56), "B": f(56)},
    ),
    "quantized attention": Case(
        "Z, p = com.microsoft.QAttention<num_heads = 2>(X, V, B, s, s, , z, z, Y)",
        "uint8[N,S,8] X, float[2,N,2,P,8] Y",
        {"V": b(8, 48), "B": f(48)},
    ),
    "attention to keys": Case(
        "Z, k, v = com.microsoft.MultiHeadAttention<num_heads = 2>(X, Y, C)", "float[N,S,8] X, float[N,T,8] Y, float[N,T,12] C"
    ),
    "attention to keys and a past": Case(
        "Z, k, v = com.microsoft.MultiHeadAttention<num_heads = 2>(X, Y, Y, , , , C, C)",
        "float[N,S,8] X, float[N,S,8] Y, float[N,2,P,4] C",
    ),
    "attention to keys by heads": Case(
        "Z = com.microsoft.MultiHeadAttention<num_heads = 2>(X, Y, Y)", "float[N,S,8] X, float[N,2,T,4] Y"
    ),
    "attention of groups": Case(
        "Z, k, v = com.microsoft.GroupQueryAttention<num_heads = 4, kv_num_heads = 2>(X, Y, Y, C, C, L, total)",
        "float[N,1,32] X, float[N,1,16] Y, float[N,2,P,8] C, int32[N] L",
        {"total": np.array(2, np.int32)},
    ),
    "packed attention of groups": Case(
        "Z, k, v = com.microsoft.GroupQueryAttention<num_heads = 4, kv_num_heads = 2>(X, , , C, C, L, total)",
        "float[N,1,64] X, float[N,2,P,8] C, int32[N] L",
        {"total": np.array(4, np.int32)},
    ),
    "embeddings": Case(
        "Z, m, t = com.microsoft.EmbedLayerNormalization(X, Y, E, F, D, G, B)", "int32[N,S] X, int32[N,S] Y", _BERT
    ),
    "quantized embeddings": Case(
        "Z, m = com.microsoft.QEmbedLayerNormalization(X, Y, E, F, D, G, B, , s, s, s, s, s, z, z, z, z, z)",
        "int32[N,S] X, int32[N,S] Y",
        _QUANTIZED_BERT,
    ),
    "fast gelu": Case("Z = com.microsoft.FastGelu(X, B)", "float[N,S,8] X", {"B": f(8)}),
    "norm with statistics": Case("Z, m, d = LayerNormalization<axis = 1>(X, G)", "float[N,4,8] X", {"G": f(4, 8)}, opset=13),
    "root mean square norm with statistics": Case("Z, d = SimplifiedLayerNormalization(X, G)", "float[N,S,8] X", {"G": f(8)}),
    "skip root mean square norm": Case(
        "Z, , , t = com.microsoft.SkipSimplifiedLayerNormalization(X, Y, G)", "float[N,S,8] X, float[N,S,8] Y", {"G": f(8)}
    ),
    "quantized lstm": Case(
        'Z, h, c = com.microsoft.DynamicQuantizeLSTM<hidden_size = 6, direction = "bidirectional">'
        "(X, V, U, , , , , , k, o, k, o)",
        "float[S,N,8] X",
        {"V": b(2, 8, 24), "U": b(2, 6, 24), "k": f(2), "o": b(2)},
    ),
    "rows of 4 bits": Case(
        "Z = com.microsoft.GatherBlockQuantized<block_size = 16, quantize_axis = 1>(V, X, U)",
        "int64[N,S] X",
        {"V": ("int4", (6, 32)), "U": f(6, 2)},
    ),
    "rows of 4 bits in bytes": Case(
        "Z = com.microsoft.GatherBlockQuantized<block_size = 16, quantize_axis = 1, bits = 4>(V, X, U)",
        "int32[N,S] X",
        {"V": b(6, 16), "U": f(6, 2)},
    ),
    "product of packed weights": Case(
        "Z = com.microsoft.MatMulBnb4<K = 32, N = 8, block_size = 16, quant_type = 1>(X, V, U)",
        "float[N,S,32] X",
        {"V": b(128), "U": f(16)},
    ),
    "product of a transposed factor": Case(
        "Z = com.microsoft.TransposeMatMul<transA = 1>(X, Y)", "float[N,8,S] X, float[N,8,T] Y"
    ),
    "experts": Case(
        "Z = com.microsoft.MoE<k = 1>(X, Y, V, , U)", "float[N,8] X, float[N,4] Y", {"V": f(4, 16, 8), "U": f(4, 8, 16)}
    ),
    "quantized experts": Case(
        "Z = com.microsoft.QMoE<k = 1, expert_weight_bits = 8>(X, Y, V, k, , U, l)",
        "float[N,16] X, float[N,4] Y",
        {"V": b(4, 32, 16), "U": b(4, 16, 32), "k": f(4, 32), "l": f(4, 16)},
    ),
    "quantized": Case("Z = com.microsoft.QuantizeLinear(X, s, z) d = com.microsoft.DequantizeLinear(Z, s, z)", "float[N,S] X"),
    "quantized without a zero point": Case("Z = com.microsoft.QuantizeLinear(X, s)", "float[N,S] X"),
    "rotated": Case("Z = com.microsoft.RotaryEmbedding(X, Y, U, U)", "float[N,S,8] X, int64[N,S] Y", {"U": f(16, 4), "B": f(8)}),
    "conv with channels at its first dimension": Case(
        "Z = com.microsoft.QLinearConv(X, s, z, V, s, z, s, z)", "uint8[N,8,H,W] X", {"V": b(16, 8, 3, 3)}
    ),
}
"""Nodes of operators that no optimisation makes of a small model, or with results that it leaves out."""

UNRUN: Mapping[str, tuple[Case, tuple[int, ...]]] = {
    "a conv with channels last": (
        Case(
            "Z = com.microsoft.NhwcFusedConv<strides = [2,2], pads = [1,1,1,1]>(X, V)",
            "float[3,9,12,8] X",
            {"V": f(16, 8, 3, 3)},
        ),
        (3, 5, 6, 16),
    ),
    "packed attention": (Case("Z = com.microsoft.MultiHeadAttention<num_heads = 2>(X)", "float[3,5,2,3,4] X"), (3, 5, 8)),
    "attention to packed keys": (
        Case("Z = com.microsoft.MultiHeadAttention<num_heads = 2>(X, Y)", "float[3,5,8] X, float[3,6,2,2,4] Y"),
        (3, 5, 8),
    ),
    "a bias": (Case("Z = com.microsoft.BiasAdd(X, B, X)", "float[3,5,8] X", {"B": f(8)}), (3, 5, 8)),
    "softmax with a bias": (
        Case("Z = com.microsoft.BiasSoftmax<axis = 2, is_inner_broadcast = 0>(X, Y)", "float[3,5,8] X, float[3,1,8] Y"),
        (3, 5, 8),
    ),
    "halves": (Case("Z = com.microsoft.BiasSplitGelu(X, B)", "float[3,5,2560] X", {"B": f(2560)}), (3, 5, 1280)),
    "a product and relu": (
        Case('Z = com.microsoft.FusedMatMulActivation<activation = "Relu", transB = 1>(X, Y)', "float[3,5,8] X, float[3,6,8] Y"),
        (3, 5, 6),
    ),
    "a product and gelu": (Case("Z = com.microsoft.GemmFastGelu(X, V)", "float[3,5,8] X", {"V": f(8, 6)}), (3, 5, 6)),
    "norms of groups": (
        Case("Z = com.microsoft.GroupNorm<activation = 0, groups = 2>(X, B, B)", "float[3,5,6,8] X", {"B": f(8)}),
        (3, 5, 6, 8),
    ),
    "norms of sums of groups": (
        Case("Z, t = com.microsoft.SkipGroupNorm<activation = 0, groups = 2>(X, B, B, X)", "float[3,5,6,8] X", {"B": f(8)}),
        (3, 5, 6, 8),
    ),
    "quantized means along an axis": (
        Case("Z = com.microsoft.QLinearReduceMean<axes = [1], keepdims = 0>(X, s, z, s, z)", "uint8[3,5,8] X"),
        (3, 8),
    ),
}
"""Nodes that onnxruntime runs on other processors only, and the shape of Z."""
