"""Whether DirectML takes a node of a model at a feature level, why not, and what is not known."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from numpy.typing import NDArray

from dmlgather.dialects.checked_model import KnownCall, Unknown, Verdict
from dmlgather.dialects.export_codes import CODES
from dmlgather.dialects.problem import Problem
from dmlgather.dialects.size_arrays import has_names
from dmlgather.dialects.sizes import Sizes
from dmlgather.dialects.unknown_sizes import NodeSizes, TrialSizes, trial_sizes
from dmlgather.dialects.verdicts import Judged, verdict, with_sizes
from dmlgather.directml import FeatureLevel, Finding
from dmlgather.onnx.model.node_sites import CHANGING, NodeSite, NodeValue
from dmlgather.onnx.model.node_sizes import NUMBERS, arrays, constant_indices, node_sizes, problem_with, roles, shape_of
from dmlgather.onnx.model.scopes import NOWHERE
from dmlgather.onnx.problems.constant_indices import index_out_of_range
from dmlgather.onnx.problems.export import EXPORTER, broken_rule
from dmlgather.onnx.problems.node_reading import ARRAYS, UnknownTypeError, UnknownValueError
from dmlgather.wording import printable


def judge(site: NodeSite, level: FeatureLevel, sizes: Sizes, origins: Mapping[str, str], *, cut: bool = False) -> Judged:
    """Whether DirectML takes the node at a feature level, and why not. sizes: of the node's model. origins: the input of the
    model that decides a symbol of these. cut: as of `trial_sizes`.
    """
    undefined = tuple(undefined_name(role, value.name, value.undefined) for role, value in roles(site).items() if value.undefined)
    if undefined:
        return Judged(Verdict.REFUSED, undefined)
    if site.unreached is not None:
        return Judged(Verdict.UNREACHED, reason=site.unreached)
    try:
        node = node_sizes(site, sizes)
        found = trial_sizes(node, cut)
        if found.possible is None:
            return Judged(Verdict.UNKNOWN, (_no_sizes(node, origins),))
        problems = list(_problems(site, node, found))
    except (UnknownTypeError, UnknownValueError) as error:
        return Judged(Verdict.UNKNOWN, tuple(_missing(site, sizes, origins)) or (_reference(error),))
    except (TypeError, ValueError) as error:
        return Judged(Verdict.REFUSED, (broken_rule(site.node, site.opset, printable(str(error))),))
    judged = verdict(EXPORTER, problems, found.provided, level)
    call = None if node.symbols else KnownCall(problems[0][1], _elements(site))
    wrong = _index_out_of_range(site, problems[0][1])
    return replace(judged, call=call) if wrong is None else Judged(Verdict.REFUSED, (wrong, *judged.findings), call=call)


def _problems(site: NodeSite, node: NodeSizes, found: TrialSizes) -> Iterator[tuple[dict[str, int], Problem]]:
    """The node's problem for each trial. TypeError and ValueError as `problem_of`; those about sizes name them."""
    for values in found.values:
        shapes = {role: node.concrete(shape, values) for role, shape in node.shapes.items()}
        try:
            yield values, problem_with(site, shapes, partial(node.sizes.at, values=values))
        except (UnknownTypeError, UnknownValueError):
            raise
        except (TypeError, ValueError) as error:
            raise ValueError(f"{error}{with_sizes(values) if len(found.values) == 1 else ''}") from error


def undefined_name(role: str, name: str, reason: str) -> Finding:
    """The finding that a node reads a name that is not defined before it."""
    return CODES["EXP304"].finding(
        role,
        expected="an input or initializer of the graph or of one around it, or an output of an earlier node",
        got=f"{printable(name)!r}, which is {reason}",
        remedy="correct the name" if reason == NOWHERE else "sort the nodes: each comes after those whose outputs it reads",
    )


def _index_out_of_range(site: NodeSite, problem: Problem) -> Finding | None:
    """A constant index that is out of range along a dimension of known size, or along any."""
    indices = constant_indices(site)
    if indices is None:
        return None
    known = [isinstance(size, int) or not problem.wraps for size in site.inputs[0].type.shape or ()]
    return index_out_of_range(problem, indices, known)


def _elements(site: NodeSite) -> dict[str, NDArray[Any]]:
    """The arrays whose elements are known numbers, by role."""
    known = {role: value.elements for role, value in arrays(site).items() if not isinstance(value.elements, Unknown)}
    return {role: elements for role, elements in known.items() if not has_names(elements)}


def _no_sizes(node: NodeSizes, origins: Mapping[str, str]) -> Finding:
    """The finding that no sizes were found for which the node has a meaning."""
    symbols = ", ".join(map(printable, node.symbols))
    return CODES["EXP302"].finding(
        "data",
        expected="sizes for which no tensor is empty",
        got=f"sizes that depend on {symbols} in a way for which none were found{_inputs(node.symbols, origins)}",
        remedy=f"declare {symbols} in the model, as numbers",
    )


def _missing(site: NodeSite, sizes: Sizes, origins: Mapping[str, str]) -> Iterator[Finding]:
    """What the model does not say about a node's inputs."""
    for role, value in roles(site).items():
        name, is_array = printable(value.name), role in ARRAYS[site.node.op_type]
        origin = _origin(value)
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
        elif role in NUMBERS and (names := _names(value)):
            symbols = list(dict.fromkeys(symbol for each in names for symbol in sorted(sizes.symbols(each))))
            yield CODES["EXP302"].finding(
                role,
                expected="numbers, as DirectML's slices have their axes and steps in the descriptor",
                got=f"{name!r}, computed from sizes: {printable(', '.join(names))}{_inputs(symbols, origins)}",
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


def _names(value: NodeValue) -> list[str]:
    """The names among the elements of an input."""
    if isinstance(value.elements, Unknown) or not has_names(value.elements):
        return []
    return [each for each in value.elements.flat if isinstance(each, str)]


def _inputs(symbols: Iterable[str], origins: Mapping[str, str]) -> str:
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


def _reference(error: UnknownTypeError | UnknownValueError) -> Finding:
    return CODES["EXP302"].finding(
        error.input,
        expected="one value for all calls of the function",
        got=f"a reference to the function's attribute {printable(error.value)!r}",
        remedy="inline the function's calls, or call it with one value",
    )
