"""What onnxruntime's DirectML provider does with each node of the family in a model: verdicts, findings and a summary."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dmlgather.directml import FeatureLevel, Finding
from dmlgather.onnx.problems.partial_types import PartialType
from dmlgather.onnx.problems.subgraphs import subgraphs
from dmlgather.onnx_checking.checked_model import Certainty, Provider, ProviderNode, ProviderSummary, ProviderVerdict
from dmlgather.onnx_checking.contradictions import Contradiction
from dmlgather.onnx_checking.following.model_nodes import ModelContents, ModelNode
from dmlgather.onnx_checking.provider.case import NUMBER, ProviderCase
from dmlgather.onnx_checking.provider.codes import CODES
from dmlgather.onnx_checking.provider.kernels import ADAPTERS_TYPES, DIRECTML_TYPES
from dmlgather.onnx_checking.provider.placement import Home, Key, PlacedNode, numbered, parts, place
from dmlgather.onnx_checking.provider.rules import broken, stale
from dmlgather.onnx_checking.reading.file import ModelFile
from dmlgather.onnx_checking.verdicts import Judged
from dmlgather.wording import alternatives, printable

_V, _READ, _INFERRED = ProviderVerdict, Certainty.READ, Certainty.INFERRED

MOST_SHOWN = 6
"""Operators of a chain that are shown."""


@dataclass(frozen=True)
class Provided:
    """What the provider does with a model. nodes: of the family, by place. findings: with their places."""

    nodes: Mapping[str, ProviderNode]
    findings: Sequence[tuple[str, Finding]]
    summary: ProviderSummary


def provided(
    file: ModelFile,
    contents: ModelContents,
    judged: Iterable[tuple[ModelNode, Judged]],
    level: FeatureLevel,
) -> Provided:
    """What the provider does with a model at a feature level.

    judged: the nodes of the family with their verdicts. A node that no run reaches, or that reads what is not defined, gets none
    of the provider.
    """
    placed = place(file)
    cases = {
        spot.key: ProviderCase(site, spot, level, each, contents.kept)
        for site, each in judged
        if site.unreached is None and not any(value.undefined for value in site.inputs)
        for spot in [placed[site.graph, site.index]]
    }
    numbers = _parts(placed, cases)
    refused = next((each for each in contents.contradictions if each.refused), None)
    nodes: dict[str, ProviderNode] = {}
    findings: list[tuple[str, Finding]] = []
    for key, case in cases.items():
        nodes[case.site.place], own = _verdict(case, numbers.get(key), refused)
        findings += [(case.site.place, finding) for finding in own]
    asking = (case for case in cases.values() if nodes[case.site.place].verdict is _V.ADAPTER)
    converted = sum(case.asks_for_indices for case in asking)
    places = {site.place for site in contents.sites}
    findings += _others((each for each in contents.contradictions if each.place not in places), contents.kept, placed)
    return Provided(nodes, findings, _summary(list(nodes.values()), converted))


def _parts(placed: Mapping[Key, PlacedNode], cases: Mapping[Key, ProviderCase]) -> dict[Key, int]:
    """The number of the part of each node of the family that runs on DirectML. Nodes outside the family are taken to be fused
    where their shapes are numbers.
    """

    def fused(spot: PlacedNode) -> bool:
        case = cases.get(spot.key)
        return spot.may_be_fused if case is None else case.runs_on_device and not case.cut

    return numbered(parts(placed.values(), fused), [key for key, case in cases.items() if case.runs_on_device])


def _verdict(case: ProviderCase, part: int | None, refused: Contradiction | None) -> tuple[ProviderNode, list[Finding]]:
    """Return the verdict on a node, and the findings about it. part: the one that it belongs to on DirectML. refused: why
    onnxruntime does not load the model.
    """
    if refused is not None:
        text = (
            f"the session cannot be created: of {printable(refused.tensor)!r} the model states another type than follows (EXP307)"
        )
        return _said(_V.FAILS, text, _INFERRED, "[ORT-GRAPH]", codes=("EXP307",)), []
    breaks_onnx = any(finding.code == "EXP101" for finding in case.judged.findings)
    if breaks_onnx and not case.since:
        return _refused_by_onnx(), []
    certainty = _INFERRED if ":" in case.site.graph else _READ  # calls of functions are replaced by their nodes beforehand
    if case.placed.home is Home.FOLDED:
        return _said(_V.FOLDED, "computed beforehand: all that it reads is constant", _INFERRED, "[ORT-FOLD]"), []
    if case.data_type is None:
        return _said(_V.UNKNOWN, "unknown: the model does not give the type of data", certainty, "[ORT-REG]"), []
    if not case.has_kernel:
        return _without_kernel(case)
    if case.placed.home is Home.CPU:
        return _said(_V.SHAPE, f"CPU on purpose: {_chain(case.placed.chain)}", certainty, "[ORT-FALLBACK]"), []
    wrong = broken(case)
    findings = [finding for _, finding in wrong] + ([_lone_kernel(case)] if case.asked and not case.has_cpu_kernel else [])
    codes = tuple(dict.fromkeys(finding.code for finding in findings))
    if wrong:
        rule, first = wrong[0]
        text = rule.text.format(failure=case.failure, codes=", ".join(codes))
        part = None if rule.verdict is _V.FAILS else part
        return _said(rule.verdict, text, rule.certainty, first.source, part=part, codes=codes), findings
    if breaks_onnx:
        return _refused_by_onnx(*codes), findings
    way = f"DirectML by itself, which cuts the graph: {case.cut}" if case.cut else "fused with its neighbours"
    if case.asked:
        other = "CPU" if case.has_cpu_kernel else f"no session ({', '.join(codes)})"
        remedy = "; with int32 indices, no adapter lacks a type" if case.asks_for_indices else ""
        text = f"the adapter decides on {alternatives(case.asked)}: {way}; or {other}{remedy}"
        return _said(_V.ADAPTER, text, certainty, "[ORT-EP]", part=part, codes=codes), findings
    return _said(_V.SINGLE if case.cut else _V.FUSED, way, certainty, "[ORT-PARTITION]", part=part), findings


def _said(verdict: ProviderVerdict, text: str, certainty: Certainty, source: str, **more: Any) -> ProviderNode:
    return ProviderNode(verdict=verdict, text=text, certainty=certainty, source=source, **more)


def _refused_by_onnx(*codes: str) -> ProviderNode:
    return _said(_V.FAILS, "ONNX refuses the node (EXP101)", _INFERRED, "[ORT-GRAPH]", codes=("EXP101", *codes))


def _without_kernel(case: ProviderCase) -> tuple[ProviderNode, list[Finding]]:
    """The verdict on a node that the provider has no kernel for."""
    version = f"{case.operator}-{case.since}"
    if case.has_cpu_kernel:
        what = f"type {case.data_type}" if case.since in case.kernel.since else version
        return _said(_V.TYPE, f"CPU: the provider has no kernel for {what}", _READ, "[ORT-REG]"), []
    finding = CODES["ORT108"].finding(
        "data",
        expected=alternatives(DIRECTML_TYPES),
        got=f"{case.data_type}, for which no provider has a kernel of {version}; the session cannot be created: NOT_IMPLEMENTED",
        remedy="cast data before the node, and the result back behind it",
    )
    text = f"no kernel anywhere for {case.data_type}: the session cannot be created ({finding.code})"
    return _said(_V.NO_KERNEL, text, _READ, "[ORT-REG]", codes=(finding.code,)), [finding]


def _lone_kernel(case: ProviderCase) -> Finding:
    return CODES["ORT109"].finding(
        "data",
        expected=alternatives(name for name in DIRECTML_TYPES if name not in ADAPTERS_TYPES),
        got=f"{case.data_type}; on an adapter without it, the session cannot be created: NOT_IMPLEMENTED",
        remedy="cast data to a type of at most 32 bits before the node, and the result back behind it",
    )


def _chain(chain: Sequence[str]) -> str:
    shown = list(chain) if len(chain) <= MOST_SHOWN else [*chain[:2], "…", *chain[2 - MOST_SHOWN :]]
    return " → ".join(map(printable, shown))


def _others(
    contradictions: Iterable[Contradiction], kept_types: Mapping[tuple[str, str], PartialType], placed: Mapping[Key, PlacedNode]
) -> Iterator[tuple[str, Finding]]:
    """Findings about nodes outside the family whose results have other sizes in onnxruntime's graph than follow. It is not known
    where these run. Where the graph has numbers for all inputs, the sizes fit to each other, and an earlier node fails.
    """
    makers = {(each.key[0], name): each for each in placed.values() for name in each.node.output}
    for each in contradictions:
        maker = makers.get((each.graph, each.tensor))
        if maker is None or maker.home is not Home.DEVICE or any(True for _ in subgraphs(maker.node)):
            continue
        inputs = zip(maker.node.input, maker.inputs, strict=True)
        if all(kept_types.get((each.graph, name), known).numbers is not None for name, known in inputs if name):
            continue
        failure = f"if DirectML runs {printable(each.operator)}, it ends with {NUMBER}"
        for fault in stale(each.tensor, each.kept, each.follows, failure, failure):
            yield each.place, CODES["ORT102"].finding(**fault._asdict())


def _summary(nodes: Sequence[ProviderNode], converted: int) -> ProviderSummary:
    """Return the counts. converted: nodes of ADAPTER that need nothing of the adapter with int32 indices."""
    number = Counter(each.verdict for each in nodes)
    running = (_V.FUSED, _V.SINGLE, _V.DIFFERS, _V.UNCLEAR)
    known = {
        "directml": sum(number[each] for each in running),
        "parts": len({each.part for each in nodes if each.part is not None}),
        "either": number[_V.ADAPTER],
        "converted": converted,
        "cpu": number[_V.TYPE] + number[_V.SHAPE],
        "shapes": number[_V.SHAPE],
        "folded": number[_V.FOLDED],
        "fails": number[_V.FAILS] + number[_V.NO_KERNEL],
        "differs": number[_V.DIFFERS],
        "unclear": number[_V.UNCLEAR],
        "unknown": number[_V.UNKNOWN],
    }
    return ProviderSummary.of(Provider.ONNXRUNTIME_DIRECTML, known)
