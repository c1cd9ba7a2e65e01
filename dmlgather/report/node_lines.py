"""The nodes of a model as lines of text."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Iterator, Mapping

from dmlgather.dialects.checked_model import CheckedNode, CheckedTensor, DirectMLForm, Verdict, typed
from dmlgather.directml.types import FeatureLevel
from dmlgather.report.check_report import FileReport, counts
from dmlgather.report.finding_status import ReportedFinding
from dmlgather.wording import braces, counted, printable


class NodeListing(enum.Enum):
    """Which nodes of a model a report lists."""

    NONE = enum.auto()
    """None, and the model has no heading: findings stand alone."""
    WRONG = enum.auto()
    """Those that are not taken, or have findings. The heading counts the others."""
    ALL = enum.auto()
    """All of them."""


INDENT = 4
"""Spaces before the findings of a node."""


CONDITIONS = 4
"""Conditions that are named below a heading."""


def lines(
    file: FileReport, shown: Callable[[Iterable[ReportedFinding]], Iterable[str]], listed: NodeListing = NodeListing.ALL
) -> Iterator[str]:
    """A heading, the findings about no single node, and a line per node that is listed, followed by its findings.

    shown: formats findings.
    """
    if listed is NodeListing.NONE:
        yield from shown(file.findings)
        return
    graph, of_nodes = by_node(file)
    yield heading(file)
    if listed is NodeListing.WRONG and (conditions := _conditions(file.nodes)):
        yield f"  taken, provided that {conditions}"
    yield from shown(graph)
    for node in file.nodes:
        found = [f"{' ' * INDENT}{text}".rstrip() for text in shown(of_nodes[node.place])]
        if found or node.verdict is not Verdict.TAKEN or listed is NodeListing.ALL:
            yield f"  {line(node, file.level)}"
            yield from found


def _conditions(nodes: Iterable[CheckedNode]) -> str:
    """What the verdicts on the nodes that are taken depend on: "N >= 1 and M >= 2"; empty where on nothing."""
    found = list(dict.fromkeys(part for node in nodes if node.verdict is Verdict.TAKEN for part in node.provided))
    more = [f"{counted(len(found) - CONDITIONS, 'other condition')} (--verbose lists them)"] if len(found) > CONDITIONS else []
    return " and ".join([*found[:CONDITIONS], *more])


def by_node(file: FileReport) -> tuple[list[ReportedFinding], dict[str, list[ReportedFinding]]]:
    """The findings about no single node, and those of each node, by its place."""
    of_nodes: dict[str, list[ReportedFinding]] = {node.place: [] for node in file.nodes}
    others: list[ReportedFinding] = []
    for finding in file.findings:
        of_nodes.get(finding.subject, others).append(finding)
    return others, of_nodes


def heading(file: FileReport) -> str:
    """The model in one line: its version, the number of nodes by operator and by verdict, the number of other nodes."""
    operators = [node.operator for node in file.nodes]
    family = ", ".join(f"{operators.count(name)} {name}" for name in dict.fromkeys(sorted(operators)))
    verdicts = ", ".join(f"{number} {verdict}" for verdict, number in counts(file.nodes).items() if number)
    judged = f"{family}: {verdicts} at {file.level}" if operators else "nothing to judge"
    others = sum(file.others.values())
    head, thing = HEADS[file.kind]
    return f"{file.file}: {head(file)}; {judged}; {counted(others, f'other {thing}')}"


def _onnx(file: FileReport) -> str:
    opsets = ", ".join(printable(f"{domain} {version}".strip()) for domain, version in sorted(file.opsets.items()))
    return f"ONNX model, opset {opsets}"


def _openvino(file: FileReport) -> str:
    return "OpenVINO layer" if file.format is None else f"OpenVINO IR {file.format}"


HEADS: Mapping[str, tuple[Callable[[FileReport], str], str]] = {"onnx": (_onnx, "node"), "openvino": (_openvino, "layer")}
"""The kinds of files that have nodes: how a heading starts, and what the dialect calls a node."""


def line(node: CheckedNode, level: FeatureLevel) -> str:
    """A node in one line: place, operator and version, types and shapes, verdict."""
    version = f"-{node.version}" if node.version is not None else f" (opset {node.opset})"
    given = [*map(_tensor, node.inputs), *(f"{printable(name)} {value}" for name, value in node.attributes.items())]
    results = ", ".join(typed(tensor.type, tensor.shape) for tensor in node.outputs)
    return f"{node.place}: {node.operator}{version}({', '.join(given)}) -> {results}: {verdict(node, level)}"


def verdict(node: CheckedNode, level: FeatureLevel) -> str:
    """The verdict on a node: "taken: SLICE1 from 2_1", "refused at 1_0: SLICE1 from 2_1", "unknown: ends"."""
    lowest = node.lowest
    provided = f", provided that {' and '.join(node.provided)}" if node.provided else ""
    if node.verdict is Verdict.TAKEN and node.taken is not None and lowest is not None:
        same = (node.taken.operators, node.taken.types) == (lowest.operators, lowest.types)
        since = f" from {lowest.level}" if same else f"; from {lowest.level} as {_form(lowest)}"
        return f"taken: {_form(node.taken)}{since}{provided}"
    if node.verdict is Verdict.REFUSED:
        return f"refused at {level}: " + (f"{_form(lowest)} from {lowest.level}{provided}" if lowest else "no level takes it")
    return f"unknown: {', '.join(node.missing)}"


def _form(form: DirectMLForm) -> str:
    types = ", ".join(f"{role} as {name}" for role, name in form.types.items())
    return " + ".join(form.operators) + (f" with {types}" if types else "")


def _tensor(tensor: CheckedTensor) -> str:
    return f"{tensor.role} {typed(tensor.type, tensor.shape) if tensor.values is None else braces(tensor.values)}"
