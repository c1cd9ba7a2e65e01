"""The subcommand `explain`: show plans, kernels and memory traffic of descriptors and of the nodes of ONNX models."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dmlgather.cli.common import AllowOutside, AsJson, JsonFile, JsonOutput, load
from dmlgather.cli.failures import say
from dmlgather.cli.limiting import limited
from dmlgather.output import put

if TYPE_CHECKING:
    from dmlgather.diagram import Subject
    from dmlgather.diagram.explanation import Explanation
    from dmlgather.directml.dxdispatch.model_file import CheckedFile
    from dmlgather.directml.findings import Finding
    from dmlgather.onnx_checking.checked_model import CheckedModel, CheckedNode, CheckedTensor


EXAMPLE = 8
"""A size in advice about --size."""

MOST_DIGITS = 18
"""Numbers of this length fit into 64 bits."""


@dataclass(frozen=True, slots=True)
class ExplainedNode:
    """A node of an ONNX model with its explanation, or with the reason why there is none.

    `refused`: True if the reason is a broken rule.
    """

    node: CheckedNode
    explanation: Explanation | None
    reason: str = ""
    refused: bool = False


def load_nodes(path: Path, only: str | None, sizes: Mapping[str, int]) -> tuple[CheckedModel, list[ExplainedNode]]:
    """Read an ONNX model and explain its nodes. End the command with exit code 2 if it cannot be read."""
    from dmlgather.directml.types import FeatureLevel
    from dmlgather.onnx_checking.check import check_model

    model = check_model(path, FeatureLevel.LEVEL_6_4, include_host=True, given=sizes)
    for problem in model.problems:
        say(problem)
    if model.problems:
        raise typer.Exit(2)
    nodes = [node for node in model.nodes if only is None or only in (node.place, node.name)]
    if only is not None and len(nodes) != 1:
        got = f"{len(nodes)} nodes of that name" if nodes else repr(only)
        raise typer.BadParameter(f"expected one of {places(model.nodes)}, got {got}", param_hint="'--node'")
    known = dict.fromkeys(chain.from_iterable(model.symbols.values()))
    if foreign := [name for name in sizes if name not in known]:
        expected = ", ".join(map(repr, known)) or "none: the model has no unknown sizes"
        raise typer.BadParameter(f"expected a size of the model ({expected}), got {foreign[0]!r}", param_hint="'--size'")
    return model, [_explained(model, node, sizes) for node in nodes]


def subject_of(model: CheckedModel, explained: ExplainedNode) -> Subject | None:
    """Return what a diagram of the node shows, with the model's constants."""
    from dmlgather.diagram.subject import MOST_VALUES
    from dmlgather.wording import printable

    if explained.explanation is None:
        return None
    call = model.calls[explained.node.place]
    subject = explained.explanation.subject(explained.node.place)
    indices, data = (call.values.get(role) for role in ("indices", "data"))
    if subject.indices is not None and indices is not None:
        name = next(tensor.name for tensor in explained.node.inputs if tensor.role == "indices")
        subject = subject.with_values(indices, f"the constant '{printable(name)}'")
    return subject if data is None or data.size > MOST_VALUES else subject.with_elements(data)


def places(nodes: tuple[CheckedNode, ...], most: int = 20) -> str:
    """Return the paths of the first nodes in the model, as text. `most`: the maximum number of paths."""
    names = ", ".join(repr(node.place) for node in nodes[:most])
    return f"{names}, …" if len(nodes) > most else names or "none: the model has no indexing operators"


