"""The findings of one cause as text: a block of lines with the line of the file, or one line."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path

from dmlgather.directml.findings import FileProblem
from dmlgather.files import FileError, read_text
from dmlgather.report.finding_status import FindingStatus, ReportedFinding
from dmlgather.wording import printable

TAB = " " * 4
"""How a tab is shown."""

CUT = "…"
"""Stands for the part of a line that is left out."""


class SourceLines:
    """The lines of a text, by their numbers from 1: those that are known, else those of the file, which is read once, when the
    first line is asked for.
    """

    def __init__(self, file: str, known: Mapping[int, str] | None = None) -> None:
        self._file, self._known = file, known

    @cached_property
    def _lines(self) -> Mapping[int, str]:
        """All lines; none where the file cannot be read any more."""
        if self._known:
            return self._known
        try:
            return dict(enumerate(read_text(Path(self._file)).split("\n"), 1))
        except FileError:
            return {}

    def excerpt(self, line: int | None, column: int | None, width: int) -> Iterator[str]:
        """The line, counted from 1, in at most `width` cells, and a caret below its column; nothing if there is no such line, or
        nothing in it.
        """
        if line is None or not self._lines.get(line, "").strip():
            return
        margin = f"{line:5} | "
        shown, before = cut(self._lines[line].removesuffix("\r"), column or 1, width - len(margin))
        yield (margin + shown).rstrip()
        if column is not None:
            yield "| ".rjust(len(margin)) + " " * before + "^"


def cut(text: str, column: int, width: int) -> tuple[str, int]:
    """`text` in at most `width` cells of a terminal, around the character at `column`, counted from 1; and the cells before that.

    Tabs are spaces and control characters are escaped. The time does not depend on the length of the text.
    """
    at = min(column - 1, len(text))
    left = _shown(text[max(at - width, 0) : at])[::-1]
    right = _shown(text[at : at + width])
    room = max(width - _cells(right), width * 2 // 3)  # what follows the place matters less than what leads to it
    room = min(room, width - _cells(right[:1]) - len(CUT) * (len(right) > 1))  # but the place itself is shown
    before = "".join(reversed(_fitting(left, room, at > width)))
    behind = "".join(_fitting(right, width - _cells(before), at + width < len(text)))
    return before + behind, _cells(before)


def _fitting(parts: Sequence[str], room: int, more: bool) -> list[str]:
    """As many of the first parts as fit into `room` cells, and CUT where some are left out. more: whether others follow."""
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
    """How each character is shown."""
    if text.isprintable():
        return list(text)
    return [TAB if character == "\t" else printable(character) for character in text]


def _cells(parts: Iterable[str]) -> int:
    """The cells of a terminal that a text takes, or several: wide characters take two, combining ones none."""
    text = "".join(parts)
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


# The findings of one cause as text: a block of lines, or one line.


_VALUE = re.compile(r" (?=\{|\w*\[|\d_\d)")
"""The space before a value in braces, before a type with its sizes, and before a level."""

_PART = re.compile(r"[^/.]*[/.]|[^/.]+")
"""The parts of a path."""

_GLUE = "\N{NO-BREAK SPACE}"
"""Stands for a space at which no line ends. `printable` leaves none in a text."""

AT_FIRST = " (at the first place)"
"""Follows a text that is not the same at all places."""


def line(found: ReportedFinding, places: int = 1) -> str:
    """All of a finding in one line. places: how many findings it stands for, as `common` gives it."""
    return f"{found}{f' ({_times(places)})' if places > 1 else ''}{found.remark}"


def block(
    found: ReportedFinding, source: SourceLines, width: int, joint: str = ".", *, places: int = 1, named: bool = True
) -> Iterator[str]:
    """FILE:LINE:COLUMN, the code and what must hold; the line of the file with a caret; what was expected, what was got and the
    fix, wrapped to `width`. A known finding is one line. What a program dumped is headed by the line of the program.

    joint: what joins the subject and the path. places: as in `line`. named: whether to write the file.
    """
    subject = found.subject if found.created is None else ""  # the head says it
    where = ", ".join(filter(None, (joint.join(filter(None, (subject, found.path))), _times(places))))
    start = f"{f'{found.head}: ' if named else ''}{found.code} {found.severity}:"
    told = f"{found.message}{f' ({where})' if where else ''}{found.times}{found.remark}"
    if found.status is FindingStatus.KNOWN:
        yield f"{start} {told}"
        return
    yield from headed(start, told, width)
    if found.created is not None:
        yield from labelled("dumped", [f"at {found.place}"], width)
    yield from source.excerpt(found.line, found.column, width)
    for label, text in (("expected", found.expected), ("got", found.got), ("fix", found.remedy)):
        yield from labelled(label, [text], width)


def problem_block(problem: FileProblem, source: SourceLines, width: int) -> Iterator[str]:
    """A problem in a line, and the line of the file with a caret."""
    yield str(problem)
    yield from source.excerpt(problem.line, problem.column, width)


def headed(start: str, text: str, width: int) -> Iterator[str]:
    """A text behind `start`, which stays whole, in lines of at most `width` characters. Of a word that is longer, such as the
    path of a node, all is shown: it is broken behind slashes and dots.
    """
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
    """A word that is not longer than that; else its parts behind slashes and dots, none of them longer."""
    for part in [word] if len(word) <= longest else _PART.findall(word):
        yield from (part[first : first + longest] for first in range(0, len(part) or 1, longest))


def common(findings: Sequence[ReportedFinding]) -> ReportedFinding:
    """One finding for all of a cause: the first, without its node where there are others; its texts say where others differ."""
    first = findings[0]
    if len(findings) == 1:
        return first
    same = {name: len({getattr(each, name) for each in findings}) == 1 for name in ("path", "expected", "got", "remedy")}
    texts = {name: getattr(first, name) + ("" if same[name] else AT_FIRST) for name in ("expected", "got", "remedy")}
    return first.model_copy(update={**texts, "subject": "", "path": first.path if same["path"] else ""})


def _times(places: int) -> str:
    return f"at {places} places" if places > 1 else ""


def labelled(label: str, texts: Iterable[str], width: int, hang: int = 0) -> Iterator[str]:
    """Texts below each other behind their label, each wrapped. hang: further spaces before all lines of a text but its first."""
    for text in texts:
        start = f"  {label:8}  "
        yield from wrapped(text, width, start, len(start) + hang)
        label = ""


def wrapped(text: str, width: int, start: str = "", behind: int | None = None) -> list[str]:
    """A text behind `start`, in lines of at most `width` characters. A word that is longer stays whole, and so does a name with
    its value ("starts {0}"). behind: spaces before the further lines, by default as many as `start` has characters.
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
