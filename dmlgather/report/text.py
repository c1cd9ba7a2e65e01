"""Findings as text: a block of lines each, or one line each."""

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
    counts = verdicts(file.nodes)
    found = ", ".join(counts.told(name) for name, number in counts.counts.items() if number)
    judged = f"{family}: {found} at {file.level}" if operators else "nothing to judge"
    related = sum(relative.count for relative in file.relatives)
    others = sum(file.others.values()) - related
    relatives = f"{counted(related, 'related node')}, " if related else ""
    apart = counted(others, "other node") + (" not judged" if others else "")
    return f"ONNX model, opset {_opsets(file)}; {judged}; {relatives}{apart}"


def _opsets(file: FileReport) -> str:
    """Exporters import operator sets that no node is of: these are left out."""
    used = {"", *(name.rpartition(".")[0] for name in file.others)}
    opsets = [
        f"{printable(domain)} {version}".strip() for domain, version in sorted(file.opsets.items()) if printable(domain) in used
    ]
    return ", ".join(opsets)


NOTES = {Verdict.HOST: "host: shape arithmetic", Verdict.UNREACHED: "unreached: no run of the model reaches it"}
"""The verdicts on nodes that DirectML has no part in, as lines say them."""


def line(node: CheckedNode, level: FeatureLevel) -> str:
    """A node in one line: place, operator and version, types and shapes, verdict, and what a provider does with it."""
    version = f"-{node.version}" if node.version is not None else f" (opset {node.opset})"
    given = [*map(_tensor, node.inputs), *map(_attribute, node.attributes.items())]
    results = ", ".join(typed(tensor.type, tensor.shape) for tensor in node.outputs)
    provided = f"; {Provider.ONNXRUNTIME_DIRECTML}: {node.provider.text}" if node.provider else ""
    return f"{node.place}: {node.operator}{version}({', '.join(given)}) -> {results}: {verdict(node, level)}{provided}"


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


# Findings as text: a block of lines each, or one line each.


LONGEST = 24
"""Characters of a size's own name that lines show."""

_RELATION = re.compile(r" (?:<=|>=|<|>|=) ")
"""What stands between the sizes of a condition: "1 <= N <= 7"."""

_WORD = re.compile(r"\w+")

F = TypeVar("F", bound=Finding)


class ShortNames:
    """Short names for long sizes of a file: s1, s2, …, without those that are words in the file already; none without a file."""

    def __init__(self, file: FileReport | None = None) -> None:
        self.legend: dict[str, str] = {}
        """What each short name stands for, in the order of their first use."""
        self._short: dict[str, str] = {}
        self._long = {name for name in _sizes(file.nodes) if len(name) > LONGEST} if file else set()
        words = {word for text in _texts(file) for word in _WORD.findall(text)} if file and self._long else set()
        self._free = (name for number in count(1) if (name := f"s{number}") not in words)

    def text(self, text: str) -> str:
        """A text with short names for the sizes in it. A name in quotes is a tensor's, and stays."""
        inside = sorted((name for name in self._long if name in text), key=len, reverse=True)
        return re.sub("|".join(map(_alone, inside)), lambda found: self._named(found[0]), text) if inside else text

    def finding(self, finding: F) -> F:
        """The finding with short names in its texts."""
        if not self._long:
            return finding
        texts = {"expected": finding.expected, "got": finding.got, "remedy": finding.remedy}
        return finding.model_copy(update={field: self.text(text) for field, text in texts.items()})

    def node(self, node: CheckedNode) -> CheckedNode:
        """The node with short names in its shapes and conditions."""
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
        known = {"shape": tensor.shape, "values": tensor.values}
        return tensor.model_copy(
            update={name: tuple(map(self._size, sizes)) for name, sizes in known.items() if sizes is not None}
        )

    def _size(self, size: int | str | None) -> int | str | None:
        if not isinstance(size, str) or printable(size) not in self._long:
            return size
        return self._named(printable(size))

    def _named(self, name: str) -> str:
        if name not in self._short:
            self._short[name] = next(self._free)
            self.legend[self._short[name]] = name
        return self._short[name]


def _sizes(nodes: Iterable[CheckedNode]) -> Iterator[str]:
    """The names of sizes in the shapes, values and conditions of nodes, as they are printed."""
    for node in nodes:
        yield from _named(node)
        for condition in node.provided:
            sides = _RELATION.split(condition)
            yield from sides if len(sides) > 1 else ()  # others are sentences


def _named(node: CheckedNode) -> Iterator[str]:
    """The sizes with names in the shapes and values of a node, as they are printed."""
    for tensor in (*node.inputs, *node.outputs):
        yield from (printable(size) for size in (*(tensor.shape or ()), *(tensor.values or ())) if isinstance(size, str))


