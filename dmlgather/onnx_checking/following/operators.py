"""The operator table: what the check knows about operators of ONNX and onnxruntime."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dmlgather.onnx import auxiliary
from dmlgather.onnx.problems.data_types import check_type
from dmlgather.onnx.problems.node_reading import in_family, parse_node, stated_node
from dmlgather.onnx.problems.operator_versions import VERSIONS
from dmlgather.onnx.problems.subgraphs import operator_name
from dmlgather.onnx_checking.following import element_rules, moving_rules, runtime_rules, size_rules
from dmlgather.onnx_checking.following.element_arithmetic import applied, folded
from dmlgather.onnx_checking.following.operator_entries import OperatorEntry, TypeRule
from dmlgather.onnx_checking.following.runtime_rules import as_onnx, attention, embedding, matrix_product, same_types
from dmlgather.onnx_checking.following.size_rules import broadcast_rank, same_rank

if TYPE_CHECKING:
    from onnx import NodeProto

Entries = Mapping[str, OperatorEntry]


def moving(run: Callable[..., Any] | None = None, *, moves: tuple[int, ...] | None = (0,), **columns: Any) -> OperatorEntry:
    """Return the entry of an operator that moves elements. `moves`: None for all inputs."""
    return OperatorEntry(run=run, moves=moves, **columns)


def computing(elements: Callable[..., Any], **columns: Any) -> OperatorEntry:
    """Return the entry of an operator that computes elements one by one."""
    return OperatorEntry(elements=elements, **columns)


def reduction(operation: str | None = None) -> OperatorEntry:
    """Return the entry of a reduction. `operation`: the operation on two elements; None: symbolic sizes give Unknown."""
    return OperatorEntry(computes=None if operation is None else element_rules.reduction(operation), host=(1,))


def runtime(types: TypeRule, **columns: Any) -> OperatorEntry:
    """Return the entry of an operator that only onnxruntime knows."""
    return OperatorEntry(types=types, **columns)


def for_all(entry: OperatorEntry, *names: str) -> Entries:
    """Return a table in which several operators have the same entry."""
    return dict.fromkeys(names, entry)


def within(domain: str, entries: Entries) -> Entries:
    """Return a table with a domain before each key: "com.microsoft.nchwc.Conv"."""
    return {f"{domain}.{name}": entry for name, entry in entries.items()}


SAME = same_rank()
"""The rank rule of operators that keep the rank of their first input."""

RANKED = OperatorEntry(rank=SAME)

_FOLLOWED: Entries = {
    "Identity": moving(auxiliary.identity, rank=SAME),
    "Constant": OperatorEntry(run=auxiliary.constant),
    "Shape": OperatorEntry(run=auxiliary.shape, computes=element_rules.shape, unread=(0,)),
    "Squeeze": moving(auxiliary.squeeze, host=(1,)),
    "Unsqueeze": moving(auxiliary.unsqueeze, host=(1,)),
    "Reshape": moving(auxiliary.reshape, sizes=size_rules.reshape, host=(1,)),
    "Transpose": moving(auxiliary.transpose, rank=size_rules.transposed_rank),
    "Cast": OperatorEntry(run=auxiliary.cast, computes=element_rules.cast, rank=SAME),
    "Size": OperatorEntry(computes=element_rules.size, unread=(0,)),
    "Dropout": OperatorEntry(rank=SAME, host=(2,), evaluated=False),
    "Flatten": moving(moving_rules.flatten, sizes=size_rules.flatten),
    "Expand": moving(moving_rules.expand, sizes=size_rules.expand, host=(1,)),
    "ConstantOfShape": OperatorEntry(sizes=size_rules.constant_of_shape, gives=None, host=(0,)),
    "Range": OperatorEntry(computes=element_rules.range_elements, sizes=size_rules.range_shape, host=(0, 1, 2)),
    "Tile": moving(moving_rules.tile, sizes=size_rules.tile, rank=SAME, host=(1, 2)),
    "Concat": moving(moving_rules.concat, moves=None, sizes=size_rules.concat, rank=same_rank(None, 1)),
    "Split": moving(moving_rules.split, sizes=size_rules.split, rank=same_rank(1, None), host=(1,)),
    "Add": computing(applied("add"), rank=broadcast_rank),
    "Sub": computing(applied("subtract"), rank=broadcast_rank),
    "Mul": computing(applied("multiply"), rank=broadcast_rank),
    "Neg": computing(applied("negate"), rank=SAME),
    "Mod": computing(element_rules.modulo, rank=broadcast_rank),
    "Min": computing(folded("minimum")),
    "Max": computing(folded("maximum")),
    "Clip": computing(element_rules.clip, rank=SAME, host=(1, 2)),
    "Less": computing(applied("less"), gives=bool),
    "LessOrEqual": computing(applied("less_equal"), gives=bool),
    "Greater": computing(applied("greater"), gives=bool),
    "GreaterOrEqual": computing(applied("greater_equal"), gives=bool),
    "Equal": computing(applied("equal"), gives=bool),
    "And": computing(applied("and"), gives=bool),
    "Or": computing(applied("or"), gives=bool),
    "Xor": computing(applied("not_equal"), gives=bool),
    "Not": computing(applied("not"), gives=bool, rank=SAME),
    "Where": computing(applied("where"), gives=1),
    "CastLike": OperatorEntry(unread=(1,)),
    "Div": computing(element_rules.divide, rank=broadcast_rank),
    "Pow": computing(element_rules.power, rank=broadcast_rank),
    "Sum": computing(folded("add")),
    "Abs": computing(applied("absolute"), rank=SAME),
    "Floor": computing(applied("floor"), rank=SAME),
    "Ceil": computing(applied("ceil"), rank=SAME),
    "Relu": computing(element_rules.relu, rank=SAME),
    "ReduceSum": reduction("add"),
    "ReduceProd": reduction("multiply"),
    "ReduceMin": reduction("minimum"),
    "ReduceMax": reduction("maximum"),
    **for_all(reduction(), "ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMean", "ReduceSumSquare"),
    "Gather": moving(moving_rules.gather),
    "GatherElements": moving(rank=same_rank(2, 1)),
    "GatherND": moving(),
    "Slice": moving(moving_rules.sliced, sizes=size_rules.sliced, rank=SAME, host=(1, 2, 3, 4)),
    "Pad": moving(moves=(0, 2), sizes=size_rules.pad, rank=SAME, host=(1, 2, 3)),
    "Compress": moving(),
    "ScatterElements": moving(moves=(0, 2), rank=SAME),
    "ScatterND": moving(moves=(0, 2), rank=SAME),
}
"""Gathers and slices, and the operators that models use to compute their bounds and shapes."""

_OTHERS: Entries = {
    **for_all(
        RANKED, "BatchNormalization", "DequantizeLinear", "Elu", "Erf", "Exp", "Gelu", "GlobalAveragePool", "GlobalMaxPool"
    ),
    **for_all(RANKED, "HardSigmoid", "HardSwish", "InstanceNormalization", "LeakyRelu", "Log", "LogSoftmax", "LpNormalization"),
    **for_all(RANKED, "Mish", "PRelu", "QuantizeLinear", "Reciprocal", "ReverseSequence", "Round", "Selu", "Sigmoid", "Sign"),
    **for_all(RANKED, "Softmax", "Softplus", "Sqrt", "Tanh", "ThresholdedRelu"),
    **for_all(OperatorEntry(rank=size_rules.fixed_ranks(4, 3, 3, inputs=(3,))), "LSTM", "GRU", "RNN"),
    # Not evaluated: windows, padding and sums may need far more memory than the inputs and outputs.
    **for_all(OperatorEntry(rank=SAME, evaluated=False), "AveragePool", "LpPool", "MaxPool"),
    **for_all(OperatorEntry(rank=size_rules.kernel_rank(1), evaluated=False), "Conv", "ConvInteger", "ConvTranspose"),
    "QLinearConv": OperatorEntry(rank=size_rules.kernel_rank(3), evaluated=False),
    **for_all(OperatorEntry(evaluated=False), "DeformConv", "Einsum", "RoiAlign"),
    "MaxUnpool": OperatorEntry(evaluated=False, host=(2,)),  # output_shape
    "Col2Im": OperatorEntry(evaluated=False, host=(1, 2)),  # image_shape, block_shape
    "DFT": OperatorEntry(evaluated=False, host=(1, 2)),  # dft_length, axis
    "MelWeightMatrix": OperatorEntry(evaluated=False, host=(0, 1)),  # num_mel_bins, dft_length: the output's sizes
    "STFT": OperatorEntry(evaluated=False, rank=size_rules.fixed_ranks(4), host=(1, 3)),  # frame_step, frame_length
    # Not evaluated: ONNX and runtimes round differently.
    "AffineGrid": OperatorEntry(evaluated=False, host=(1,)),  # size
    "GridSample": OperatorEntry(evaluated=False),
    "Resize": OperatorEntry(evaluated=False, sizes=size_rules.resize, rank=SAME, host=(1, 2, 3)),  # scales, or roi, scales, sizes
    "Upsample": OperatorEntry(evaluated=False, rank=SAME, host=(1,)),  # scales
    # Not evaluated: for an index i outside the depth, some versions of ONNX's evaluator use i % depth.
    "OneHot": OperatorEntry(evaluated=False, host=(1,)),  # depth
    "ImageDecoder": OperatorEntry(evaluated=False),  # decodes the bytes of an image file
    # Not evaluated: random.
    **for_all(OperatorEntry(evaluated=False), "Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike"),
    **for_all(OperatorEntry(evaluated=False), "RandomUniform", "RandomUniformLike"),
    **for_all(OperatorEntry(host=(0,)), "BlackmanWindow", "HammingWindow", "HannWindow"),  # size
    "CenterCropPad": OperatorEntry(host=(1,)),  # shape
    "CumProd": OperatorEntry(host=(1,)),  # axis
    "CumSum": OperatorEntry(host=(1,), rank=SAME),  # axis
    "If": OperatorEntry(host=(0,)),  # cond
    "Loop": OperatorEntry(host=(0, 1)),  # M, cond
    "NonMaxSuppression": OperatorEntry(host=(2, 3, 4)),  # max_output_boxes_per_class, thresholds: fields of NON_MAX_SUPPRESSION
    **for_all(OperatorEntry(host=(1,)), "SequenceAt", "SequenceErase"),  # position
    "SequenceInsert": OperatorEntry(host=(2,)),  # position
    "SplitToSequence": OperatorEntry(host=(1,)),  # split
    "TopK": OperatorEntry(sizes=size_rules.top_k, host=(1,), rank=same_rank(1, 2)),  # K
    "Trilu": OperatorEntry(host=(1,), rank=SAME),  # k
    **for_all(OperatorEntry(unread=(0,)), "OptionalHasElement", "SequenceLength"),
}
"""Operators with rank rules, operators not to be evaluated, and operators with inputs that DirectML needs before it runs."""

_RUNTIME: Entries = {
    "LayerNormalization": runtime(runtime_rules.normalized, rank=SAME),  # before opset 17
    "SimplifiedLayerNormalization": runtime(runtime_rules.normalized_without_mean),
}

_MICROSOFT: Entries = {
    "Attention": runtime(attention(4, of=0)),
    **for_all(
        runtime(same_types(0)), "BiasAdd", "BiasGelu", "BiasSoftmax", "FastGelu", "Gelu", "GroupNorm", "MoE", "QLinearLeakyRelu"
    ),
    **for_all(runtime(same_types(0)), "QLinearSigmoid", "QLinearSoftmax", "QMoE", "QuickGelu", "RotaryEmbedding"),
    "BiasSplitGelu": runtime(runtime_rules.split_gelu),
    "DequantizeLinear": runtime(same_types(0, of=1)),
    "DynamicQuantizeLSTM": runtime(as_onnx("LSTM", 0, 1, 2)),
    **for_all(runtime(as_onnx("MatMul", 0, 1)), "DynamicQuantizeMatMul", "GemmFastGelu"),
    "EmbedLayerNormalization": runtime(embedding(2)),
    "FusedConv": runtime(as_onnx("Conv", 0, 1)),
    "FusedGemm": runtime(as_onnx("Gemm", 0, 1)),
    **for_all(runtime(matrix_product), "FusedMatMul", "FusedMatMulActivation", "TransposeMatMul"),
    "GatherBlockQuantized": runtime(runtime_rules.gathered_blocks),
    "GroupQueryAttention": runtime(runtime_rules.grouped_query, host=(6,)),
    **for_all(runtime(runtime_rules.packed_product), "MatMulBnb4", "MatMulNBits"),
    "MatMulIntegerToFloat": runtime(as_onnx("MatMul", 0, 1, of=(2,))),
    "MultiHeadAttention": runtime(runtime_rules.multi_head),
    "NhwcFusedConv": runtime(as_onnx("Conv", 0, 1, last=True)),
    "NhwcMaxPool": runtime(as_onnx("MaxPool", 0, last=True)),
    "QAttention": runtime(attention(8, of=2)),
    "QEmbedLayerNormalization": runtime(embedding(8)),
    "QGemm": runtime(as_onnx("Gemm", 0, 3, of=(8, 1))),
    **for_all(runtime(runtime_rules.broadcast(0, 3)), "QLinearAdd", "QLinearMul"),
    "QLinearAveragePool": runtime(as_onnx("AveragePool", 0)),
    "QLinearConcat": runtime(runtime_rules.concatenated),
    "QLinearConv": runtime(as_onnx("Conv", 0, 3, of=(7,))),
    "QLinearGlobalAveragePool": runtime(as_onnx("GlobalAveragePool", 0)),
    "QLinearReduceMean": runtime(as_onnx("ReduceMean", 0)),
    "QLinearWhere": runtime(runtime_rules.broadcast(0, 1, 4, of=1)),
    "QuantizeLinear": runtime(runtime_rules.quantized),
    "SkipGroupNorm": runtime(same_types(0, 0)),
    **for_all(runtime(same_types(0, None, None, 0)), "SkipLayerNormalization", "SkipSimplifiedLayerNormalization"),
    "ConvTransposeWithDynamicPads": OperatorEntry(host=(2,)),  # Pads
    "CropAndResize": OperatorEntry(host=(3,)),  # crop_size
    "ExpandDims": OperatorEntry(host=(1,)),  # axis
    "Pad": OperatorEntry(host=(1, 2, 3)),  # pads, value, axes
    "Trilu": OperatorEntry(host=(1,)),  # k
}

_BLOCKS: Entries = {
    "AveragePool": runtime(as_onnx("AveragePool", 0)),
    "Conv": runtime(runtime_rules.convolved),
    "GlobalAveragePool": runtime(as_onnx("GlobalAveragePool", 0)),
    "GlobalMaxPool": runtime(as_onnx("GlobalMaxPool", 0)),
    "MaxPool": runtime(as_onnx("MaxPool", 0)),
    "ReorderInput": runtime(runtime_rules.to_blocks),
    "ReorderOutput": runtime(runtime_rules.from_blocks),
    "Upsample": runtime(runtime_rules.upsampled),
}
"""Operators on NCHWc tensors, which group channels in blocks. Shapes are in NCHW, with channels padded to whole blocks."""

OPERATORS: Entries = {
    **_FOLLOWED,
    **_OTHERS,
    **_RUNTIME,
    **within("com.microsoft", _MICROSOFT),
    **within("com.microsoft.nchwc", _BLOCKS),
}
"""The whole table. Keys include the domain, except for ONNX's own."""

UNKNOWN = OperatorEntry()


def entry_of(node: NodeProto) -> OperatorEntry:
    """Return the entry of a node's operator, or UNKNOWN."""
    return OPERATORS.get(operator_name(node), UNKNOWN)


def compute(node: Any, opset: int, inputs: Sequence[Any]) -> Any:
    """Execute the `run` function of a node. The result may share memory with the inputs. Raise TypeError or ValueError
    for an ill-formed node.
    """
    run = entry_of(node).run
    assert run is not None, f"{node.op_type} has a rule"
    if in_family(node) or operator_name(node) not in VERSIONS:
        return run(stated_node(node, opset), *inputs)
    parsed = parse_node(node, opset)
    if parsed.version.inputs:
        check_type(parsed.version, "data", inputs[0].dtype, parsed.version.types)
    return run(parsed, *inputs)
