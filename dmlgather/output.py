"""Standard output: the one place that writes text to it, so that no name from a file can steer a terminal."""

from __future__ import annotations

import sys

from dmlgather.wording import printable


def put(text: str) -> None:
    """Write text to standard output, its characters escaped that cannot be shown; line breaks and tabs are its own.

    A name in the text that may have line breaks has to be `printable` before.
    """
    sys.stdout.write(text if text.isprintable() else "\n".join(map(_shown, text.split("\n"))))


def _shown(line: str) -> str:
    return line if line.isprintable() else "\t".join(map(printable, line.split("\t")))
