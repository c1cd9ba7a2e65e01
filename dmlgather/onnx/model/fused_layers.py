"""Operators of onnxruntime's own that stand for several nodes of a model, as the operators that they stand for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from dmlgather.dialects.shared_operators import SharedOperator, shared
from dmlgather.onnx.model.shared_layers import LAYERS, Row, number_of
from dmlgather.onnx.model.translated_node import TranslatedNode

DOMAIN = "com.microsoft"

LATEST = 2**31
"""Their attributes are those of the newest versions of ONNX's operators."""

_ACTIVATIONS = {b"Relu": "relu", b"Sigmoid": "sigmoid", b"Tanh": "tanh"}


def _activated(layer: str) -> Row:
    """A layer, and then a function of each element without parameters."""

    def row(call: TranslatedNode) -> SharedOperator | None:
        activation = _ACTIVATIONS.get(call.attribute("activation"))
        found = LAYERS[layer](call)
        if activation is None or found is None or (layer == "Conv" and call.given(3)):
            return None
        return shared("activated", found.inputs, of=found.operator, attributes=found.attributes, activation=activation)

    return row


def _product(call: TranslatedNode) -> SharedOperator | None:
    if call.attribute("transBatchA") or call.attribute("transBatchB"):
        return None
    return LAYERS["Gemm"](call)


def _skip_layer_norm(call: TranslatedNode) -> SharedOperator | None:
    if call.given(4):
        return None
    return shared("skip_layer_norm", call.inputs[:4], axis=call.tensor.rank - 1, epsilon=number_of(call, "epsilon", 1e-12))


def _quick_gelu(call: TranslatedNode) -> SharedOperator | None:
    return shared("silu", call.inputs) if number_of(call, "alpha", 1.702) == 1 else None


FUSED: Mapping[str, Row] = {
    "FusedConv": _activated("Conv"),
    "FusedGemm": _activated("Gemm"),
    "FusedMatMul": _product,
    "SkipLayerNormalization": _skip_layer_norm,
    "QuickGelu": _quick_gelu,
    "Gelu": lambda call: shared("gelu", call.inputs, approximate="none"),
    "BiasGelu": lambda call: shared("bias_gelu", call.inputs, approximate="none"),
    "FastGelu": lambda call: shared("bias_gelu" if call.given(1) else "gelu", call.inputs, approximate="tanh"),
}
"""By the operator's name. A row gives None where the node does more than the operators that it stands for."""


def fused_layer(call: TranslatedNode) -> SharedOperator | None:
    """A node of onnxruntime's own domain as the operators that it stands for; None for others."""
    row = FUSED.get(call.node.op_type) if call.node.domain == DOMAIN else None
    if row is None or call.tensor.dtype.kind != "f" or any(call.node.output[1:]):
        return None
    return row(replace(call, opset=LATEST))
