"""`dmlgather translate`: a model in the operators of another library."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dmlgather.cli.common import AllowOutside, StatedInputs, hint, load, stated_inputs
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
    to: Annotated[str, typer.Option("--to", metavar="LIBRARY", help="onnx, openvino, jax or directml.", show_default=False)],
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
    opset: Annotated[int | None, typer.Option(min=1, help="Of ONNX: the opset; 13 by default.", show_default=False)] = None,
    version: Annotated[
        int | None, typer.Option(min=1, help="Of OpenVINO: the operation set; 16 by default.", show_default=False)
    ] = None,
    level: Annotated[str | None, typer.Option(help="Of DirectML: the feature level; 6_4 by default.", show_default=False)] = None,
    inputs: StatedInputs = None,
    allow_outside: AllowOutside = False,
) -> int:
    """Translate a model that consists of gathers, slices, DepthToSpace, SpaceToDepth and views to another library.

    Standard output says for each operator what it becomes, and what was proven: that both give the same bits and the same errors
    for all inputs, or for those without an index out of range. Then the same of the whole model.

    An ONNX model has the initial values of a DxDispatch model as defaults of its inputs, so that it runs as it stands. An index
    that DirectML clamps goes through a Clip node.

    A file is written only for a translation that is proven, and never over a file that the model is read from.

    Exit codes: 0 translated and proven, 1 not proven, or refused, 2 the file could not be understood or written.
    """
    from dmlgather.dialects.problem import Problem
    from dmlgather.dialects.views import ViewProblem
    from dmlgather.input_files import InputFiles
    from dmlgather.translation import translate as translation_of
    from dmlgather.translation.targets import UntranslatableError
    from dmlgather.translation.writing import KINDS, write

    if to not in KINDS:
        raise typer.BadParameter(f"expected {alternatives(KINDS)}, got {to!r}", param_hint="'--to'")
    if output is not None and output.suffix.lower() != KINDS[to].suffix:
        name = printable(str(output))
        raise typer.BadParameter(f"expected a file that ends in {KINDS[to].suffix}, got '{name}'", param_hint="'--output'")
    given = {"opset": opset, "version": version, "level": level}
    chosen: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    made_from = InputFiles((file,))
    if output is not None:
        KINDS[to].check(output, made_from)
    source = _read(file, allow_outside, stated_inputs(inputs))
    if not source.graph.outputs:
        say(f"{file}: no dispatch writes a resource, so there is nothing to translate")
        return 2
    try:
        whole = translation_of(source.graph, to, **chosen)
    except ModuleNotFoundError as error:
        say(f"dmlgather: {error}")
        return 2
    except (TypeError, ValueError) as error:  # a version of another library, or an unknown one
        raise typer.BadParameter(str(error), param_hint=" / ".join(f"'--{name}'" for name in chosen)) from None
    clean = True
    for step in source.graph.steps:
        if isinstance(step.work, Problem) and not isinstance(step.work, ViewProblem):
            clean &= _tell(step.name, translation_of(step.work, to, **chosen))
    clean &= _tell(f"{file} to {whole.to}", whole, steps=False)
    if output is not None and not whole.ok:
        say(f"'{output}' is not written: the translation is {'refused' if whole.form is None else 'not proven'}")
    elif output is not None:
        try:
            write(whole, source.initial, output, made_from)
        except UntranslatableError as error:
            say(f"'{output}' is not written: {error}")
            return 1
        say(f"Written to '{output}'")
        for part in source.dropped(output) if to == "directml" else ():
            say(f"Not kept of '{file}': {part}")
    return 0 if clean else 1


def _read(file: Path, allow_outside: bool, inputs: dict[str, Any]) -> TranslatableFile:
    """The program that a file holds. FileError where it cannot be used."""
    from dmlgather.directml.dxdispatch.descriptor_lines import SUFFIXES
    from dmlgather.files import FileError
    from dmlgather.graph_sources import read_program
    from dmlgather.translation.directml_sources import TranslatableFile, of_checked

    if inputs and file.suffix.lower() in {*SUFFIXES, ".json"}:
        raise typer.BadParameter(f"'{printable(str(file))}' leaves no size open: leave it out", param_hint="'--inputs'")
    if file.suffix.lower() in SUFFIXES:
        return TranslatableFile(read_program(file).graph)
    if file.suffix.lower() == ".json":
        return of_checked(load(file, allow_outside))
    try:
        return TranslatableFile(read_program(file, inputs=inputs).graph)
    except (TypeError, ValueError) as error:  # sizes that are not known, or a node that breaks a rule
        raise FileError(f"{file}: {error}{hint(error)}") from None


def _tell(name: str, made: Translation, *, steps: bool = True) -> bool:
    """Print what became of a part; whether that is proven."""
    if made.form is None:
        put(f"{printable(name)}\n  refused: {made.reason}\n")
        return False
    done = f"  {', '.join(made.steps) or 'nothing is to be done'}\n" if steps else ""
    put(f"{printable(name)}\n{done}  {made.proof}\n")
    return bool(made.proof)
