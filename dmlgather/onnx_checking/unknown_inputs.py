"""Findings that name missing facts about a node's inputs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from dmlgather.dialects.export_codes import CODES
from dmlgather.directml import Finding
from dmlgather.onnx.problems.node_reading import UnknownTypeError, UnknownValueError
from dmlgather.onnx_checking.following.model_nodes import CHANGING, ModelNode, NodeValue
from dmlgather.onnx_checking.following.scopes import LATER_IN_MAIN, NOWHERE, OWN, STORED_OUTSIDE
from dmlgather.onnx_checking.node_sizes import NUMBERS, shape_of
from dmlgather.onnx_checking.sizes.expressions import Sizes
from dmlgather.onnx_checking.sizes.values import Unknown
from dmlgather.wording import printable


def undefined_name(role: str, name: str, reason: str) -> Finding:
    """Return a finding: the name of input `role` is undefined when the node runs."""
    remedy = "correct the name"
    if reason not in (NOWHERE, OWN):
        remedy = "sort the nodes, so that each comes after those whose outputs it reads"
    if reason == LATER_IN_MAIN:
        remedy += "; ONNX's checker refuses this order, and onnxruntime sorts the main graph itself"
    return CODES["EXP304"].finding(
        role,
        expected="an input or initializer of the graph or of one around it, or an output of an earlier node",
        got=f"{printable(name)!r}, which is {reason}",
        remedy=remedy,
    )


def no_sizes_found(symbols: Sequence[str], origins: Mapping[str, str]) -> Finding:
    """Return the finding for a failed search: it found no sizes for which no tensor is empty."""
    names = ", ".join(map(printable, symbols))
    return CODES["EXP302"].finding(
        "data",
        expected="sizes for which no tensor is empty",
        got=f"sizes that depend on {names} in a way for which none were found{_deciding_inputs(symbols, origins)}",
        remedy=f"declare {names} in the model, as numbers",
    )


def missing_facts(node: ModelNode, sizes: Sizes, origins: Mapping[str, str]) -> Iterator[Finding]:
    """Yield a finding for each input that is not known well enough."""
    for role, value in node.roles.items():
        name, is_array, origin = printable(value.name), role in node.arrays, _origin(value)
        if is_array and (value.type.dtype is None or value.type.shape is None):
            yield CODES["EXP301"].finding(
                role,
                expected="a data type and a number of dimensions",
                got=f"{name!r} of type {value.type}{origin}",
                remedy=f"declare the type of {name!r} in the model's value_info, or the types of what it is computed from",
            )
        elif is_array and shape_of(node, role, value) is None:
            yield CODES["EXP302"].finding(
                role,
                expected="a known size of the last dimension, which is how many axes are indexed",
                got=f"{name!r} of type {value.type}",
                remedy=f"declare that size of {name!r} in the model, as a number",
            )
        elif role in NUMBERS and value.names:
            symbols = list(dict.fromkeys(symbol for size in value.names for symbol in sorted(sizes.symbols(size))))
            yield CODES["EXP302"].finding(
                role,
                expected="numbers, as DirectML's slices have their axes and steps in the descriptor",
                got=f"{name!r}, computed from sizes: {printable(', '.join(value.names))}{_deciding_inputs(symbols, origins)}",
                remedy=f"declare {printable(', '.join(symbols))} in the model, as numbers",
            )
        elif not is_array and name and origin:
            advice = f"make {name!r} a Constant or an initializer that is no input"
            if CHANGING in origin:
                advice = "unroll the loop"
            elif STORED_OUTSIDE in origin:
                advice = f"store {name!r} in the model file, not as external data"
            if role != "axes":
                advice += (
                    ", or replace the Slice by a Gather of the positions that Range gives, with bounds inside the axis "
                    "(`dmlgather rule EXP302` has the nodes)"
                )
            yield CODES["EXP302"].finding(
                role,
                expected="constants, as DirectML's slices have their bounds in the descriptor",
                got=f"{name!r}{origin}",
                remedy=advice,
            )


def _deciding_inputs(symbols: Iterable[str], origins: Mapping[str, str]) -> str:
    """Name the model inputs that decide these sizes, or return ""."""
    names = dict.fromkeys(repr(printable(origins[symbol])) for symbol in symbols if symbol in origins)
    return f"; they depend on the model's input{'s' * (len(names) > 1)} {', '.join(names)}" if names else ""


def _origin(value: NodeValue) -> str:
    """Say why the elements of an input are unknown, or return ""."""
    if not isinstance(value.elements, Unknown):
        return ""
    decided_by = value.elements.decided_by
    depends = f"; it depends on the model's input {printable(decided_by)!r}" if decided_by not in (None, value.name) else ""
    return f", {printable(value.elements.reason)}{depends}"


def function_attribute(error: UnknownTypeError | UnknownValueError) -> Finding:
    """Return a finding: an attribute may differ between the calls of a local function."""
    return CODES["EXP302"].finding(
        error.input,
        expected="one value for all calls of the function",
        got=f"a reference to the function's attribute {printable(error.value)!r}",
        remedy="inline the function's calls, or call it with one value",
    )
