"""What `dmlgather explain` says of the nodes of an ONNX model or the layers of an OpenVINO IR."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from dmlgather.cli.failures import say

if TYPE_CHECKING:
    from dmlgather.dialects.checked_model import CheckedModel, CheckedNode, CheckedTensor
    from dmlgather.explain import Explanation
    from dmlgather.picture import Subject

STATED = {
    ".onnx": "for example by python -m onnxruntime.tools.make_dynamic_shape_fixed --dim_param {0} --dim_value 8 "
    "MODEL.onnx FIXED.onnx",
    ".xml": "for example by model.reshape({{'input': [8, 16]}}) of openvino.Model before it is saved",
}
"""How the sizes of a model's inputs are stated, by the model's suffix; {0} is a size's name."""

DECLARED = "in value_info, or state what they are computed from: {0} has no name in the model"
"""How sizes are stated in an ONNX model that are no sizes of its inputs."""

INFERRED = "unk__"
"""The names that ONNX's shape inference gives to sizes begin with it."""


@dataclass(frozen=True, slots=True)
class ExplainedNode:
    """A node, and its explanation or the reason why there is none. refused: whether the node itself is wrong."""

    node: CheckedNode
    explanation: Explanation | None
    reason: str = ""
    refused: bool = False


def load_nodes(path: Path, only: str | None) -> tuple[CheckedModel, list[ExplainedNode]]:
    """The nodes of a model that are selected. Ends the command with exit code 2 for a file that cannot be understood."""
    from dmlgather.directml.types import FeatureLevel
    from dmlgather.report.file_check import MODELS

    suffix = path.suffix.lower()
    model = MODELS[suffix][1](path, FeatureLevel.LEVEL_6_4, True)
    for problem in model.problems:
        say(problem)
    if model.problems:
        raise typer.Exit(2)
    nodes = [node for node in model.nodes if only is None or only in (node.place, node.name)]
    if only is not None and len(nodes) != 1:
        found = f"{len(nodes)} nodes of that name" if nodes else repr(only)
        raise typer.BadParameter(f"expected one of {places(model.nodes)}, got {found}", param_hint="'--node'")
    return model, [_explained(model, node, suffix) for node in nodes]


def subject_of(model: CheckedModel, found: ExplainedNode) -> Subject | None:
    """What a node's picture is drawn from, with the constants of the model; None for a node that is not explained."""
    from dmlgather.picture.model_values import MOST_VALUES
    from dmlgather.wording import printable

    if found.explanation is None:
        return None
    call = model.calls[found.node.place]
    subject = found.explanation.subject(found.node.place)
    indices, data = (call.values.get(role) for role in ("indices", "data"))
    if subject.indices is not None and indices is not None:
        name = next(tensor.name for tensor in found.node.inputs if tensor.role == "indices")
        subject = subject.with_values(indices, f"the constant '{printable(name)}'")
    return subject if data is None or data.size > MOST_VALUES else subject.with_elements(data)


def places(nodes: tuple[CheckedNode, ...], most: int = 20) -> str:
    """The places of nodes as text, at most so many."""
    names = ", ".join(repr(node.place) for node in nodes[:most])
    return f"{names}, …" if len(nodes) > most else names or "none: the model has no indexing operators"


def _explained(model: CheckedModel, node: CheckedNode, suffix: str) -> ExplainedNode:
    from dmlgather.dialects.checked_model import Verdict
    from dmlgather.dialects.sizes import WORD
    from dmlgather.explain import explain_problem

    call = model.calls.get(node.place)
    if call is not None and not call.problem.data.dtype.hasobject:
        version = "" if node.version is None else f"-{node.version}"
        level = None if node.lowest is None else str(node.lowest.level)
        return ExplainedNode(node, explain_problem(call.problem, f"{node.operator}{version}", level))
    if call is not None:
        return ExplainedNode(node, None, "its data are strings, which have no bytes that a plan could move")
    findings = [finding for finding in model.findings if finding.subject == node.place]
    if node.verdict is Verdict.REFUSED:
        wrong = "; ".join(f"expected {each.expected}, got {each.got}; fix: {each.remedy}" for each in findings)
        return ExplainedNode(node, None, wrong, refused=True)
    if node.verdict is Verdict.UNKNOWN:
        remedies = "; ".join(dict.fromkeys(finding.remedy for finding in findings))
        return ExplainedNode(node, None, f"the model does not state {' and '.join(node.missing)}: {remedies}")
    if node.verdict is Verdict.UNREACHED:
        return ExplainedNode(node, None, "no run of the model reaches it")
    unknown = list(dict.fromkeys(_unknown_sizes(node.inputs))) or [*_unknown_sizes(node.outputs)]
    named = [size for size in unknown if WORD.fullmatch(size) and not size.startswith(INFERRED) and "[" not in size]
    way = STATED[suffix] if named or suffix != ".onnx" else DECLARED
    stated = f"state the sizes in the model, {way.format((named or unknown)[0])}"
    return ExplainedNode(node, None, f"{' and '.join(unknown)} must be known: {stated}")


def _unknown_sizes(tensors: Iterable[CheckedTensor]) -> Iterator[str]:
    """The names of sizes that are no numbers, and of bounds that are such sizes."""
    from dmlgather.wording import printable

    for tensor in tensors:
        if tensor.shape is None and tensor.values is None:
            yield f"the rank of {tensor.role}"
        for axis, size in enumerate(tensor.shape or ()):
            if not isinstance(size, int):
                yield f"{tensor.role}[{axis}]" if size is None else printable(size)
        yield from (printable(value) for value in tensor.values or () if isinstance(value, str))
