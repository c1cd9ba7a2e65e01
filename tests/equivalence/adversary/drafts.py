"""Small programs that several libraries can state: operators, with indexing before and behind them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Attributes = Mapping[str, Any]
Functions = Mapping[str, Callable[..., Any]]
FLOATS = ("float16", "bfloat16", "float32", "float64")
INTEGERS = ("int8", "uint8", "int32", "int64")


class Type(NamedTuple):
    """The type of a value."""

    shape: tuple[int, ...]
    dtype: str


@dataclass(frozen=True, slots=True)
class Step:
    """One operator. attributes: those that are written out; a library has its default for others."""

    operator: str
    inputs: tuple[str, ...]
    output: str
    attributes: Attributes = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Draft:
    """A program: inputs with their types, constants, steps in order, and the names of the outputs."""

    inputs: Mapping[str, Type]
    constants: Mapping[str, Array]
    steps: tuple[Step, ...]
    outputs: tuple[str, ...]

    def types(self) -> dict[str, Type]:
        """Of all values. ValueError where the steps do not fit together."""
        found = dict(self.inputs) | {name: Type(array.shape, array.dtype.name) for name, array in self.constants.items()}
        for step in self.steps:
            found[step.output] = result(step, [found[name] for name in step.inputs])
        return found

    def function(
        self, plain: Functions, others: Functions, constants: Callable[[], dict[str, Any]]
    ) -> Callable[..., tuple[Any, ...]]:
        """The program of a library; its arguments are the inputs, in order. plain, others: functions by the operator's name, of
        which `others` take the attributes first. constants: the values of the library's, asked for in each call.
        """

        def call(*arguments: Any) -> tuple[Any, ...]:
            values = dict(zip(self.inputs, arguments, strict=True)) | constants()
            for step in self.steps:
                inputs, found = [values[name] for name in step.inputs], plain.get(step.operator)
                values[step.output] = found(*inputs) if found else others[step.operator](step.attributes, *inputs)
            return tuple(values[name] for name in self.outputs)

        return call

    def __str__(self) -> str:
        lines = [f"{name} = input {kind.dtype}{list(kind.shape)}" for name, kind in self.inputs.items()]
        lines += [f"{name} = {array.dtype}{list(array.shape)} {bits(array)}" for name, array in self.constants.items()]
        for step in self.steps:
            attributes = "".join(f", {name}={value!r}" for name, value in step.attributes.items())
            lines.append(f"{step.output} = {step.operator}({', '.join(step.inputs)}{attributes})")
        return "\n".join([*lines, f"return {', '.join(self.outputs)}"])


def bits(array: Array) -> str:
    """Elements of floats as the hexadecimal numbers of their bits, and the numbers themselves; of other types as they are."""
    if array.dtype.kind in "biu":
        return str(array.tolist())
    words = np.ascontiguousarray(array).view(f"u{array.dtype.itemsize}").reshape(-1)
    return ", ".join(f"{word:x} ({number})" for word, number in zip(words.tolist(), array.reshape(-1).tolist(), strict=True))


def numpy_dtype(name: str) -> np.dtype[Any]:
    """The type of this name."""
    return np.dtype(ml_dtypes.bfloat16) if name == "bfloat16" else np.dtype(name)


class Row(NamedTuple):
    """An operator.

    arity: how many values it reads. takes: the types of the first. choices: for each attribute, what may be written; None stands
    for what is left out. result: the type of what it gives.
    """

    arity: int
    takes: tuple[str, ...]
    result: Callable[[Sequence[Type], Attributes], Type]
    choices: Mapping[str, tuple[Any, ...]] = {}


def _pointwise(types: Sequence[Type], given: Attributes) -> Type:
    if len({kind.dtype for kind in types}) > 1:
        raise ValueError("operands of several types")
    return Type(np.broadcast_shapes(*(kind.shape for kind in types)), types[0].dtype)


def _answer(types: Sequence[Type], given: Attributes) -> Type:
    return Type(_pointwise(types, given).shape, "bool")


def _where(types: Sequence[Type], given: Attributes) -> Type:
    if types[0].dtype != "bool" or types[1].dtype != types[2].dtype:
        raise ValueError("a selection between two types, or by no bool")
    return Type(np.broadcast_shapes(*(kind.shape for kind in types)), types[1].dtype)


def _cast(types: Sequence[Type], given: Attributes) -> Type:
    return Type(types[0].shape, given["to"])


def _axis(kind: Type, given: Attributes) -> int:
    """The axis, from the front; the last one where none is written."""
    axis, rank = given.get("axis", -1), len(kind.shape)
    if not -rank <= axis < rank:
        raise ValueError("an axis that is none")
    return int(axis) % rank


def _along(types: Sequence[Type], given: Attributes) -> Type:
    _axis(types[0], given)
    return types[0]


def _reduced(types: Sequence[Type], given: Attributes) -> Type:
    axis, shape = _axis(types[0], given), list(types[0].shape)
    shape[axis : axis + 1] = [1] if given.get("keepdims", True) else []
    return Type(tuple(shape), types[0].dtype)


def _product(types: Sequence[Type], given: Attributes) -> Type:
    one, other = (kind.shape for kind in types[:2])
    if len(one) != 2 or len(other) != 2 or one[1] != other[0] or len({kind.dtype for kind in types}) > 1:
        raise ValueError("no matrices that go together")
    if len(types) > 2 and types[2].shape != (other[1],):
        raise ValueError("a bias of another size")
    return Type((one[0], other[1]), types[0].dtype)


def _attended(types: Sequence[Type], given: Attributes) -> Type:
    if any(kind != types[0] for kind in types[1:3]) or len(types[0].shape) != 2 or len({*types[0].shape}) > 1:
        raise ValueError("no square matrices")
    if types[3:] and types[3] != (types[0].shape, "bool"):
        raise ValueError("another mask")
    return types[0]


def _gathered(types: Sequence[Type], given: Attributes) -> Type:
    axis, shape = _axis(types[0], given), types[0].shape
    if types[1].dtype not in ("int32", "int64"):
        raise ValueError("no indices")
    return Type((*shape[:axis], *types[1].shape, *shape[axis + 1 :]), types[0].dtype)


def _transposed(types: Sequence[Type], given: Attributes) -> Type:
    if not given["order"] or sorted(given["order"]) != list(range(len(types[0].shape))):
        raise ValueError("no order of the dimensions")
    return Type(tuple(types[0].shape[axis] for axis in given["order"]), types[0].dtype)


def _reshaped(types: Sequence[Type], given: Attributes) -> Type:
    if prod(given["shape"]) != prod(types[0].shape):
        raise ValueError("another number of elements")
    return Type(tuple(given["shape"]), types[0].dtype)


def _sliced(types: Sequence[Type], given: Attributes) -> Type:
    axis, shape = _axis(types[0], given), list(types[0].shape)
    shape[axis] = len(range(shape[axis])[given["start"] : given["stop"]])
    if not shape[axis]:
        raise ValueError("nothing is left")
    return Type(tuple(shape), types[0].dtype)


def _joined(types: Sequence[Type], given: Attributes) -> Type:
    axis, shape = _axis(types[0], given), list(types[0].shape)
    rests = [(*kind.shape[:axis], *kind.shape[axis + 1 :], kind.dtype) for kind in types]
    if len(set(rests)) > 1 or any(len(kind.shape) != len(shape) for kind in types):
        raise ValueError("tensors that do not go together")
    shape[axis] = sum(kind.shape[axis] for kind in types)
    return Type(tuple(shape), types[0].dtype)


_AXES, _NUMBERS = (None, -1, 0, 1, 2), (*FLOATS, *INTEGERS)
_SMALL = (None, 1e-5, float(np.float32(1e-5)), 1e-8, 1e-9, 0.0)
_TENTHS = (0.1, 0.09998, float(np.float32(0.1)), float(np.nextafter(0.1, 1)), 1.0, 0.5)
_SIGNED = ("int8", "int32", "int64")

OPERATORS: Mapping[str, Row] = {
    **{
        name: Row(1, FLOATS, _pointwise)
        for name in (
            *("relu", "exp", "tanh", "sqrt", "sigmoid", "silu", "floor", "ceil", "erf", "log", "reciprocal", "softplus", "mish"),
            *("softsign", "hard_swish", "round", "sin", "cos"),
        )
    },
    **{name: Row(1, (*FLOATS, *_SIGNED), _pointwise) for name in ("abs", "negative", "sign")},
    "isnan": Row(1, FLOATS, _answer),
    "gelu": Row(1, FLOATS, _pointwise, {"approximate": (None, "none", "tanh")}),
    "leaky_relu": Row(1, FLOATS, _pointwise, {"alpha": (None, 0.01, float(np.float32(0.01)), 0.010000001, 0.2)}),
    "elu": Row(1, FLOATS, _pointwise, {"alpha": (None, 1.0, float(np.nextafter(np.float32(1), np.float32(2))), 0.1)}),
    "scale": Row(1, FLOATS, _pointwise, {"number": _TENTHS}),
    "shift": Row(1, FLOATS, _pointwise, {"number": (*_TENTHS, 0.0, -0.0)}),
    "clip": Row(1, FLOATS, _pointwise, {"low": (0.0, -0.0, -1.0), "high": (6.0, 1.0, 0.1, float("inf"))}),
    **{name: Row(2, _NUMBERS, _pointwise) for name in ("add", "subtract", "multiply", "maximum", "minimum")},
    **{name: Row(2, FLOATS, _pointwise) for name in ("divide", "power")},
    **{name: Row(2, _NUMBERS, _answer) for name in ("less", "less_equal", "greater", "greater_equal", "equal", "not_equal")},
    **{name: Row(2, INTEGERS, _pointwise) for name in ("whole_quotient", "remainder", "bitwise_or")},
    "not": Row(1, ("bool",), _answer),
    **{name: Row(2, ("bool",), _answer) for name in ("and", "or", "xor")},
    "where": Row(3, ("bool",), _where),
    "cast": Row(1, (*_NUMBERS, "bool"), _cast, {"to": (*FLOATS, *INTEGERS, "bool")}),
    **{name: Row(1, FLOATS, _along, {"axis": _AXES}) for name in ("softmax", "log_softmax")},
    "cumsum": Row(1, (*FLOATS, "int64"), _along, {"axis": _AXES[1:]}),
    "layer_norm": Row(1, FLOATS, _along, {"eps": _SMALL}),
    "rms_norm": Row(1, FLOATS, _along, {"eps": _SMALL}),
    **{
        name: Row(1, FLOATS, _reduced, {"axis": _AXES[1:], "keepdims": (True, False)})
        for name in ("reduce_sum", "reduce_mean", "reduce_max")
    },
    "matmul": Row(2, FLOATS, _product),
    "linear": Row(3, FLOATS, _product),
    "attention": Row(3, FLOATS, _attended, {"is_causal": (None, False, True), "scale": (None, 0.5, 0.50001, 1.0)}),
    "masked_attention": Row(4, FLOATS, _attended, {"scale": (None, 0.5, 0.50001, 1.0)}),
    "gather": Row(2, (*_NUMBERS, "bool"), _gathered, {"axis": _AXES[1:]}),
    "transpose": Row(1, (*_NUMBERS, "bool"), _transposed),
    "reshape": Row(1, (*_NUMBERS, "bool"), _reshaped),
    "slice": Row(1, (*_NUMBERS, "bool"), _sliced, {"axis": _AXES[1:]}),
    "reverse": Row(1, (*_NUMBERS, "bool"), _along, {"axis": _AXES[1:]}),
    "concat": Row(2, (*_NUMBERS, "bool"), _joined, {"axis": _AXES[1:]}),
}
"""The operators of drafts."""

NOT_DRAWN = ("whole_quotient", "remainder", "bitwise_or")
"""Those that only changes add: a divisor of 0 ends the process in some libraries."""

INDEXING = ("gather", "transpose", "reshape", "slice", "reverse", "concat")
"""Those that move elements."""


def result(step: Step, types: Sequence[Type]) -> Type:
    """The type of what a step gives. ValueError where it does not take these types."""
    row = OPERATORS[step.operator]
    if len(types) != row.arity or types[0].dtype not in row.takes:
        raise ValueError(f"{step.operator} does not take these")
    return row.result(types, step.attributes)


class Builder:
    """Adds steps to a draft, with fresh names."""

    def __init__(self, draft: Draft) -> None:
        self.draft = draft
        self.kinds = draft.types()
        self.before: list[Step] = []

    def constant(self, array: Array) -> str:
        """A constant."""
        name = f"c{len(self.draft.constants)}"
        self.draft = replace(self.draft, constants={**self.draft.constants, name: array})
        self.kinds[name] = Type(array.shape, array.dtype.name)
        return name

    def number(self, value: float, like: str) -> str:
        """A constant without dimensions, of the type of a value."""
        with np.errstate(all="ignore"):
            return self.constant(np.array(value).astype(numpy_dtype(self.kinds[like].dtype)))

    def do(self, operator: str, *inputs: str, **attributes: Any) -> str:
        """A step; returns its output. ValueError where it does not take the types of its inputs."""
        name = next(f"v{k}" for k in range(len(self.kinds) + 1) if f"v{k}" not in self.kinds)
        step = Step(operator, inputs, name, {key: value for key, value in attributes.items() if value is not None})
        self.kinds[name] = result(step, [self.kinds[each] for each in inputs])
        self.before.append(step)
        return name

    def built(self, at: int | None = None) -> Draft:
        """The draft with the new steps at this place, or at its end."""
        steps, place = self.draft.steps, len(self.draft.steps) if at is None else at
        return replace(self.draft, steps=(*steps[:place], *self.before, *steps[place:]))
