"""Standard output: the one place that writes text to it, so that no name from a file can steer a terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from dmlgather.wording import printable


def put(text: str) -> None:
    """Write text to standard output, its characters escaped that cannot be shown; line breaks and tabs are its own.

    A name in the text that may have line breaks has to be `printable` before.
    """
    with _named():
        sys.stdout.write(text if text.isprintable() else "\n".join(map(_shown, text.split("\n"))))


def flush() -> None:
    """Write what standard output still holds."""
    if sys.stdout is not None:
        with _named():
            sys.stdout.flush()


@contextmanager
def _named() -> Iterator[None]:
    """Errors of standard output name it."""
    try:
        yield
    except OSError as error:
        error.filename = "standard output"
        raise


def _shown(line: str) -> str:
    return line if line.isprintable() else "\t".join(map(printable, line.split("\t")))
