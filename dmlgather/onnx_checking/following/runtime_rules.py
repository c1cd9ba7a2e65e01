"""Types of what onnxruntime's own operators give: a rule for each operator. Only shapes and data types follow; what they compute
is not looked into.

Its optimisations write most of them, its tools for quantization and transformers the others. Many have the shapes of an operator
of ONNX, which is asked about that one. Source: onnxruntime's own shape inference, and its runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from dmlgather.onnx.problems.data_types import data_type
from dmlgather.onnx.problems.partial_types import NOTHING, PartialType
from dmlgather.onnx_checking.following.operator_rows import KnownNode, Shape, SizeRule, TypeRule, following_shapes, tensor
from dmlgather.onnx_checking.following.size_rules import concat

ASKED_OPSET = 13
"""The opset of ONNX in which it is asked about operators that have the shapes of its own, whatever the model's opset is."""

LARGEST_BLOCK = 16
"""Channels: the blocks of onnxruntime's NCHWc layout have so many, or a part of it, depending on the processor."""


def shapes_of(operator: str, call: KnownNode, shapes: Sequence[Shape | None], rule: SizeRule | None = None) -> list[Shape | None]:
    """The shapes of the outputs of ONNX's operator with the node's attributes, for inputs of these shapes. rule: that of the
    operator, where it has one.
    """
    from onnx import NodeProto, defs

    known = defs.get_schema(operator, ASKED_OPSET, "").attributes
    names = [f"input {at}" for at in range(len(shapes))]
    given = [each for each in call.node.attribute if each.name in known]
    node = NodeProto(op_type=operator, input=names, output=call.node.output, attribute=given)
    types = [tensor(np.dtype(np.float32), shape) for shape in shapes]
    other = replace(call, node=node, opset=ASKED_OPSET, types=types, values=[None] * len(types))
    found = following_shapes(rule, other)
    if found is not None:
        return found
    answer = other.ask(other.values).types
    return [answer.get(name, NOTHING).shape for name in node.output]


def like(*numbers: int | None, of: int | None = None) -> TypeRule:
    """Outputs that have the types of these inputs; nothing follows for None. of: the input whose data type they have."""
    return lambda call: [NOTHING if at is None else call.like(at, of=of) for at in numbers]


def as_onnx(operator: str, *numbers: int, of: Sequence[int] = (0,), last: bool | None = None) -> TypeRule:
    """Outputs of the shapes that ONNX's operator gives for these inputs. of: the input whose data type they have, or the next one
    where that is left out. last: whether channels are the last dimension; None where an attribute says so.
    """

    def row(call: KnownNode) -> list[PartialType]:
        shapes = [call.shape(at) for at in numbers]
        is_last = call.integers.get("channels_last", 0) if last is None else last
        if is_last and shapes[0] is not None:
            shapes[0] = [shapes[0][0], shapes[0][-1], *shapes[0][1:-1]]
        found = shapes_of(operator, call, shapes)
        if is_last:
            found = [shape and [shape[0], *shape[2:], shape[1]] for shape in found]
        return [tensor(call.dtype(*of), shape) for shape in found]

    return row


def matrix_product(call: KnownNode) -> list[PartialType]:
    """Of factors that may be transposed before."""
    (found,) = shapes_of("MatMul", call, [_turned(call, 0, "A"), _turned(call, 1, "B")])
    return [call.like(0).sized(found)]


def _turned(call: KnownNode, at: int, letter: str) -> Shape | None:
    """The shape of a factor once it is transposed: its first dimension to the last but one, and then the last two."""
    shape = call.shape(at)
    if shape is None or len(shape) < 2:
        return shape
    if call.integers.get(f"transBatch{letter}", 0):
        shape = [*shape[1:-1], shape[0], shape[-1]]
    return [*shape[:-2], shape[-1], shape[-2]] if call.integers.get(f"trans{letter}", 0) else shape


def packed_product(call: KnownNode) -> list[PartialType]:
    """By a packed matrix of K times N elements."""
    data = call.shape(0)
    columns = call.integers["N" if call.integers.get("transB", 1) else "K"]
    return [call.like(0).sized(data and [*data[:-1], columns])]


def quantized(call: KnownNode) -> list[PartialType]:
    """Of the type of the zero point, or bytes where there is none."""
    return [tensor(call.dtype(2) if call.has(2) else np.dtype(np.uint8), call.shape(0))]


def broadcast(*numbers: int, of: int = 0) -> TypeRule:
    """An output with an element for each of these inputs together. of: the input whose data type it has."""
    return lambda call: [tensor(call.dtype(of), shape) for shape in shapes_of("Sum", call, [call.shape(at) for at in numbers])]


def concatenated(call: KnownNode) -> list[PartialType]:
    """Inputs behind the output's scale and zero point, each followed by its own."""
    parts = range(2, len(call.node.input), 3)
    return [tensor(call.dtype(1), shape) for shape in shapes_of("Concat", call, [call.shape(at) for at in parts], concat)]


def normalized(call: KnownNode) -> list[PartialType]:
    """Data, then their mean and inverse deviation, or only one of these, along the axes from `axis` on."""
    shape, kept = call.shape(0), data_type(call.integers.get("stash_type", 1))
    along = shape and [1 if at >= call.integers.get("axis", -1) % len(shape) else size for at, size in enumerate(shape)]
    return [call.like(0, of=1), tensor(kept, along), tensor(kept, along)]


def normalized_without_mean(call: KnownNode) -> list[PartialType]:
    """Data, then their inverse deviation."""
    return [known for at, known in enumerate(normalized(call)) if at != 1]


