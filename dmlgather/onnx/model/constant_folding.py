"""Constant folding: the values that follow from constants and from shapes, of which some sizes may not be known.

What has only known inputs is computed by ONNX's reference evaluator; the operators that most models compute shapes with are
computed here, which is faster. Where some elements are no numbers, an operator that moves elements moves their positions, and one
that computes has a row in `symbolic_elements`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlgather.dialects.checked_model import Unknown
from dmlgather.dialects.size_arrays import KEPT_ELEMENTS
from dmlgather.onnx.model.moving_operators import COMPUTED_HERE, MOVED
from dmlgather.onnx.model.node_requests import NodeAnswer
from dmlgather.onnx.model.partial_types import PartialType
from dmlgather.onnx.model.size_names import ModelSizes
from dmlgather.onnx.model.subgraphs import operator_name
from dmlgather.onnx.model.symbolic_elements import ELEMENTWISE, REDUCTIONS, Arithmetic, cast, elementwise, reduced, sequence
from dmlgather.onnx.model.values import (
    Array,
    Element,
    Value,
    array_of,
    first_unknown,
    is_known,
    is_partly,
    objects,
)
from dmlgather.onnx.problems.data_types import data_type
from dmlgather.onnx.problems.node_reading import parse_node
from dmlgather.wording import printable, shortened

if TYPE_CHECKING:
    from onnx import NodeProto


@dataclass(frozen=True)
class Operands:
    """A node with what is known of its inputs. ask: what ONNX says of the node with other values of its inputs."""

    node: NodeProto
    opset: int
    types: Sequence[PartialType]
    values: Sequence[Value | None]
    names: ModelSizes
    ask: Callable[[Sequence[Value | None]], NodeAnswer]

    @property
    def integers(self) -> dict[str, int]:
        """The attributes that are one integer."""
        return {each.name: each.i for each in self.node.attribute if each.HasField("i") and not each.ref_attr_name}

    @property
    def data(self) -> np.dtype[Any]:
        """The data type of the first input; ValueError where it is not known."""
        dtype = next((known.dtype for known in self.types if known.dtype is not None), None)
        if dtype is None:
            raise ValueError("an input of unknown type")
        return dtype


def fold(operands: Operands) -> list[Value]:
    """The outputs of a node of ONNX's own domain, as far as they are known."""
    node = operands.node
    try:
        found = _folded(operands)
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:
        found = Unknown(f"computed by {node.op_type}, which is ill-formed: {shortened(str(error), 200)}", computed=True)
    if isinstance(found, Unknown):
        return [found] * len(node.output)
    return [_kept(value) for value in found]


def _folded(operands: Operands) -> list[Value] | Unknown:
    node, values = operands.node, operands.values
    if node.op_type in ("Shape", "Size"):
        return _shape(operands)
    given = [value for value in values if value is not None]
    if all(map(is_known, given)):
        return _computed(operands, values)
    if not any(is_partly(value) for value in given) and not _may_be_partly(operands):
        return _why(operands)
    if node.op_type in MOVED:
        return _moved(operands)
    if node.op_type in _COMPUTED:
        whole = next((value for value in given if isinstance(value, Unknown)), None)
        if whole is None:
            return [_COMPUTED[node.op_type](operands)]
    return _why(operands)


def _kept(value: Value) -> Value:
    if isinstance(value, np.ndarray) and value.size > KEPT_ELEMENTS:
        return Unknown(f"a constant of {value.size} elements")
    if isinstance(value, np.ndarray) and value.size and all(isinstance(element, Unknown) for element in value.reshape(-1)):
        return first_unknown([value]) or value
    return value


def _why(operands: Operands) -> Unknown:
    """Why the outputs are not known: which input is not, and why."""
    node = operands.node
    passes_on = any(node.op_type in table for table in (MOVED, COMPUTED_HERE, _COMPUTED))
    return computed_when_run(node, operands.values, passes_on)


def computed_when_run(node: NodeProto, values: Sequence[Value | None], passes_on: bool = False) -> Unknown:
    """Why the outputs of a node are not known. passes_on: whether it would be known if its inputs were."""
    found = [(name, why) for name, value in zip(node.input, values, strict=True) if (why := first_unknown([value])) is not None]
    decided_by = next((why.decided_by for _, why in found if why.decided_by), None)
    if not passes_on or not found:
        return Unknown(f"computed when the model runs, by {operator_name(node)}", decided_by, computed=True)
    name, why = found[0]
    return why.computed_from(printable(name), decided_by)


def _shape(operands: Operands) -> list[Value] | Unknown:
    """The output of Shape and Size. Sizes of the first input are numbers or names."""
    node, known = operands.node, operands.types[0]
    if known.shape is None:
        why = operands.values[0]
        decided_by = why.decided_by if isinstance(why, Unknown) else None
        return Unknown(f"the shape of {node.input[0]!r}, which is not known", decided_by, computed=True)
    sizes: list[Element] = [Unknown("a size") if size is None else size for size in known.shape]
    if node.op_type == "Size":
        arithmetic = Arithmetic(operands.names)
        return [array_of([arithmetic.fold("multiply", [1, *sizes])], (), np.dtype(np.int64))]
    version = parse_node(node, operands.opset)
    start, end = (version.attributes.get(name) for name in ("start", "end"))
    return [array_of(sizes[start:end], (len(sizes[start:end]),), np.dtype(np.int64))]


