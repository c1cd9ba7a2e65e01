"""The report as text: a block of lines or one line for each cause, and lines about ONNX models."""

from __future__ import annotations

import enum
import re
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import count, islice
from typing import TextIO, TypeVar

from dmlgather.directml.findings import Finding
from dmlgather.directml.types import FeatureLevel
from dmlgather.onnx_checking.checked_model import (
    CheckedNode,
    CheckedTensor,
    DirectMLForm,
    Provider,
    SizeCondition,
    Verdict,
)
from dmlgather.output import put
from dmlgather.report import snippets
from dmlgather.report.check_report import CheckReport, FileReport, verdicts
from dmlgather.report.finding_status import FindingStatus, ReportedFinding
from dmlgather.wording import braces, counted, printable, shortened, typed


class NodeListing(enum.Enum):
    """Which nodes of an ONNX model a report lists."""

    NONE = enum.auto()
    """No nodes and no heading; only findings."""
    WRONG = enum.auto()
    """A heading that counts all nodes. Below each finding, the first of its nodes."""
    ALL = enum.auto()
    """A heading and all nodes."""


def by_node(file: FileReport) -> tuple[list[ReportedFinding], dict[str, list[ReportedFinding]]]:
    """Return the findings about no node, then the findings about each node."""
    of_nodes: dict[str, list[ReportedFinding]] = {node.place: [] for node in file.nodes}
    others: list[ReportedFinding] = []
    for finding in file.findings:
        of_nodes.get(finding.subject, others).append(finding)
    return others, of_nodes


def heading(file: FileReport) -> str:
    """Return one line about an ONNX model: its opsets, and how many nodes have each operator and verdict."""
    operators = [node.operator for node in file.nodes]
    family = ", ".join(f"{operators.count(name)} {name}" for name in dict.fromkeys(sorted(operators)))
    counts = verdicts(file.nodes)
    by_verdict = ", ".join(counts.described(name) for name, number in counts.counts.items() if number)
    judged = f"{family}: {by_verdict} at {file.level}" if operators else "nothing to judge"
    related = sum(relative.count for relative in file.relatives)
    others = sum(file.others.values()) - related
    related_text = f"{counted(related, 'related node')}, " if related else ""
    other_text = counted(others, "other node") + (" not judged" if others else "")
    return f"ONNX model, opset {_opsets(file)}; {judged}; {related_text}{other_text}"


def _opsets(file: FileReport) -> str:
    """Return the opset version of each domain that nodes use. Imported but unused domains are left out."""
    used = {"", *(name.rpartition(".")[0] for name in file.others)}
    opsets = [
        f"{printable(domain)} {version}".strip() for domain, version in sorted(file.opsets.items()) if printable(domain) in used
    ]
    return ", ".join(opsets)


NOTES = {Verdict.HOST: "host: shape arithmetic", Verdict.UNREACHED: "unreached: no run of the model reaches it"}
"""The text of verdicts of nodes that do not run on DirectML."""


def line(node: CheckedNode, level: FeatureLevel) -> str:
    """Return a node as one line: place, operator, types and shapes, verdict, and what the provider does."""
    version = f"-{node.version}" if node.version is not None else f" (opset {node.opset})"
    arguments = [*map(_tensor, node.inputs), *map(_attribute, node.attributes.items())]
    results = ", ".join(typed(tensor.type, tensor.shape) for tensor in node.outputs)
    provider = f"; {Provider.ONNXRUNTIME_DIRECTML}: {node.provider.text}" if node.provider else ""
    return f"{node.place}: {node.operator}{version}({', '.join(arguments)}) -> {results}: {verdict(node, level)}{provider}"


def verdict(node: CheckedNode, level: FeatureLevel) -> str:
    """Return the verdict as text: "taken: SLICE1 from 2_1", "refused at 1_0: SLICE1 from 2_1", "unknown: ends", "host: …"."""
    lowest = node.lowest
    conditions = f", provided that {' and '.join(node.provided)}" if node.provided else ""
    if node.verdict is Verdict.TAKEN and node.taken is not None and lowest is not None:
        same = (node.taken.operators, node.taken.types) == (lowest.operators, lowest.types)
        since = f" from {lowest.level}" if same else f"; from {lowest.level} as {_form(lowest)}"
        return f"taken: {_form(node.taken)}{since}{conditions}"
    if node.verdict is Verdict.REFUSED:
        return f"refused at {level}: " + (f"{_form(lowest)} from {lowest.level}{conditions}" if lowest else "no level takes it")
    if node.verdict is Verdict.UNKNOWN:
        return f"unknown: {', '.join(node.missing)}"
    return f"unreached: {printable(node.reason)}" if node.reason else NOTES[node.verdict]


