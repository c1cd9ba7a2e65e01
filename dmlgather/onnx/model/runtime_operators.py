"""Types of what onnxruntime's own operators give: a row for each operator. Only shapes and data types follow; what they compute
is not looked into.

Its optimisations write most of them, its tools for quantization and transformers the others. Many have the shapes of an operator
of ONNX, which is asked about that one. Source: onnxruntime's own shape inference, and its runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from dmlgather.onnx.model.constant_folding import Operands
from dmlgather.onnx.model.following_shapes import without_negative
from dmlgather.onnx.model.node_requests import NodeRequests
from dmlgather.onnx.model.partial_types import PartialType
from dmlgather.onnx.model.runtime_shapes import (
    Row,
    RuntimeCall,
    as_onnx,
    attention,
    broadcast,
    concatenated,
    embedded,
    enlarged,
    filtered,
    from_blocks,
    grouped,
    halved,
    like,
    matrix_product,
    multi_head,
    normalized,
    packed_product,
    picked,
    quantized,
    to_blocks,
)
from dmlgather.onnx.model.subgraphs import operator_name


def runtime_types(operands: Operands, requests: NodeRequests) -> Iterator[tuple[str, PartialType]]:
    """The types of a node's outputs, and of inputs that follow from others, by name; nothing for an operator without a row."""
    node, call = operands.node, RuntimeCall(operands, requests)
    for rows, names in ((ROWS, node.output), (INPUTS, node.input)):
        row = rows.get(operator_name(node))
        try:
            found = row(call) if row is not None else ()
        except (ArithmeticError, LookupError, TypeError, ValueError):  # an ill-formed node, which onnxruntime refuses
            found = ()
        yield from ((name, known.sized(without_negative(known.shape))) for name, known in zip(names, found, strict=False) if name)


_ONNX: Mapping[str, Row] = {
    "LayerNormalization": normalized,  # before opset 17
    "SimplifiedLayerNormalization": lambda call: [each for at, each in enumerate(normalized(call)) if at != 1],
}
"""The operators that onnxruntime has in ONNX's own domain."""

_MICROSOFT: Mapping[str, Row] = {
    "Attention": attention(4, of=0),
    "BiasAdd": like(0),
    "BiasGelu": like(0),
    "BiasSoftmax": like(0),
    "BiasSplitGelu": halved,
    "DequantizeLinear": like(0, of=1),
    "DynamicQuantizeLSTM": as_onnx("LSTM", 0, 1, 2),
    "DynamicQuantizeMatMul": as_onnx("MatMul", 0, 1),
    "EmbedLayerNormalization": embedded(2),
    "FastGelu": like(0),
    "FusedConv": as_onnx("Conv", 0, 1),
    "FusedGemm": as_onnx("Gemm", 0, 1),
    "FusedMatMul": matrix_product,
    "FusedMatMulActivation": matrix_product,
    "GatherBlockQuantized": picked,
    "Gelu": like(0),
    "GemmFastGelu": as_onnx("MatMul", 0, 1),
    "GroupNorm": like(0),
    "GroupQueryAttention": grouped,
    "MatMulBnb4": packed_product,
    "MatMulIntegerToFloat": as_onnx("MatMul", 0, 1, of=(2,)),
    "MatMulNBits": packed_product,
    "MoE": like(0),
    "MultiHeadAttention": multi_head,
    "NhwcFusedConv": as_onnx("Conv", 0, 1, last=True),
    "NhwcMaxPool": as_onnx("MaxPool", 0, last=True),
    "QAttention": attention(8, of=2),
    "QEmbedLayerNormalization": embedded(8),
    "QGemm": as_onnx("Gemm", 0, 3, of=(8, 1)),
    "QLinearAdd": broadcast(0, 3),
    "QLinearAveragePool": as_onnx("AveragePool", 0),
    "QLinearConcat": concatenated,
    "QLinearConv": as_onnx("Conv", 0, 3, of=(7,)),
    "QLinearGlobalAveragePool": as_onnx("GlobalAveragePool", 0),
    "QLinearLeakyRelu": like(0),
    "QLinearMul": broadcast(0, 3),
    "QLinearReduceMean": as_onnx("ReduceMean", 0),
    "QLinearSigmoid": like(0),
    "QLinearSoftmax": like(0),
    "QLinearWhere": broadcast(0, 1, 4, of=1),
    "QMoE": like(0),
    "QuantizeLinear": quantized,
    "QuickGelu": like(0),
    "RotaryEmbedding": like(0),
    "SkipGroupNorm": like(0, 0),
    "SkipLayerNormalization": like(0, None, None, 0),
    "SkipSimplifiedLayerNormalization": like(0, None, None, 0),
    "TransposeMatMul": matrix_product,
}

_BLOCKS: Mapping[str, Row] = {
    "AveragePool": as_onnx("AveragePool", 0),
    "Conv": as_onnx("Conv", 0, 1),
    "GlobalAveragePool": as_onnx("GlobalAveragePool", 0),
    "GlobalMaxPool": as_onnx("GlobalMaxPool", 0),
    "MaxPool": as_onnx("MaxPool", 0),
    "ReorderInput": to_blocks,
    "ReorderOutput": from_blocks,
    "Upsample": enlarged,
}
"""The operators on tensors in NCHWc layout. The sizes are those in NCHW, with the channels that fill blocks."""

ROWS: Mapping[str, Row] = {
    **_ONNX,
    **{f"com.microsoft.{name}": row for name, row in _MICROSOFT.items()},
    **{f"com.microsoft.nchwc.{name}": row for name, row in _BLOCKS.items()},
}
"""By the operator's name with its domain."""

INPUTS: Mapping[str, Row] = {"com.microsoft.nchwc.Conv": filtered}
"""The operators of which types of inputs follow from later inputs."""
