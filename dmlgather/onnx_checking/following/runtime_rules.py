"""Type rules for onnxruntime's own operators, which its optimisations and tools write into models.

Many have the output shapes of an operator of ONNX, so their rules ask ONNX about that operator. Source: onnxruntime's shape
inference, and runs of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from dmlgather.onnx.problems.data_types import data_type
from dmlgather.onnx.problems.partial_types import NOTHING, PartialType
from dmlgather.onnx_checking.following.operator_entries import KnownNode, Shape, SizeRule, TypeRule, following_shapes, tensor
from dmlgather.onnx_checking.following.size_rules import concat

ASKED_OPSET = 13

LARGEST_BLOCK = 16
"""The largest block of channels in NCHWc layout. All processors' block sizes divide it."""


def shapes_of(operator: str, call: KnownNode, shapes: Sequence[Shape | None], rule: SizeRule | None = None) -> list[Shape | None]:
    """Return the output shapes of ONNX's `operator` for inputs of these shapes, with the attributes of `call`."""
    from onnx import NodeProto, defs

    schema_attributes = defs.get_schema(operator, ASKED_OPSET, "").attributes
    names = [f"input {index}" for index in range(len(shapes))]
    attributes = [attribute for attribute in call.node.attribute if attribute.name in schema_attributes]
    node = NodeProto(op_type=operator, input=names, output=call.node.output, attribute=attributes)
    types = [tensor(np.dtype(np.float32), shape) for shape in shapes]
    asked = replace(call, node=node, opset=ASKED_OPSET, types=types, values=[None] * len(types))
    output_shapes = following_shapes(rule, asked)
    if output_shapes is not None:
        return output_shapes
    answer = asked.ask(asked.values).types
    return [answer.get(name, NOTHING).shape for name in node.output]


def same_types(*numbers: int | None, of: int | None = None) -> TypeRule:
    """Return a type rule: each output has the type of an input.
    `numbers`: the position of this input for each output. None means that the type is unknown.
    `of`: the position of the input that gives the data type. None means the same input that gives the shape.
    """
    return lambda call: [NOTHING if index is None else call.like(index, of=of) for index in numbers]


def as_onnx(operator: str, *numbers: int, of: Sequence[int] = (0,), last: bool | None = None) -> TypeRule:
    """Return a type rule that infers output shapes as ONNX does for `operator`.
    `numbers`: the positions of the inputs that are passed to `operator`.
    `of`: the positions of the inputs that may give the data type. The first one that is not omitted gives it.
    `last`: True if channels are the last dimension. None if the attribute channels_last decides.
    """

    def rule(call: KnownNode) -> list[PartialType]:
        shapes = [call.shape(index) for index in numbers]
        is_last = call.integers.get("channels_last", 0) if last is None else last
        if is_last and shapes[0] is not None:
            shapes[0] = [shapes[0][0], shapes[0][-1], *shapes[0][1:-1]]
        output_shapes = shapes_of(operator, call, shapes)
        if is_last:
            output_shapes = [shape and [shape[0], *shape[2:], shape[1]] for shape in output_shapes]
        return [tensor(call.dtype(*of), shape) for shape in output_shapes]

    return rule


def matrix_product(call: KnownNode) -> list[PartialType]:
    """Infer the type of a matrix product. Attributes may transpose the factors."""
    (shape,) = shapes_of("MatMul", call, [_transposed_shape(call, 0, "A"), _transposed_shape(call, 1, "B")])
    return [call.like(0).sized(shape)]


def _transposed_shape(call: KnownNode, index: int, letter: str) -> Shape | None:
    """Return the shape of a transposed factor. transBatch moves dimension 0 before the last; then trans swaps the last two."""
    shape = call.shape(index)
    if shape is None or len(shape) < 2:
        return shape
    if call.integers.get(f"transBatch{letter}", 0):
        shape = [*shape[1:-1], shape[0], shape[-1]]
    return [*shape[:-2], shape[-1], shape[-2]] if call.integers.get(f"trans{letter}", 0) else shape


