"""How the command ends when something goes wrong: one clear line on standard error and exit code 2, never a traceback."""

from __future__ import annotations

import errno
import functools
import os
import sys
import traceback
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import typer

from dmlgather.wording import printable

DEBUG = "DMLGATHER_DEBUG"
"""Environment variable that shows tracebacks of unexpected errors."""

UsageError: Any = typer.BadParameter.__bases__[0]
"""What Typer raises for arguments that make no sense; it has shipped the class under several names."""

P = ParamSpec("P")
R = TypeVar("R")


def guarded(function: Callable[P, R]) -> Callable[P, R | int]:
    """`function`, but any failure ends in a message and the return value 2. What Typer itself handles passes through."""

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R | int:
        try:
            result = function(*args, **kwargs)
            _flush()
        except (typer.Exit, UsageError):
            raise
        except BaseException as error:  # this is the one place that stands between failures and users
            return failed(error)
        return result

    return call


def say(message: object) -> None:
    """One line on standard error, whatever the names in it have; where that is closed there is nobody to tell."""
    try:
        print(printable(str(message)), file=sys.stderr, flush=True)
    except (OSError, ValueError):
        _discard(sys.stderr)


def failed(error: BaseException) -> int:
    """Say in one line what happened; the exit code."""
    if os.environ.get(DEBUG) and not isinstance(error, KeyboardInterrupt | BrokenPipeError | SystemExit):
        traceback.print_exception(error)
    unwanted = isinstance(error, BrokenPipeError | SystemExit | KeyboardInterrupt)
    if unwanted or (isinstance(error, OSError) and error.errno == errno.EPIPE):
        _discard(sys.stdout)  # flushing what is left would fail once more, or wait for a reader
    say(f"dmlgather: {describe(error)}")
    return 2


def describe(error: BaseException) -> str:
    """What happened, in the words of a user."""
    from dmlgather.backends.cuda.driver import DeviceError
    from dmlgather.bench.errors import BenchError
    from dmlgather.files import FileError

    match error:
        case KeyboardInterrupt():
            return "interrupted"
        case BrokenPipeError() | SystemExit():  # Typer exits when the pipe breaks while it writes help
            return "whatever read the output closed it before the end"
        case FileError() | DeviceError() | BenchError():
            return str(error)
        case OSError():
            name = f"{error.filename}: " if error.filename else ""
            return f"{name}{error.strerror or error}"
        case MemoryError():
            return f"out of memory: {error}" if str(error) else "out of memory"
        case RecursionError():
            return "the input is nested too deeply"
    hint = "" if os.environ.get(DEBUG) else f"; set {DEBUG}=1 for a traceback and please report it"
    summary = " ".join(str(error).split())
    return f"internal error: {type(error).__name__}: {summary[:500]}{hint}"


def _flush() -> None:
    if sys.stdout is not None:
        sys.stdout.flush()


def _discard(stream: object) -> None:
    """Let what is still to be written to a broken stream go nowhere, so that closing it at exit is no second failure."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())  # type: ignore[attr-defined] # may lack one: see below
    except (AttributeError, OSError, ValueError):
        return