def _may_be_partly(operands: Operands) -> bool:
    """Whether elements of the output may be known although an input is not known at all."""
    if operands.node.op_type != "Concat" or not any(map(is_known, operands.values)):
        return False
    return all(
        not isinstance(value, Unknown) or _small(known) is not None
        for known, value in zip(operands.types, operands.values, strict=True)
    )


def _small(known: PartialType) -> tuple[int, ...] | None:
    """The shape of a tensor with few elements; None where it is not known, or there are many."""
    shape = tuple(size for size in known.shape or () if isinstance(size, int))
    if known.shape is None or len(shape) < len(known.shape) or math.prod(shape) > KEPT_ELEMENTS:
        return None
    return shape


def _moved(operands: Operands) -> list[Value] | Unknown:
    """The outputs of an operator of MOVED: it moves the positions of the elements, of which 0 stands for the number 0."""
    inputs = MOVED[operands.node.op_type]
    pool: list[Element] = [0]
    values: list[Value | None] = []
    for at, (known, value) in enumerate(zip(operands.types, operands.values, strict=True)):
        if value is None or (inputs is not None and at not in inputs):
            if not (value is None or is_known(value)):
                return _why(operands)
            values.append(value)
            continue
        shape = _small(known) if isinstance(value, Unknown) else value.shape
        if shape is None:
            return _why(operands)
        number = math.prod(shape)
        values.append(np.arange(len(pool), len(pool) + number).reshape(shape))
        pool += [value] * number if isinstance(value, Unknown) else objects(value).reshape(-1).tolist()
    found = _computed(operands, values)
    if isinstance(found, Unknown):
        return found
    dtype = operands.data
    return [
        one if isinstance(one, Unknown) else array_of([pool[at] for at in one.reshape(-1)], one.shape, dtype) for one in found
    ]


def _computed(operands: Operands, values: Sequence[Value | None]) -> list[Value] | Unknown:
    """The outputs of a node for known inputs."""
    node, opset = operands.node, operands.opset
    run = COMPUTED_HERE.get(node.op_type)
    if run is not None and len(node.output) == 1:
        return [np.asarray(run(node, opset, values))]
    answer = operands.ask(values)
    if not answer.values and values is operands.values and node.op_type in _COMPUTED:
        return [_COMPUTED[node.op_type](operands)]  # some versions of ONNX's evaluator lack operators
    missing = computed_when_run(node, operands.values)
    return [answer.values.get(name, missing) for name in node.output]


def _elementwise(operands: Operands) -> Array:
    dtype = operands.types[1 if operands.node.op_type == "Where" else 0].dtype
    if dtype is None:
        raise ValueError("an input of unknown type")
    arithmetic = Arithmetic(operands.names, dtype.kind in "iu", operands.integers)
    inputs = [None if isinstance(value, Unknown) else value for value in operands.values]
    return elementwise(operands.node.op_type, arithmetic, inputs, dtype)


def _reduced(operands: Operands) -> Array:
    node, attributes = operands.node, operands.integers
    axes = next((list(each.ints) for each in node.attribute if each.name == "axes"), None)
    if len(operands.values) > 1 and operands.values[1] is not None:
        if not is_known(operands.values[1]):
            raise ValueError("axes that are not known")
        axes = [int(axis) for axis in np.asarray(operands.values[1]).reshape(-1)]
    if not axes:
        axes = [] if attributes.get("noop_with_empty_axes", 0) else None
    arithmetic = Arithmetic(operands.names, operands.data.kind in "iu", attributes)
    data = np.asarray(operands.values[0])
    keep = bool(attributes.get("keepdims", 1))
    return reduced(node.op_type, arithmetic, data, operands.data, axes=axes, keep=keep)


def _cast(operands: Operands) -> Array:
    target = data_type(operands.integers["to"])
    if target is None:
        raise ValueError("to is no data type")
    return cast(Arithmetic(operands.names), np.asarray(operands.values[0]), operands.data, target)


def _range(operands: Operands) -> Value:
    arithmetic = Arithmetic(operands.names, operands.data.kind in "iu")
    start, limit, step = (objects(np.asarray(value)).reshape(-1)[0] for value in operands.values)
    found = sequence(arithmetic, start, limit, step)
    return _why(operands) if found is None else array_of(found, (len(found),), operands.data)


_COMPUTED: Mapping[str, Callable[[Operands], Value]] = {
    **dict.fromkeys(ELEMENTWISE, _elementwise),
    **dict.fromkeys(REDUCTIONS, _reduced),
    "Cast": _cast,
    "Range": _range,
}
"""The operators that compute with expressions."""
