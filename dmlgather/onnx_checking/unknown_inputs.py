"""What a model does not say about the inputs of a node, as findings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from dmlgather.dialects.export_codes import CODES
from dmlgather.directml import Finding
from dmlgather.onnx.problems.node_reading import UnknownTypeError, UnknownValueError
from dmlgather.onnx_checking.following.model_nodes import CHANGING, ModelNode, NodeValue
from dmlgather.onnx_checking.following.scopes import NOWHERE, OWN
from dmlgather.onnx_checking.node_sizes import NUMBERS, shape_of
from dmlgather.onnx_checking.sizes.expressions import Sizes
from dmlgather.onnx_checking.sizes.values import Unknown
from dmlgather.wording import printable


def undefined_name(role: str, name: str, reason: str) -> Finding:
    """The finding that a node reads a name that is not defined before it."""
    return CODES["EXP304"].finding(
        role,
        expected="an input or initializer of the graph or of one around it, or an output of an earlier node",
        got=f"{printable(name)!r}, which is {reason}",
        remedy="correct the name"
        if reason in (NOWHERE, OWN)
        else "sort the nodes: each comes after those whose outputs it reads",
    )


def no_sizes(symbols: Sequence[str], origins: Mapping[str, str]) -> Finding:
    """The finding that no sizes were found for which the node has a meaning."""
    names = ", ".join(map(printable, symbols))
    return CODES["EXP302"].finding(
        "data",
        expected="sizes for which no tensor is empty",
        got=f"sizes that depend on {names} in a way for which none were found{_deciding_inputs(symbols, origins)}",
        remedy=f"declare {names} in the model, as numbers",
    )


def missing(site: ModelNode, sizes: Sizes, origins: Mapping[str, str]) -> Iterator[Finding]:
    """What the model does not say about a node's inputs."""
    for role, value in site.roles.items():
        name, is_array, origin = printable(value.name), role in site.arrays, _origin(value)
        if is_array and (value.type.dtype is None or value.type.shape is None):
            yield CODES["EXP301"].finding(
                role,
                expected="a data type and a number of dimensions",
                got=f"{name!r} of type {value.type}{origin}",
                remedy=f"declare the type of {name!r} in the model's value_info, or the types of what it is computed from",
            )
        elif is_array and shape_of(site, role, value) is None:
            yield CODES["EXP302"].finding(
                role,
                expected="a known size of the last dimension, which is how many axes are indexed",
                got=f"{name!r} of type {value.type}",
                remedy=f"declare that size of {name!r} in the model, as a number",
            )
        elif role in NUMBERS and value.names:
            symbols = list(dict.fromkeys(symbol for each in value.names for symbol in sorted(sizes.symbols(each))))
            yield CODES["EXP302"].finding(
                role,
                expected="numbers, as DirectML's slices have their axes and steps in the descriptor",
                got=f"{name!r}, computed from sizes: {printable(', '.join(value.names))}{_deciding_inputs(symbols, origins)}",
                remedy=f"declare {printable(', '.join(symbols))} in the model, as numbers",
            )
        elif not is_array and name and origin:
            change = "unroll the loop" if CHANGING in origin else f"make {name!r} a Constant or an initializer that is no input"
            yield CODES["EXP302"].finding(
                role,
                expected="constants, as DirectML's slices have their bounds in the descriptor",
                got=f"{name!r}{origin}",
                remedy=f"{change}, or build a descriptor for each value it takes",
            )


def _deciding_inputs(symbols: Iterable[str], origins: Mapping[str, str]) -> str:
    """The inputs of the model that decide symbols; empty where none is known."""
    names = dict.fromkeys(repr(printable(origins[symbol])) for symbol in symbols if symbol in origins)
    return f"; they depend on the model's input{'s' * (len(names) > 1)} {', '.join(names)}" if names else ""


def _origin(value: NodeValue) -> str:
    """Why an input's elements are not known; else empty."""
    if not isinstance(value.elements, Unknown):
        return ""
    decided_by = value.elements.decided_by
    depends = f"; it depends on the model's input {printable(decided_by)!r}" if decided_by not in (None, value.name) else ""
    return f", {printable(value.elements.reason)}{depends}"


def reference(error: UnknownTypeError | UnknownValueError) -> Finding:
    """The finding that an attribute refers to one of the function."""
    return CODES["EXP302"].finding(
        error.input,
        expected="one value for all calls of the function",
        got=f"a reference to the function's attribute {printable(error.value)!r}",
        remedy="inline the function's calls, or call it with one value",
    )
