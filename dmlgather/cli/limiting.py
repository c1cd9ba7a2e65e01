"""The limits of a subcommand's work on its files, and the options that raise them."""

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
"""Seconds that --time-limit takes at most."""

TimeLimit = Annotated[
    float | None,
    typer.Option(
        "--time-limit",
        metavar="SECONDS",
        help="Seconds of a processor's time for the work on the files. Default: 5 for each megabyte of them, but at least 5, "
        "or 30 where an ONNX model runs.",
        show_default=False,
    ),
]

WorkMemory = Annotated[
    str | None,
    typer.Option(
        "--memory-limit",
        metavar="SIZE",
        help="Memory for the work on the files, such as 2GB. Default: 350MB for each megabyte of them, but at least 350MB, "
        "or 2.1GB where an ONNX model runs.",
        show_default=False,
    ),
]


RUNS = 6.0
"""Megabytes that count at least for files that run on many inputs."""


def stated(time_limit: float | None, memory_limit: str | None, least: float = 1.0) -> Limits:
    """The limits that the options state. least: megabytes that are counted for smaller files."""
    if time_limit is not None and not 0 < time_limit <= LONGEST:
        raise typer.BadParameter(
            f"expected seconds, more than 0 and at most {LONGEST}, got {time_limit:g}", param_hint="'--time-limit'"
        )
    return Limits(time_limit, common.memory_limit(memory_limit), least)


@contextmanager
def within(limits: Limits, *paths: Path) -> Iterator[None]:
    """A context in which the work on these files keeps its limits; it ends the command with exit code 2 where it would not."""
    try:
        with limits.over(*paths):
            yield
    except LimitError as error:
        say(f"dmlgather: {' with '.join(map(str, paths))}: {error}")
        raise typer.Exit(2) from None


def limited(*names: str, least: float = 1.0) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """A decorator for subcommands whose whole work is limited; it adds the options. names: of the parameters that are files.
    least: as for `stated`.
    """

    def of(function: Callable[..., int]) -> Callable[..., int]:
        @functools.wraps(function)
        def call(*args: Any, time_limit: float | None = None, memory_limit: str | None = None, **kwargs: Any) -> int:
            given = signature.bind(*args, **kwargs).arguments
            with within(stated(time_limit, memory_limit, least), *(given[name] for name in names)):
                return function(*args, **kwargs)

        signature = inspect.signature(function, eval_str=True)
        options = {"time_limit": TimeLimit, "memory_limit": WorkMemory}
        added = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=kind)
            for name, kind in options.items()
        ]
        call.__annotations__ = {**function.__annotations__, **options}
        call.__signature__ = signature.replace(  # type: ignore[attr-defined] # Typer reads it
            parameters=[*signature.parameters.values(), *added]
        )
        return call

    return of
