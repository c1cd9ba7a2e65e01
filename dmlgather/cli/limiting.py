"""Limits of processor time and memory for subcommands, and the options that set them."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from dmlgather.cli import common
from dmlgather.cli.failures import say
from dmlgather.limits import LimitError, Limits

LONGEST = 10**8
"""In seconds."""

TimeLimit = Annotated[
    float | None,
    typer.Option(
        "--time-limit",
        metavar="SECONDS",
        help="Limit of processor time in seconds. Default: 5 per megabyte of the files, at least 5, or 30 if an ONNX model runs.",
        show_default=False,
    ),
]

WorkMemory = Annotated[
    str | None,
    typer.Option(
        "--memory-limit",
        metavar="SIZE",
        help="Limit of memory, such as 2GB. Default: 350MB per megabyte of the files, at least 350MB, or 2.1GB if an ONNX model "
        "runs.",
        show_default=False,
    ),
]


RUNS = 6.0
"""Megabytes. Running a file on many inputs needs more time and memory, so smaller files count as this size."""


def stated(time_limit: float | None, memory_limit: str | None, least: float = 1.0) -> Limits:
    """Convert --time-limit and --memory-limit. `least`: the size in megabytes that is assumed for smaller files."""
    if time_limit is not None and not 0 < time_limit <= LONGEST:
        raise typer.BadParameter(
            f"expected seconds, more than 0 and at most {LONGEST}, got {time_limit:g}", param_hint="'--time-limit'"
        )
    return Limits(time_limit, common.memory_limit(memory_limit), least)


@contextmanager
def within(limits: Limits, *paths: Path) -> Iterator[None]:
    """End the command with exit code 2 if the work on these files exceeds a limit."""
    try:
        with limits.over(*paths):
            yield
    except LimitError as error:
        say(f"dmlgather: {' with '.join(map(str, paths))}: {error}")
        raise typer.Exit(2) from None


def limited(*names: str, least: float = 1.0) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """Return a decorator that adds --time-limit and --memory-limit to a subcommand.

    `names`: the parameters of the subcommand that are files. `least`: the size in megabytes that is assumed for smaller files.
    """

    def decorate(function: Callable[..., int]) -> Callable[..., int]:
        @functools.wraps(function)
        def call(*args: Any, time_limit: float | None = None, memory_limit: str | None = None, **kwargs: Any) -> int:
            arguments = signature.bind(*args, **kwargs).arguments
            with within(stated(time_limit, memory_limit, least), *(arguments[name] for name in names)):
                return function(*args, **kwargs)

        signature = inspect.signature(function, eval_str=True)
        options = {"time_limit": TimeLimit, "memory_limit": WorkMemory}
        new_parameters = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=kind)
            for name, kind in options.items()
        ]
        call.__annotations__ = {**function.__annotations__, **options}
        call.__signature__ = signature.replace(  # type: ignore[attr-defined] # Typer reads it
            parameters=[*signature.parameters.values(), *new_parameters]
        )
        return call

    return decorate
