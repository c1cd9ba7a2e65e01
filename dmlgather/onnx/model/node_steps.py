"""Nodes as steps of an `IndexGraph`: those of the family, views, and what joins and cuts tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import ceil, floor, prod
from typing import Any

import numpy as np

from dmlgather.dialects.views import SliceView
from dmlgather.dialects.windows import Window, integers
from dmlgather.onnx import auxiliary
from dmlgather.onnx.auxiliary.value_operators import tensor
from dmlgather.onnx.model.translated_node import TranslatedNode
from dmlgather.onnx.problems.data_types import data_type
from dmlgather.onnx.problems.node_reading import ARRAYS, in_family, problem_of
from dmlgather.onnx.problems.operator_versions import DOMAINS

# Arithmetic on integers and bools as steps of an `IndexGraph`: a row for each of ONNX's operators that NumPy has as well.

Row = Callable[[TranslatedNode], tuple[str, ...] | None]
"""Adds the steps of a node: the values that its outputs are, or None for what is not integer arithmetic."""


def _cast(call: TranslatedNode) -> tuple[str, ...] | None:
    to = call.attribute("to")
    return _as_type(call, data_type(to.decode() if isinstance(to, bytes) else to))


def _cast_like(call: TranslatedNode) -> tuple[str, ...] | None:
    like = call.types[1]
    return None if like is None else _as_type(call, like.dtype)


def _as_type(call: TranslatedNode, dtype: np.dtype[Any] | None) -> tuple[str, ...] | None:
    if dtype == call.tensor.dtype:
        return (call.data,)
    if dtype is None or dtype.kind not in "biu" or not call.integers:
        return None
    return (call.graph.elementwise(call.name, "cast", dtype, call.data, output=call.output),)


def _elementwise(operator: str) -> Row:
    """The operator of NumPy on all inputs."""

    def row(call: TranslatedNode) -> tuple[str, ...] | None:
        return _computed(call, operator) if call.integers and call.broadcasts else None

    return row


def _computed(call: TranslatedNode, operator: str) -> tuple[str, ...]:
    inputs = [name for name in call.inputs if name is not None]
    dtype = np.dtype(bool) if operator in _LOGICAL else call.graph.types[inputs[-1]].dtype
    return (call.graph.elementwise(call.name, operator, dtype, *inputs, output=call.output),)


def _where(call: TranslatedNode) -> tuple[str, ...]:
    """A selection moves elements of every type."""
    return _computed(call, "where")


def _modulo(call: TranslatedNode) -> tuple[str, ...] | None:
    """NumPy's remainder has ONNX's sign. onnxruntime refuses a divisor of 0, so the divisor has to be known."""
    divisor = call.graph.known(call.inputs[1] or "")
    if call.attribute("fmod") or not call.integers or divisor is None or not divisor.all():
        return None
    return _computed(call, "remainder")


def _extremum(operator: str) -> Row:
    """Min or Max of any number of inputs, two by two."""

    def row(call: TranslatedNode) -> tuple[str, ...] | None:
        if not call.integers or not call.broadcasts:
            return None
        value, *others = [name for name in call.inputs if name is not None]
        for number, other in enumerate(others, 1):
            output = call.output if number == len(others) else f"{call.output}: of {number + 1} inputs"
            value = call.graph.elementwise(call.name, operator, call.tensor.dtype, value, other, output=output)
        return (value,)

    return row


def _clip(call: TranslatedNode) -> tuple[str, ...] | None:
    """At least min, then at most max: where min is greater than max, every element becomes max."""
    if not call.integers or call.opset < 12:
        return None
    value = call.data
    bounds = [("maximum", call.inputs[1] if call.given(1) else None), ("minimum", call.inputs[2] if call.given(2) else None)]
    given = [(operator, bound) for operator, bound in bounds if bound is not None]
    for number, (operator, bound) in enumerate(given, 1):
        output = call.output if number == len(given) else f"{call.output}: {operator}"
        value = call.graph.elementwise(call.name, operator, call.tensor.dtype, value, bound, output=output)
    return (value,)


_LOGICAL = frozenset(("less", "less_equal", "greater", "greater_equal", "equal", "not_equal", "and", "or", "not"))

ARITHMETIC: Mapping[str, Row] = {
    "Add": _elementwise("add"),
    "Sub": _elementwise("subtract"),
    "Mul": _elementwise("multiply"),
    "Neg": _elementwise("negative"),
    "Mod": _modulo,
    "Min": _extremum("minimum"),
    "Max": _extremum("maximum"),
    "Clip": _clip,
    "Less": _elementwise("less"),
    "LessOrEqual": _elementwise("less_equal"),
    "Greater": _elementwise("greater"),
    "GreaterOrEqual": _elementwise("greater_equal"),
    "Equal": _elementwise("equal"),
    "And": _elementwise("and"),
    "Or": _elementwise("or"),
    "Xor": _elementwise("not_equal"),
    "Not": _elementwise("not"),
    "Where": _where,
    "Cast": _cast,
    "CastLike": _cast_like,
}


MOST_COUNTED = 2**20
"""The largest number in a Range that becomes a constant: even float32 holds every integer up to there."""


def steps_of(call: TranslatedNode) -> tuple[str, ...] | None:
    """Add the steps of a node to its graph: the names of the values that its outputs are; None, with nothing added, for a node of
    another operator, and where what decides the shape of its result is not known.

    Raises TypeError and ValueError for a node that breaks a rule of its operator's version.
    """
    if call.node.domain not in DOMAINS:
        return None
    if in_family(call.node):
        return _family(call)
    if auxiliary.is_auxiliary(call.node) and call.node.op_type in _VIEWS:
        return _view(call)
    row = MOVING.get(call.node.op_type) or ARITHMETIC.get(call.node.op_type)
    return None if row is None else row(call)


def _family(call: TranslatedNode) -> tuple[str, ...] | None:
    """A gather, a slice, or a block permutation; None where bounds of a slice are not known."""
    arrays = len(ARRAYS[call.node.op_type])
    values = [None, *call.values[1:]] if call.node.op_type == "Slice" else [None] * len(call.inputs)
    if any(call.given(number) and value is None for number, value in enumerate(values[arrays:], arrays)):
        return None
    problem = problem_of(call.node, call.opset, call.types, values)
    inputs = [name for name in call.inputs[:arrays] if name is not None]
    return (call.graph.problem(call.name, problem, *inputs, output=call.output),)


class _ShapeAndType:
    """Stands for an array of which only the shape and the type are there: what the auxiliary operators ask of their data."""

    def __init__(self, shape: Sequence[int], dtype: np.dtype[Any], order: Sequence[int] | None = None) -> None:
        self.shape, self.dtype, self.order = tuple(shape), dtype, order

    def reshape(self, shape: Sequence[int]) -> _ShapeAndType:
        """The elements under another shape."""
        return _ShapeAndType(shape, self.dtype)

    def transpose(self, order: Sequence[int]) -> _ShapeAndType:
        """The dimensions in another order."""
        return _ShapeAndType([self.shape[axis] for axis in order], self.dtype, order)


def _view(call: TranslatedNode) -> tuple[str, ...] | None:
    """Reshape, Squeeze, Unsqueeze, Transpose; None where the shape or the axes are not known."""
    host = call.values[1:]
    if any(call.given(number) and value is None for number, value in enumerate(host, 1)):
        return None
    found = auxiliary.compute(call.node, call.opset, [_ShapeAndType(call.tensor.shape, call.tensor.dtype), *host])
    if found.order is not None:
        return (call.graph.transposed(call.name, call.data, found.order, output=call.output),)
    return (call.graph.reshaped(call.name, call.data, found.shape, output=call.output),)


def _flatten(call: TranslatedNode) -> tuple[str, ...]:
    shape = call.tensor.shape
    given = call.attribute("axis")
    axis = 1 if given is None else given
    if not -len(shape) <= axis <= len(shape):
        raise ValueError(f"axis is {axis}, but data has rank {len(shape)}: expected {-len(shape)} … {len(shape)}")
    axis += len(shape) if axis < 0 else 0
    return (call.graph.reshaped(call.name, call.data, (prod(shape[:axis]), prod(shape[axis:])), output=call.output),)


def _expand(call: TranslatedNode) -> tuple[str, ...] | None:
    if not call.given(1) or call.values[1] is None:
        return None
    sizes = integers("Expand", "shape", call.values[1])
    shape = np.broadcast_shapes(call.tensor.shape, sizes)
    return (call.graph.expanded(call.name, call.data, shape, output=call.output),)


def _constant_of_shape(call: TranslatedNode) -> tuple[str, ...] | None:
    if call.values[0] is None:
        return None
    value = call.attribute("value")
    element = np.zeros((), np.float32) if value is None else tensor(value).reshape(())
    sizes = integers("ConstantOfShape", "shape", call.values[0])
    return (call.graph.expanded(call.name, call.graph.constant(element), sizes, output=call.output),)


def _range(call: TranslatedNode) -> tuple[str, ...] | None:
    """A constant, where start and step are integers of at most 2^20: then every runtime computes the same elements."""
    values = [float(np.asarray(value).reshape(())) for value in call.values if value is not None]
    if len(values) != 3 or not all(np.isfinite(values)):
        return None
    start, limit, step = values
    if not step or not (start.is_integer() and step.is_integer()) or max(map(abs, values)) > MOST_COUNTED:
        return None
    elements = range(int(start), ceil(limit) if step > 0 else floor(limit), int(step))
    return (call.graph.constant(np.array(elements, call.tensor.dtype), call.output),)


def _tile(call: TranslatedNode) -> tuple[str, ...] | None:
    """Each dimension of a size behind a new one along which the elements are repeated."""
    if call.opset < 6 or not call.given(1) or call.values[1] is None:
        return None
    repeats = integers("Tile", "repeats", call.values[1])
    sizes = call.tensor.shape
    if len(repeats) != len(sizes) or min(repeats, default=0) < 0:
        raise ValueError(f"repeats is {list(repeats)}, but data has rank {len(sizes)}: expected {len(sizes)} counts of 0 or more")
    single = [part for size in sizes for part in (1, size)]
    repeated = [part for size, repeat in zip(sizes, repeats, strict=True) for part in (repeat, size)]
    value = call.graph.reshaped(f"{call.name}: dimensions", call.data, single, output=f"{call.output}: dimensions")
    value = call.graph.expanded(f"{call.name}: repeated", value, repeated, output=f"{call.output}: repeated")
    shape = [size * repeat for size, repeat in zip(sizes, repeats, strict=True)]
    return (call.graph.reshaped(call.name, value, shape, output=call.output),)


def _concat(call: TranslatedNode) -> tuple[str, ...]:
    values = [name for name in call.inputs if name is not None]
    types = [call.graph.types[name] for name in values]
    axis = call.axis(1) if call.opset < 4 else call.axis(_required(call, "axis"))
    for number, other in enumerate(types):
        same = other.rank == types[0].rank and other.dtype == types[0].dtype
        if not same or any(
            one != two for at, (one, two) in enumerate(zip(other.shape, types[0].shape, strict=True)) if at != axis
        ):
            raise ValueError(
                f"input {number} is {other} and input 0 is {types[0]}: expected one type, and equal sizes off axis {axis}"
            )
    return (call.graph.concatenated(call.name, values, axis, output=call.output),)


def _split(call: TranslatedNode) -> tuple[str, ...] | None:
    axis, outputs = call.axis(0), call.node.output
    size = call.tensor.shape[axis]
    sizes = call.attribute("split")
    if sizes is None and call.given(1):
        if call.values[1] is None:
            return None
        sizes = integers("Split", "split", call.values[1])
    if sizes is None:
        part = -(-size // len(outputs)) if call.opset >= 18 else size // len(outputs)
        sizes = [max(0, min(part, size - part * number)) for number in range(len(outputs))]
    if len(sizes) != len(outputs) or sum(sizes) != size or min(sizes) < 0:
        raise ValueError(
            f"split is {list(sizes)} for {len(outputs)} outputs, but data has size {size} along axis {axis}: expected a size for "
            "each output, which add up to it"
        )
    found, start = [], 0
    for name, part in zip(outputs, sizes, strict=True):
        windows = [Window.whole(whole) for whole in call.tensor.shape]
        windows[axis] = Window(start, part, 1)
        start += part
        view = SliceView(call.tensor, tuple(windows))
        found.append(call.graph.problem(f"{call.name}: {name!r}", view, call.data, output=name) if name else "")
    return tuple(found)


def _same(call: TranslatedNode) -> tuple[str, ...]:
    return (call.data,)


def _dropout(call: TranslatedNode) -> tuple[str, ...] | None:
    """The data themselves where the model is not trained, and nobody reads the mask."""
    if any(call.node.output[1:]):
        return None
    if call.opset < 7:
        return _same(call) if call.attribute("is_test") else None
    trained = call.given(2) and (call.values[2] is None or bool(np.any(call.values[2])))
    return None if call.opset >= 12 and trained else _same(call)


def _required(call: TranslatedNode, attribute: str) -> Any:
    value = call.attribute(attribute)
    if value is None:
        raise ValueError(f"attribute {attribute} is missing: {call.node.op_type} requires it")
    return value


_VIEWS = ("Reshape", "Squeeze", "Unsqueeze", "Transpose")

MOVING: Mapping[str, Row] = {
    "Identity": _same,
    "Dropout": _dropout,
    "Flatten": _flatten,
    "Expand": _expand,
    "ConstantOfShape": _constant_of_shape,
    "Range": _range,
    "Tile": _tile,
    "Concat": _concat,
    "Split": _split,
}
"""Operators on tensors of any type."""
