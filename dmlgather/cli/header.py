"""The subcommand `header`: print the C++ header that a program includes to write its descriptors to a file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dmlgather.output import put

FOLDER = Path(__file__).parents[1] / "include"

NAME = "dmlgather_dump.h"


def header(
    path: Annotated[
        bool, typer.Option("--path", help="Print only the header's folder, for the include path of a compiler.")
    ] = False,
) -> int:
    """Print dmlgather_dump.h, a C++17 header for DirectML programs. It writes operator descriptors as JSON, one per line, for
    `check`.
    """
    put(f"{FOLDER.as_posix()}\n" if path else (FOLDER / NAME).read_text(encoding="utf-8"))
    return 0
