"""Error reporting: an exception becomes one line on standard error and an exit code."""

from __future__ import annotations

import functools
import sys
import traceback
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import typer

from dmlgather.cli import UNREAD, discard
from dmlgather.host import DEBUG, is_debugged
from dmlgather.output import flush
from dmlgather.wording import printable

UsageError: Any = typer.BadParameter.__bases__[0]
"""Typer's exception for invalid arguments. Its name differs between versions."""

P = ParamSpec("P")
R = TypeVar("R")


def guarded(function: Callable[P, R]) -> Callable[P, R | int]:
    """Return a function that reports exceptions and returns an exit code. KeyboardInterrupt and Typer's exceptions pass."""

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R | int:
        try:
            result = function(*args, **kwargs)
            flush()
        except (typer.Exit, UsageError, KeyboardInterrupt):
            raise
        except BaseException as error:  # last resort: nothing above handles errors
            return failed(error)
        return result

    return call


def say(message: object) -> None:
    """Write a line to standard error, with control characters escaped."""
    try:
        print(printable(str(message)), file=sys.stderr, flush=True)
    except (OSError, ValueError):
        discard(sys.stderr)


def failed(error: BaseException) -> int:
    """Write an exception to standard error in one line. Return the exit code."""
    if isinstance(error, BrokenPipeError | SystemExit):  # SystemExit: raised by Typer if the pipe breaks while it writes help
        return UNREAD
    if is_debugged():
        traceback.print_exception(error)
    say(f"dmlgather: {describe(error)}")
    return 2


def describe(error: BaseException) -> str:
    """Return a message for the user about an exception."""
    from dmlgather.backends.cuda.driver import DeviceError
    from dmlgather.backends.memory import TooLargeError
    from dmlgather.files import FileError
    from dmlgather.host import SettingError
    from dmlgather.limits import LimitError
    from dmlgather.package import MissingExtraError

    match error:
        case FileError() | DeviceError() | TooLargeError() | SettingError() | LimitError() | MissingExtraError():
            return str(error)
        case OSError():
            name = f"{error.filename}: " if error.filename else ""
            return f"{name}{error.strerror or error}"
        case MemoryError():
            return f"out of memory: {error}" if str(error) else "out of memory"
        case RecursionError():
            return "the input is nested too deeply"
    hint = "" if is_debugged() else f"; set {DEBUG}=1 for a traceback and please report it"
    summary = " ".join(str(error).split())
    return f"internal error: {type(error).__name__}: {summary[:500]}{hint}"