def _form(form: DirectMLForm) -> str:
    types = ", ".join(f"{role} as {name}" for role, name in form.types.items())
    return " + ".join(form.operators) + (f" with {types}" if types else "")


def _unsigned_indices(node: CheckedNode) -> str | None:
    """Return the unsigned type that replaces the signed type of a node's indices."""
    described = node.taken.types.get("indices", "") if node.taken is not None else ""
    is_signed = any(tensor.role == "indices" and tensor.type in ("int32", "int64") for tensor in node.inputs)
    return described if described.startswith("UINT") and is_signed else None


def _attribute(attribute: tuple[str, int | tuple[int, ...]]) -> str:
    name, value = attribute
    return f"{printable(name)} {value if isinstance(value, int) else braces(value)}"


def _tensor(tensor: CheckedTensor) -> str:
    return f"{tensor.role} {typed(tensor.type, tensor.shape) if tensor.values is None else braces(tensor.values)}"


LONGEST = 24
"""Longer names of sizes, in characters, get short names (s1, s2, …)."""

_RELATION = re.compile(r" (?:<=|>=|<|>|=) ")

_WORD = re.compile(r"\w+")

F = TypeVar("F", bound=Finding)


class ShortNames:
    """Short names s1, s2, … for long names of sizes. Without a file, no name is shortened."""

    def __init__(self, file: FileReport | None = None) -> None:
        self.legend: dict[str, str] = {}
        """The size of each short name, in the order of first use."""
        self._short: dict[str, str] = {}
        self._long = {name for name in _sizes(file.nodes) if len(name) > LONGEST} if file else set()
        words = {word for text in _texts(file) for word in _WORD.findall(text)} if file and self._long else set()
        self._free = (name for number in count(1) if (name := f"s{number}") not in words)

    def text(self, text: str) -> str:
        """Replace the long names of sizes in a text. Names in quotes stay, because they name tensors."""
        names = sorted((name for name in self._long if name in text), key=len, reverse=True)
        return re.sub("|".join(map(_whole_name, names)), lambda match: self._short_name(match[0]), text) if names else text

    def finding(self, finding: F) -> F:
        """Return a finding with short names of sizes."""
        if not self._long:
            return finding
        texts = {"expected": finding.expected, "got": finding.got, "remedy": finding.remedy}
        return finding.model_copy(update={field: self.text(text) for field, text in texts.items()})

    def node(self, node: CheckedNode) -> CheckedNode:
        """Return a node with short names of sizes."""
        if not self._long:
            return node
        return node.model_copy(
            update={
                "inputs": tuple(map(self._tensor, node.inputs)),
                "outputs": tuple(map(self._tensor, node.outputs)),
                "provided": tuple(map(self.text, node.provided)),
            }
        )

    def _tensor(self, tensor: CheckedTensor) -> CheckedTensor:
        fields = {"shape": tensor.shape, "values": tensor.values}
        return tensor.model_copy(
            update={name: tuple(map(self._size, sizes)) for name, sizes in fields.items() if sizes is not None}
        )

    def _size(self, size: int | str | None) -> int | str | None:
        if not isinstance(size, str) or printable(size) not in self._long:
            return size
        return self._short_name(printable(size))

    def _short_name(self, name: str) -> str:
        if name not in self._short:
            self._short[name] = next(self._free)
            self.legend[self._short[name]] = name
        return self._short[name]


def _sizes(nodes: Iterable[CheckedNode]) -> Iterator[str]:
    """Yield the symbolic sizes of nodes as text."""
    for node in nodes:
        yield from _symbolic_sizes(node)
        for condition in node.provided:
            sides = _RELATION.split(condition)
            yield from sides if len(sides) > 1 else ()  # a condition without a relation is a sentence


def _symbolic_sizes(node: CheckedNode) -> Iterator[str]:
    for tensor in (*node.inputs, *node.outputs):
        yield from (printable(size) for size in (*(tensor.shape or ()), *(tensor.values or ())) if isinstance(size, str))


def _texts(file: FileReport) -> Iterator[str]:
    """Yield all texts that a report on a file may contain."""
    yield file.file
    for finding in file.findings:
        yield from (finding.subject, finding.path, finding.expected, finding.got, finding.remedy)
    for node in file.nodes:
        yield from (node.place, *node.provided, *node.attributes)
        yield from (tensor.role for tensor in node.inputs)
        yield from _symbolic_sizes(node)


def _whole_name(name: str) -> str:
    """Return a pattern for a name that is neither in quotes nor part of a longer name."""
    return rf"(?<![\w.'\"]){re.escape(name)}(?!\w|\.\w|['\"\[])"


INDENT = 2
"""Spaces before the lines below a heading."""

CONDITIONS = 4
"""Maximum number of conditions below a heading, without --verbose."""

PLACES = 3
"""Maximum number of nodes below a finding, without --verbose."""


