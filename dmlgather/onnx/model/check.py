"""Check an ONNX model file: every node of the family is judged, and nothing is run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path

import numpy as np

from dmlgather.dialects.checked_model import CheckedModel, CheckedNode, CheckedTensor, Verdict
from dmlgather.dialects.contradictions import Stated, contradicting, contradictions
from dmlgather.dialects.export_codes import CODES
from dmlgather.dialects.relatives import found
from dmlgather.dialects.size_arrays import has_names
from dmlgather.dialects.sizes import KnownSize, Sizes
from dmlgather.dialects.verdicts import Judged, of_host
from dmlgather.directml import FeatureLevel, Finding
from dmlgather.directml.located import FileProblem, LocatedFinding
from dmlgather.extras import missing_extra
from dmlgather.files import FileError
from dmlgather.onnx.model.file import read_model
from dmlgather.onnx.model.node_sites import ModelContents, NodeSite, NodeValue, find_nodes
from dmlgather.onnx.model.node_verdicts import judge, undefined_name
from dmlgather.onnx.problems.export import broken_rule
from dmlgather.onnx.problems.node_reading import INPUTS
from dmlgather.onnx.problems.operator_versions import BOUNDS, version_of
from dmlgather.onnx.problems.relatives import RELATIVES
from dmlgather.wording import printable


def check_model(path: Path, level: str | FeatureLevel = "6_4", include_host: bool = False) -> CheckedModel:
    """Read the model at `path` and judge its nodes at a feature level. External data is not read.

    include_host: whether nodes that are the host's arithmetic are judged as if DirectML had to take them.
    A file that cannot be understood has one problem. ValueError for an unknown level.
    """
    level = FeatureLevel.parse(level)
    try:
        contents = find_nodes(read_model(path))
        judged = [(site, judge(site, level, contents.sizes, contents.origins)) for site in contents.sites]
        if not include_host:
            judged = [(site, of_host(each) if site.host else each) for site, each in judged]
        judged = _reconciled(judged, level, contents)
    except ImportError as error:
        message = str(missing_extra("an ONNX model", "onnx", error))
        return CheckedModel(str(path), problems=(FileProblem(file=str(path), message=message),))
    except FileError as error:
        return CheckedModel(str(path), problems=(FileProblem(file=str(path), message=str(error)),))
    findings = [
        *_graph_findings(contents),
        *((site.place, finding) for site, each in judged for finding in each.findings),
        *contradictions(_stated(judged, contents.sizes)),
    ]
    return CheckedModel(
        str(path),
        opsets=contents.opsets,
        nodes=tuple(_checked(*pair) for pair in judged),
        others=dict(sorted(contents.others.items())),
        relatives=found(RELATIVES, contents.others),
        findings=tuple(LocatedFinding.of(finding, str(path), None, None, place) for place, finding in findings),
        calls={site.place: each.call for site, each in judged if each.call is not None},
    )


def _reconciled(
    judged: list[tuple[NodeSite, Judged]], level: FeatureLevel, contents: ModelContents
) -> list[tuple[NodeSite, Judged]]:
    """The verdicts, where nodes whose conditions contradict each other may have bounds that are cut off, as ONNX does."""
    cut: set[str] = set()
    while more := contradicting(_stated(judged, contents.sizes)) - cut:
        cut |= more
        for number, (site, _) in enumerate(judged):
            if site.place in more:
                wider = judge(site, level, contents.sizes, contents.origins, cut=True)
                if wider.verdict is Verdict.TAKEN:
                    judged[number] = (site, wider)
    return judged


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
    for place, name, reason in contents.undefined:
        yield place, undefined_name("", name, reason)
    for place, node, opset, reason in contents.malformed:
        yield place, broken_rule(node, opset, printable(reason))


def _stated(judged: Iterable[tuple[NodeSite, Judged]], sizes: Sizes) -> Iterator[Stated]:
    """The conditions of the nodes that are taken."""
    for site, each in judged:
        if each.within is not None and each.provided:
            named = (size for value in site.inputs for size in (*(value.type.shape or ()), *_bounds(value)))
            symbols = (sizes.symbols(size) for size in named if isinstance(size, str))
            yield Stated(site.place, each.within, frozenset(chain.from_iterable(symbols)))


def _bounds(value: NodeValue) -> Iterator[KnownSize]:
    if isinstance(value.elements, np.ndarray) and has_names(value.elements):
        yield from value.elements.flat


def _checked(site: NodeSite, judged: Judged) -> CheckedNode:
    try:
        version = version_of(site.node.op_type, site.opset).since
    except ValueError:
        version = None
    return judged.checked_node(
        place=site.place,
        graph=site.graph,
        name=site.node.name,
        index=site.index,
        operator=site.node.op_type,
        opset=site.opset,
        version=version,
        inputs=tuple(_inputs(site)),
        attributes=site.integers,
        outputs=tuple(_tensor("output", value) for value in site.outputs),
    )


def _inputs(site: NodeSite) -> Iterator[CheckedTensor]:
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
