"""One form for what libraries state in different ways: PyTorch's linear is ONNX's Gemm, and is MatMul and Add.

`FORMS` says which shared operators are others put together. Both sides are the same function of real numbers, by the definitions
of the libraries that have the operator; how sums are rounded is the library's matter. What has no row stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from dmlgather.dialects.forms import Form
from dmlgather.dialects.graph_building import GraphBuilder
from dmlgather.dialects.index_graph import IndexGraph, Opaque
from dmlgather.dialects.layer_forms import LAYER_FORMS, per_channel
from dmlgather.dialects.problem import Problem, TensorType
from dmlgather.plan import OutOfBounds


def normalised(graph: IndexGraph) -> IndexGraph:
    """The graph with opaque steps in normal form: what is put together is taken apart, and pointwise steps are marked.

    Outputs keep their labels. Values that a form replaces are not kept by name.
    """
    if not any(isinstance(step.work, Opaque) for step in graph.steps):
        return graph
    builder = GraphBuilder()
    values = {name: builder.input(name, graph.types[name]) for name in graph.inputs}
    values |= {name: builder.constant(array, name) for name, array in graph.constants.items()}
    for step in graph.steps:
        inputs, types = [values[name] for name in step.inputs], [graph.types[name] for name in step.outputs]
        if isinstance(step.work, Opaque) and len(types) == 1:
            work = step.work
            attributes: Any = work.attributes if work.operator in FORMS else ()  # pairs, where there is a row
            form = Form(FORMS, builder, step.name, dict(attributes), inputs, types[0])
            values[step.outputs[0]] = form.stated(work, step.outputs[0])
        else:
            copied = builder.step(step.name, step.work, inputs, dict(zip(step.outputs, types, strict=True)))
            values |= zip(step.outputs, copied, strict=True)
    outputs = [values[name] for name in graph.outputs]
    named = {values[name]: graph.label(name) for name in graph.outputs}
    labels = named | {name: graph.label(name) for name in graph.inputs}
    return replace(builder.build(outputs), labels=labels)


def _clip(form: Form) -> str:
    """min(max(x, low), high); which of both are there, is said by `limits`."""
    value = form.inputs[0]
    for limit, operand in zip(form["limits"], form.inputs[1:], strict=True):
        value = form.do({"low": "maximum", "high": "minimum"}[limit], value, operand)
    return value


def _prelu_channels(form: Form) -> str:
    """A slope for each channel, dimension 1, or one for all."""
    x, slope = form.inputs
    return form.do("prelu", x, form.reshaped(slope, per_channel(form.result) if prod(form.type(slope).shape) > 1 else ()))


def _softplus_below(form: Form) -> str:
    """log(1 + eˣ), and x itself above `threshold`."""
    x, shape = form.inputs[0], form.result.shape
    above = TensorType(shape, np.dtype(bool))
    large = form.kept(Opaque("greater"), (x, form.number(form["threshold"])), above)
    return form.graph.elementwise(form.name, "where", form.result.dtype, large, x, form.do("softplus", x))


def _softsign(form: Form) -> str:
    (x,) = form.inputs
    return form.do("divide", x, form.do("add", form.do("abs", x), form.number(1)))


def _not_equal(form: Form) -> str:
    equal = form.kept(Opaque("equal"))
    return form.graph.elementwise(form.name, "not", bool, equal)


SUMS = frozenset(
    (
        "average_pool",
        "batch_norm",
        "conv",
        "conv_transpose",
        "einsum",
        "gemm",
        "matmul",
        "reduce_mean",
        "reduce_sum",
        "standardise",
    )
)
"""What gives sums of several numbers: whether a sum is 0.0 or -0.0 depends on how it is rounded."""


def _add(form: Form) -> str | None:
    """Zeros change -0.0 alone. They are left out where there is none, or where rounding decides that."""
    value = form.beside(0)
    return value if value is not None and _no_negative_zero(form.graph, value) else None


def _no_negative_zero(graph: GraphBuilder, value: str) -> bool:
    """Whether a value is moved from a sum, or from a constant in which no element is -0.0."""
    maker = graph.makers.get(value)
    while maker is not None and isinstance(maker.work, Problem) and maker.work.out_of_bounds is not OutOfBounds.FILL:
        value = maker.inputs[0]
        maker = graph.makers.get(value)
    known = graph.known(value)
    if known is not None:
        return not (np.signbit(known) & (known == 0)).any()
    return maker is not None and isinstance(maker.work, Opaque) and maker.work.operator in SUMS


def _multiply(form: Form) -> str | None:
    return form.beside(1)


def _divide(form: Form) -> str | None:
    """By a power of two: times its reciprocal, which is exact."""
    x, divisor = form.inputs
    known, same = form.graph.known(divisor), form.beside(1, ordered=True)
    if same or known is None or known.size != 1 or known.dtype.kind != "f" or (abs(np.frexp(known)[0]) != 0.5).any():
        return same
    with np.errstate(all="ignore"):
        factor = 1 / known
    exact = np.isfinite(factor).all() and (abs(factor) >= np.finfo(known.dtype).tiny).all()
    return form.do("multiply", x, form.graph.constant(factor)) if exact else None


def _power(form: Form) -> str | None:
    """A square is a product."""
    return form.beside(1, ordered=True) or ((x := form.beside(2, ordered=True)) and form.do("multiply", x, x))


FORMS: Mapping[str, Callable[[Form], str | None]] = {
    **LAYER_FORMS,
    "add": _add,
    "subtract": lambda form: form.beside(0, ordered=True),
    "multiply": _multiply,
    "divide": _divide,
    "power": _power,
    "clip": _clip,
    "prelu_channels": _prelu_channels,
    "softplus_below": _softplus_below,
    "not_equal": _not_equal,
    "silu": lambda form: form.do("multiply", *form.inputs, form.do("sigmoid", *form.inputs)),
    "hard_swish": lambda form: form.do("multiply", *form.inputs, form.do("hard_sigmoid", *form.inputs, **form.attributes)),
    "mish": lambda form: form.do("multiply", *form.inputs, form.do("tanh", form.do("softplus", *form.inputs))),
    "softsign": _softsign,
    "log_sigmoid": lambda form: form.do("log", form.do("sigmoid", *form.inputs)),
    "rsqrt": lambda form: form.do("reciprocal", form.do("sqrt", *form.inputs)),
    "square": lambda form: form.do("multiply", *form.inputs, *form.inputs),
    "bias_gelu": lambda form: form.do("gelu", form.do("add", *form.inputs), **form.attributes),
    "log1p": lambda form: form.do("log", form.do("add", *form.inputs, form.number(1))),
    "expm1": lambda form: form.do("subtract", form.do("exp", *form.inputs), form.number(1)),
    "scaled_add": lambda form: form.do("add", form.inputs[0], form.do("multiply", form.inputs[1], form.number(form["factor"]))),
}
"""How each operator is stated by others. A row gives the value of the result, or None where the step stays as it is."""
