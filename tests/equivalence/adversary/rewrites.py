"""Operators stated by others, and steps that change no number: the same function of real numbers, or almost."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from tests.equivalence.adversary.drafts import FLOATS, INTEGERS, Step

Put = Callable[..., str]
"""Adds a step: the operator, its inputs, its attributes."""

Number = Callable[[float], str]
"""Adds a constant without dimensions."""


def _softmax(put: Put, number: Number, step: Step) -> str:
    axis = step.attributes.get("axis", -1)
    (x,) = step.inputs
    e = put("exp", put("subtract", x, put("reduce_max", x, axis=axis)))
    return put("divide", e, put("reduce_sum", e, axis=axis))


def _rms_norm(put: Put, number: Number, step: Step) -> str:
    (x,) = step.inputs
    mean = put("reduce_mean", put("multiply", x, x), axis=-1)
    return put("divide", x, put("sqrt", put("add", mean, number(step.attributes.get("eps", 1e-5)))))


def _layer_norm(put: Put, number: Number, step: Step) -> str:
    (x,) = step.inputs
    return _rms_norm(put, number, replace(step, inputs=(put("subtract", x, put("reduce_mean", x, axis=-1)),)))


def _attention(put: Put, number: Number, step: Step) -> str:
    """Without a mask of a causal one."""
    q, k, v, *mask = step.inputs
    scores = put("multiply", put("matmul", q, put("transpose", k, order=(1, 0))), number(step.attributes.get("scale", 3**-0.5)))
    for each in mask:
        scores = put("where", each, scores, number(-np.inf))
    return put("matmul", put("softmax", scores, axis=-1), v)


def _unary(*operators: str) -> Callable[[Put, Number, Step], str]:
    """These operators, one behind another."""

    def row(put: Put, number: Number, step: Step) -> str:
        value = step.inputs[0]
        for operator in operators:
            value = put(operator, value)
        return value

    return row


def _with_number(operator: str, value: float, *, first: bool = False) -> Callable[[Put, Number, Step], str]:
    """An operator on the value and a number. first: the number comes first."""

    def row(put: Put, number: Number, step: Step) -> str:
        operands = [step.inputs[0], number(value)]
        return put(operator, *(operands[::-1] if first else operands))

    return row


REWRITES: Mapping[str, tuple[Callable[[Put, Number, Step], str], ...]] = {
    "silu": (lambda put, number, step: put("multiply", step.inputs[0], put("sigmoid", step.inputs[0])),),
    "relu": (_with_number("maximum", 0.0), _with_number("maximum", 0.0, first=True), _with_number("maximum", -0.0)),
    "mish": (lambda put, number, step: put("multiply", step.inputs[0], put("tanh", put("softplus", step.inputs[0]))),),
    "softsign": (lambda put, number, step: put("divide", step.inputs[0], put("add", number(1), put("abs", step.inputs[0]))),),
    "reciprocal": (_with_number("divide", 1.0, first=True), _with_number("power", -1.0)),
    "sigmoid": (lambda put, number, step: put("reciprocal", put("add", number(1), put("exp", put("negative", step.inputs[0])))),),
    "softplus": (lambda put, number, step: put("log", put("add", number(1), put("exp", step.inputs[0]))),),
    "sqrt": (_with_number("power", 0.5),),
    "negative": (
        _with_number("multiply", -1.0),
        _with_number("subtract", 0.0, first=True),
        _with_number("subtract", -0.0, first=True),
    ),
    "abs": (lambda put, number, step: put("maximum", step.inputs[0], put("negative", step.inputs[0])),),
    "scale": (lambda put, number, step: put("multiply", step.inputs[0], number(step.attributes["number"])),),
    "shift": (lambda put, number, step: put("add", step.inputs[0], number(step.attributes["number"])),),
    "clip": (
        lambda put, number, step: put(
            "minimum", put("maximum", step.inputs[0], number(step.attributes["low"])), number(step.attributes["high"])
        ),
    ),
    "leaky_relu": (
        lambda put, number, step: put(
            "where",
            put("less", step.inputs[0], number(0)),
            put("multiply", step.inputs[0], number(step.attributes.get("alpha", 0.01))),
            step.inputs[0],
        ),
    ),
    "subtract": (lambda put, number, step: put("add", step.inputs[0], put("negative", step.inputs[1])),),
    "divide": (lambda put, number, step: put("multiply", step.inputs[0], put("reciprocal", step.inputs[1])),),
    "not_equal": (lambda put, number, step: put("not", put("equal", *step.inputs)),),
    "equal": (lambda put, number, step: put("not", put("not_equal", *step.inputs)),),
    "less_equal": (lambda put, number, step: put("not", put("greater", *step.inputs)),),
    "greater": (lambda put, number, step: put("less", *step.inputs[::-1]),),
    "less": (lambda put, number, step: put("greater", *step.inputs[::-1]),),
    "isnan": (lambda put, number, step: put("not_equal", step.inputs[0], step.inputs[0]),),
    "maximum": (lambda put, number, step: put("where", put("less", *step.inputs), *step.inputs[::-1]),),
    "minimum": (lambda put, number, step: put("negative", put("maximum", *(put("negative", each) for each in step.inputs))),),
    "and": (lambda put, number, step: put("not", put("or", *(put("not", each) for each in step.inputs))),),
    "xor": (lambda put, number, step: put("and", put("or", *step.inputs), put("not", put("and", *step.inputs))),),
    "softmax": (_softmax, _unary("log_softmax", "exp")),
    "log_softmax": (lambda put, number, step: put("log", put("softmax", step.inputs[0], **step.attributes)),),
    "rms_norm": (_rms_norm,),
    "layer_norm": (_layer_norm,),
    "linear": (lambda put, number, step: put("add", put("matmul", *step.inputs[:2]), step.inputs[2]),),
    "attention": (_attention,),
    "masked_attention": (_attention,),
    "hard_swish": (
        lambda put, number, step: put(
            "multiply",
            step.inputs[0],
            put("scale", put("clip", put("shift", step.inputs[0], number=3.0), low=0.0, high=6.0), number=1 / 6),
        ),
    ),
    "multiply": (lambda put, number, step: put("divide", step.inputs[0], put("reciprocal", step.inputs[1])),),
}
"""How operators are stated by others: the same function of real numbers, or almost."""

_ALL = (*FLOATS, *INTEGERS)
NEUTRAL: tuple[tuple[Callable[[Put, str, Number], str], tuple[str, ...]], ...] = (
    (lambda put, x, number: put("add", x, number(0.0)), _ALL),
    (lambda put, x, number: put("add", x, number(-0.0)), _ALL),
    (lambda put, x, number: put("add", number(-0.0), x), _ALL),
    (lambda put, x, number: put("subtract", x, number(0.0)), _ALL),
    (lambda put, x, number: put("subtract", x, number(-0.0)), _ALL),
    (lambda put, x, number: put("multiply", x, number(1)), _ALL),
    (lambda put, x, number: put("multiply", number(1), x), _ALL),
    (lambda put, x, number: put("divide", x, number(1)), FLOATS),
    (lambda put, x, number: put("power", x, number(1)), FLOATS),
    (lambda put, x, number: put("scale", x, number=1.0), FLOATS),
    (lambda put, x, number: put("shift", x, number=0.0), FLOATS),
    (lambda put, x, number: put("shift", x, number=-0.0), FLOATS),
    (lambda put, x, number: put("negative", put("negative", x)), (*FLOATS, "int8", "int32", "int64")),
    (lambda put, x, number: put("reciprocal", put("reciprocal", x)), FLOATS),
    (lambda put, x, number: put("divide", put("multiply", x, number(3)), number(3)), FLOATS),
    (lambda put, x, number: put("subtract", put("add", x, number(1)), number(1)), _ALL),
    (lambda put, x, number: put("maximum", x, x), _ALL),
    (lambda put, x, number: put("maximum", x, number(-np.inf)), FLOATS),
    (lambda put, x, number: put("minimum", number(np.inf), x), FLOATS),
    (lambda put, x, number: put("where", put("equal", x, x), x, x), _ALL),
    (lambda put, x, number: put("where", put("less", x, number(0)), put("negative", put("abs", x)), x), FLOATS),
    (lambda put, x, number: put("where", put("isnan", x), x, x), FLOATS),
    (lambda put, x, number: put("multiply", put("sign", x), put("abs", x)), FLOATS),
    (lambda put, x, number: put("cast", x, to="float64"), _ALL),
    (lambda put, x, number: put("relu", put("relu", x)), FLOATS),
    (lambda put, x, number: put("log", put("exp", x)), FLOATS),
    (lambda put, x, number: put("whole_quotient", x, number(1)), INTEGERS),
    (lambda put, x, number: put("bitwise_or", x, number(0)), INTEGERS),
    (lambda put, x, number: put("remainder", x, number(3)), INTEGERS),
    (lambda put, x, number: put("where", put("less", x, number(0)), put("add", x, number(3)), x), INTEGERS),
    (lambda put, x, number: put("maximum", put("minimum", x, number(1)), number(0)), INTEGERS),
    (lambda put, x, number: put("cast", put("cast", x, to="int32"), to="int64"), ("int64",)),
    (lambda put, x, number: put("not", put("not", x)), ("bool",)),
    (lambda put, x, number: put("and", x, x), ("bool",)),
    (lambda put, x, number: put("cast", put("cast", x, to="int8"), to="bool"), ("bool",)),
)
"""Steps behind a value that change no number, or almost none."""