def packed_product(call: KnownNode) -> list[PartialType]:
    """Infer the type of a product with a packed matrix of shape [K, N], or [N, K] with transB."""
    data = call.shape(0)
    columns = call.integers["N" if call.integers.get("transB", 1) else "K"]
    return [call.like(0).sized(data and [*data[:-1], columns])]


def quantized(call: KnownNode) -> list[PartialType]:
    """Infer the type of quantized data. Without a zero point, it is uint8."""
    return [tensor(call.dtype(2) if call.has(2) else np.dtype(np.uint8), call.shape(0))]


def broadcast(*numbers: int, of: int = 0) -> TypeRule:
    """Return a type rule for inputs that are broadcast.
    `numbers`: the positions of these inputs. `of`: the position of the input that gives the data type.
    """
    return lambda call: [
        tensor(call.dtype(of), shape) for shape in shapes_of("Sum", call, [call.shape(index) for index in numbers])
    ]


def concatenated(call: KnownNode) -> list[PartialType]:
    """Infer the type of a quantized concatenation.
    The inputs are the output's scale and zero point, then the elements, scale and zero point of each operand.
    """
    parts = range(2, len(call.node.input), 3)
    return [tensor(call.dtype(1), shape) for shape in shapes_of("Concat", call, [call.shape(index) for index in parts], concat)]


def normalized(call: KnownNode) -> list[PartialType]:
    """Infer the output types of a layer normalization: normalized data, mean, inverse standard deviation."""
    shape, dtype = call.shape(0), data_type(call.integers.get("stash_type", 1))
    first = call.integers.get("axis", -1) % len(shape or (1,))
    statistics = tensor(dtype, shape and [1 if axis >= first else size for axis, size in enumerate(shape)])
    return [call.like(0, of=1), statistics, statistics]


def normalized_without_mean(call: KnownNode) -> list[PartialType]:
    """Infer the output types of an RMS normalization: normalized data, inverse root mean square."""
    return [type_ for number, type_ in enumerate(normalized(call)) if number != 1]


def embedding(scales: int) -> TypeRule:
    """Return a type rule for embeddings. The outputs are the normalized sums, an index for each row, and the sums.
    `scales`: the position of the input that gives the data type.
    """

    def rule(call: KnownNode) -> list[PartialType]:
        ids, table = call.sizes(0), call.sizes(2)
        sums = tensor(call.dtype(scales), [*ids, table[1]])
        return [sums, tensor(np.dtype(np.int32), ids[:1]), sums]

    return rule


def attention(past: int, of: int) -> TypeRule:
    """Return a type rule for attention with projection weights.
    `past`: the position of the input with past keys and values. `of`: the position of the input that gives the data type.
    """

    def rule(call: KnownNode) -> list[PartialType]:
        data, weights, bias = call.sizes(0), call.shape(1), call.shape(2)
        packed_width = weights[1] if weights is not None else None if bias is None else bias[0]
        third = call.size("floor_divide", packed_width, 3)
        queries, _, values = call.ints("qkv_hidden_sizes") or (third, third, third)
        heads, cached = call.integers["num_heads"], call.shape(past)
        past_length = cached[3] if cached is not None else None if call.has(past) else 0
        length = None if call.integers.get("past_present_share_buffer", 0) else call.size("add", past_length, data[1])
        present = [2, data[0], heads, length, call.size("floor_divide", queries, heads)]
        return [tensor(call.dtype(of), [*data[:2], values]), tensor(call.dtype(of), present)]

    return rule