def _texts(file: FileReport) -> Iterator[str]:
    """All that lines about a file may show."""
    yield file.file
    for finding in file.findings:
        yield from (finding.subject, finding.path, finding.expected, finding.got, finding.remedy)
    for node in file.nodes:
        yield from (node.place, *node.provided, *node.attributes)
        yield from (tensor.role for tensor in node.inputs)
        yield from _named(node)


def _alone(name: str) -> str:
    """A pattern for a name that is no part of a longer one, and not in quotes."""
    return rf"(?<![\w.'\"]){re.escape(name)}(?!\w|\.\w|['\"\[])"


# A model as text for people: its heading, what its verdicts depend on, its findings by cause, and its nodes.

INDENT = 2
"""Spaces before the lines below a heading."""

CONDITIONS = 4
"""Conditions that are named below a heading."""

PLACES = 3
"""Nodes that are named below a finding, unless all are."""


def model_lines(file: FileReport, listed: NodeListing, width: int | None = None) -> Iterator[str]:
    """The heading of a model, its findings by cause with the first nodes that have them, and the nodes that are `listed`.

    width: to which lines are wrapped, but for the file's own name; None writes a finding, or a node, in one line.
    """
    if listed is NodeListing.NONE:
        yield from _ModelText(file, listed, width, ShortNames()).findings()
        return
    names = ShortNames(file)
    text = _ModelText(file, listed, width, names)
    top, body = [*text.conditions()], [*text.findings(), *text.nodes()]  # before the legend, which has the names that they use
    yield from text.heading()
    yield from top
    yield from text.legend()
    yield from body


class _ModelText:
    def __init__(self, file: FileReport, listed: NodeListing, width: int | None, names: ShortNames) -> None:
        self.file, self.listed, self.width, self.names = file, listed, width, names
        self.nodes_by_place = {node.place: node for node in file.nodes}
        self.source = file.source()
        self._made: list[SizeCondition] = []

    def heading(self) -> Iterator[str]:
        """The model in a line, and a line for each operator that is close to the family, and for a provider."""
        yield from self.wrapped(heading(self.file), f"{self.file.file}: ", 4)
        for relative in self.file.relatives:
            nodes = counted(relative.count, "node")
            yield from self.wrapped(f"{relative.operator} ({nodes}): not judged; {relative.directml}")
        if self.file.provider is not None and self.file.nodes:
            yield from self.wrapped(f"{self.file.provider.provider}: {self.file.provider.text}")

    def conditions(self) -> Iterator[str]:
        """What the verdicts on the nodes that are taken depend on."""
        from dmlgather.onnx_checking.sizes.conditions import strongest

        taken = [node for node in self.file.nodes if node.verdict is Verdict.TAKEN]
        of_sizes = [condition for node in taken for condition in node.conditions]
        sentences = dict.fromkeys(text for node in taken for text in node.provided)
        for condition in of_sizes:
            sentences.pop(condition.text, None)
        stated = strongest(of_sizes)
        found = [*(condition.text for condition in stated), *sentences]
        self._made = stated[:CONDITIONS] if self.listed is NodeListing.WRONG else stated
        if self.listed is NodeListing.WRONG and found:
            more = len(found) - CONDITIONS
            rest = [f"{counted(more, 'other condition')} (--verbose lists them)"] if more > 0 else []
            yield from self.wrapped(f"taken, provided that {' and '.join([*map(self.names.text, found[:CONDITIONS]), *rest])}")

    def legend(self) -> Iterator[str]:
        """What the short names of sizes stand for, and what the sizes are that nodes give, in the conditions that are named."""
        for short, size in self.names.legend.items():
            yield from self.wrapped(f"{short} = {shortened(size)}")
        makers = {name: maker for condition in self._made for name, maker in condition.makers.items()}
        for name, maker in makers.items():
            yield from self.wrapped(f"{shortened(self.names.text(printable(name)))} = {shortened(maker.text)}")

    def findings(self) -> Iterator[str]:
        """Each cause once, but those that are ignored."""
        indent = "" if self.listed is NodeListing.NONE else " " * INDENT
        for cause, findings in self.file.by_cause():
            if cause.standing is not FindingStatus.IGNORED:
                found = self.names.finding(snippets.common(findings))
                lines = self.line(found, findings) if self.width is None else self.block(found, findings, self.width)
                yield from (f"{indent}{text}".rstrip() for text in lines)

    def nodes(self) -> Iterator[str]:
        """The nodes that are listed for themselves: all, or those that are wrong although no finding is shown."""
        shown = {found.subject for found in self.file.findings if found.status is not FindingStatus.IGNORED}
        for node in self.file.nodes:
            wrong = node.verdict in (Verdict.REFUSED, Verdict.UNKNOWN) and node.place not in shown
            if wrong or self.listed is NodeListing.ALL:
                yield from self.wrapped(self.node(node))

    def block(self, found: ReportedFinding, findings: Sequence[ReportedFinding], width: int) -> Iterator[str]:
        """A cause as a block of lines, with the nodes. found: what its findings have in common."""
        room, named = width - INDENT, self.listed is NodeListing.NONE
        yield from snippets.block(found, self.source, room, places=len(findings), named=named)
        if found.status is FindingStatus.OPEN:
            judged = all(each.subject in self.nodes_by_place for each in findings)
            below, name = list(self.below(findings)), "node" if judged else "place"
            yield from snippets.labelled(name if len(below) == 1 else f"{name}s", below, room, hang=2)
            yield ""

    def line(self, found: ReportedFinding, findings: Sequence[ReportedFinding]) -> Iterator[str]:
        """A cause as a line, with the nodes. found: as in `block`."""
        yield snippets.line(found, len(findings))
        if found.status is FindingStatus.OPEN:
            yield from (f"  {text}" for text in self.below(findings))

    def below(self, findings: Sequence[ReportedFinding]) -> Iterator[str]:
        """The nodes and places below a finding: the first ones, or the places of all where the nodes are listed as well."""
        places, whole = list(dict.fromkeys(each.subject for each in findings)), self.listed is NodeListing.ALL
        in_full = self.nodes_by_place.keys() if self.listed is NodeListing.WRONG else ()
        if len(places) == 1 and places[0] not in in_full:  # the finding has it
            return
        for place in places if whole else places[:PLACES]:
            yield self.node(self.nodes_by_place[place]) if place in in_full else place
        if not whole and len(places) > PLACES:
            yield f"and {counted(len(places) - PLACES, 'other')} (--verbose lists them)"

    def node(self, node: CheckedNode) -> str:
        """A node in one line."""
        return line(self.names.node(node), self.file.level)

    def wrapped(self, text: str, start: str = " " * INDENT, behind: int = INDENT + 2) -> Iterable[str]:
        """The text in lines that are wrapped."""
        return [start + text] if self.width is None else snippets.wrapped(text, self.width, start, behind)


