"""The command `python -m benchmarks`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dmlgather.cli.app import run as run_application
from dmlgather.cli.app import with_commands
from dmlgather.cli.common import AsJson, JsonFile, JsonOutput
from dmlgather.cli.failures import say
from dmlgather.cli.progress import progress_bar
from dmlgather.output import put

if TYPE_CHECKING:
    from benchmarks import BenchReport


def bench(
    *,
    suite: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="smoke: takes seconds; cpu: minutes; gpu: on the first GPU; full: both and sweeps; chains: fused and unfused; "
            "distributed: on dask workers. Default: smoke.",
        ),
    ] = None,
    peers: Annotated[str | None, typer.Option(metavar="NAME,NAME…", help="Libraries to compare. Default: all installed.")] = None,
    only: Annotated[str, typer.Option(metavar="NAME,NAME…", help="Cases, workloads or groups to run. Default: all.")] = "",
    rounds: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Timed rounds of each call. Default: 1 to 25, more if times are close."),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(min=0, metavar="N", help="Use the contents and indices of a run that printed seed N.")
    ] = None,
    l2_fetch: Annotated[
        int | None,
        typer.Option(
            metavar="32|64|128",
            help="Maximum number of bytes that the GPU fetches into its L2 cache at once, during the run. Default: unchanged.",
        ),
    ] = None,
    saved: Annotated[
        Path | None,
        typer.Option("--from", metavar="FILE.json", help="Measure nothing: show and plot a report that --output wrote."),
    ] = None,
    as_json: AsJson = False,
    output: JsonFile = None,
    plots: Annotated[
        list[Path] | None,
        typer.Option("--plot", metavar="FILE.png|.svg", help="Also plot rates in percent of the copy rate."),
    ] = None,
    rooflines: Annotated[
        list[Path] | None,
        typer.Option("--roofline", metavar="FILE.png|.svg", help="Also plot rates over the necessary bytes."),
    ] = None,
) -> int:
    """Compare operators with the same work in other libraries, bit for bit, and then time both in turns.

    Prints medians and ratios. Exit codes: 0 measured; 1 a result differs from a peer's; 2 it could not be measured.
    """
    from benchmarks import PEERS, SUITES, BenchError, MismatchError, plot, roofline, run
    from benchmarks.l2_fetch import L2_FETCHES
    from dmlgather.files import check_spared

    plot_files = [*(plots or ()), *(rooflines or ())]
    check_spared(plot_files, [] if saved is None else [saved])
    written = JsonOutput(as_json, output, (), plot_files)
    names = None if peers is None else _list(peers)
    _check_choices([suite or "smoke"], list(SUITES), "--suite")
    if names is not None:
        _check_choices(names, list(PEERS), "--peers")
    if l2_fetch is not None:
        _check_choices([str(l2_fetch)], [*map(str, L2_FETCHES)], "--l2-fetch")
    if saved is not None:
        if any((suite, peers, only, rounds is not None, seed is not None, l2_fetch is not None, output)):
            takes = "takes no options but --json, --plot and --roofline: nothing is measured"
            raise typer.BadParameter(takes, param_hint="'--from'")
        report = _saved(saved)
    else:
        try:
            with progress_bar() as progress:
                report = run(
                    suite or "smoke",
                    names,
                    only=_list(only),
                    rounds=rounds,
                    seed=seed,
                    l2_fetch_bytes=l2_fetch,
                    progress=progress,
                )
        except MismatchError as error:
            say(f"dmlgather: {error}")
            return 1
        except BenchError as error:
            say(f"dmlgather: {error}")
            return 2
    if not as_json:
        _show(report)
    if written:
        written.write_pieces([report.to_json(), "\n"])
    for draw, files in ((plot, plots), (roofline, rooflines)):
        for file in files or ():
            draw(report, file)
    return 0


def run(arguments: Sequence[str]) -> int:
    """Run the command, and return its exit code. Never raises."""
    return run_application(arguments, lambda: with_commands("", {"benchmarks": (bench, "")}), "python -m benchmarks")


def _saved(file: Path) -> BenchReport:
    """Read a report. Raises FileError if the file holds none."""
    from pydantic import ValidationError

    from benchmarks import BenchReport
    from dmlgather.files import FileError, read_text
    from dmlgather.record import placed

    try:
        return BenchReport.model_validate_json(read_text(file))
    except FileError as error:
        raise FileError(f"{file} {error}") from None
    except ValidationError as error:
        raise FileError(f"{file} is no report of `python -m benchmarks --output`: {placed(error.errors()[0])}") from None


def _show(report: BenchReport) -> None:
    from benchmarks.tables import lines, notes, rich_table

    if sys.stdout.isatty():
        from rich.console import Console

        console = Console()
        console.print(rich_table(report, console.width))
        console.print("", *notes(report), sep="\n", highlight=False, markup=False)
    else:
        put("\n".join(lines(report)) + "\n")
    sys.stdout.flush()


def _list(names: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in names.split(",") if name.strip())


def _check_choices(names: tuple[str, ...] | list[str], choices: list[str], option: str) -> None:
    unknown = [name for name in names if name not in choices]
    if unknown or not names:
        got = ", ".join(map(repr, unknown)) or "none"
        raise typer.BadParameter(f"expected {', '.join(choices)}, got {got}", param_hint=f"'{option}'")
