"""The subcommands of `python -m conformance`: `write` cases for DxDispatch on Windows, and `read` their results."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from dmlgather.cli import common
from dmlgather.cli.app import run as run_application
from dmlgather.cli.app import with_commands
from dmlgather.cli.common import AsJson, JsonFile, JsonOutput
from dmlgather.cli.failures import say
from dmlgather.cli.limiting import limited
from dmlgather.output import put

MOST_CASES = 99999
"""Largest number of random cases. Their names have five digits."""

HELP = "Compare dmlgather with DirectML itself: write random cases for DxDispatch on Windows, and read their results."


def write(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A new or empty folder.", show_default=False)],
    *,
    cases: Annotated[int, typer.Option(metavar="N", help=f"Number of random cases, 1 to {MOST_CASES}.")] = 500,
    level: Annotated[
        str,
        typer.Option(metavar="LEVEL", help="Feature level at which the cases are legal.", autocompletion=common.feature_levels),
    ] = "6_4",
    seed: Annotated[int | None, typer.Option(min=0, metavar="N", help="Seed of the random cases.")] = None,
    as_json: AsJson = False,
    output: JsonFile = None,
) -> int:
    """Write random legal cases of all operators as DxDispatch models, with their inputs and scripts that run them.

    There is also one case for each question that DirectML's documents leave open. On Windows, run.cmd in DIR runs all cases
    with DxDispatch, as README.txt in DIR says; `python -m conformance read DIR` then compares the results with dmlgather's.

    Exit codes: 0 written, 2 it could not be written.
    """
    from conformance.case_writing import write_cases
    from conformance.manifest import WrittenCases
    from dmlgather import __version__
    from dmlgather.directml import FeatureLevel
    from dmlgather.wording import counted

    if not 1 <= cases <= MOST_CASES:
        raise typer.BadParameter(f"expected 1 to {MOST_CASES}, got {cases}", param_hint="'--cases'")
    try:
        feature_level = FeatureLevel.parse(level)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="'--level'") from None
    json_output = JsonOutput(as_json, output)
    seed = secrets.randbits(32) if seed is None else seed
    manifest = write_cases(folder, cases, feature_level, seed, __version__)
    questions = sum(case.question is not None for case in manifest.cases)
    say(f"{counted(cases, 'case')} from --seed {seed} and {counted(questions, 'open question')} written to '{folder}'")
    say("Next, on Windows: run.cmd in that folder; its README.txt says how")
    written = WrittenCases(folder=str(folder), seed=seed, level=str(feature_level), cases=cases, questions=questions)
    json_output.write(written.model_dump)
    return 0


def _files(folder: Path) -> list[Path]:
    return [file for file in folder.rglob("*") if file.is_file()]


@limited("folder")
def read(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder that was written and run.", show_default=False)],
    *,
    as_json: AsJson = False,
    output: JsonFile = None,
) -> int:
    """Compare the results of DxDispatch in a folder of cases with dmlgather's, bit for bit.

    The report counts, per operator, the cases that are equal, different (with the first and the worst element), refused (with
    DxDispatch's message), failed (timed out, crashed or not started) and missing (not run). It lists DirectML's answer to each
    open question; an answer is no failure.

    Exit codes: 0 all equal, 1 a case is not, 2 the folder cannot be read or has no results.
    """
    from conformance.case_reading import read_results
    from dmlgather import __version__

    json_output = JsonOutput(as_json, output, _files(folder) if output is not None else ())
    report = read_results(folder, __version__)
    if not as_json:
        for line in report.lines():
            put(line + "\n")
    json_output.write(lambda: report.model_dump(mode="json"))
    return report.exit_code


def run(arguments: Sequence[str]) -> int:
    """Run `write` or `read`, and return the exit code. Never raises."""
    functions = {
        "write": (write, "DIR: write random cases for DxDispatch"),
        "read": (read, "DIR: compare what DirectML computed"),
    }
    return run_application(arguments, lambda: with_commands(HELP, functions), "python -m conformance")
