"""Functions of elements and reductions that other dialects have as well, as the graphs of all dialects spell them.

Asked only for nodes whose tensors have one floating-point type.
"""

from __future__ import annotations

from collections.abc import Mapping

from dmlgather.dialects.shared_operators import SharedOperator, rounded, shared
from dmlgather.torch.tracing.layer_nodes import Row, constant, tensors
from dmlgather.torch.tracing.node_calls import NodeCall, Value


def _along(operator: str) -> Row:
    """A softmax in the type of its data."""

    def row(call: NodeCall) -> SharedOperator | None:
        if call.type().dtype != call.result.dtype:
            return None
        return shared(operator, tensors(call, "self"), axis=call["dim"] % max(call.result.rank, 1))

    return row


def _clipped(low: str | float | None, high: str | float | None) -> Row:
    """Bounds: numbers, or names of arguments that are numbers or None."""

    def row(call: NodeCall) -> SharedOperator | None:
        given = {
            "low": call.given.get(low) if isinstance(low, str) else low,
            "high": call.given.get(high) if isinstance(high, str) else high,
        }
        limits = {limit: value for limit, value in given.items() if value is not None}
        inputs = [value.name if isinstance(value, Value) else constant(call, value) for value in limits.values()]
        return shared("clip", [call.value(), *inputs], limits=tuple(limits))

    return row


def _activation(operator: str, **arguments: str | float) -> Row:
    """A function of one element. arguments: of each attribute, the name of an argument, or a number."""

    def row(call: NodeCall) -> SharedOperator:
        numbers = {name: call[given] if isinstance(given, str) else given for name, given in arguments.items()}
        return shared(
            operator, tensors(call, "self"), **{name: rounded(each, call.result.dtype) for name, each in numbers.items()}
        )

    return row


def _gelu(call: NodeCall) -> SharedOperator:
    return shared("gelu", tensors(call, "self"), approximate=call["approximate"])


def _elu(call: NodeCall) -> SharedOperator | None:
    return _activation("elu", alpha="alpha")(call) if call["scale"] == call["input_scale"] == 1 else None


def _softplus(call: NodeCall) -> SharedOperator | None:
    return _activation("softplus_below", threshold="threshold")(call) if call["beta"] == 1 else None


def _reversed_difference(call: NodeCall) -> SharedOperator | None:
    other = call["other"]
    if call["alpha"] != 1:
        return None
    return shared("subtract", [other.name if isinstance(other, Value) else constant(call, other), call.value()])


def _scaled_sum(call: NodeCall) -> SharedOperator | None:
    if not isinstance(call["other"], Value) or isinstance(call["alpha"], bool) or call["alpha"] == 1:
        return None
    return shared("scaled_add", tensors(call, "self", "other"), factor=float(call["alpha"]))


def _reduced(operator: str, dimensions: str | None) -> Row:
    """Over the dimensions that an argument names; over all, where it names none or there is no such argument."""

    def row(call: NodeCall) -> SharedOperator | None:
        if call.type().dtype != call.result.dtype:
            return None
        rank, given = call.type().rank, call[dimensions] if dimensions else None
        if given == []:
            return None  # all dimensions in some operators, none in others
        named = [given] if isinstance(given, int) else range(rank) if given is None else given
        axes = tuple(sorted(axis % max(rank, 1) for axis in named)) if rank else ()
        return shared(operator, tensors(call, "self"), axes=axes, keepdims=bool(call.given.get("keepdim", False)))

    return row


def _vector_norm(call: NodeCall) -> SharedOperator | None:
    order = call["ord"] if "ord" in call.given else call["p"]
    names = {1: "reduce_l1", 2: "reduce_l2"}
    return _reduced(names[order], "dim")(call) if order in names else None


def _extremum(operator: str) -> Row:
    """Where the first extremum is along one dimension."""

    def row(call: NodeCall) -> SharedOperator | None:
        if call["dim"] is None or not call.type().rank:
            return None
        return shared(operator, tensors(call, "self"), axis=call["dim"] % call.type().rank, keepdims=call["keepdim"])

    return row


def _cumulative(call: NodeCall) -> SharedOperator | None:
    if call.type().dtype != call.result.dtype or not call.type().rank:
        return None
    return shared("cumsum", tensors(call, "self"), axis=call["dim"] % call.type().rank)


FUNCTIONS: Mapping[str, Row] = {
    **dict.fromkeys(("softmax.int", "_softmax.default"), _along("softmax")),
    **dict.fromkeys(("log_softmax.int", "_log_softmax.default"), _along("log_softmax")),
    "clamp.default": _clipped("min", "max"),
    "clamp.Tensor": _clipped("min", "max"),
    "clamp_min.default": _clipped("min", None),
    "clamp_max.default": _clipped(None, "max"),
    "hardtanh.default": _clipped("min_val", "max_val"),
    "relu6.default": _clipped(0, 6),
    "gelu.default": _gelu,
    "elu.default": _elu,
    "celu.default": _activation("celu", alpha="alpha"),
    "selu.default": _activation("selu", alpha=1.6732632423543772, gamma=1.0507009873554805),
    "leaky_relu.default": _activation("leaky_relu", alpha="negative_slope"),
    "hardsigmoid.default": _activation("hard_sigmoid", alpha=1 / 6, beta=0.5),
    "hardswish.default": _activation("hard_swish", alpha=1 / 6, beta=0.5),
    "softplus.default": _softplus,
    "prelu.default": lambda call: shared("prelu_channels", tensors(call, "self", "weight")),
    **{f"{name}.default": _activation(name) for name in ("silu", "mish", "log_sigmoid", "rsqrt", "square", "log1p", "expm1")},
    "rsub.Scalar": _reversed_difference,
    "rsub.Tensor": _reversed_difference,
    "add.Tensor": _scaled_sum,
    "sum.default": _reduced("reduce_sum", None),
    "sum.dim_IntList": _reduced("reduce_sum", "dim"),
    "mean.default": _reduced("reduce_mean", None),
    "mean.dim": _reduced("reduce_mean", "dim"),
    "prod.default": _reduced("reduce_prod", None),
    "prod.dim_int": _reduced("reduce_prod", "dim"),
    "amax.default": _reduced("reduce_max", "dim"),
    "amin.default": _reduced("reduce_min", "dim"),
    "max.other": lambda call: shared("maximum", tensors(call, "self", "other")),
    "min.other": lambda call: shared("minimum", tensors(call, "self", "other")),
    "max.default": _reduced("reduce_max", None),
    "min.default": _reduced("reduce_min", None),
    "logsumexp.default": _reduced("reduce_log_sum_exp", "dim"),
    "linalg_vector_norm.default": _vector_norm,
    "norm.ScalarOpt_dim": _vector_norm,
    "argmax.default": _extremum("argmax"),
    "argmin.default": _extremum("argmin"),
    "cumsum.default": _cumulative,
}
"""A row gives None where an argument says what PyTorch alone has."""
