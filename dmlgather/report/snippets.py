"""Findings as text: a block of lines with the source line and a caret, or a single line."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path

from dmlgather.directml.findings import FileProblem
from dmlgather.files import FileError, read_text
from dmlgather.report.finding_status import FindingStatus, ProgramLine, ReportedFinding
from dmlgather.wording import printable

TAB = " " * 4

CUT = "…"


class SourceLines:
    """The lines of a checked file, read on first use. `lines`: standard input, by number from 1."""

    def __init__(self, file: str, lines: Mapping[int, str] | None = None) -> None:
        self._file, self._stored = file, lines

    @cached_property
    def _lines(self) -> Mapping[int, str]:
        if self._stored:
            return self._stored
        try:
            return dict(enumerate(read_text(Path(self._file)).split("\n"), 1))
        except FileError:
            return {}

    def excerpt(self, line: int | None, column: int | None, width: int) -> Iterator[str]:
        """Yield a source line, shortened to `width`, and a caret below `column` (from 1)."""
        if line is None or not self._lines.get(line, "").strip():
            return
        margin = f"{line:5} | "
        shown, before = cut(self._lines[line].removesuffix("\r"), column or 1, width - len(margin))
        yield (margin + shown).rstrip()
        if column is not None:
            yield "| ".rjust(len(margin)) + " " * before + "^"


def cut(text: str, column: int, width: int) -> tuple[str, int]:
    """Shorten a line to the text around `column`. Return the text, and the width of the text before that character.

    The time does not depend on the length of the text. `column`: from 1, in characters. `width`: in terminal columns.
    """
    at = min(column - 1, len(text))
    left = _shown(text[max(at - width, 0) : at])[::-1]
    right = _shown(text[at : at + width])
    room = max(width - _cells(right), width * 2 // 3)  # the text before the column gets at least two thirds
    room = min(room, width - _cells(right[:1]) - len(CUT) * (len(right) > 1))  # and the column itself must fit
    before = "".join(reversed(_fitting(left, room, at > width)))
    behind = "".join(_fitting(right, width - _cells(before), at + width < len(text)))
    return before + behind, _cells(before)


def _fitting(parts: Sequence[str], room: int, more: bool) -> list[str]:
    """Return the first parts that fit into `room` terminal columns. Append CUT if the text goes on.

    `more`: True if the text goes on after `parts`.
    """
    if not more and _cells(parts) <= room:
        return list(parts)
    kept: list[str] = []
    used = len(CUT)
    for part in parts:
        used += _cells(part)
        if used > room:
            break
        kept.append(part)
    return [*kept, CUT]


def _shown(text: str) -> list[str]:
    if text.isprintable():
        return list(text)
    return [TAB if character == "\t" else printable(character) for character in text]


def _cells(parts: Iterable[str]) -> int:
    """Count terminal columns: wide characters take two, combining characters none."""
    text = "".join(parts)
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


_VALUE = re.compile(r" (?=\{|\w*\[|\d_\d)")
"""A space before braces, a type with sizes, or a level. Lines are not broken there."""

_PART = re.compile(r"[^/.]*[/.]|[^/.]+")
"""A part of a path, with the slash or dot behind it."""

_GLUE = "\N{NO-BREAK SPACE}"
"""Stands for spaces at which lines are not broken. `printable` has escaped all others."""

AT_FIRST = " (at the first place)"
"""Appended to a text that not all findings of the cause have."""


def line(finding: ReportedFinding, places: int = 1) -> str:
    """Return a finding as one line. `places`: the number of findings that `finding` represents."""
    return f"{finding}{f' ({_times(places)})' if places > 1 else ''}{finding.remark}"


def block(
    finding: ReportedFinding, source: SourceLines, width: int, joint: str = ".", *, places: int = 1, named: bool = True
) -> Iterator[str]:
    """Yield a finding as lines: place, code and rule; the source line with a caret; "expected", "got" and "fix".

    `joint`: the text between subject and path. `places`: the number of findings that `finding` represents. `named`: True to
    begin with the file.
    """
    subject = finding.subject if finding.created is None else ""  # `head` has it
    where = ", ".join(filter(None, (joint.join(filter(None, (subject, finding.path))), _times(places))))
    start = f"{f'{finding.head}: ' if named else ''}{finding.code} {finding.severity}:"
    message = f"{finding.message}{f' ({where})' if where else ''}{finding.times}{finding.remark}"
    if finding.status is FindingStatus.KNOWN:
        yield f"{start} {message}"
        return
    yield from headed(start, message, width)
    if finding.created is not None:
        yield from labelled("dumped", [f"at {finding.place}"], width)
    yield from source.excerpt(finding.line, finding.column, width)
    for label, text in (("expected", finding.expected), ("got", finding.got), ("fix", finding.remedy)):
        yield from labelled(label, [text], width)


def problem_line(problem: FileProblem) -> str:
    """Return a problem as one line."""
    created = ProgramLine.of(problem.subject)
    if created is None:
        return str(problem)
    return ": ".join(filter(None, (str(created), problem.path, f"{problem.message} (dumped at {problem.place})")))


def problem_block(problem: FileProblem, source: SourceLines, width: int) -> Iterator[str]:
    """Yield a problem as one line, then the source line with a caret."""
    yield problem_line(problem)
    yield from source.excerpt(problem.line, problem.column, width)


def headed(start: str, text: str, width: int) -> Iterator[str]:
    """Wrap a text after `start`. Words longer than a line are split after slashes and dots."""
    line, behind = printable(start), " " * 2
    for word in printable(text).split(" "):
        glue = " "
        for part in _parts(word, width - len(behind)):
            if len(line) + len(glue) + len(part) > width:
                yield line
                line, glue = behind, ""
            line, glue = f"{line}{glue}{part}", ""
    yield line


def _parts(word: str, longest: int) -> Iterator[str]:
    """Split a long word after slashes and dots, and into pieces of at most `longest` characters."""
    for part in [word] if len(word) <= longest else _PART.findall(word):
        yield from (part[first : first + longest] for first in range(0, len(part) or 1, longest))


def common(findings: Sequence[ReportedFinding]) -> ReportedFinding:
    """Return one finding for a whole group: the first. Texts that differ between the findings end in AT_FIRST."""
    first = findings[0]
    if len(findings) == 1:
        return first
    same = {name: len({getattr(finding, name) for finding in findings}) == 1 for name in ("path", "expected", "got", "remedy")}
    texts = {name: getattr(first, name) + ("" if same[name] else AT_FIRST) for name in ("expected", "got", "remedy")}
    return first.model_copy(update={**texts, "subject": "", "path": first.path if same["path"] else ""})


def _times(places: int) -> str:
    return f"at {places} places" if places > 1 else ""


def labelled(label: str, texts: Iterable[str], width: int, hang: int = 0) -> Iterator[str]:
    """Yield texts, wrapped, in a column to the right of a label."""
    for text in texts:
        start = f"  {label:8}  "
        yield from wrapped(text, width, start, len(start) + hang)
        label = ""


def wrapped(text: str, width: int, start: str = "", behind: int | None = None) -> list[str]:
    """Wrap a text after `start`, without splitting long words or names with values ("starts {0}").

    `behind`: the indent of all lines but the first.
    """
    text = printable(text)
    if len(start) + len(text) <= width:
        return [start + text]
    further = " " * (len(start) if behind is None else behind)
    lines = textwrap.wrap(
        _VALUE.sub(_GLUE, text),
        width,
        initial_indent=start,
        subsequent_indent=further,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [line.replace(_GLUE, " ") for line in lines]
