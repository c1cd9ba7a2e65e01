"""`dmlgather check`: validate files."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dmlgather.cli.failures import say
from dmlgather.cli.options import Level, known_level

if TYPE_CHECKING:
    from dmlgather.report.check_report import Summary, Verdicts


class OutputFormat(StrEnum):
    """Names of the report formats."""

    TEXT = "text"
    JSON = "json"


def check(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE…",
            help="Models, descriptors, ONNX models, OpenVINO IRs, or folders, which are searched for all.",
            show_default=False,
        ),
    ],
    level: Level = "6_4",
    output_format: Annotated[OutputFormat, typer.Option(help="How findings are written to standard output.")] = OutputFormat.TEXT,
) -> int:
    """Validate DxDispatch models and single descriptors (operators, bindings, initial values), and judge ONNX models (.onnx)
    and OpenVINO IRs (.xml).

    Of an ONNX model, each Gather, GatherElements, GatherND and Slice is shown with the DirectML operators that do it at the
    level, or what stands against it, or what the model does not say; of an IR, each Gather. Nothing is run, and no weights are
    read.

    A JSON or XML file of another sort is skipped in a folder and a problem when named. Findings go to standard output, problems
    and the summary to standard error.

    Exit codes: 0 no errors, 1 findings of severity error, 2 a file could not be understood.
    """
    from dmlgather.report.collect import check_paths
    from dmlgather.report.formats import FORMATS

    report = check_paths(files, known_level(level))
    for line in FORMATS[output_format](report):
        sys.stdout.write(line + "\n")
    sys.stdout.flush()
    for file in report.files:
        for problem in file.problems:
            say(problem)
    say(_summary(report.summary, report.verdicts))
    return report.exit_code


def _summary(summary: Summary, verdicts: Verdicts) -> str:
    from dmlgather.wording import counted

    parts = [f"{counted(summary.files, 'file')} checked"]
    nodes = verdicts.model_dump()
    if any(nodes.values()):
        found = ", ".join(f"{number} {verdict}" for verdict, number in nodes.items() if number)
        parts.append(f"{counted(sum(nodes.values()), 'node')} ({found})")
    severities = (
        ("problem", summary.problems),
        ("error", summary.errors),
        ("warning", summary.warnings),
        ("note", summary.notes),
    )
    parts += [counted(number, name) for name, number in severities if number]
    if summary.skipped:
        parts.append(f"{counted(summary.skipped, 'file')} of another sort skipped")
    findings = summary.problems + summary.errors + summary.warnings + summary.notes + summary.skipped
    return ", ".join(parts) if findings else f"{', '.join(parts)}, no findings"
