"""From a NodeProto to a problem: which attribute or input of which version holds what."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dmlgather.dialects.problem import Problem, TensorType
from dmlgather.onnx.problems.gather import Gather, GatherElements, GatherND
from dmlgather.onnx.problems.operators import DOMAINS, FAMILY, Version, check_type, version_of
from dmlgather.onnx.problems.slice import Slice
from dmlgather.wording import alternatives, counted

BOUNDS = ("starts", "ends", "axes", "steps")
"""The inputs of Slice whose values the problem holds: they are read when it is made, not when it runs."""

ARRAYS: dict[str, tuple[str, ...]] = {problem.name: problem.inputs for problem in (Gather, GatherElements, GatherND, Slice)}
"""The inputs of each operator of which only shape and type are needed."""

INPUTS: dict[str, tuple[str, ...]] = ARRAYS | {"Slice": (*Slice.inputs, *BOUNDS)}
"""All inputs of each operator, in order."""


class UnknownValueError(ValueError):
    """A value that decides the result's shape is not known before the model runs. `input`: its name in the operator."""

    def __init__(self, version: Version, name: str, value: str) -> None:
        self.input, self.value = name, value
        super().__init__(f"{name} ({value!r}) is computed when the model runs, but {version} needs its values to be described")


class UnknownTypeError(ValueError):
    """Shape or type of an array input is not known before the model runs. `input`: its name in the operator."""

    def __init__(self, version: Version, name: str, value: str) -> None:
        self.input, self.value = name, value
        super().__init__(f"shape or type of {name} ({value!r}) is not known, but {version} needs them to be described")


def in_family(node: Any) -> bool:
    """Whether a NodeProto is one of ONNX's own Gather, GatherElements, GatherND and Slice."""
    return node.op_type in FAMILY and node.domain in DOMAINS


def problem_of(node: Any, opset: int, tensors: Sequence[TensorType | None], values: Sequence[Any | None]) -> Problem:
    """The problem that a NodeProto of the family states.

    tensors: shape and type of each of the node's inputs, None where they are not known. values: the host array of each input
    whose values decide the result's shape (starts, ends, axes and steps of Slice), None where it is not known or not needed.

    Raises UnknownTypeError and UnknownValueError (both ValueErrors) for what is needed and None; TypeError and ValueError for a
    node that breaks a rule of the operator's version.
    """
    return _Node(node, opset, tensors, values).problem()


class _Node:
    def __init__(self, node: Any, opset: int, tensors: Sequence[TensorType | None], values: Sequence[Any | None]) -> None:
        self.node, self.opset = node, opset
        self.version = version_of(node.op_type, opset)
        self.tensors, self.values = tensors, values

    def problem(self) -> Problem:
        return READERS[self.node.op_type](self)

    def gather(self) -> Problem:
        data, indices = self.arrays()
        return Gather(data, indices, self.attributes(axis=0)["axis"], self.opset)

    def gather_elements(self) -> Problem:
        data, indices = self.arrays()
        return GatherElements(data, indices, self.attributes(axis=0)["axis"], self.opset)

    def gather_nd(self) -> Problem:
        data, indices = self.arrays()
        batch_dims = self.attributes(batch_dims=0)["batch_dims"] if self.version.since >= 12 else 0
        if self.version.since < 12:
            self.attributes()
        return GatherND(data, indices, batch_dims, self.opset)

    def slice(self) -> Problem:
        if self.version.since < 10:
            (data,) = self.arrays(bounds=())
            bounds = self.attributes(starts=None, ends=None, axes=None)
            for name in ("starts", "ends"):
                if bounds[name] is None:
                    raise ValueError(f"attribute {name} is missing: {self.version} requires it")
            return Slice(data, bounds["starts"], bounds["ends"], bounds["axes"], None, self.opset)
        self.attributes()
        (data,) = self.arrays(required=2)
        starts, ends, axes, steps = (self.bound(number, name) for number, name in enumerate(BOUNDS, 1))
        check_bounds(self.version, {"starts": starts, "ends": ends, "axes": axes, "steps": steps})
        assert starts is not None
        assert ends is not None
        return Slice(data, starts, ends, axes, steps, self.opset)

    def arrays(self, bounds: Sequence[str] | None = None, required: int = 0) -> list[TensorType]:
        """Shape and type of the array inputs, after the number of inputs has been checked.

        bounds: the inputs behind them, of which `required` must be there; those of the operator by default.
        """
        names = ARRAYS[self.node.op_type]
        more = INPUTS[self.node.op_type][len(names) :] if bounds is None else bounds
        given = list(self.node.input)
        least, most = len(names) + required, len(names) + len(more)
        if not least <= len(given) <= most or "" in given[:least]:
            expected = alternatives(range(least, most + 1))
            raise ValueError(
                f"the node has {counted(sum(map(bool, given)), 'input')} ({', '.join(given)}), but {self.version} takes "
                f"{expected}: {', '.join((*names, *more))}"
            )
        found = []
        for number, name in enumerate(names):
            tensor = self.tensors[number]
            if tensor is None:
                raise UnknownTypeError(self.version, name, given[number])
            found.append(tensor)
        return found

    def bound(self, number: int, name: str) -> Any | None:
        """The values of one of Slice's later inputs, None where the node leaves it out."""
        given = self.node.input[number] if number < len(self.node.input) else ""
        if not given:
            return None
        if self.values[number] is None:
            raise UnknownValueError(self.version, name, given)
        return self.values[number]

    def attributes(self, **defaults: Any) -> dict[str, Any]:
        """The node's attributes, or their defaults. ValueError for one that the version does not have."""
        found = dict(defaults)
        for attribute in self.node.attribute:
            if attribute.name not in defaults:
                known = f"only {', '.join(defaults)}" if defaults else "none"
                raise ValueError(f"attribute {attribute.name!r} is not one of {self.version}, which has {known}")
            if attribute.ref_attr_name:
                raise UnknownValueError(self.version, attribute.name, attribute.ref_attr_name)
            found[attribute.name] = _attribute(self.version, attribute)
        return found


def _attribute(version: Version, attribute: Any) -> Any:
    """The value of an INT or INTS attribute."""
    kinds = {"axis": (2, "INT"), "batch_dims": (2, "INT")}  # AttributeProto.INT, else AttributeProto.INTS
    kind, label = kinds.get(attribute.name, (7, "INTS"))
    if attribute.type != kind:
        raise TypeError(f"attribute {attribute.name} has type {attribute.type}, but {version} takes {label} ({kind})")
    return attribute.i if kind == 2 else tuple(attribute.ints)


def check_bounds(version: Version, bounds: Mapping[str, Any]) -> None:
    """Check the arrays among Slice's starts, ends, axes and steps; sequences of Python integers need no check here.

    TypeError for a type that the version does not list and for starts, ends, axes and steps of different types.
    """
    arrays = {name: values for name, values in bounds.items() if hasattr(values, "dtype")}
    for name, values in arrays.items():
        check_type(version, name, values.dtype, version.indices)
    if len({values.dtype for values in arrays.values()}) > 1:
        found = ", ".join(f"{name} {values.dtype}" for name, values in arrays.items())
        raise TypeError(f"starts, ends, axes and steps have different types ({found}), but {version} takes one type for all")


READERS: Mapping[str, Callable[[_Node], Problem]] = {
    "Gather": _Node.gather,
    "GatherElements": _Node.gather_elements,
    "GatherND": _Node.gather_nd,
    "Slice": _Node.slice,
}
"""How each operator of the family is read."""