def _explained(model: CheckedModel, node: CheckedNode, sizes: Mapping[str, int]) -> ExplainedNode:
    from dmlgather.diagram.explanation import explain_problem
    from dmlgather.onnx_checking.checked_model import Verdict
    from dmlgather.onnx_checking.verdicts import WRONG, lowest_level, refusal
    from dmlgather.wording import amount, printable

    findings = [finding for finding in model.findings if finding.subject == node.place]
    if wrong := [finding for finding in findings if finding.code in (*WRONG, "EXP307")]:
        return ExplainedNode(node, None, _errors(wrong), refused=True)
    call = model.calls.get(node.place)
    if call is not None and not call.problem.data.dtype.hasobject:
        largest = max(prod(tensor.shape) * tensor.dtype.itemsize for tensor in call.problem.tensors)
        if largest >= 2**62:  # the limit of the compiled engine
            return ExplainedNode(
                node, None, f"one of its tensors has {amount(largest)}, which no memory holds: correct its sizes"
            )
        version = "" if node.version is None else f"-{node.version}"
        lowest = lowest_level(call.problem)
        level = None if lowest is None else str(lowest)
        reasons = "; ".join(
            f"{each.code} {each.path}: expected {each.expected}, got {each.got}" for each in refusal(call.problem)
        )
        return ExplainedNode(node, explain_problem(call.problem, f"{node.operator}{version}", level, reasons or None))
    if call is not None:
        return ExplainedNode(node, None, "its data are strings, which have no bytes that a plan could move")
    if node.verdict is Verdict.REFUSED:
        return ExplainedNode(node, None, _errors(findings), refused=True)
    if node.verdict is Verdict.UNKNOWN:
        remedies = "; ".join(dict.fromkeys(finding.remedy for finding in findings))
        return ExplainedNode(node, None, f"the model does not state {' and '.join(node.missing)}: {remedies}")
    if node.verdict is Verdict.UNREACHED:
        return ExplainedNode(node, None, "no run of the model reaches it")
    unknown = list(dict.fromkeys(_unknown_sizes(node.inputs))) or [*_unknown_sizes(node.outputs)]
    made = {printable(name): maker for each in node.conditions for name, maker in each.makers.items() if maker.from_data}
    counts = [f"{size} is {made[size].text}, which only a run shows" for size in unknown if size in made]
    symbols = model.symbols.get(node.place, ())
    if symbols and sizes.keys() >= set(symbols):
        reason = f"it breaks a rule of its operator with {' and '.join(f'{printable(name)} = {sizes[name]}' for name in symbols)}"
        return ExplainedNode(node, None, reason)
    options = " ".join(f"--size {shlex.quote(f'{printable(name)}={sizes.get(name, EXAMPLE)}')}" for name in symbols)
    advice = [f"for example, explain it with {options}"] if options else ["state them in the model"]
    return ExplainedNode(node, None, f"{' and '.join(unknown)} must be known: {'; '.join([*counts, *advice])}")


def _errors(findings: Iterable[Finding]) -> str:
    return "; ".join(f"expected {error.expected}, got {error.got}; fix: {error.remedy}" for error in findings)


def _unknown_sizes(tensors: Iterable[CheckedTensor]) -> Iterator[str]:
    """Yield each unknown rank, size or slice bound of these tensors, as text."""
    from dmlgather.wording import printable

    for tensor in tensors:
        if tensor.shape is None and tensor.values is None:
            yield f"the rank of {tensor.role}"
        for axis, size in enumerate(tensor.shape or ()):
            if not isinstance(size, int):
                yield f"{tensor.role}[{axis}]" if size is None else printable(size)
        yield from (printable(value) for value in tensor.values or () if isinstance(value, str))


MOST_DRAWN = 20
"""Maximum number of dispatchables in one picture."""


