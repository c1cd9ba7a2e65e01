"""The subcommand `translate`: convert descriptors and DxDispatch models to ONNX models."""

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
            help="A DxDispatch model or a descriptor (.json), or a stream of descriptors (.jsonl).",
            show_default=False,
        ),
    ],
    *,
    to: Annotated[str, typer.Option("--to", metavar="LIBRARY", help="The target: onnx.")] = "onnx",
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="FILE", help="File to write (.onnx).", show_default=False),
    ] = None,
    as_json: AsJson = False,
    opset: Annotated[int | None, typer.Option(min=1, help="ONNX opset. Default: 13.", show_default=False)] = None,
    allow_outside: AllowOutside = False,
) -> int:
    """Convert descriptors or a DxDispatch model to an ONNX model, and check it by running both.

    Standard output has the ONNX operators and the result of the check for each operator, then for the whole model. The original
    runs in the reference backend, the ONNX model in onnx's reference evaluator and, if installed, in onnxruntime. Outputs are
    compared bit for bit, with indices at every boundary. Equal results do not prove that the original and the ONNX model are
    equivalent.

    The initial values of a DxDispatch model become defaults of the ONNX model's inputs, so that the ONNX model runs without
    further inputs. Clip nodes clamp indices as DirectML does.

    Lines of a stream that are invalid or describe another operator are named on standard error and left out.

    A file is written only if the results were equal, and never over an input file.

    Exit codes: 0 translated and equal; 1 different, not checked, refused or left out; 2 a file could not be read or written.
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
    source, left_out = read_program_file(file, allow_outside, "translate")
    if not source.graph.outputs and left_out.code:
        if left_out.lines:
            say(f"{file}: nothing is left to translate" + (f", and '{output}' is not written" if output is not None else ""))
        return left_out.code
    if not source.graph.outputs:
        say(f"{file}: no dispatch writes a resource, so there is nothing to translate")
        return 2
    try:
        whole = translation_of(source.graph, opset=opset, initial=source.initial)
    except (TypeError, ValueError) as error:  # an unknown opset
        raise typer.BadParameter(in_options(error), param_hint="'--opset'") from None
    results = _Results(as_json)
    for step in source.graph.steps:
        if isinstance(step.work, Problem) and not isinstance(step.work, ViewProblem):
            results.add_operator(step.name, translation_of(step.work, opset=opset))
    results.add(f"{file} to {whole.to}{left_out}", whole)
    written: str | None = None
    if output is not None and not whole.ok:
        why = "refused" if whole.check is None else whole.check.verdict
        say(f"'{output}' is not written: the translation is {why}")
    elif output is not None:
        new = not output.parent.exists()
        whole.write(output, made_from)
        say(f"Written to '{output}'" + (f", in the new folder '{output.parent}'" if new else ""))
        written = str(output)
    *parts, model = results.json
    document = {"parts": parts, "whole": {**model, "name": str(file)}, "written": written}
    JsonOutput(as_json).write(lambda: {"file": str(file), "to": whole.to, "left_out": left_out.lines, **document})
    return max(left_out.code, 0 if results.ok else 1)


class _Results:
    """The translations of the operators and of the whole model.

    `ok`: True as long as every translation gave the same results as its original.
    """

    def __init__(self, as_json: bool) -> None:
        self.as_json, self.ok = as_json, True
        self.json: list[dict[str, Any]] = []

    def add_operator(self, name: str, translation: Translation) -> None:
        steps = "" if translation.form is None else f"  {', '.join(translation.steps) or 'nothing is to be done'}\n"
        self.add(name, translation, steps)

    def add(self, name: str, translation: Translation, steps: str = "") -> None:
        ok, check = translation.ok, translation.check
        self.ok &= ok
        if self.as_json:
            refused = translation.reason if translation.form is None else None
            result = None if check is None else check.to_json()
            self.json.append({"name": name, "ok": ok, "steps": list(translation.steps), "refused": refused, "check": result})
        else:
            self.json.append({})
            text = f"refused: {translation.reason}" if check is None else str(check)
            put(f"{printable(name)}\n{steps}  {printable_lines(text)}\n")
