"""Writing to standard output. Control characters in names never reach the terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from dmlgather.wording import printable


def put(text: str) -> None:
    """Write text with control characters escaped, except line breaks and tabs."""
    with _stream_in_errors():
        sys.stdout.write(text if text.isprintable() else "\n".join(map(_escaped, text.split("\n"))))


def flush() -> None:
    """Flush standard output."""
    if sys.stdout is not None:
        with _stream_in_errors():
            sys.stdout.flush()


@contextmanager
def _stream_in_errors() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        error.filename = "standard output"
        raise


def _escaped(line: str) -> str:
    return line if line.isprintable() else "\t".join(map(printable, line.split("\t")))
