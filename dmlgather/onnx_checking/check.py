"""The check of an ONNX model file: Can DirectML run its gathers and slices? Nothing runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from dmlgather.dialects.export_codes import CODES
from dmlgather.directml import FeatureLevel, Finding, Severity
from dmlgather.directml.findings import FileProblem, LocatedFinding
from dmlgather.files import FileError
from dmlgather.onnx.problems.export import broken_rule
from dmlgather.onnx.problems.node_reading import INPUTS
from dmlgather.onnx.problems.operator_versions import BOUNDS, DOMAINS, NEWEST_IR_VERSION, NEWEST_OPSET, since_of
from dmlgather.onnx_checking.checked_model import (
    CheckedModel,
    CheckedNode,
    CheckedTensor,
    Provider,
    ProviderNode,
    ProviderVerdict,
    SizeCondition,
    SizeMaker,
    Verdict,
)
from dmlgather.onnx_checking.conflicts import conflicts, reconciled
from dmlgather.onnx_checking.contradictions import finding_of
from dmlgather.onnx_checking.following.model_nodes import ModelContents, ModelNode, NodeValue, find_nodes
from dmlgather.onnx_checking.provider.kernels import check_level
from dmlgather.onnx_checking.provider.verdicts import Provided, provided
from dmlgather.onnx_checking.reading.file import read_model
from dmlgather.onnx_checking.related_operators import related_among
from dmlgather.onnx_checking.unknown_inputs import undefined_name
from dmlgather.onnx_checking.verdicts import NO_SIZES, WRONG, Judgement, for_shape_computation, judge
from dmlgather.package import missing_extra
from dmlgather.wording import printable


def check_model(
    path: Path,
    level: str | FeatureLevel = "6_4",
    include_host: bool = False,
    provider: str | Provider | None = None,
    given: Mapping[str, int] = NO_SIZES,
) -> CheckedModel:
    """Check which nodes of the model at `path` DirectML can run. External data is not read.

    `include_host`: True to judge shape computations too; otherwise their verdict is `host`.
    `provider`: a program that runs models on DirectML. The result then predicts what it does with each node.
    `given`: numbers for unknown sizes, by name. The result's `calls` has the nodes whose sizes are all known with them.

    An invalid file gives a result with one problem and nothing else. Raise ValueError for an unknown level or provider, or a
    level too low for the provider.
    """
    level = FeatureLevel.parse(level)
    if provider is not None:
        provider = Provider(provider)
        check_level(level)
    try:
        file = read_model(path)
        contents = find_nodes(file)
        sizes, origins = contents.sizes, contents.origins
        judgements = [(node, judge(node, level, sizes, origins, given=given)) for node in contents.nodes]
        if not include_host:
            judgements = [(node, for_shape_computation(own) if node.is_shape_computation else own) for node, own in judgements]
        judgements = reconciled(judgements, sizes, lambda node: judge(node, level, sizes, origins, clamped=True, given=given))
        from_provider = None if provider is None else provided(file, contents, judgements, level)
    except (FileError, ImportError) as error:
        message = str(missing_extra("an ONNX model", "onnx", error) if isinstance(error, ImportError) else error)
        return CheckedModel(str(path), problems=(FileProblem(file=str(path), message=message),))
    findings = [
        *_graph_findings(contents),
        *(
            (node.place, _of_provider(finding, from_provider, node.place))
            for node, judgement in judgements
            for finding in judgement.findings
        ),
        *conflicts(judgements, sizes),
        *(from_provider.findings if from_provider else ()),
    ]
    return CheckedModel(
        str(path),
        opsets=contents.opsets,
        nodes=tuple(
            _checked(node, judgement, contents.makers, from_provider.nodes.get(node.place) if from_provider else None)
            for node, judgement in judgements
        ),
        others=dict(sorted(contents.others.items())),
        relatives=related_among(contents.others),
        findings=tuple(LocatedFinding.of(finding, str(path), None, None, place) for place, finding in findings),
        calls={node.place: judgement.call for node, judgement in judgements if judgement.call is not None},
        symbols={node.place: judgement.symbols for node, judgement in judgements if judgement.symbols},
        provider=from_provider.summary if from_provider else None,
    )


ON_CPU = (ProviderVerdict.TYPE, ProviderVerdict.SHAPE, ProviderVerdict.FOLDED)
"""Verdicts on nodes that run without DirectML and without failure."""


ON_DIRECTML = (ProviderVerdict.FUSED, ProviderVerdict.SINGLE, ProviderVerdict.ADAPTER)
"""Verdicts on nodes that run on DirectML without failure."""


def _of_provider(finding: Finding, found: Provided | None, place: str) -> Finding:
    """Lower the severity of a finding to NOTE if the provider runs the node nevertheless."""
    node = found.nodes.get(place) if found else None
    if node is not None and node.verdict in ON_DIRECTML and finding.code == "EXP302":
        none = f"none is needed for {Provider.ONNXRUNTIME_DIRECTML}, which knows {finding.path} when the node runs"
        remedy = f"{none}; for another caller of DirectML, {finding.remedy}"
        return finding.model_copy(update={"severity": Severity.NOTE, "remedy": remedy})
    if node is None or node.verdict not in ON_CPU or finding.severity is not Severity.ERROR or finding.code in WRONG:
        return finding
    return finding.model_copy(update={"severity": Severity.NOTE})


MOST_NAMES = 3


def _graph_findings(contents: ModelContents) -> Iterator[tuple[str, Finding]]:
    """Yield findings about the model and about nodes without a verdict, each with its place."""
    for graph, reason in contents.remarks.items() if contents.nodes else ():
        finding = CODES["EXP303"].finding(
            "",
            expected="a model whose shapes ONNX can infer",
            got=reason,
            remedy="correct the model, or declare the types of its values in value_info; only these are known",
        )
        yield graph, finding
    opset = max((version for domain, version in contents.opsets.items() if domain in DOMAINS), default=0)
    if opset > NEWEST_OPSET:
        finding = CODES["EXP309"].finding(
            "opset_import",
            expected=f"at most {NEWEST_OPSET}, the newest version that is known here",
            got=f"{opset}: the nodes are checked by the rules of version {NEWEST_OPSET}; onnxruntime refuses to load a model "
            "of a version that it does not know",
            remedy="export the model with an older version",
        )
        yield "", finding
    if not 1 <= contents.ir_version <= NEWEST_IR_VERSION:
        finding = CODES["EXP310"].finding(
            "ir_version",
            expected=f"1 … {NEWEST_IR_VERSION}",
            got=f"{contents.ir_version or 'none'}",
            remedy="export the model with a released version of ONNX",
        )
        yield "", finding
    for repeated in contents.repeated_names:
        finding = CODES["EXP311"].finding(
            "",
            expected="no two nodes of a graph with one name",
            got=f"{_counts(repeated.names, 'nodes')}; onnxruntime refuses to load the model",
            remedy="rename the nodes, or remove their names",
        )
        yield repeated.graph, finding
    for repeated in contents.redefined:
        finding = CODES["EXP312"].finding(
            "",
            expected="one input, initializer or output of a node for each name",
            got=f"{_counts(repeated.names, 'definitions')}; ONNX's checker and onnxruntime refuse the model",
            remedy="rename the outputs, and the inputs that read them",
        )
        yield repeated.graph, finding
    for read in contents.undefined:
        if not read.is_judged:
            yield read.place, undefined_name(read.role, read.name, read.reason)
    for place, proto, opset, reason in contents.malformed:
        yield place, broken_rule(proto, opset, printable(reason))
    for contradiction in contents.contradictions:
        yield contradiction.place, finding_of(contradiction, contents.sizes)


def _counts(names: Mapping[str, int], what: str) -> str:
    shown = [f"{printable(name)!r} ({count} {what})" for name, count in names.items()]
    return ", ".join([*shown[:MOST_NAMES], *(["…"] if len(shown) > MOST_NAMES else [])])


def _checked(
    node: ModelNode, judgement: Judgement, makers: Mapping[str, SizeMaker | None], provider: ProviderNode | None
) -> CheckedNode:
    return CheckedNode(
        place=node.place,
        graph=node.graph,
        name=node.proto.name,
        index=node.index,
        operator=node.proto.op_type,
        opset=node.opset,
        version=since_of(node.proto.op_type, node.opset),
        inputs=tuple(_inputs(node)),
        attributes=node.integers,
        outputs=tuple(_tensor("output", value) for value in node.outputs),
        verdict=judgement.verdict,
        taken=judgement.taken,
        lowest=judgement.lowest,
        missing=tuple(finding.path for finding in judgement.findings) if judgement.verdict is Verdict.UNKNOWN else (),
        provided=judgement.provided,
        conditions=tuple(_with_makers(condition, makers) for condition in judgement.conditions),
        reason=node.unreached if judgement.verdict is Verdict.UNREACHED else None,
        provider=provider,
    )


def _with_makers(condition: SizeCondition, makers: Mapping[str, SizeMaker | None]) -> SizeCondition:
    return condition.model_copy(
        update={"makers": {name: maker for name in condition.symbols if (maker := makers.get(name)) is not None}}
    )


def _inputs(node: ModelNode) -> Iterator[CheckedTensor]:
    roles = INPUTS[node.proto.op_type]
    for number, value in enumerate(node.inputs):
        if value.name:
            yield _tensor(roles[number] if number < len(roles) else f"input {number}", value)
    for attribute in node.proto.attribute:
        if attribute.name in BOUNDS and not attribute.ref_attr_name:
            values = tuple(attribute.ints)
            yield CheckedTensor(role=attribute.name, name="", type="int64", shape=(len(values),), values=values)


def _tensor(role: str, value: NodeValue) -> CheckedTensor:
    values = None
    if role in BOUNDS and isinstance(value.elements, np.ndarray) and value.elements.dtype.kind in "iuO":
        values = tuple(element if isinstance(element, str) else int(element) for element in value.elements.flat)
    return CheckedTensor(role=role, name=value.name, type=value.type.name, shape=value.type.shape, values=values)
