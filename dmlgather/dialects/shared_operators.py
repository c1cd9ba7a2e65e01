"""Operators outside the family that two libraries have under one definition, and how the graphs of each library spell them."""

from __future__ import annotations

from ast import literal_eval
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dmlgather.dialects.graph_building import GraphBuilder
from dmlgather.dialects.index_graph import IndexGraph, Opaque, Step
from dmlgather.dialects.problem import TensorType

TITLES: Mapping[str, str] = {"onnx": "ONNX", "openvino": "OpenVINO", "lax": "JAX", "torch": "PyTorch"}
"""The library behind the first part of an opaque operator's name."""

_TABLE = """
abs            one    Abs             Abs           abs                   abs
add            two    Add             Add           add                   add
cast           one    Cast            Convert       convert_element_type  to|_to_copy
ceil           one    Ceil            Ceiling       ceil                  ceil
cos            one    Cos             Cos           cos                   cos
divide         two    Div             Divide        div                   div
equal          exact  Equal           Equal         eq                    eq
erf            one    Erf             Erf           erf                   erf
exp            one    Exp             Exp           exp                   exp
floor          one    Floor           Floor         floor                 floor
gelu           one    Gelu            -             -                     gelu
greater        exact  Greater         Greater       gt                    gt
greater_equal  exact  GreaterOrEqual  GreaterEqual  ge                    ge
less           exact  Less            Less          lt                    lt
less_equal     exact  LessOrEqual     LessEqual     le                    le
log            one    Log             Log           log                   log
log_softmax    axis   LogSoftmax      LogSoftmax    -                     log_softmax
matmul         two    MatMul          MatMul        matmul                matmul
maximum        two    Max             Maximum       max                   maximum
minimum        two    Min             Minimum       min                   minimum
multiply       two    Mul             Multiply      mul                   mul
negative       one    Neg             Negative      neg                   neg
power          two    Pow             Power         pow                   pow
relu           one    Relu            ReLU          -                     relu
sigmoid        one    Sigmoid         Sigmoid       logistic              sigmoid
sin            one    Sin             Sin           sin                   sin
softmax        axis   Softmax         SoftMax       -                     softmax
sqrt           one    Sqrt            Sqrt          sqrt                  sqrt
subtract       two    Sub             Subtract      sub                   sub
tanh           one    Tanh            Tanh          tanh                  tanh
"""
"""The shared name; "one" or "two" inputs, one and an "axis", or "exact": two, and no assumption; the names in the libraries."""

_NEUTRAL: Mapping[str, Collection[Any]] = {
    **dict.fromkeys(("version", "opset", "copy", "non_blocking", "m_pythondiv"), ()),
    **dict.fromkeys(("to", "dtype", "new_dtype", "destination_type", "weak_type"), ()),  # the types of the values say it
    **dict.fromkeys(("layout", "device", "pin_memory", "memory_format"), (None,)),
    **dict.fromkeys(("transpose_a", "transpose_b"), ("false",)),
    **{"alpha": (1,), "approximate": ("none",), "auto_broadcast": ("numpy",)},  # noqa: PIE800 - short
}
"""The attributes that a step may have, with the values that change no bit; () stands for all."""

_OVERLOADS = ("", "default", "Tensor", "Scalar", "Tensor_Tensor", "Tensor_Scalar", "int", "dtype")  # of PyTorch's operators


@dataclass(frozen=True, slots=True)
class SharedOperator:
    """What the table says of a step. own: its name in its library. number: an operand that PyTorch has among the attributes."""

    name: str
    kind: str
    library: str
    own: str
    axis: int | None = None
    number: float | None = None

    @property
    def exact(self) -> bool:
        """Whether it is no assumption. JAX on CPUs takes subnormals for zeros; OpenVINO's plugins may compute in other types."""
        return self.kind == "exact" and self.library not in ("lax", "openvino")

    @property
    def words(self) -> str:
        """As messages name it: "ONNX's Softmax (axis 1)"."""
        along = "" if self.axis is None else f" ({'dim' if self.library == 'torch' else 'axis'} {self.axis})"
        return f"{TITLES[self.library]}'s {self.own}{along}"


