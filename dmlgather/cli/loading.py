"""Files for the subcommands that execute them: nothing runs that has problems or errors."""

from __future__ import annotations

from pathlib import Path

import typer

from dmlgather.cli.failures import say
from dmlgather.directml.dxdispatch.model_file import CheckedFile, check_file


def load(path: Path) -> CheckedFile:
    """The checked file, after its findings have been shown on standard error.

    Ends the command with exit code 2 when something could not be understood, with 1 when there are errors.
    """
    checked = check_file(path)
    for item in (*checked.findings, *checked.problems):
        say(item)
    if not checked.ok:
        raise typer.Exit(2 if checked.problems else 1)
    return checked
