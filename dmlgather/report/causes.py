"""Findings by what causes them: 47 nodes of one pattern are one cause with 47 places."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Sequence
from functools import lru_cache

from dmlgather.directml.findings import Severity
from dmlgather.record import Record
from dmlgather.report.finding_status import FindingStatus, ReportedFinding

UNKNOWN = ("EXP301", "EXP302")
"""The codes of what a model leaves open. One input of the model may decide several inputs of a node."""

_DECIDES = re.compile(r"(?<!\w)('[^']*')(?=, an input of the graph)|(?<=input )('[^']*')")
"""The input of the model that decides a value, as findings name it."""

_TRIED = " (with "
"""Before the sizes that something was tried with, at the end of a text."""

_OWN = (
    (re.compile(r"""(?<!\w)'[^']*'|"[^"]*\""""), "''"),
    (re.compile(r"\{[^{}]*\}"), "{}"),
    (re.compile(r"\[[^][]*\]"), "[]"),
    (re.compile(r"(?<![\w.])(?<!\w-)-?\d+(?!\w)"), "0"),
)
"""What is a node's own in the texts of a finding: names, shapes, and numbers that are no part of a word. The time that they take
grows with the length of a text, which a hostile file may make long, and not with its square.
"""


class Cause(Record):
    """What findings have in common that one change may mend: code and standing, and texts that are alike but for the names and
    numbers of each node.
    """

    code: str
    """The code of its findings."""

    severity: Severity
    """Their severity."""

    standing: FindingStatus
    """Whether they count."""

    findings: tuple[int, ...]
    """Their positions in the `findings` of the file, counted from 0. Each finding has one cause."""

    places: tuple[str, ...]
    """The field of each of them, from the root of the file on: "If_0.then_branch/Slice_7.starts"."""


def causes(findings: Sequence[ReportedFinding], nodes: Iterable[str]) -> tuple[Cause, ...]:
    """The causes of the findings of a file, in the order of their first findings. nodes: the places of its nodes.

    A finding about no single node, and one in a file without nodes, is the only one of its cause.
    """
    of_nodes = set(nodes)
    grouped: dict[Hashable, list[int]] = {}
    for number, finding in enumerate(findings):
        grouped.setdefault(_alike(finding) if finding.subject in of_nodes else number, []).append(number)
    return tuple(_cause(findings, numbers) for numbers in grouped.values())


def _cause(findings: Sequence[ReportedFinding], numbers: Sequence[int]) -> Cause:
    first = findings[numbers[0]]
    places = tuple(findings[number].full_path for number in numbers)
    return Cause(code=first.code, severity=first.severity, standing=first.status, findings=tuple(numbers), places=places)


def _alike(finding: ReportedFinding) -> Hashable:
    """What the findings of one cause have in common."""
    texts = [finding.expected, finding.got, finding.remedy]
    if finding.code in UNKNOWN:
        where, decided = "", tuple(_DECIDES.findall(f"{finding.got} {finding.remedy}"))
    else:
        where, decided = finding.path, ()
    return finding.code, finding.status, decided, tuple(_without_own(text) for text in (where, *texts))


@lru_cache(maxsize=1024)  # what is expected, and the fix, are often the same
def _without_own(text: str) -> str:
    for pattern, replacement in _OWN:
        text = pattern.sub(replacement, text)
    return text.rpartition(_TRIED)[0] if _TRIED in text and text.endswith(")") else text
