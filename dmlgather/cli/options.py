"""Arguments and options that several subcommands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

ModelFile = Annotated[
    Path,
    typer.Argument(metavar="FILE", help="A DxDispatch model, or a single descriptor.", show_default=False),
]

Level = Annotated[str, typer.Option("--level", metavar="LEVEL", help="DirectML feature level to check for: 1_0 … 6_4.")]

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def known_level(level: str) -> str:
    """`level`, after a usage error if there is no such feature level."""
    from dmlgather.directml.types import FeatureLevel

    try:
        FeatureLevel.parse(level)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="'--level'") from None
    return level
