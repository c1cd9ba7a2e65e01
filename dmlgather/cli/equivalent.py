"""`dmlgather equivalent`: whether two models index alike."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from dmlgather.cli.common import StatedInputs, hint, stated_inputs
from dmlgather.cli.failures import say
from dmlgather.cli.limiting import limited
from dmlgather.output import put
from dmlgather.wording import alternatives, printable

FORMATS = ("text", "json")


@limited("first", "second")
def equivalent(
    first: Annotated[
        Path,
        typer.Argument(
            metavar="A",
            help="An ONNX model (.onnx), an OpenVINO IR (.xml), a DxDispatch model or a descriptor (.json), descriptors on lines "
            "(.jsonl), or a function that jax.export wrote (.jax).",
            show_default=False,
        ),
    ],
    second: Annotated[Path, typer.Argument(metavar="B", help="Another one, of the same kind or not.", show_default=False)],
    *,
    inputs: StatedInputs = None,
    given: Annotated[
        str,
        typer.Option(
            metavar="INPUTS",
            help="any: for all inputs. valid: only for inputs for which no index of A is out of range; there B must not raise.",
        ),
    ] = "any",
    strict: Annotated[
        bool, typer.Option("--strict", help="Assume of no operator that two libraries give the same bits for it.")
    ] = False,
    output_format: Annotated[str, typer.Option(metavar="FORMAT", help="text or json.")] = "text",
) -> int:
    """Prove that two models index alike, or show inputs for which they do not.

    "proven": for all inputs of these shapes, both raise, or both write the same bits. "different": with inputs, the first element
    that differs, and where both values come from. "not proven": with the first step that stops the proof. Operators that do not
    index are not looked into: they give the same where operator, attributes and inputs are equal, and are taken not to raise.
    Where models of two libraries share an operator, such as Softmax, a proof assumes that both give the same bits, and says so.

    Inputs are matched by name where the names of one model are among those of the other, else by position.

    Exit codes: 0 proven, 1 different or not proven, 2 a file could not be understood.
    """
    from dmlgather.equivalence import ASSUMPTIONS
    from dmlgather.equivalence import equivalent as decided

    for option, value, known in (("--given", given, ("any", "valid")), ("--output-format", output_format, FORMATS)):
        if value not in known:
            raise typer.BadParameter(f"expected {alternatives(known)}, got {value!r}", param_hint=f"'{option}'")
    stated = stated_inputs(inputs)
    try:
        assume = () if strict else ASSUMPTIONS
        found = decided(first, second, inputs=stated, given="valid" if given == "valid" else "any", assume=assume)
    except (TypeError, ValueError) as error:  # of what a model leaves open, or of a node that breaks a rule
        say(f"dmlgather: {error}{hint(error)}")
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
