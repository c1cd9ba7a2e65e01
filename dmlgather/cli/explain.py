"""`dmlgather explain`: plans, kernels and traffic of descriptors and of the nodes of models."""

from __future__ import annotations

from codecs import getincrementaldecoder
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dmlgather.cli.common import AllowOutside, AsJson, JsonFile, JsonOutput, load
from dmlgather.cli.explained_nodes import STATED, load_nodes, places, subject_of
from dmlgather.cli.failures import say
from dmlgather.cli.limiting import limited
from dmlgather.output import put

if TYPE_CHECKING:
    from dmlgather.directml.dxdispatch.model_file import CheckedFile
    from dmlgather.explain import Explanation
    from dmlgather.picture import Subject

MOST_PICTURES = 20
"""Dispatchables that one picture shows."""


@limited("file")
def explain(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="A DxDispatch model, a single descriptor, an ONNX model (.onnx) or an OpenVINO IR (.xml).",
            show_default=False,
        ),
    ],
    *,
    as_json: AsJson = False,
    output: JsonFile = None,
    legend: Annotated[bool, typer.Option("--legend", help="Also say what the words and names in the output mean.")] = False,
    picture: Annotated[
        Path | None, typer.Option(metavar="FILE.svg", help="Also draw what is read and written, as SVG.", show_default=False)
    ] = None,
    only: Annotated[
        str | None,
        typer.Option(
            "--only", "--node", metavar="NAME", help="Of a model, only this dispatchable, or this node.", show_default=False
        ),
    ] = None,
    allow_outside: AllowOutside = False,
) -> int:
    """Show for each operator of a file: plan, canonical plan, what each device would run, bytes moved, lowest feature level.

    Of an ONNX model or an OpenVINO IR, each gather, slice, DepthToSpace and SpaceToDepth is explained whose types and sizes are
    known. For another one, a line says why not.

    A picture shows the index values that a model gives to its first dispatch, or the constants of its node, and the values of a
    small input; for a descriptor it invents a few indices. Of an ONNX model or an IR, it shows one node.

    Exit codes: 0 shown, 1 the file has errors, 2 it could not be understood or the picture could not be written.
    """
    from dmlgather.input_files import InputFiles
    from dmlgather.wording import printable

    if picture is not None and picture.suffix.lower() != ".svg":
        raise typer.BadParameter(
            f"expected a file that ends in .svg, got '{printable(str(picture))}': pictures are SVG", param_hint="'--picture'"
        )
    if as_json and legend:
        raise typer.BadParameter("give one of --json and --legend: the legend is text", param_hint="'--legend'")
    written = JsonOutput(as_json, output, InputFiles((file,)), [picture])
    if file.suffix.lower() in STATED:
        return _explain_nodes(file, written, legend, picture, only)
    if not _is_text(file):
        say(f"{file}: is not UTF-8 text; expected a model or a descriptor (JSON), an ONNX model (.onnx) or an IR (.xml)")
        return 2
    checked = load(file, allow_outside, executes=False)
    explanations = _of_descriptors(checked, only)
    if picture is not None:
        _draw_model(checked, explanations, picture)
    written.write(lambda: [{"name": name, **explanation.to_json()} for name, explanation in explanations.items()])
    if as_json:
        return 0
    blocks = [(f"dispatchable '{printable(name)}'\n" if name else "") + str(each) for name, each in explanations.items()]
    _write(blocks, legend)
    return 0


def _is_text(file: Path) -> bool:
    """Whether the file is text, or called so; what cannot be read is reported where text is read."""
    if file.suffix.lower() != ".json" and file.is_file():
        with suppress(OSError), file.open("rb") as opened:
            try:
                getincrementaldecoder("utf-8")().decode(opened.read(4096))
            except UnicodeDecodeError:
                return False
    return True


def _explain_nodes(file: Path, written: JsonOutput, legend: bool, picture: Path | None, only: str | None) -> int:
    from dmlgather.directml.types import FeatureLevel
    from dmlgather.report.node_lines import line

    model, nodes = load_nodes(file, only)
    if not nodes:
        say(f"{file}: no indexing operators, so there is nothing to explain")
    if picture is not None and nodes:
        if len(nodes) > 1:
            raise typer.BadParameter(
                f"a picture shows one node, and the model has {len(nodes)}: select one with --node, of {places(model.nodes)}",
                param_hint="'--picture'",
            )
        subject = subject_of(model, nodes[0])
        if subject is None:
            say(f"{file}: {nodes[0].node.place} cannot be drawn: {nodes[0].reason}")
            return 2
        _draw([subject], picture, file)
    written.write(
        lambda: [
            {"name": each.node.place, **({"reason": each.reason} if each.explanation is None else each.explanation.to_json())}
            for each in nodes
        ]
    )
    if not written.printed:
        _write(
            [
                f"{line(each.node, FeatureLevel.LEVEL_6_4)}\n{each.explanation or f'not explained: {each.reason}'}"
                for each in nodes
            ],
            legend,
        )
    return 1 if any(each.refused for each in nodes) else 0


def _write(blocks: list[str], legend: bool) -> None:
    """Blocks of text, apart from each other, and what their words mean."""
    from dmlgather.legend import legend as legend_of
    from dmlgather.legend import printed

    text = "\n\n".join(blocks)
    blocks = [*blocks, printed(legend_of(text))] if legend and blocks else blocks
    put("".join(f"{block}\n" for block in ("\n\n".join(blocks),) if block))


def _of_descriptors(checked: CheckedFile, only: str | None) -> dict[str, Explanation]:
    from dmlgather.operator import compile as compile_operator

    names = list(checked.dispatchables)
    if only is not None:
        if only not in names or checked.kind != "model":
            known = ", ".join(map(repr, names[:MOST_PICTURES])) if checked.kind == "model" else "none: it is a single descriptor"
            raise typer.BadParameter(f"expected a dispatchable of the file ({known}), got {only!r}", param_hint="'--only'")
        names = [only]
    return {name: compile_operator(checked.dispatchables[name].desc).explain() for name in names}


def _draw_model(checked: CheckedFile, explanations: Mapping[str, Explanation], target: Path) -> None:
    from dmlgather.picture.model_values import with_initial_values
    from dmlgather.wording import printable

    if not explanations:
        say(f"{checked.file}: no dispatchables, so there is nothing to draw")
        return
    shown = list(explanations.items())[:MOST_PICTURES]
    subjects = [(name, explanation.subject(printable(name))) for name, explanation in shown]
    drawn = [with_initial_values(subject, checked, name) if name else subject for name, subject in subjects]
    _draw(drawn, target, Path(checked.file))
    if len(explanations) > MOST_PICTURES:
        say(f"The picture shows the first {MOST_PICTURES} of {len(explanations)} dispatchables; --only NAME draws another")


def _draw(subjects: list[Subject], target: Path, file: Path) -> None:
    """Write the picture of what `file` holds."""
    from dmlgather.input_files import InputFiles
    from dmlgather.picture import draw
    from dmlgather.written_files import writing

    with writing(target, InputFiles((file,))) as stream:
        stream.write(draw(*subjects).encode())
    say(f"Picture written to '{target}'")
