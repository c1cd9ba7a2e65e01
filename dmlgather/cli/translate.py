"""`dmlgather translate`: descriptors and DxDispatch models as ONNX models."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dmlgather.cli.common import AllowOutside, AsJson, JsonOutput, in_options, read_program_file
from dmlgather.cli.failures import say
from dmlgather.cli.limiting import RUNS, limited
from dmlgather.output import put
from dmlgather.wording import printable, printable_lines

if TYPE_CHECKING:
    from dmlgather.translation.translating import Translation


@limited("file", least=RUNS)
def translate(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="A DxDispatch model or a descriptor (.json), or descriptors on lines (.jsonl).",
            show_default=False,
        ),
    ],
    *,
    to: Annotated[str, typer.Option("--to", metavar="LIBRARY", help="The library: onnx.")] = "onnx",
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="FILE", help="Where to write the model (.onnx).", show_default=False),
    ] = None,
    as_json: AsJson = False,
    opset: Annotated[int | None, typer.Option(min=1, help="Of ONNX: the opset; 13 by default.", show_default=False)] = None,
    allow_outside: AllowOutside = False,
) -> int:
    """State descriptors or a DxDispatch model as an ONNX model, and check by running both that it does the same.

    Standard output says for each operator what it becomes, and where it was checked: DirectML's side runs in the reference
    backend, the ONNX model in onnx's reference evaluator and, where it can be imported, in onnxruntime. Outputs are compared bit
    for bit, at every boundary of the indices. Then the same of the whole model. Found equal is not proven.

    The ONNX model has the initial values of a DxDispatch model as defaults of its inputs, so that it runs as it stands. An index
    that DirectML clamps goes through a Clip node.

    Of descriptors on lines, those that are wrong, or of other operators, are named on standard error and left out.

    A file is written only for a translation that is found equal, and never over a file that the model is read from.

    Exit codes: 0 translated and equal, 1 different, not checked, refused or left out, 2 something could not be understood or
    written.
    """
    from dmlgather.dialects.problem import Problem
    from dmlgather.dialects.views import ViewProblem
    from dmlgather.files import check_spared
    from dmlgather.input_files import InputFiles
    from dmlgather.translation import translate as translation_of

    if to != "onnx":
        raise typer.BadParameter(f"expected onnx, got {to!r}", param_hint="'--to'")
    if output is not None and output.suffix.lower() != ".onnx":
        name = printable(str(output))
        raise typer.BadParameter(f"expected a file that ends in .onnx, got '{name}'", param_hint="'--output'")
    if output is not None and output.is_dir():
        raise typer.BadParameter(f"must be a file; {printable(str(output))} is a folder", param_hint="'--output'")
    made_from = InputFiles((file,))
    if output is not None:
        check_spared([output], made_from)
    source, left = read_program_file(file, allow_outside)
    if not source.graph.outputs and left.code:
        if left.lines:
            say(f"{file}: nothing is left to translate" + (f", and '{output}' is not written" if output is not None else ""))
        return left.code
    if not source.graph.outputs:
        say(f"{file}: no dispatch writes a resource, so there is nothing to translate")
        return 2
    try:
        whole = translation_of(source.graph, opset=opset, initial=source.initial)
    except (TypeError, ValueError) as error:  # an unknown opset
        raise typer.BadParameter(in_options(error), param_hint="'--opset'") from None
    told = _Told(as_json)
    for step in source.graph.steps:
        if isinstance(step.work, Problem) and not isinstance(step.work, ViewProblem):
            told.part(step.name, translation_of(step.work, opset=opset))
    told.whole(f"{file} to {whole.to}{left}", whole)
    written: str | None = None
    if output is not None and not whole.ok:
        why = "refused" if whole.check is None else whole.check.verdict
        say(f"'{output}' is not written: the translation is {why}")
    elif output is not None:
        new = not output.parent.exists()
        whole.write(output, made_from)
        say(f"Written to '{output}'" + (f", in the new folder '{output.parent}'" if new else ""))
        written = str(output)
    *parts, all_of_it = told.parts
    ends = {"parts": parts, "whole": {**all_of_it, "name": str(file)}, "written": written}
    JsonOutput(as_json).write(lambda: {"file": str(file), "to": whole.to, "left_out": left.lines, **ends})
    return max(left.code, 0 if told.clean else 1)


class _Told:
    """What became of each part, which is printed unless all is going to be JSON. clean: whether all of it is found equal."""

    def __init__(self, quiet: bool) -> None:
        self.quiet, self.clean = quiet, True
        self.parts: list[dict[str, Any]] = []

    def part(self, name: str, made: Translation) -> None:
        """Tell of an operator."""
        self._tell(name, made, "" if made.form is None else f"  {', '.join(made.steps) or 'nothing is to be done'}\n")

    def whole(self, name: str, made: Translation) -> None:
        """Tell of the whole model."""
        self._tell(name, made, "")

    def _tell(self, name: str, made: Translation, done: str) -> None:
        self.clean &= made.ok
        if self.quiet:
            check = None if made.check is None else made.check.to_json()
            refused = made.reason if made.form is None else None
            self.parts.append({"name": name, "ok": made.ok, "steps": list(made.steps), "refused": refused, "check": check})
        else:
            self.parts.append({})
            found = f"refused: {made.reason}" if made.check is None else str(made.check)
            put(f"{printable(name)}\n{done}  {printable_lines(found)}\n")