def model_lines(file: FileReport, listed: NodeListing, width: int | None = None) -> Iterator[str]:
    """Yield the lines about an ONNX model. Without `width`, each finding or node is one line."""
    if listed is NodeListing.NONE:
        yield from _ModelText(file, listed, width, ShortNames()).findings()
        return
    names = ShortNames(file)
    text = _ModelText(file, listed, width, names)
    top, body = [*text.conditions()], [*text.findings(), *text.nodes()]  # evaluated first: they add names to the legend
    yield from text.heading()
    yield from top
    yield from text.legend()
    yield from body


class _ModelText:
    def __init__(self, file: FileReport, listed: NodeListing, width: int | None, names: ShortNames) -> None:
        self.file, self.listed, self.width, self.names = file, listed, width, names
        self.nodes_by_place = {node.place: node for node in file.nodes}
        self.source = file.source()
        self._shown_conditions: list[SizeCondition] = []
        self._shown_nodes: list[CheckedNode] = []

    def heading(self) -> Iterator[str]:
        yield from self.wrapped(heading(self.file), f"{self.file.file}: ", 4)
        for relative in self.file.relatives:
            nodes = counted(relative.count, "node")
            yield from self.wrapped(f"{relative.operator} ({nodes}): not judged; {relative.directml}")
        if self.file.provider is not None and self.file.nodes:
            yield from self.wrapped(f"{self.file.provider.provider}: {self.file.provider.text}")

    def conditions(self) -> Iterator[str]:
        from dmlgather.onnx_checking.sizes.conditions import strongest

        taken = [node for node in self.file.nodes if node.verdict is Verdict.TAKEN]
        on_sizes = [condition for node in taken for condition in node.conditions]
        sentences = dict.fromkeys(text for node in taken for text in node.provided)
        for condition in on_sizes:
            sentences.pop(condition.text, None)
        implying = strongest(on_sizes)
        texts = [*(condition.text for condition in implying), *sentences]
        self._shown_conditions = implying[:CONDITIONS] if self.listed is NodeListing.WRONG else implying
        if self.listed is NodeListing.WRONG and texts:
            more = len(texts) - CONDITIONS
            rest = [f"{counted(more, 'other condition')} (--verbose lists them)"] if more > 0 else []
            yield from self.wrapped(f"taken, provided that {' and '.join([*map(self.names.text, texts[:CONDITIONS]), *rest])}")

    def legend(self) -> Iterator[str]:
        """Yield the meanings of short names and computed sizes, and what unsigned indices require."""
        for short, size in self.names.legend.items():
            yield from self.wrapped(f"{short} = {shortened(size)}")
        of_nodes = (condition for node in self._shown_nodes if node.lowest is not None for condition in node.conditions)
        makers = {name: maker for each in (*self._shown_conditions, *of_nodes) for name, maker in each.makers.items()}
        for name, maker in makers.items():
            yield from self.wrapped(f"{shortened(self.names.text(printable(name)))} = {shortened(maker.text)}")
        for unsigned in dict.fromkeys(filter(None, map(_unsigned_indices, self._shown_nodes))):
            yield from self.wrapped(f"indices as {unsigned}: the caller first adds the size of the axis to negative indices")

    def findings(self) -> Iterator[str]:
        indent = "" if self.listed is NodeListing.NONE else " " * INDENT
        for cause, findings in self.file.by_cause():
            if cause.standing is not FindingStatus.IGNORED:
                merged = self.names.finding(snippets.common(findings))
                lines = self.line(merged, findings) if self.width is None else self.block(merged, findings, self.width)
                yield from (f"{indent}{text}".rstrip() for text in lines)

    def nodes(self) -> Iterator[str]:
        """Yield lines about nodes: all for the listing ALL, else the refused and unknown nodes whose findings are not shown."""
        shown = {finding.subject for finding in self.file.findings if finding.status is not FindingStatus.IGNORED}
        for node in self.file.nodes:
            wrong = node.verdict in (Verdict.REFUSED, Verdict.UNKNOWN) and node.place not in shown
            if wrong or self.listed is NodeListing.ALL:
                yield from self.wrapped(self.node(node))

    def block(self, merged: ReportedFinding, findings: Sequence[ReportedFinding], width: int) -> Iterator[str]:
        """Yield the lines about one cause: a summary, then the nodes. `merged`: one finding that summarizes all `findings`."""
        room, named = width - INDENT, self.listed is NodeListing.NONE
        yield from snippets.block(merged, self.source, room, places=len(findings), named=named)
        if merged.status is FindingStatus.OPEN:
            all_nodes = all(finding.subject in self.nodes_by_place for finding in findings)
            below, name = list(self.below(findings)), "node" if all_nodes else "place"
            yield from snippets.labelled(name if len(below) == 1 else f"{name}s", below, room, hang=2)
            yield ""

    def line(self, merged: ReportedFinding, findings: Sequence[ReportedFinding]) -> Iterator[str]:
        yield snippets.line(merged, len(findings))
        if merged.status is FindingStatus.OPEN:
            yield from (f"  {text}" for text in self.below(findings))

    def below(self, findings: Sequence[ReportedFinding]) -> Iterator[str]:
        """Yield lines about the first nodes of a cause."""
        places, whole = list(dict.fromkeys(finding.subject for finding in findings)), self.listed is NodeListing.ALL
        in_full = self.nodes_by_place.keys() if self.listed is NodeListing.WRONG else ()
        if len(places) == 1 and places[0] not in in_full:  # the finding names it
            return
        for place in places if whole else places[:PLACES]:
            yield self.node(self.nodes_by_place[place]) if place in in_full else place
        if not whole and len(places) > PLACES:
            yield f"and {counted(len(places) - PLACES, 'other')} (--verbose lists them)"

    def node(self, node: CheckedNode) -> str:
        """Return a node as one line, and note it for the legend."""
        self._shown_nodes.append(node)
        return line(self.names.node(node), self.file.level)

    def wrapped(self, text: str, start: str = " " * INDENT, behind: int = INDENT + 2) -> Iterable[str]:
        return [start + text] if self.width is None else snippets.wrapped(text, self.width, start, behind)