def embedded(scales: int) -> TypeRule:
    """Normalized sums of embeddings, an index for each row, and the sums. scales: the input that has their data type."""

    def row(call: KnownNode) -> list[PartialType]:
        ids, table = call.sizes(0), call.sizes(2)
        sums = tensor(call.dtype(scales), [*ids, table[1]])
        return [sums, tensor(np.dtype(np.int32), ids[:1]), sums]

    return row


def attention(past: int, of: int) -> TypeRule:
    """Attention whose weights are inside. past: the input with keys and values so far. of: an input of the outputs' data type."""

    def row(call: KnownNode) -> list[PartialType]:
        data, weights, bias = call.sizes(0), call.shape(1), call.shape(2)
        joined = weights[1] if weights is not None else None if bias is None else bias[0]
        third = call.size("floor_divide", joined, 3)
        queries, _, values = call.ints("qkv_hidden_sizes") or (third, third, third)
        heads, so_far = call.integers["num_heads"], call.shape(past)
        before = so_far[3] if so_far is not None else None if call.has(past) else 0
        length = None if call.integers.get("past_present_share_buffer", 0) else call.size("add", before, data[1])
        present = [2, data[0], heads, length, call.size("floor_divide", queries, heads)]
        return [tensor(call.dtype(of), [*data[:2], values]), tensor(call.dtype(of), present)]

    return row


def multi_head(call: KnownNode) -> list[PartialType]:
    """Attention to keys and values, in three dimensions, by heads in four, or packed in five; then keys and values with those so
    far, where they are in three.
    """
    query, (key, value) = call.sizes(0), (call.sizes(at) if call.has(at) else None for at in (1, 2))
    heads, hidden = call.integers["num_heads"], query[2]
    if len(query) == 5:
        hidden = call.size("multiply", query[2], query[4])
    elif value is not None:
        hidden = value[2] if len(value) == 3 else call.size("multiply", value[1], value[3])
    found = [call.like(0).sized([*query[:2], hidden])]
    if key is None or len(key) != 3 or call.has(8):  # 8: a buffer as long as the longest sequence
        return found
    for at, width in ((6, query[2]), (7, hidden)):
        so_far = call.shape(at)
        before = so_far[2] if so_far is not None else None if call.has(at) else 0
        present = [query[0], heads, call.size("add", before, key[1]), call.size("floor_divide", width, heads)]
        found.append(call.like(0).sized(present))
    return found


def grouped(call: KnownNode) -> list[PartialType]:
    """Attention of which several heads share a key, packed where there is no key; then keys and values with those so far."""
    query, past = call.sizes(0), call.shape(3)
    heads, shared = call.integers["num_heads"], call.integers["kv_num_heads"]
    width = call.size("floor_divide", query[2], heads if call.has(1) else heads + 2 * shared)
    found = [call.like(0).sized([*query[:2], call.size("multiply", heads, width)])]
    if call.integers.get("kv_cache_bit_width", 0) or call.integers.get("sliding_window_cache", 0):
        return found
    total = call.elements(6) if call.has(6) else None
    before = past[2] if past is not None else None if call.has(3) else 0
    length = call.size("maximum", before, total[0]) if total else None
    return found + 2 * [tensor(call.dtype(3, 0), [query[0], shared, length, width])]


def picked(call: KnownNode) -> list[PartialType]:
    """A gather of rows that are packed in blocks, several to a byte where their type is one of bytes."""
    data, indices = call.sizes(0), call.sizes(1)
    per_byte = 8 // call.integers.get("bits", 4) if call.dtype(0) == np.uint8 else 1
    data = [*data[:-1], call.size("multiply", data[-1], per_byte)]
    axis = call.integers.get("gather_axis", 0) % len(data)
    return [tensor(call.dtype(2), [*data[:axis], *indices, *data[axis + 1 :]])]


def to_blocks(call: KnownNode) -> list[PartialType]:
    """The NCHWc layout, whose channels are as many as fill blocks."""
    shape = call.sizes(0)
    if call.integers.get("channels_last", 0):
        shape = [shape[0], shape[-1], *shape[1:-1]]
    channels = shape[1] if isinstance(shape[1], int) and shape[1] % LARGEST_BLOCK == 0 else None
    return [call.like(0).sized([shape[0], channels, *shape[2:]])]


def convolved(call: KnownNode) -> list[PartialType]:
    """A convolution, and its first input, whose channels are those of the weights."""
    found, weights = list(as_onnx("Conv", 0, 1)(call)), call.shape(1)
    if weights is None:
        return found
    channels = call.size("multiply", weights[1], call.integers.get("group", 1))
    return [*found, call.like(0).sized([None, channels, *(None for _ in weights[2:])])]


def from_blocks(call: KnownNode) -> list[PartialType]:
    """Back from the NCHWc layout."""
    shape, channels = call.sizes(0), call.integers["channels"]
    last = call.integers.get("channels_last", 0)
    return [call.like(0).sized([shape[0], *shape[2:], channels] if last else [shape[0], channels, *shape[2:]])]


def enlarged(call: KnownNode) -> list[PartialType]:
    """By whole numbers."""
    pairs = zip(call.sizes(0), call.ints("scales") or (), strict=True)
    return [call.like(0).sized([call.size("multiply", size, scale) for size, scale in pairs])]


def halved(call: KnownNode) -> list[PartialType]:
    """One half times what follows of the other."""
    shape = call.shape(0)
    return [call.like(0).sized(shape and [*shape[:-1], call.size("floor_divide", shape[-1], 2)])]
