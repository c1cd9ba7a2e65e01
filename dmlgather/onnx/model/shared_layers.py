"""Layers of networks that other dialects have as well: products, convolutions, pools, norms, activations with parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from dmlgather.dialects.shared_operators import SharedOperator, rounded, shared
from dmlgather.dialects.windows import integers
from dmlgather.onnx.model.translated_node import TranslatedNode

Row = Callable[[TranslatedNode], SharedOperator | None]


def number_of(call: TranslatedNode, name: str, default: float) -> Any:
    """A floating-point attribute, as it is computed with."""
    given = call.attribute(name)
    return rounded(default if given is None else given, call.tensor.dtype)


def _list(call: TranslatedNode, name: str, default: Sequence[int]) -> tuple[int, ...]:
    given = call.attribute(name)
    return tuple(default if given is None else given)


def _text(call: TranslatedNode, name: str, default: str) -> str:
    given = call.attribute(name)
    return default if given is None else str(given.decode())


def _gemm(call: TranslatedNode) -> SharedOperator | None:
    if call.opset < 7:  # attributes say how c is broadcast
        return None
    factors = {name: number_of(call, name, 1.0) for name in ("alpha", "beta")}
    turned = {f"trans_{name}": bool(call.attribute(f"trans{name.upper()}")) for name in "ab"}
    return shared("gemm", call.inputs, **factors, **turned)


def _einsum(call: TranslatedNode) -> SharedOperator:
    return shared("einsum", call.inputs, equation=_text(call, "equation", ""))


def _windows(call: TranslatedNode, kernel: Sequence[int]) -> dict[str, tuple[int, ...]] | None:
    """Strides, pads and dilations of a window that slides over all dimensions behind the channels; None for other paddings."""
    count = call.tensor.rank - 2
    strides, dilations = (_list(call, name, [1] * count) for name in ("strides", "dilations"))
    pads = _list(call, "pads", [0] * (2 * count))
    kind = _text(call, "auto_pad", "NOTSET")
    if count < 1 or len(kernel) != count or kind not in ("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"):
        return None
    if kind == "VALID":
        pads = (0,) * (2 * count)
    elif kind != "NOTSET":
        sizes = zip(call.tensor.shape[2:], kernel, strides, dilations, strict=True)
        whole = [max(0, (-(-size // step) - 1) * step + (length - 1) * wide + 1 - size) for size, length, step, wide in sizes]
        less, more = [each // 2 for each in whole], [each - each // 2 for each in whole]
        pads = tuple(less + more if kind == "SAME_UPPER" else more + less)
    return {"strides": strides, "pads": pads, "dilations": dilations}


def _conv(call: TranslatedNode) -> SharedOperator | None:
    windows = _windows(call, call.graph.types[call.inputs[1] or ""].shape[2:])
    return None if windows is None else shared("conv", call.inputs, group=call.attribute("group") or 1, **windows)


def _conv_transpose(call: TranslatedNode) -> SharedOperator | None:
    windows = _windows(call, call.graph.types[call.inputs[1] or ""].shape[2:])
    if windows is None or call.attribute("output_shape") or _text(call, "auto_pad", "NOTSET") != "NOTSET":
        return None
    more = _list(call, "output_padding", [0] * (call.tensor.rank - 2))
    return shared("conv_transpose", call.inputs, group=call.attribute("group") or 1, output_padding=more, **windows)


def _pool(operator: str) -> Row:
    """A pool whose windows all lie in the padded data; how many elements an average counts is said."""

    def row(call: TranslatedNode) -> SharedOperator | None:
        kernel = _list(call, "kernel_shape", ())
        windows = _windows(call, kernel)
        if windows is None or call.attribute("ceil_mode"):
            return None
        counted = (
            {"count_padding": bool(call.attribute("count_include_pad"))}
            if operator == "average_pool" and any(windows["pads"])
            else {}
        )
        return shared(operator, call.inputs, kernel=kernel, **windows, **counted)

    return row


def _global_average(call: TranslatedNode) -> SharedOperator:
    return shared("reduce_mean", call.inputs, axes=tuple(range(2, call.tensor.rank)), keepdims=True)


def _batch_norm(call: TranslatedNode) -> SharedOperator | None:
    if call.opset < 9 or call.attribute("training_mode"):
        return None
    return shared("batch_norm", call.inputs, epsilon=number_of(call, "epsilon", 1e-5))


def _layer_norm(call: TranslatedNode) -> SharedOperator:
    return shared("layer_norm", call.inputs, axis=call.axis(-1), epsilon=number_of(call, "epsilon", 1e-5))


def _rms_norm(call: TranslatedNode) -> SharedOperator:
    return shared("rms_norm", call.inputs, axis=call.axis(-1), epsilon=number_of(call, "epsilon", 1e-5))


def _instance_norm(call: TranslatedNode) -> SharedOperator | None:
    if call.opset < 6:
        return None
    return shared("group_norm", call.inputs, groups=call.tensor.shape[1], epsilon=number_of(call, "epsilon", 1e-5))


def _group_norm(call: TranslatedNode) -> SharedOperator | None:
    if call.opset < 21:  # scales each group, not each channel
        return None
    return shared("group_norm", call.inputs, groups=call.attribute("num_groups"), epsilon=number_of(call, "epsilon", 1e-5))


def _along(operator: str) -> Row:
    """A softmax. Before version 13, all dimensions from the axis on are one."""

    def row(call: TranslatedNode) -> SharedOperator | None:
        axis = call.axis(-1 if call.opset >= 13 else 1)
        return shared(operator, call.inputs, axis=axis) if call.opset >= 13 or axis == call.tensor.rank - 1 else None

    return row


def _gelu(call: TranslatedNode) -> SharedOperator:
    return shared("gelu", call.inputs, approximate=_text(call, "approximate", "none"))


def _clip(call: TranslatedNode) -> SharedOperator | None:
    if call.opset >= 11:
        given = [(limit, call.inputs[number]) for number, limit in ((1, "low"), (2, "high")) if call.given(number)]
    else:
        if call.tensor.dtype != np.float32 and not (call.attribute("min") is not None and call.attribute("max") is not None):
            return None  # bounds that are left out are float32's
        most = float(np.finfo(np.float32).max)
        values = [("low", call.attribute("min"), -most), ("high", call.attribute("max"), most)]
        given = [
            (limit, call.graph.constant(np.array(default if value is None else value, call.tensor.dtype)))
            for limit, value, default in values
        ]
    return shared("clip", (call.data, *(value for _, value in given)), limits=tuple(limit for limit, _ in given))


def _activation(operator: str, **defaults: float) -> Row:
    """A function of one element with parameters. defaults: by the names of ONNX's attributes."""

    def row(call: TranslatedNode) -> SharedOperator:
        return shared(operator, call.inputs, **{name: number_of(call, name, default) for name, default in defaults.items()})

    return row


