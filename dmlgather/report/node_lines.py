"""The nodes of a model as lines of text."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping

from dmlgather.dialects.checked_model import CheckedNode, CheckedTensor, DirectMLForm, Verdict, typed
from dmlgather.directml.types import FeatureLevel
from dmlgather.report.check_report import FileReport, verdicts
from dmlgather.report.finding_status import ReportedFinding
from dmlgather.wording import braces, counted, printable


class NodeListing(enum.Enum):
    """Which nodes of a model a report lists."""

    NONE = enum.auto()
    """None, and the model has no heading: findings stand alone."""
    WRONG = enum.auto()
    """The first of those that have a finding. The heading counts all."""
    ALL = enum.auto()
    """All of them."""


def by_node(file: FileReport) -> tuple[list[ReportedFinding], dict[str, list[ReportedFinding]]]:
    """The findings about no single node, and those of each node, by its place."""
    of_nodes: dict[str, list[ReportedFinding]] = {node.place: [] for node in file.nodes}
    others: list[ReportedFinding] = []
    for finding in file.findings:
        of_nodes.get(finding.subject, others).append(finding)
    return others, of_nodes


def heading(file: FileReport) -> str:
    """The model in one line, without its name: its version, the number of nodes by operator and by verdict, the number of those
    that are close to the family, and of other nodes.
    """
    operators = [node.operator for node in file.nodes]
    family = ", ".join(f"{operators.count(name)} {name}" for name in dict.fromkeys(sorted(operators)))
    found = ", ".join(f"{number} {name}" for name, number in verdicts(file.nodes).counts.items() if number)
    judged = f"{family}: {found} at {file.level}" if operators else "nothing to judge"
    related = sum(relative.count for relative in file.relatives)
    others = sum(file.others.values()) - related
    head, thing = HEADS[file.kind]
    relatives = f"{counted(related, f'related {thing}')}, " if related else ""
    return f"{head(file)}; {judged}; {relatives}{counted(others, f'other {thing}')}"


def _onnx(file: FileReport) -> str:
    """Exporters import operator sets that no node is of: these are left out."""
    used = {"", *(name.rpartition(".")[0] for name in file.others)}
    opsets = [
        f"{printable(domain)} {version}".strip() for domain, version in sorted(file.opsets.items()) if printable(domain) in used
    ]
    return f"ONNX model, opset {', '.join(opsets)}"


def _openvino(file: FileReport) -> str:
    return "OpenVINO layer" if file.format is None else f"OpenVINO IR {file.format}"


HEADS: Mapping[str, tuple[Callable[[FileReport], str], str]] = {"onnx": (_onnx, "node"), "openvino": (_openvino, "layer")}
"""The kinds of files that have nodes: how a heading starts, and what the dialect calls a node."""


NOTES = {Verdict.HOST: "host: shape arithmetic", Verdict.UNREACHED: "unreached: no run of the model reaches it"}
"""The verdicts on nodes that DirectML has no part in, as lines say them."""


def line(node: CheckedNode, level: FeatureLevel) -> str:
    """A node in one line: place, operator and version, types and shapes, verdict."""
    version = f"-{node.version}" if node.version is not None else f" (opset {node.opset})"
    given = [*map(_tensor, node.inputs), *map(_attribute, node.attributes.items())]
    results = ", ".join(typed(tensor.type, tensor.shape) for tensor in node.outputs)
    return f"{node.place}: {node.operator}{version}({', '.join(given)}) -> {results}: {verdict(node, level)}"


def verdict(node: CheckedNode, level: FeatureLevel) -> str:
    """The verdict on a node: "taken: SLICE1 from 2_1", "refused at 1_0: SLICE1 from 2_1", "unknown: ends", "host: …"."""
    lowest = node.lowest
    provided = f", provided that {' and '.join(node.provided)}" if node.provided else ""
    if node.verdict is Verdict.TAKEN and node.taken is not None and lowest is not None:
        same = (node.taken.operators, node.taken.types) == (lowest.operators, lowest.types)
        since = f" from {lowest.level}" if same else f"; from {lowest.level} as {_form(lowest)}"
        return f"taken: {_form(node.taken)}{since}{provided}"
    if node.verdict is Verdict.REFUSED:
        return f"refused at {level}: " + (f"{_form(lowest)} from {lowest.level}{provided}" if lowest else "no level takes it")
    if node.verdict is Verdict.UNKNOWN:
        return f"unknown: {', '.join(node.missing)}"
    return f"unreached: {printable(node.reason)}" if node.reason else NOTES[node.verdict]


def _form(form: DirectMLForm) -> str:
    types = ", ".join(f"{role} as {name}" for role, name in form.types.items())
    return " + ".join(form.operators) + (f" with {types}" if types else "")


def _attribute(named: tuple[str, int | tuple[int, ...]]) -> str:
    name, value = named
    return f"{printable(name)} {value if isinstance(value, int) else braces(value)}"


def _tensor(tensor: CheckedTensor) -> str:
    return f"{tensor.role} {typed(tensor.type, tensor.shape) if tensor.values is None else braces(tensor.values)}"
