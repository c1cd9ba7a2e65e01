"""The line of a text that a finding is about, with a caret below the place."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path

from dmlgather.files import FileError, read_text
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
        """The line, counted from 1, in at most `width` cells, and a caret below its column; nothing if there is no such line."""
        if line is None or line not in self._lines:
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
