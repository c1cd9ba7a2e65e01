"""Layers of networks that other dialects have as well, as the graphs of all dialects spell them.

`torch/tracing/opaque_nodes.py` asks only for nodes whose tensors have one floating-point type.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import sqrt
from typing import Any

import numpy as np

from dmlgather.dialects.shared_operators import SharedOperator, rounded, shared
from dmlgather.torch.tracing.node_calls import NodeCall

Row = Callable[[NodeCall], SharedOperator | None]


def tensors(call: NodeCall, *arguments: str) -> list[str | None]:
    """The values of tensors among the arguments; None for those that are left out."""
    return [None if call[each] is None else call.value(each) for each in arguments]


def number(call: NodeCall, argument: str) -> Any:
    """A number, as it is computed with."""
    return rounded(call[argument], call.result.dtype)


def constant(call: NodeCall, number: float) -> str:
    """A number of the type of the result."""
    return call.graph.constant(np.array(number, call.result.dtype))


def _each(given: int | Sequence[int], count: int) -> tuple[int, ...]:
    """One number for each of so many dimensions: one number stands for all."""
    sizes = (given,) if isinstance(given, int) else tuple(given)
    return sizes * count if len(sizes) == 1 else sizes


def _linear(call: NodeCall) -> SharedOperator | None:
    if call.type("weight").rank != 2:
        return None
    return shared("linear", tensors(call, "input", "weight", "bias"))


def _product(first: str, second: str) -> Row:
    """Self · beta + first · second · alpha. With a beta of 0, PyTorch does not read self, which has no other form."""

    def row(call: NodeCall) -> SharedOperator | None:
        if call["beta"] == 0:
            return None
        factors = {name: number(call, name) for name in ("alpha", "beta")}
        return shared("gemm", tensors(call, first, second, "self"), trans_a=False, trans_b=False, **factors)

    return row


def _einsum(call: NodeCall) -> SharedOperator:
    return shared("einsum", [each.name for each in call["tensors"]], equation=call["equation"])


def _convolution(call: NodeCall) -> SharedOperator | None:
    """A convolution of a batch, turned or not."""
    data, weight = call.type("input"), call.type("weight")
    count = weight.rank - 2
    if data.rank != weight.rank:
        return None
    strides, dilations = _each(call["stride"], count), _each(call["dilation"], count)
    if isinstance(call["padding"], str):
        spare = [
            wide * (size - 1) if call["padding"] == "same" else 0 for wide, size in zip(dilations, weight.shape[2:], strict=True)
        ]
        pads = (*(each // 2 for each in spare), *(each - each // 2 for each in spare))
    else:
        pads = _each(call["padding"], count) * 2
    found = {"strides": strides, "pads": pads, "dilations": dilations, "group": call["groups"]}
    turned = call.given.get("transposed", call.operator.startswith("conv_transpose"))
    more = {"output_padding": _each(call["output_padding"], count)} if turned else {}
    return shared("conv_transpose" if turned else "conv", tensors(call, "input", "weight", "bias"), **found, **more)


def _pool(operator: str, count: int) -> Row:
    """A pool over so many dimensions, whose windows all lie in the padded data."""

    def row(call: NodeCall) -> SharedOperator | None:
        if call["ceil_mode"] or call.given.get("divisor_override") is not None or call.type().rank != count + 2:
            return None
        kernel, pads = _each(call["kernel_size"], count), _each(call["padding"], count) * 2
        strides = _each(call["stride"], count) if call["stride"] else kernel
        counted = {"count_padding": call["count_include_pad"]} if operator == "average_pool" and any(pads) else {}
        dilations = _each(call.given.get("dilation", 1), count)
        return shared(operator, tensors(call, "self"), kernel=kernel, strides=strides, pads=pads, dilations=dilations, **counted)

    return row


def _one_average(count: int) -> Row:
    """A pool with one window: a mean."""

    def row(call: NodeCall) -> SharedOperator | None:
        rank = call.type().rank
        if any(size != 1 for size in call["output_size"]):
            return None
        return shared("reduce_mean", tensors(call, "self"), axes=tuple(range(rank - count, rank)), keepdims=True)

    return row


def _layer_norm(call: NodeCall) -> SharedOperator | None:
    inputs = tensors(call, "input", "weight", "bias")
    if inputs[1] is None and inputs[2] is not None:
        return None
    axis = call.type("input").rank - len(call["normalized_shape"])
    return shared("layer_norm", inputs, axis=axis, epsilon=number(call, "eps"))


def _rms_norm(call: NodeCall) -> SharedOperator | None:
    """Without eps, it is the step from 1 to the next number of the type."""
    if call["eps"] is None and call.result.dtype not in (np.float32, np.float64):
        return None  # PyTorch's versions differ
    epsilon = float(np.finfo(call.result.dtype).eps) if call["eps"] is None else number(call, "eps")
    axis = call.type("input").rank - len(call["normalized_shape"])
    return shared("rms_norm", tensors(call, "input", "weight"), axis=axis, epsilon=epsilon)


def _group_norm(call: NodeCall) -> SharedOperator | None:
    inputs = tensors(call, "input", "weight", "bias")
    if inputs[1] is None and inputs[2] is not None:
        return None
    return shared("group_norm", inputs, groups=call["num_groups"], epsilon=number(call, "eps"))


def _instance_norm(call: NodeCall) -> SharedOperator | None:
    inputs = tensors(call, "input", "weight", "bias")
    if not call["use_input_stats"] or (inputs[1] is None and inputs[2] is not None):
        return None
    return shared("group_norm", inputs, groups=call.type("input").shape[1], epsilon=number(call, "eps"))


def _batch_norm(call: NodeCall) -> SharedOperator | None:
    inputs = tensors(call, "input", "weight", "bias", "running_mean", "running_var")
    if call["training"] or None in inputs[3:]:
        return None
    channels = (call.type("input").shape[1],)
    for place, default in ((1, 1), (2, 0)):
        inputs[place] = inputs[place] or call.graph.constant(np.full(channels, default, call.result.dtype))
    return shared("batch_norm", inputs, epsilon=number(call, "eps"))


def _attention(call: NodeCall) -> SharedOperator | None:
    query, key, mask = call.type("query"), call.type("key"), call["attn_mask"]
    if call["dropout_p"] or call["enable_gqa"] or query.shape[:-2] != key.shape[:-2] or (mask is not None and call["is_causal"]):
        return None
    scores = (*query.shape[:-1], key.shape[-2])
    if mask is not None and np.broadcast_shapes(scores, call.type("attn_mask").shape) != scores:
        return None
    width = query.shape[-1]
    scale = call["scale"] if call["scale"] is not None else 1 / sqrt(width) if width else 1.0
    if scale <= 0:
        return None
    inputs = tensors(call, "query", "key", "value", "attn_mask")
    return shared("attention", inputs, causal=call["is_causal"], scale=scale)


def _padded(call: NodeCall) -> SharedOperator | None:
    """PyTorch names the pads of the last dimension first."""
    rank, given = call.type().rank, call["pad"]
    modes = {"constant": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}
    pairs = [(given[place], given[place + 1]) for place in range(0, len(given), 2)]
    pads = (*[(0, 0)] * (rank - len(pairs)), *reversed(pairs))
    mode = modes[call.given.get("mode", "constant")]
    filled = [constant(call, call["value"] or 0)] if mode == "constant" else []
    return shared("pad", [*tensors(call, "self"), *filled], mode=mode, pads=pads)


LAYERS: Mapping[str, Row] = {
    "linear.default": _linear,
    "addmm.default": _product("mat1", "mat2"),
    "baddbmm.default": _product("batch1", "batch2"),
    "einsum.default": _einsum,
    **dict.fromkeys((f"conv{rank}d.{kind}" for rank in (1, 2, 3) for kind in ("default", "padding")), _convolution),
    **dict.fromkeys(("convolution.default", "conv_transpose1d.default"), _convolution),
    **dict.fromkeys(("conv_transpose2d.input", "conv_transpose3d.input"), _convolution),
    **{f"max_pool{rank}d.default": _pool("max_pool", rank) for rank in (1, 2, 3)},
    **{f"avg_pool{rank}d.default": _pool("average_pool", rank) for rank in (1, 2, 3)},
    **{f"adaptive_avg_pool{rank}d.default": _one_average(rank) for rank in (1, 2, 3)},
    "layer_norm.default": _layer_norm,
    "rms_norm.default": _rms_norm,
    "group_norm.default": _group_norm,
    "instance_norm.default": _instance_norm,
    "batch_norm.default": _batch_norm,
    "scaled_dot_product_attention.default": _attention,
    "pad.default": _padded,
    "constant_pad_nd.default": _padded,
}
"""PyTorch's layers. A row gives None where an argument says what PyTorch alone has."""
