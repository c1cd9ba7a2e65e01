"""`dmlgather explain`: plans, kernels and traffic of descriptors."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dmlgather.cli.common import AsJson, ModelFile, load
from dmlgather.cli.failures import say

if TYPE_CHECKING:
    from dmlgather.directml.dxdispatch.model_file import CheckedFile

MOST_PICTURES = 20
"""Dispatchables that one picture shows."""


def explain(
    file: ModelFile,
    as_json: AsJson = False,
    picture: Annotated[
        Path | None, typer.Option(metavar="FILE.svg", help="Also draw what is read and written, as SVG.", show_default=False)
    ] = None,
    only: Annotated[
        str | None, typer.Option(metavar="NAME", help="Of a model, only this dispatchable.", show_default=False)
    ] = None,
) -> int:
    """Show for each operator of a file: plan, canonical plan, what each device would run, bytes moved, lowest feature level.

    A picture shows the index values that a model gives to its first dispatch; for a descriptor it invents a few.

    Exit codes: 0 shown, 1 the file has errors, 2 it could not be understood or the picture could not be written.
    """
    from dmlgather.operator import compile as compile_operator
    from dmlgather.wording import printable

    if picture is not None and picture.suffix.lower() != ".svg":
        raise typer.BadParameter(
            f"expected a file that ends in .svg, got '{printable(str(picture))}': pictures are SVG", param_hint="'--picture'"
        )
    checked = load(file)
    names = _names(checked, only)
    explanations = {name: compile_operator(checked.dispatchables[name].desc).explain() for name in names}
    if picture is not None:
        _draw(checked, names, picture)
    if as_json:
        data = [{"name": name, **explanation.to_json()} for name, explanation in explanations.items()]
        sys.stdout.write(json.dumps(data, indent=2) + "\n")
        return 0
    for number, (name, explanation) in enumerate(explanations.items()):
        heading = f"dispatchable '{printable(name)}'\n" if name else ""
        sys.stdout.write(("\n" if number else "") + heading + f"{explanation}\n")
    return 0


def _names(checked: CheckedFile, only: str | None) -> list[str]:
    names = list(checked.dispatchables)
    if only is None:
        return names
    if only not in names or checked.kind != "model":
        known = ", ".join(map(repr, names[:MOST_PICTURES])) if checked.kind == "model" else "none: it is a single descriptor"
        raise typer.BadParameter(f"expected a dispatchable of the file ({known}), got {only!r}", param_hint="'--only'")
    return [only]


def _draw(checked: CheckedFile, names: list[str], target: Path) -> None:
    from dataclasses import replace

    from dmlgather.files import writing
    from dmlgather.operator import compile as compile_operator
    from dmlgather.picture import draw, of_descriptor
    from dmlgather.picture.model_values import with_initial_values
    from dmlgather.wording import printable

    if not names:
        say(f"{checked.file}: no dispatchables, so there is nothing to draw")
        return
    subjects = []
    for name in names[:MOST_PICTURES]:
        desc = checked.dispatchables[name].desc
        subject = of_descriptor(desc, compile_operator(desc).plan)
        if name:
            subject = replace(subject, title=f"{printable(name)}: {subject.title}")
            subject = with_initial_values(subject, checked, name)
        subjects.append(subject)
    with writing(target) as file:
        file.write(draw(*subjects).encode())
    if len(names) > MOST_PICTURES:
        say(f"The picture shows the first {MOST_PICTURES} of {len(names)} dispatchables; --only NAME draws another")
    say(f"Picture written to '{target}'")
