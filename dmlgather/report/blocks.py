"""The findings of one cause as text: a block of lines, or one line."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence

from dmlgather.report.finding_status import FindingStatus, ReportedFinding
from dmlgather.report.source_lines import SourceLines
from dmlgather.wording import printable

_VALUE = re.compile(r" (?=\{|\w*\[|\d_\d)")
"""The space before a value in braces, before a type with its sizes, and before a level."""

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
    fix, wrapped to `width`. A known finding is one line.

    joint: what joins the subject and the path. places: as in `line`. named: whether to write the file.
    """
    where = ", ".join(filter(None, (joint.join(filter(None, (found.subject, found.path))), _times(places))))
    path, start = f" ({where})" if where else "", f"{found.place}: " if named else ""
    yield f"{start}{found.code} {found.severity}: {found.message}{path}{found.times}{found.remark}"
    if found.status is FindingStatus.KNOWN:
        return
    yield from source.excerpt(found.line, found.column, width)
    for label, text in (("expected", found.expected), ("got", found.got), ("fix", found.remedy)):
        yield from labelled(label, [text], width)


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