@limited("file")
def explain(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="A DxDispatch model, a single descriptor or an ONNX model (.onnx).",
            show_default=False,
        ),
    ],
    *,
    as_json: AsJson = False,
    output: JsonFile = None,
    legend: Annotated[bool, typer.Option("--legend", help="Also explain the words and names in the output.")] = False,
    picture: Annotated[
        Path | None, typer.Option(metavar="FILE.svg", help="Also draw the elements read and written, as SVG.", show_default=False)
    ] = None,
    only: Annotated[
        str | None,
        typer.Option("--only", "--node", metavar="NAME", help="Explain only this dispatchable or node.", show_default=False),
    ] = None,
    size: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=NUMBER",
            help="Explain an ONNX model with this value of an unknown size. May be repeated for other sizes.",
            show_default=False,
        ),
    ] = None,
    allow_outside: AllowOutside = False,
) -> int:
    """Show for each operator of a file: plan, canonical plan, the code that runs it on each device, bytes moved, and the lowest
    feature level.

    In an ONNX model, each gather, slice, DepthToSpace and SpaceToDepth with known types and sizes is explained. For any
    other node of these operators, a line says why it is not explained. --size states a size that the model leaves open.

    A picture shows index values and the values of a small input. They come from the first dispatch of a DxDispatch model, or
    from the constants of an ONNX node; for a descriptor, they are examples. Of an ONNX model, a picture shows one node.

    Exit codes: 0 shown; 1 the file has errors; 2 it could not be read, or the picture could not be written.
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
    if file.suffix.lower() == ".xml" and file.is_file():
        from dmlgather.report.file_check import NO_IR

        say(f"{file}: {NO_IR}")
        return 2
    if file.suffix.lower() == ".onnx":
        return _explain_nodes(file, written, legend, picture, only=only, sizes=_sizes(size or []))
    if size:
        raise typer.BadParameter("is for ONNX models: leave it out", param_hint="'--size'")
    checked = load(file, allow_outside, executes=False)
    explanations = _of_descriptors(checked, only)
    if picture is not None:
        _draw_model(checked, explanations, picture)
    written.write(lambda: [{"name": name, **explanation.to_json()} for name, explanation in explanations.items()])
    if as_json:
        return 0
    blocks = [(f"dispatchable '{printable(name)}'\n" if name else "") + str(text) for name, text in explanations.items()]
    _write_blocks(blocks, legend)
    return 0


def _sizes(options: list[str]) -> dict[str, int]:
    from dmlgather.wording import shortened

    sizes: dict[str, int] = {}
    for option in options:
        name, _, number = option.rpartition("=")
        if not name or not number.isdecimal() or len(number) > MOST_DIGITS:
            expected = f"expected NAME=NUMBER of at most {MOST_DIGITS} digits, such as N=8"
            raise typer.BadParameter(f"{expected}, got {shortened(option, 80)!r}", param_hint="'--size'")
        if name in sizes:
            raise typer.BadParameter(f"expected one value of {name!r}, got {sizes[name]} and {number}", param_hint="'--size'")
        sizes[name] = int(number)
    return sizes


def _explain_nodes(
    file: Path, written: JsonOutput, legend: bool, picture: Path | None, *, only: str | None, sizes: Mapping[str, int]
) -> int:
    from dmlgather.directml import FeatureLevel, Severity
    from dmlgather.report.text import line

    model, nodes = load_nodes(file, only, sizes)
    places_of_nodes = {node.place for node in model.nodes}
    errors = [each for each in model.findings if each.severity is Severity.ERROR and each.subject not in places_of_nodes]
    for error in errors:
        say(error)
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
            {"name": item.node.place, **({"reason": item.reason} if item.explanation is None else item.explanation.to_json())}
            for item in nodes
        ]
    )
    if not written.printed:
        _write_blocks(
            [
                f"{line(item.node, FeatureLevel.LEVEL_6_4)}\n{item.explanation or f'not explained: {item.reason}'}"
                for item in nodes
            ],
            legend,
        )
    return 1 if errors or any(item.refused for item in nodes) else 0


def _write_blocks(blocks: list[str], legend: bool) -> None:
    from dmlgather.diagram.explanation import legend as legend_of
    from dmlgather.diagram.explanation import printed

    text = "\n\n".join(blocks)
    blocks = [*blocks, printed(legend_of(text))] if legend and blocks else blocks
    put("".join(f"{block}\n" for block in ("\n\n".join(blocks),) if block))


def _of_descriptors(checked: CheckedFile, only: str | None) -> dict[str, Explanation]:
    from dmlgather.calls.operator import compile as compile_operator

    names = list(checked.dispatchables)
    if only is not None:
        if only not in names or checked.kind != "model":
            choices = ", ".join(map(repr, names[:MOST_DRAWN])) if checked.kind == "model" else "none: it is a single descriptor"
            raise typer.BadParameter(f"expected a dispatchable of the file ({choices}), got {only!r}", param_hint="'--only'")
        names = [only]
    return {name: compile_operator(checked.dispatchables[name].desc).explain() for name in names}


def _draw_model(checked: CheckedFile, explanations: Mapping[str, Explanation], target: Path) -> None:
    from dmlgather.diagram.subject import with_initial_values
    from dmlgather.wording import printable

    if not explanations:
        say(f"{checked.file}: no dispatchables, so there is nothing to draw")
        return
    first = list(explanations.items())[:MOST_DRAWN]
    subjects = [(name, explanation.subject(printable(name))) for name, explanation in first]
    with_values = [with_initial_values(subject, checked, name) if name else subject for name, subject in subjects]
    _draw(with_values, target, Path(checked.file))
    if len(explanations) > MOST_DRAWN:
        say(f"The picture shows the first {MOST_DRAWN} of {len(explanations)} dispatchables; --only NAME draws another")


def _draw(subjects: list[Subject], target: Path, file: Path) -> None:
    from dmlgather.diagram import draw
    from dmlgather.files import writing
    from dmlgather.input_files import InputFiles

    with writing(target, InputFiles((file,))) as stream:
        stream.write(draw(*subjects).encode())
    say(f"Picture written to '{target}'")