WIDTH = 120
"""Characters of a line where nobody's terminal decides, so that a log does not depend on where it was written."""

NARROWEST, WIDEST = 40, 130
"""The widths of terminals to which lines are wrapped."""

AT_ONCE = 100
"""Lines that are coloured at a time, which takes little longer than one."""

JOINTS = {"descriptor": ": ", "descriptors": ": "}
"""What joins the subject and the path of a finding, by the kind of file, where the subject is a name and no path."""

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
"""Patterns that are highlighted on a terminal, and the style of each."""


def lines(report: CheckReport, listed: NodeListing = NodeListing.WRONG, width: int = WIDTH) -> Iterator[str]:
    """A block per cause, as `snippets.block`. A known finding is one line. Ignored findings are left out.

    An ONNX model also has a heading, and lines about the nodes that are `listed`. Control characters in names
    are escaped.
    """
    for file in report.files:
        yield from map(printable, model_lines(file, listed, width) if file.kind == "onnx" else _blocks(file, width))


def concise_lines(report: CheckReport, listed: NodeListing = NodeListing.WRONG) -> Iterator[str]:
    """As `lines`, but all of a cause in one line, without the line of the file."""
    for file in report.files:
        yield from map(printable, model_lines(file, listed) if file.kind == "onnx" else map(snippets.line, _shown(file)))


def problem_lines(report: CheckReport, width: int, *, brief: bool = False) -> Iterator[str]:
    """The problems of all files, each with the line of its file. brief: without that."""
    for file in report.files:
        source = file.source()
        for problem in file.problems:
            yield from [str(problem)] if brief else snippets.problem_block(problem, source, width)


def _blocks(file: FileReport, width: int) -> Iterator[str]:
    source = file.source()
    for finding in _shown(file):
        yield from snippets.block(finding, source, width, JOINTS.get(file.kind, "."))
        if finding.status is FindingStatus.OPEN:
            yield ""


def _shown(file: FileReport) -> Iterator[ReportedFinding]:
    """The findings of a file without nodes, but those that are ignored."""
    return (finding for finding in file.findings if finding.status is not FindingStatus.IGNORED)


def terminal_width(stream: TextIO | None = None) -> int:
    """The width to which lines on a stream are wrapped, by default on standard output: that of the terminal, within limits; WIDTH
    where it is none.
    """
    stream = sys.stdout if stream is None else stream
    if not stream.isatty():
        return WIDTH
    return max(NARROWEST, min(shutil.get_terminal_size((WIDTH, 0)).columns, WIDEST))


def show(lines: Iterator[str]) -> None:
    """Write to standard output; in colour if it is a terminal."""
    if not sys.stdout.isatty():
        for line in lines:
            put(line + "\n")
        return
    from rich.console import Console
    from rich.text import Text

    console = Console(soft_wrap=True)
    while some := list(islice(lines, AT_ONCE)):
        text = Text("\n".join(some))
        for pattern, style in STYLES.items():
            text.highlight_regex(pattern, style)
        console.print(text)
