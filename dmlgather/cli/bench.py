"""`dmlgather bench`: the comparison suite."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from dmlgather.cli.failures import say


def bench(
    suite: Annotated[
        str, typer.Option(metavar="NAME", help="smoke takes seconds; large has arrays of eight times the size.")
    ] = "smoke",
    peers: Annotated[str, typer.Option(metavar="NAME,NAME…", help="What to compare with.")] = "numpy",
    rounds: Annotated[int, typer.Option(min=1, metavar="N", help="Times everybody runs, in turns; medians are shown.")] = 15,
    json_file: Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Also write every number as JSON.")] = None,
    plot_file: Annotated[Path | None, typer.Option("--plot", metavar="FILE.png", help="Also draw the ratios.")] = None,
) -> int:
    """Run operators beside the peers' own spelling of the same: compare bit for bit, then time in turns.

    Prints medians and ratios. Exit codes: 0 measured, 1 a result differs from a peer's, 2 it could not be measured.
    """
    from dmlgather.bench import PEERS, SUITES, MismatchError, plot, run
    from dmlgather.files import writing

    names = tuple(name.strip() for name in peers.split(",") if name.strip())
    _among([suite], list(SUITES), "--suite")
    _among(names, list(PEERS), "--peers")
    try:
        with _progress() as progress:
            report = run(suite, names, rounds=rounds, progress=progress)
    except MismatchError as error:
        say(f"dmlgather: {error}")
        return 1
    sys.stdout.write("\n".join(report.table()) + "\n")
    sys.stdout.flush()
    if json_file is not None:
        with writing(json_file) as file:
            file.write(f"{report.to_json()}\n".encode())
    if plot_file is not None:
        plot(report, plot_file)
    return 0


def _among(names: tuple[str, ...] | list[str], known: list[str], option: str) -> None:
    unknown = [name for name in names if name not in known]
    if unknown or not names:
        got = ", ".join(map(repr, unknown)) or "none"
        raise typer.BadParameter(f"expected {', '.join(known)}, got {got}", param_hint=f"'{option}'")


@contextmanager
def _progress() -> Iterator[Callable[[int, int, str], None] | None]:
    """A progress bar on standard error where that is a terminal, else nothing."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("")
        yield lambda done, count, name: bar.update(task, completed=done, total=count, description=name)
