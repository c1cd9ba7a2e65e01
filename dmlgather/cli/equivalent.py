"""`dmlgather equivalent`: whether two models index alike."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Annotated, Any

import typer

from dmlgather.cli.failures import say
from dmlgather.output import put
from dmlgather.wording import alternatives, printable

_HINT = " (on the command line: --inputs N=1,x=1x2)"
"""What follows a message that says how inputs are stated in Python."""

FORMATS = ("text", "json")


def equivalent(
    first: Annotated[
        Path,
        typer.Argument(
            metavar="A",
            help="An ONNX model (.onnx), an OpenVINO IR (.xml), a DxDispatch model or a descriptor (.json).",
            show_default=False,
        ),
    ],
    second: Annotated[Path, typer.Argument(metavar="B", help="Another one, of the same kind or not.", show_default=False)],
    *,
    inputs: Annotated[
        str | None,
        typer.Option(
            metavar="NAME=SIZES[:TYPE],…",
            help="What models leave open: shapes of inputs, as in ids=1x128 or ids=1x128:int64, and named sizes, as in seq=128.",
            show_default=False,
        ),
    ] = None,
    given: Annotated[
        str,
        typer.Option(
            metavar="INPUTS",
            help="any: for all inputs. valid: only for inputs for which no index of A is out of range; there B must not raise.",
        ),
    ] = "any",
    output_format: Annotated[str, typer.Option(metavar="FORMAT", help="text or json.")] = "text",
) -> int:
    """Prove that two models index alike, or show inputs for which they do not.

    "proven": for all inputs of these shapes, both raise, or both write the same bits. "different": with inputs, the first element
    that differs, and where both values come from. "not proven": with the first step that stops the proof. Operators that do not
    index are not looked into: they give the same where operator, attributes and inputs are equal.

    Inputs are matched by name where the names of one model are among those of the other, else by position.

    Exit codes: 0 proven, 1 different or not proven, 2 a file could not be understood.
    """
    from dmlgather.equivalence import equivalent as decided

    for option, value, known in (("--given", given, ("any", "valid")), ("--output-format", output_format, FORMATS)):
        if value not in known:
            raise typer.BadParameter(f"expected {alternatives(known)}, got {value!r}", param_hint=f"'{option}'")
    stated = _stated(inputs or "")
    try:
        found = decided(first, second, inputs=stated, given="valid" if given == "valid" else "any")
    except (TypeError, ValueError) as error:  # of what a model leaves open, or of a node that breaks a rule
        say(f"dmlgather: {error}{_HINT if 'inputs=' in str(error) else ''}")
        return 2
    put(
        json.dumps(found.to_json(), indent=2, allow_nan=False) + "\n"
        if output_format == "json"
        else f"{_printable(str(found))}\n"
    )
    return 0 if found else 1


def _printable(text: str) -> str:
    """Text with names from files, its own line breaks left in it."""
    return "\n".join(map(printable, text.split("\n")))


def _stated(text: str) -> dict[str, Any]:
    """What --inputs states, by name: a number, a shape, or a shape with a type."""
    import numpy as np

    from dmlgather.dialects.problem import TensorType

    found: dict[str, Any] = {}
    for part in filter(None, (each.strip() for each in text.split(","))):
        match = re.fullmatch(r"(?P<name>.+)=(?P<sizes>\d+(x\d+)*)?(:(?P<dtype>\w+))?", part, re.ASCII)
        if match is None:
            raise typer.BadParameter(f"expected NAME=SIZES, such as ids=1x128 or seq=128, got {part!r}", param_hint="'--inputs'")
        sizes = tuple(map(int, (match["sizes"] or "").split("x"))) if match["sizes"] else ()
        if match["dtype"]:
            try:
                found[match["name"]] = TensorType(sizes, np.dtype(match["dtype"]))
            except TypeError:
                raise typer.BadParameter(f"{match['dtype']!r} is no data type of NumPy", param_hint="'--inputs'") from None
        else:
            found[match["name"]] = sizes[0] if len(sizes) == 1 else sizes
    return found