WIDTH = 120
"""Width without a terminal. It is fixed, so that logs are equal on all machines."""

NARROWEST, WIDEST = 40, 130
"""Limits of the width of lines on a terminal."""

AT_ONCE = 100
"""Lines to highlight in one call, which takes little longer than for one line."""

JOINTS = {"descriptor": ": ", "descriptors": ": "}
"""The text between the subject and the path of a finding, by kind of file."""

STYLES = {
    r"(?m)^ *\S[^\n ]*?:\d+(:\d+)?:": "bold",
    r"\b(DML|EXP|ORT)\d{3} error\b": "bold red",
    r"\b(DML|EXP|ORT)\d{3} warning\b": "bold yellow",
    r"\b(DML|EXP|ORT)\d{3} note\b": "bold cyan",
    r"(?m)^ +\d+ \|": "dim",
    r"(?m)^ +\| +\^$": "bold red",
    r"(?m)^ +(expected|got|nodes?|places?|dumped) {2,}": "bold",
    r"(?m)^ +fix {2,}": "bold green",
    r"(?m); fix: .*$": "green",
    r"(?m) \(known: in the baseline\)$": "dim",
}
"""Patterns, and the style that matching text has on a terminal."""


def lines(report: CheckReport, listed: NodeListing = NodeListing.WRONG, width: int = WIDTH) -> Iterator[str]:
    """Yield the report as text, with a block of lines for each cause."""
    for file in report.files:
        yield from map(printable, model_lines(file, listed, width) if file.kind == "onnx" else _blocks(file, width))


def concise_lines(report: CheckReport, listed: NodeListing = NodeListing.WRONG) -> Iterator[str]:
    """Yield the report as text in short form: one line for each cause, without source lines."""
    for file in report.files:
        yield from map(printable, model_lines(file, listed) if file.kind == "onnx" else map(snippets.line, _shown(file)))


def problem_lines(report: CheckReport, width: int, *, brief: bool = False) -> Iterator[str]:
    """Yield the problems of all files, with their source lines unless `brief` is True."""
    for file in report.files:
        source = file.source()
        for problem in file.problems:
            yield from [snippets.problem_line(problem)] if brief else snippets.problem_block(problem, source, width)


def _blocks(file: FileReport, width: int) -> Iterator[str]:
    source = file.source()
    for finding in _shown(file):
        yield from snippets.block(finding, source, width, JOINTS.get(file.kind, "."))
        if finding.status is FindingStatus.OPEN:
            yield ""


def _shown(file: FileReport) -> Iterator[ReportedFinding]:
    return (finding for finding in file.findings if finding.status is not FindingStatus.IGNORED)


def terminal_width(stream: TextIO | None = None) -> int:
    """Return the terminal's width within limits, or WIDTH without a terminal."""
    stream = sys.stdout if stream is None else stream
    if not stream.isatty():
        return WIDTH
    return max(NARROWEST, min(shutil.get_terminal_size((WIDTH, 0)).columns, WIDEST))


def show(lines: Iterator[str]) -> None:
    """Write lines to standard output. On a terminal, they are in colour."""
    if not sys.stdout.isatty():
        for line in lines:
            put(line + "\n")
        return
    from rich.console import Console
    from rich.text import Text

    console = Console(soft_wrap=True)
    while batch := list(islice(lines, AT_ONCE)):
        text = Text("\n".join(batch))
        for pattern, style in STYLES.items():
            text.highlight_regex(pattern, style)
        console.print(text)
