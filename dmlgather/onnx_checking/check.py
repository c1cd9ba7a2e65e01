"""Check an ONNX model file: every node of the family is judged, and nothing is run."""

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
from dmlgather.onnx.problems.operator_versions import BOUNDS, DOMAINS, NEWEST_OPSET, since_of
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
from dmlgather.onnx_checking.related_operators import relatives_among
from dmlgather.onnx_checking.unknown_inputs import undefined_name
from dmlgather.onnx_checking.verdicts import WRONG, Judged, judge, of_host
from dmlgather.package import missing_extra
from dmlgather.wording import printable


def check_model(
    path: Path,
    level: str | FeatureLevel = "6_4",
    include_host: bool = False,
    provider: str | Provider | None = None,
) -> CheckedModel:
    """Read the model at `path` and judge its nodes at a feature level. External data is not read.

    include_host: whether nodes that are the host's arithmetic are judged as if DirectML had to take them. provider: a program of
    which is said what it does with each node.
    A file that cannot be understood has one problem. ValueError for an unknown level or provider, and for a level that is too low
    for the provider.
    """
    level = FeatureLevel.parse(level)
    wanted = None if provider is None else Provider(provider)
    if wanted is not None:
        check_level(level)
    try:
        file = read_model(path)
        contents = find_nodes(file)
        sizes, origins = contents.sizes, contents.origins
        judged = [(site, judge(site, level, sizes, origins)) for site in contents.sites]
        if not include_host:
            judged = [(site, of_host(each) if site.host else each) for site, each in judged]
        judged = reconciled(judged, sizes, lambda site: judge(site, level, sizes, origins, cut=True))
        found = None if wanted is None else provided(file, contents, judged, level)
    except (FileError, ImportError) as error:
        message = str(missing_extra("an ONNX model", "onnx", error) if isinstance(error, ImportError) else error)
        return CheckedModel(str(path), problems=(FileProblem(file=str(path), message=message),))
    findings = [
        *_graph_findings(contents),
        *((site.place, _of_provider(finding, found, site.place)) for site, each in judged for finding in each.findings),
        *conflicts(judged, sizes),
        *(found.findings if found else ()),
    ]
    return CheckedModel(
        str(path),
        opsets=contents.opsets,
        nodes=tuple(
            _checked(site, each, contents.makers, found.nodes.get(site.place) if found else None) for site, each in judged
        ),
        others=dict(sorted(contents.others.items())),
        relatives=relatives_among(contents.others),
        findings=tuple(LocatedFinding.of(finding, str(path), None, None, place) for place, finding in findings),
        calls={site.place: each.call for site, each in judged if each.call is not None},
        provider=found.summary if found else None,
    )


ON_CPU = (ProviderVerdict.TYPE, ProviderVerdict.SHAPE, ProviderVerdict.FOLDED)
"""Verdicts of a provider with which DirectML does not run a node, and the session and its runs go well."""


def _of_provider(finding: Finding, found: Provided | None, place: str) -> Finding:
    """Return the finding about a node, as a note where the provider runs the node without DirectML."""
    node = found.nodes.get(place) if found else None
    if node is None or node.verdict not in ON_CPU or finding.severity is not Severity.ERROR or finding.code in WRONG:
        return finding
    return finding.model_copy(update={"severity": Severity.NOTE})


def _graph_findings(contents: ModelContents) -> Iterator[tuple[str, Finding]]:
    """Findings with the places of graphs whose shapes are missing, and of other nodes that read names that are not defined or
    do not have the form of their operator.
    """
    for graph, reason in contents.remarks.items() if contents.sites else ():
        yield (
            graph,
            CODES["EXP303"].finding(
                "",
                expected="a model whose shapes ONNX can infer",
                got=reason,
                remedy="correct the model, or declare the types of its values in value_info; only these are known",
            ),
        )
    opset = max((version for domain, version in contents.opsets.items() if domain in DOMAINS), default=0)
    if opset > NEWEST_OPSET:
        yield (
            "",
            CODES["EXP309"].finding(
                "opset_import",
                expected=f"at most {NEWEST_OPSET}, the newest version that is known here",
                got=f"{opset}: the nodes are checked by the rules of version {NEWEST_OPSET}; onnxruntime refuses to load a model "
                "of a version that it does not know",
                remedy="export the model with an older version",
            ),
        )
    for place, name, reason in contents.undefined:
        yield place, undefined_name("", name, reason)
    for place, node, opset, reason in contents.malformed:
        yield place, broken_rule(node, opset, printable(reason))
    for each in contents.contradictions:
        yield each.place, finding_of(each, contents.sizes)


def _checked(
    site: ModelNode, judged: Judged, makers: Mapping[str, SizeMaker | None], provider: ProviderNode | None
) -> CheckedNode:
    return CheckedNode(
        place=site.place,
        graph=site.graph,
        name=site.node.name,
        index=site.index,
        operator=site.node.op_type,
        opset=site.opset,
        version=since_of(site.node.op_type, site.opset),
        inputs=tuple(_inputs(site)),
        attributes=site.integers,
        outputs=tuple(_tensor("output", value) for value in site.outputs),
        verdict=judged.verdict,
        taken=judged.taken,
        lowest=judged.lowest,
        missing=tuple(finding.path for finding in judged.findings) if judged.verdict is Verdict.UNKNOWN else (),
        provided=judged.provided,
        conditions=tuple(_with_makers(each, makers) for each in judged.conditions),
        reason=site.unreached if judged.verdict is Verdict.UNREACHED else None,
        provider=provider,
    )


def _with_makers(condition: SizeCondition, makers: Mapping[str, SizeMaker | None]) -> SizeCondition:
    """The condition with the nodes that give its sizes. makers: of the symbols of the model."""
    return condition.model_copy(
        update={"makers": {name: maker for name in condition.symbols if (maker := makers.get(name)) is not None}}
    )


def _inputs(site: ModelNode) -> Iterator[CheckedTensor]:
    roles = INPUTS[site.node.op_type]
    for number, value in enumerate(site.inputs):
        if value.name:
            yield _tensor(roles[number] if number < len(roles) else f"input {number}", value)
    for attribute in site.node.attribute:
        if attribute.name in BOUNDS and not attribute.ref_attr_name:
            values = tuple(attribute.ints)
            yield CheckedTensor(role=attribute.name, name="", type="int64", shape=(len(values),), values=values)


def _tensor(role: str, value: NodeValue) -> CheckedTensor:
    values = None
    if role in BOUNDS and isinstance(value.elements, np.ndarray) and value.elements.dtype.kind in "iuO":
        values = tuple(each if isinstance(each, str) else int(each) for each in value.elements.flat)
    return CheckedTensor(role=role, name=value.name, type=value.type.name, shape=value.type.shape, values=values)
