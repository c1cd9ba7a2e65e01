"""`dmlgather translate`: a model in the operators of another library."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dmlgather.cli import common
from dmlgather.cli.common import (
    AllowOutside,
    AsJson,
    JsonOutput,
    LeftOut,
    StatedInputs,
    in_options,
    load,
    read_lines,
    stated_inputs,
)
from dmlgather.cli.failures import say
from dmlgather.cli.limiting import limited
from dmlgather.output import put
from dmlgather.wording import alternatives, printable

if TYPE_CHECKING:
    from dmlgather.translation.directml_sources import TranslatableFile
    from dmlgather.translation.translating import Translation


@limited("file")
def translate(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="A DxDispatch model or a descriptor (.json), descriptors on lines (.jsonl), an ONNX model, an OpenVINO IR.",
            show_default=False,
        ),
    ],
    *,
    to: Annotated[
        str,
        typer.Option(
            "--to",
            metavar="LIBRARY",
            help="onnx, openvino, jax or directml.",
            show_default=False,
            autocompletion=common.libraries,
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            metavar="FILE",
            help="Where to write the translation: .onnx, .xml (with .bin beside it), .jax (what jax.export wrote) or .json.",
            show_default=False,
        ),
    ] = None,
    as_json: AsJson = False,
    opset: Annotated[int | None, typer.Option(min=1, help="Of ONNX: the opset; 13 by default.", show_default=False)] = None,
    version: Annotated[
        int | None, typer.Option(min=1, help="Of OpenVINO: the operation set; 16 by default.", show_default=False)
    ] = None,
    level: Annotated[
        str | None,
        typer.Option(
            help="Of DirectML: the feature level; 6_4 by default.", show_default=False, autocompletion=common.feature_levels
        ),
    ] = None,
    inputs: StatedInputs = None,
    allow_outside: AllowOutside = False,
) -> int:
    """Translate a model that consists of gathers, slices, DepthToSpace, SpaceToDepth and views to another library.

    Standard output says for each operator what it becomes, and what was proven: that both give the same bits and the same errors
    for all inputs, or for those without an index out of range. Then the same of the whole model.

    An ONNX model has the initial values of a DxDispatch model as defaults of its inputs, so that it runs as it stands. An index
    that DirectML clamps goes through a Clip node.

    Of descriptors on lines, those that are wrong, or of other operators, are named on standard error and left out.

    A file is written only for a translation that is proven, and never over a file that the model is read from.

    Exit codes: 0 translated and proven, 1 not proven, refused or left out, 2 something could not be understood or written.
    """
    from dmlgather.dialects.problem import Problem
    from dmlgather.dialects.views import ViewProblem
    from dmlgather.input_files import InputFiles
    from dmlgather.translation import translate as translation_of
    from dmlgather.translation.libraries import TARGETS
    from dmlgather.translation.targets import UntranslatableError
    from dmlgather.translation.writing import KINDS, write

    if to not in KINDS:
        raise typer.BadParameter(f"expected {alternatives(KINDS)}, got {to!r}", param_hint="'--to'")
    if output is not None and output.suffix.lower() != KINDS[to].suffix:
        name = printable(str(output))
        raise typer.BadParameter(f"expected a file that ends in {KINDS[to].suffix}, got '{name}'", param_hint="'--output'")
    given = {"opset": opset, "version": version, "level": level}
    chosen: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    for name in chosen:
        if name != TARGETS[to].option:
            owner = next(library for library, row in TARGETS.items() if row.option == name)
            own = f"--{TARGETS[to].option}" if TARGETS[to].option else "no versions"
            raise typer.BadParameter(f"--{name} belongs to --to {owner}; --to {to} has {own}", param_hint=f"'--{name}'")
    made_from = InputFiles((file,))
    if output is not None:
        KINDS[to].check(output, made_from)
    source, left = _read(file, allow_outside, stated_inputs(inputs))
    if not source.graph.outputs and left.code:
        if left.lines:
            say(f"{file}: nothing is left to translate" + (f", and '{output}' is not written" if output is not None else ""))
        return left.code
    if not source.graph.outputs:
        say(f"{file}: no dispatch writes a resource, so there is nothing to translate")
        return 2
    try:
        whole = translation_of(source.graph, to, **chosen)
    except (TypeError, ValueError) as error:  # an unknown version
        raise typer.BadParameter(in_options(error), param_hint=" / ".join(f"'--{name}'" for name in chosen)) from None
    told = _Told(as_json)
    for step in source.graph.steps:
        if isinstance(step.work, Problem) and not isinstance(step.work, ViewProblem):
            told.part(step.name, translation_of(step.work, to, **chosen))
    told.whole(f"{file} to {whole.to}{left}", whole)
    written: str | None = None
    lost: tuple[str, ...] = ()
    if output is not None and not whole.ok:
        say(f"'{output}' is not written: the translation is {'refused' if whole.form is None else 'not proven'}")
    elif output is not None:
        try:
            write(whole, source.initial, output, made_from)
        except UntranslatableError as error:
            say(f"'{output}' is not written: {error}")
            told.clean = False
        else:
            say(f"Written to '{output}'")
            written, lost = str(output), tuple(source.dropped(output)) if to == "directml" else ()
        for part in lost:
            say(f"Not kept of '{file}': {part}")
    *parts, all_of_it = told.parts
    ends = {"parts": parts, "whole": {**all_of_it, "name": str(file)}, "written": written, "not_kept": list(lost)}
    JsonOutput(as_json).write(lambda: {"file": str(file), "to": whole.to, "left_out": left.lines, **ends})
    return max(left.code, 0 if told.clean else 1)


def _read(file: Path, allow_outside: bool, inputs: dict[str, Any]) -> tuple[TranslatableFile, LeftOut]:
    """The program that a file holds, and what is left out of it. FileError where it cannot be used."""
    from dmlgather.files import STREAMS, FileError
    from dmlgather.graph_sources import read_program
    from dmlgather.translation.directml_sources import TranslatableFile, of_checked

    if inputs and file.suffix.lower() in {*STREAMS, ".json"}:
        raise typer.BadParameter(f"'{printable(str(file))}' leaves no size open: leave it out", param_hint="'--inputs'")
    if file.suffix.lower() in STREAMS:
        graph, left = read_lines(file)
        return TranslatableFile(graph), left
    if file.suffix.lower() == ".json":
        return of_checked(load(file, allow_outside)), LeftOut()
    try:
        return TranslatableFile(read_program(file, inputs=inputs).graph), LeftOut()
    except (TypeError, ValueError) as error:  # sizes that are not known, or a node that breaks a rule
        raise FileError(f"{file}: {in_options(error)}") from None


class _Told:
    """What became of each part, which is printed unless all is going to be JSON. clean: whether all of it is proven."""

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
            proof = None if made.proof is None else made.proof.to_json()
            refused = made.reason if made.form is None else None
            self.parts.append({"name": name, "ok": made.ok, "steps": list(made.steps), "refused": refused, "proof": proof})
        else:
            self.parts.append({})
            put(f"{printable(name)}\n{done}  {made.proof if made.form is not None else f'refused: {made.reason}'}\n")
