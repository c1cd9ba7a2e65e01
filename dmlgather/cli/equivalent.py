"""`dmlgather equivalent`: whether two models index alike."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from dmlgather.cli.common import AsJson, JsonFile, JsonOutput, LeftOut, StatedInputs, in_options, note, read_lines, stated_inputs
from dmlgather.cli.failures import say
from dmlgather.cli.limiting import limited
from dmlgather.output import put
from dmlgather.wording import alternatives, printable

FORMATS = ("text", "json")
"""The values of --output-format, an older spelling of --json."""

OLDER = "--output-format json is now spelled --json, as in all commands; both work"
"""What is said of it."""


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
    strict: Annotated[bool, typer.Option("--strict", help="Assume nothing of operators that do not index.")] = False,
    as_json: AsJson = False,
    output: JsonFile = None,
    output_format: Annotated[str, typer.Option(hidden=True)] = "text",
) -> int:
    """Prove that two models index alike, or show inputs for which they do not.

    "proven": for all inputs of these shapes, both raise, or both write the same bits. "different": with inputs, the first element
    that differs, and where both values come from. "not proven": with the first step that stops the proof. Operators that do not
    index are not looked into: they give the same where operator, attributes and inputs are equal. A proof lists what it assumes
    of them: that both libraries give the same bits for an operator that they share, such as Softmax, and that an operator that
    no output needs raises nothing.

    Inputs are matched by name where the names of one model are among those of the other, else by position.

    Of descriptors on lines, those that are wrong, or of other operators, are named on standard error and left out.

    Exit codes: 0 proven, 1 different, not proven or left out, 2 something could not be understood.
    """
    from dmlgather.equivalence import ASSUMPTIONS
    from dmlgather.equivalence import equivalent as decided
    from dmlgather.files import STREAMS
    from dmlgather.graph_sources import ReadProgram
    from dmlgather.input_files import InputFiles

    for option, value, known in (("--given", given, ("any", "valid")), ("--output-format", output_format, FORMATS)):
        if value not in known:
            raise typer.BadParameter(f"expected {alternatives(known)}, got {value!r}", param_hint=f"'{option}'")
    if output_format == "json":
        note(OLDER)
    written = JsonOutput(as_json or output_format == "json", output, InputFiles((first, second)))
    stated = stated_inputs(inputs)
    programs: list[Any] = [first, second]
    left = [LeftOut(), LeftOut()]
    for place, file in enumerate((first, second)):
        if file.suffix.lower() in STREAMS:
            graph, left[place] = read_lines(file)
            programs[place] = ReadProgram(graph, buffers=True)
            if not graph.outputs:
                if left[place].lines:
                    say(f"{file}: nothing is left to compare")
                return left[place].code
    try:
        assume = () if strict else ASSUMPTIONS
        found = decided(*programs, inputs=stated, given="valid" if given == "valid" else "any", assume=assume)
    except (TypeError, ValueError) as error:  # of what a model leaves open, or of a node that breaks a rule
        say(f"dmlgather: {in_options(error)}")
        return 2
    if not written.printed:
        verdict, *more = map(printable, str(found).split("\n"))
        verdict += "".join(
            f"{each} of {printable(str(file))}" for file, each in zip((first, second), left, strict=True) if each.lines
        )
        put("\n".join([verdict, *more, ""]))
    written.write(lambda: {**found.to_json(), "left_out": sum(each.lines for each in left)})
    return max(0 if found else 1, *(each.code for each in left))
