"""`dmlgather header`: the C++ header that writes descriptors."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dmlgather.output import put

FOLDER = Path(__file__).parents[1] / "include"
"""The folder to add to the include path of a C++ program."""

NAME = "dmlgather_dump.h"
"""The header in it."""


def header(
    path: Annotated[
        bool, typer.Option("--path", help="Print the folder that holds it, for the include path of a compiler.")
    ] = False,
) -> int:
    """Print dmlgather_dump.h, a C++17 header: a DirectML program that includes it writes its operator descriptors as JSON, one
    per line, and `check` reads them.
    """
    put(f"{FOLDER.as_posix()}\n" if path else (FOLDER / NAME).read_text(encoding="utf-8"))
    return 0