def multi_head(call: KnownNode) -> list[PartialType]:
    """Infer the output types of attention: the result, then all keys and all values so far.
    Packed inputs have five dimensions. Past keys and values require keys of three dimensions.
    """
    query, (key, value) = call.sizes(0), (call.sizes(index) if call.has(index) else None for index in (1, 2))
    heads, hidden = call.integers["num_heads"], query[2]
    if len(query) == 5:
        hidden = call.size("multiply", query[2], query[4])
    elif value is not None:
        hidden = value[2] if len(value) == 3 else call.size("multiply", value[1], value[3])
    types = [call.like(0).sized([*query[:2], hidden])]
    if key is None or len(key) != 3 or call.has(8):  # 8: a buffer as long as the longest sequence
        return types
    for index, width in ((6, query[2]), (7, hidden)):
        cached = call.shape(index)
        past_length = cached[2] if cached is not None else None if call.has(index) else 0
        present = [query[0], heads, call.size("add", past_length, key[1]), call.size("floor_divide", width, heads)]
        types.append(call.like(0).sized(present))
    return types


def grouped_query(call: KnownNode) -> list[PartialType]:
    """Infer the output types of attention with keys shared by several heads. Input 0 may pack queries, keys and values."""
    query, past = call.sizes(0), call.shape(3)
    heads, shared = call.integers["num_heads"], call.integers["kv_num_heads"]
    width = call.size("floor_divide", query[2], heads if call.has(1) else heads + 2 * shared)
    types = [call.like(0).sized([*query[:2], call.size("multiply", heads, width)])]
    if call.integers.get("kv_cache_bit_width", 0) or call.integers.get("sliding_window_cache", 0):
        return types
    total = call.elements(6) if call.has(6) else None
    past_length = past[2] if past is not None else None if call.has(3) else 0
    length = call.size("maximum", past_length, total[0]) if total else None
    return types + 2 * [tensor(call.dtype(3, 0), [query[0], shared, length, width])]


def gathered_blocks(call: KnownNode) -> list[PartialType]:
    """Infer the type of a gather from block-quantized data. A uint8 holds several elements."""
    data, indices = call.sizes(0), call.sizes(1)
    per_byte = 8 // call.integers.get("bits", 4) if call.dtype(0) == np.uint8 else 1
    data = [*data[:-1], call.size("multiply", data[-1], per_byte)]
    axis = call.integers.get("gather_axis", 0) % len(data)
    return [tensor(call.dtype(2), [*data[:axis], *indices, *data[axis + 1 :]])]


def to_blocks(call: KnownNode) -> list[PartialType]:
    """Infer the type after conversion to NCHWc layout. The number of channels is known only if they fill whole blocks."""
    shape = call.sizes(0)
    if call.integers.get("channels_last", 0):
        shape = [shape[0], shape[-1], *shape[1:-1]]
    channels = shape[1] if isinstance(shape[1], int) and shape[1] % LARGEST_BLOCK == 0 else None
    return [call.like(0).sized([shape[0], channels, *shape[2:]])]


def convolved(call: KnownNode) -> list[PartialType]:
    """Infer the types of a convolution in NCHWc layout: the output, then the data input. The weights give the channels."""
    types, weights = list(as_onnx("Conv", 0, 1)(call)), call.shape(1)
    if weights is None:
        return types
    channels = call.size("multiply", weights[1], call.integers.get("group", 1))
    return [*types, call.like(0).sized([None, channels, *(None for _ in weights[2:])])]


def from_blocks(call: KnownNode) -> list[PartialType]:
    """Infer the type after conversion from NCHWc layout."""
    shape, channels = call.sizes(0), call.integers["channels"]
    last = call.integers.get("channels_last", 0)
    return [call.like(0).sized([shape[0], *shape[2:], channels] if last else [shape[0], channels, *shape[2:]])]


def upsampled(call: KnownNode) -> list[PartialType]:
    """Infer the type after upsampling by integer factors."""
    pairs = zip(call.sizes(0), call.ints("scales") or (), strict=True)
    return [call.like(0).sized([call.size("multiply", size, scale) for size, scale in pairs])]


def split_gelu(call: KnownNode) -> list[PartialType]:
    """Infer the type of a product: half of the channels, multiplied by Gelu of the other half."""
    shape = call.shape(0)
    return [call.like(0).sized(shape and [*shape[:-1], call.size("floor_divide", shape[-1], 2)])]
