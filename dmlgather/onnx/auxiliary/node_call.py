"""From a NodeProto to a call of an auxiliary operator: the version in force, and its attributes and inputs checked against it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dmlgather.onnx.auxiliary.versions import TYPES, AuxiliaryVersion, Kind, version_of
from dmlgather.wording import alternatives, counted


@dataclass(frozen=True)
class NodeCall:
    """One node, read by its operator's version. attributes: those that the node states, as Python values (tensors as protos)."""

    version: AuxiliaryVersion
    attributes: Mapping[str, Any]

    def integers(self, name: str, values: Any, *, scalar: bool = False) -> tuple[int, ...]:
        """An attribute of integers as it is, or the values of an input, a host array.

        scalar: an array without dimensions counts as one entry.
        """
        if isinstance(values, tuple):
            return values
        array = np.asarray(values)
        TYPES.check(self.version, name, array.dtype, ("int64",))
        if array.ndim != 1 and not (scalar and array.ndim == 0):
            raise ValueError(f"{name} has shape {list(array.shape)}, but {self.version} takes one dimension: reshape to [-1]")
        return tuple(int(value) for value in array.reshape(-1))


def read(node: Any, opset: int) -> NodeCall:
    """The call that a NodeProto of an auxiliary operator states.

    ValueError for a wrong number of inputs or outputs, and for attributes that the version lacks or that refer to a function's;
    TypeError for an attribute of another kind.
    """
    version = version_of(node.op_type, opset)
    _check_count(version, list(node.input))
    if len(node.output) != 1:
        raise ValueError(f"the node has {counted(len(node.output), 'output')}, but {version} gives 1")
    return NodeCall(version, {attribute.name: _value(version, attribute) for attribute in node.attribute})


def _check_count(version: AuxiliaryVersion, given: Sequence[str]) -> None:
    least, most = version.required, len(version.inputs)
    if not least <= len(given) <= most or "" in given[:least]:
        names = f": {', '.join(version.inputs)}" if version.inputs else ""
        raise ValueError(
            f"the node has {counted(sum(map(bool, given)), 'input')} ({', '.join(given)}), but {version} takes "
            f"{alternatives(range(least, most + 1))}{names}"
        )


def _value(version: AuxiliaryVersion, attribute: Any) -> Any:
    name = attribute.name
    kind = version.attributes.get(name)
    if kind is None:
        known = f"only {', '.join(version.attributes)}" if version.attributes else "none"
        where = f"; it takes {name} as an input" if name in version.inputs else ""
        raise ValueError(f"attribute {name!r} is not one of {version}, which has {known}{where}")
    if attribute.ref_attr_name:
        raise ValueError(f"attribute {name} refers to {attribute.ref_attr_name!r} of a function: inline the function first")
    if attribute.type != kind:
        raise TypeError(f"attribute {name} has type {attribute.type}, but {version} takes {kind.name} ({kind.value})")
    return _READERS[kind](attribute)


_READERS: Mapping[Kind, Callable[[Any], Any]] = {
    Kind.FLOAT: lambda attribute: float(attribute.f),
    Kind.INT: lambda attribute: int(attribute.i),
    Kind.STRING: lambda attribute: attribute.s.decode("utf-8"),
    Kind.TENSOR: lambda attribute: attribute.t,
    Kind.FLOATS: lambda attribute: tuple(attribute.floats),
    Kind.INTS: lambda attribute: tuple(attribute.ints),
    Kind.STRINGS: lambda attribute: tuple(value.decode("utf-8") for value in attribute.strings),
    Kind.SPARSE_TENSOR: lambda attribute: attribute.sparse_tensor,
}
"""How each kind's value is read from an AttributeProto."""
