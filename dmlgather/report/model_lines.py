"""A model as text for people: its heading, what its verdicts depend on, its findings by cause, and its nodes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from dmlgather.dialects.checked_model import CheckedNode, Verdict
from dmlgather.dialects.joined_conditions import strongest
from dmlgather.report import blocks
from dmlgather.report.check_report import FileReport
from dmlgather.report.finding_status import FindingStatus, ReportedFinding
from dmlgather.report.node_lines import HEADS, NodeListing, heading, line
from dmlgather.report.short_names import ShortNames
from dmlgather.wording import counted, shortened

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

    def heading(self) -> Iterator[str]:
        """The model in a line, and a line for each operator that is close to the family."""
        yield from self.wrapped(heading(self.file), f"{self.file.file}: ", 4)
        for relative in self.file.relatives:
            nodes = counted(relative.count, HEADS[self.file.kind][1])
            yield from self.wrapped(f"{relative.operator} ({nodes}): not judged; {relative.directml}")

    def conditions(self) -> Iterator[str]:
        """What the verdicts on the nodes that are taken depend on."""
        taken = [node for node in self.file.nodes if node.verdict is Verdict.TAKEN]
        of_sizes = [condition for node in taken for condition in node.conditions]
        sentences = dict.fromkeys(text for node in taken for text in node.provided)
        for condition in of_sizes:
            sentences.pop(condition.text, None)
        found = [*(condition.text for condition in strongest(of_sizes)), *sentences]
        if self.listed is NodeListing.WRONG and found:
            more = len(found) - CONDITIONS
            rest = [f"{counted(more, 'other condition')} (--verbose lists them)"] if more > 0 else []
            yield from self.wrapped(f"taken, provided that {' and '.join([*map(self.names.text, found[:CONDITIONS]), *rest])}")

    def legend(self) -> Iterator[str]:
        """What the short names of sizes stand for."""
        for short, size in self.names.legend.items():
            yield from self.wrapped(f"{short} = {shortened(size)}")

    def findings(self) -> Iterator[str]:
        """Each cause once, but those that are ignored."""
        indent = "" if self.listed is NodeListing.NONE else " " * INDENT
        for cause, findings in self.file.by_cause():
            if cause.standing is not FindingStatus.IGNORED:
                found = self.names.finding(blocks.common(findings))
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
        room, counts = width - INDENT, found.status is FindingStatus.OPEN
        alone = self.listed is NodeListing.NONE or findings[0].subject not in self.nodes_by_place
        head, *rest = blocks.block(found, self.source, room, places=len(findings), named=alone)
        yield from blocks.wrapped(head, room, behind=2) if counts and not alone else [head]
        yield from rest
        if counts:
            nodes = list(self.below(findings))
            thing = HEADS[self.file.kind][1]
            yield from blocks.labelled(thing if len(nodes) == 1 else f"{thing}s", nodes, room, hang=2)
            yield ""

    def line(self, found: ReportedFinding, findings: Sequence[ReportedFinding]) -> Iterator[str]:
        """A cause as a line, with the nodes. found: as in `block`."""
        yield blocks.line(found, len(findings))
        if found.status is FindingStatus.OPEN:
            yield from (f"  {text}" for text in self.below(findings))

    def below(self, findings: Sequence[ReportedFinding]) -> Iterator[str]:
        """The nodes below a finding: the first ones, or the places of all where the nodes are listed as well."""
        places = list(dict.fromkeys(each.subject for each in findings if each.subject in self.nodes_by_place))
        whole = self.listed is NodeListing.ALL
        if self.listed is not NodeListing.WRONG and len(places) == 1:  # the finding has it
            return
        for place in places if whole else places[:PLACES]:
            yield self.node(self.nodes_by_place[place]) if self.listed is NodeListing.WRONG else place
        if not whole and len(places) > PLACES:
            yield f"and {counted(len(places) - PLACES, 'other')} (--verbose lists them)"

    def node(self, node: CheckedNode) -> str:
        """A node in one line."""
        return line(self.names.node(node), self.file.level)

    def wrapped(self, text: str, start: str = " " * INDENT, behind: int = INDENT + 2) -> Iterable[str]:
        """The text in lines that are wrapped."""
        return [start + text] if self.width is None else blocks.wrapped(text, self.width, start, behind)