_ROWS = [line.split() for line in _TABLE.split("\n") if line]
BY_OWN = {
    f"{library}.{own.lower()}": SharedOperator(name, kind, library, own)
    for name, kind, *owns in _ROWS
    for library, spelled in zip(TITLES, owns, strict=True)
    for own in spelled.split("|")
}
NAMES = frozenset(name for name, *_ in _ROWS)


def shared_operator(step: Step, types: Mapping[str, TensorType]) -> SharedOperator | None:
    """What the table says of a step; None where no row is about it."""
    operator, attributes = (step.work.operator, step.work.attributes) if isinstance(step.work, Opaque) else ("", ())
    name, overload = operator.rpartition(".")[::2] if operator.count(".") > 1 else (operator, "")
    row, read = BY_OWN.get(name), [types[each].dtype for each in step.inputs]
    if row is None or overload not in _OVERLOADS or len(step.outputs) != 1 or not isinstance(attributes, tuple):
        return None
    given = {name: _plain(value) for name, value in attributes if not isinstance(value, tuple) or value[:1] != ("tensor",)}
    number = next((given.pop(key) for key in ("other", "exponent") if type(given.get(key)) in (int, float)), None)
    axis = given.pop({"torch": "dim"}.get(row.library, "axis"), -1 if row.library == "onnx" else None)
    old = row.kind == "axis" and given.get("version", 13) < 13  # it works along all axes behind this one as well
    neutral = all(key in _NEUTRAL and (not _NEUTRAL[key] or value in _NEUTRAL[key]) for key, value in given.items())
    same = [types[step.outputs[0]].dtype] if row.name == "cast" else read  # a cast to integers has no one definition
    floats = all(dtype.kind not in "biucO" and dtype == same[0] for dtype in same)
    held = number is None or read[0] in (np.float32, np.float64)  # beside others, PyTorch computes with more of its bits
    if old or not (neutral and floats and held) or len(read) + (number is not None) != (2 if row.kind in ("two", "exact") else 1):
        return None
    if row.kind != "axis":
        return replace(row, number=number)
    return None if axis is None else replace(row, axis=int(axis) % max(types[step.outputs[0]].rank, 1))


def _plain(value: Any) -> Any:
    """An attribute's value, which graphs of JAX and PyTorch have as a pair of its type and its text."""
    kind, text = value if isinstance(value, tuple) and len(value) == 2 else ("", "")
    number = kind == "float" and not text.startswith("nan")
    return float(text) if number else literal_eval(text) if kind in ("int", "str", "NoneType") else value


def with_shared_operators(graph: IndexGraph, assume: Collection[str]) -> tuple[IndexGraph, Mapping[str, SharedOperator]]:
    """The graph with shared names for steps that need no assumption and for those in `assume`; and these, by the step's name."""
    found = [shared_operator(step, graph.types) for step in graph.steps]
    rows = [row if row is not None and (row.exact or row.name in assume) else None for row in found]
    if not any(rows):
        return graph, {}
    builder, renamed = GraphBuilder(), dict[str, SharedOperator]()
    values = {name: builder.input(name, graph.types[name]) for name in graph.inputs}
    values |= {name: builder.constant(array, name) for name, array in graph.constants.items()}
    for step, row in zip(graph.steps, rows, strict=True):
        inputs, work = [values[name] for name in step.inputs], step.work
        if row is not None:
            if row.number is not None:
                inputs.append(builder.constant(np.array(row.number, graph.types[step.inputs[0]].dtype)))
            if len(inputs) > 1 and row.name != "matmul":  # which JAX broadcasts by steps of their own
                shape = graph.types[step.outputs[0]].shape
                inputs = [builder.expanded(f"{step.name}: broadcast", each, shape) for each in inputs]
            work = Opaque(row.name, row.axis)
        outputs = builder.step(step.name, work, inputs, {name: graph.types[name] for name in step.outputs})
        values |= zip(step.outputs, outputs, strict=True)
        renamed |= {} if row is None else {builder.steps[-1].name: row}
    labels = {values[name]: graph.label(name) for name in (*graph.outputs, *graph.inputs)}
    return replace(builder.build([values[name] for name in graph.outputs]), labels=labels), renamed