def _swish(call: TranslatedNode) -> SharedOperator | None:
    return shared("silu", call.inputs) if number_of(call, "alpha", 1.0) == 1 else None


def _hard_swish(call: TranslatedNode) -> SharedOperator:
    return shared("hard_swish", call.inputs, alpha=rounded(1 / 6, call.tensor.dtype), beta=0.5)


def _cumsum(call: TranslatedNode) -> SharedOperator | None:
    if call.values[1] is None or call.attribute("exclusive") or call.attribute("reverse"):
        return None
    (axis,) = integers("CumSum", "axis", np.reshape(call.values[1], -1).tolist())
    return shared("cumsum", (call.data,), axis=axis % call.tensor.rank)


def _first_extremum(operator: str) -> Row:
    def row(call: TranslatedNode) -> SharedOperator | None:
        if call.attribute("select_last_index"):
            return None
        keeps = call.attribute("keepdims")
        return shared(operator, call.inputs, axis=call.axis(0), keepdims=keeps is None or bool(keeps))

    return row


def _pad(call: TranslatedNode) -> SharedOperator | None:
    """The pads of each dimension, before and behind it, and what is written there."""
    pads, axes = call.values[1], call.values[3] if call.given(3) else None
    if call.opset < 11 or pads is None or (call.given(3) and axes is None):
        return None
    rank, pads = call.tensor.rank, integers("Pad", "pads", pads)
    axes = range(rank) if axes is None else [axis % rank for axis in integers("Pad", "axes", axes)]
    found = [(0, 0)] * rank
    for number, axis in enumerate(axes):
        found[axis] = (pads[number], pads[number + len(axes)])
    mode = _text(call, "mode", "constant")
    if mode != "constant":
        return shared("pad", (call.data,), mode=mode, pads=tuple(found))
    filled = call.inputs[2] if call.given(2) else call.graph.constant(np.zeros((), call.tensor.dtype))
    return shared("pad", (call.data, call.graph.reshaped(f"{call.name}: value", str(filled), ())), mode=mode, pads=tuple(found))


def shared_layer(call: TranslatedNode) -> SharedOperator | None:
    """A layer as all dialects spell it; None for other operators, and where it has something that only ONNX has."""
    row = LAYERS.get(call.node.op_type)
    if row is None or call.opset < 6 or call.tensor.dtype.kind != "f" or any(call.node.output[1:]):
        return None
    return row(call)


LAYERS: Mapping[str, Row] = {
    "Gemm": _gemm,
    "Einsum": _einsum,
    "Conv": _conv,
    "ConvTranspose": _conv_transpose,
    "MaxPool": _pool("max_pool"),
    "AveragePool": _pool("average_pool"),
    "GlobalAveragePool": _global_average,
    "BatchNormalization": _batch_norm,
    "LayerNormalization": _layer_norm,
    "RMSNormalization": _rms_norm,
    "InstanceNormalization": _instance_norm,
    "GroupNormalization": _group_norm,
    "LogSoftmax": _along("log_softmax"),
    "Softmax": _along("softmax"),
    "Gelu": _gelu,
    "Clip": _clip,
    "CumSum": _cumsum,
    "ArgMax": _first_extremum("argmax"),
    "ArgMin": _first_extremum("argmin"),
    "Pad": _pad,
    "HardSwish": _hard_swish,
    "Swish": _swish,
    "Elu": _activation("elu", alpha=1.0),
    "Celu": _activation("celu", alpha=1.0),
    "Selu": _activation("selu", alpha=1.67326319217681884765625, gamma=1.05070102214813232421875),
    "LeakyRelu": _activation("leaky_relu", alpha=0.01),
    "HardSigmoid": _activation("hard_sigmoid", alpha=0.2, beta=0.5),
}
"""ONNX's operators with attributes or optional inputs, on floating-point numbers, that give one result."""
