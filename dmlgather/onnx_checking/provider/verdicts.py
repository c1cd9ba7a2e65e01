"""Verdicts of onnxruntime's DirectML provider on gathers and slices, with findings and a summary."""

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
from dmlgather.onnx_checking.provider.loading import Refusal, refusal_of, wheel_findings
from dmlgather.onnx_checking.provider.placement import Home, Key, PlacedNode, numbered, parts, place
from dmlgather.onnx_checking.provider.rules import broken, stale
from dmlgather.onnx_checking.reading.file import ModelFile
from dmlgather.onnx_checking.verdicts import Judgement
from dmlgather.wording import alternatives, printable

_V, _READ, _INFERRED = ProviderVerdict, Certainty.READ, Certainty.INFERRED

MOST_SHOWN = 6
"""Limit of operators to show between a Shape and a node."""


@dataclass(frozen=True)
class Provided:
    """The provider's verdicts and findings, by place, with a summary."""

    nodes: Mapping[str, ProviderNode]
    findings: Sequence[tuple[str, Finding]]
    summary: ProviderSummary


def provided(
    file: ModelFile,
    contents: ModelContents,
    judgements: Iterable[tuple[ModelNode, Judgement]],
    level: FeatureLevel,
) -> Provided:
    """Return what the provider does with each gather and slice that a run reaches."""
    refusal = refusal_of(contents, file.model.graph)
    if refusal is not None:
        nodes = {node.place: _refused(refusal) for node, _ in judgements if node.unreached is None}
        return Provided(nodes, [], _summary(list(nodes.values()), converted=0, unloaded=len(nodes)))
    placed = place(file)
    cases = {
        placement.key: ProviderCase(node, placement, level, judgement, contents.runtime_types, contents.sizes)
        for node, judgement in judgements
        if node.unreached is None and not any(value.undefined for value in node.inputs)
        for placement in [placed[node.graph, node.index]]
    }
    numbers = _parts(placed, cases)
    nodes = {node.place: _UNSORTED for node, _ in judgements if any(value.undefined for value in node.inputs)}
    findings = [("", finding) for finding in wheel_findings(contents)]
    for key, case in cases.items():
        nodes[case.node.place], node_findings = _verdict(case, numbers.get(key))
        findings += [(case.node.place, finding) for finding in node_findings]
    asking = (case for case in cases.values() if nodes[case.node.place].verdict is _V.ADAPTER)
    converted = sum(case.asks_for_indices for case in asking)
    places = {node.place for node in contents.nodes}
    findings += _others((each for each in contents.contradictions if each.place not in places), contents.runtime_types, placed)
    return Provided(nodes, findings, _summary(list(nodes.values()), converted))


def _parts(placed: Mapping[Key, PlacedNode], cases: Mapping[Key, ProviderCase]) -> dict[Key, int]:
    """Return the partition of each gather and slice on DirectML. Other nodes count as fused if all sizes are numbers."""

    def fused(node: PlacedNode) -> bool:
        case = cases.get(node.key)
        return node.may_be_fused if case is None else case.runs_on_device and not case.cut

    return numbered(parts(placed.values(), fused), [key for key, case in cases.items() if case.runs_on_device])


def _refused(refusal: Refusal) -> ProviderNode:
    text = f"the session cannot be created: {refusal.reason} ({refusal.code})"
    return _result(_V.FAILS, text, _READ, "[ORT-GRAPH]", codes=(refusal.code,))


def _verdict(case: ProviderCase, part: int | None) -> tuple[ProviderNode, list[Finding]]:
    """Return what the provider does with a node, and the findings about it.
    `part`: the number of the node's partition, or None outside DirectML.
    """
    breaks_onnx = any(finding.code == "EXP101" for finding in case.judgement.findings)
    if breaks_onnx and not case.since:
        return _refused_by_onnx(), []
    certainty = _INFERRED if ":" in case.node.graph else _READ  # calls of functions are replaced by their nodes beforehand
    if case.placed.home is Home.FOLDED:
        return _result(_V.FOLDED, "computed beforehand: all that it reads is constant", _INFERRED, "[ORT-FOLD]"), []
    if case.data_type is None:
        return _result(_V.UNKNOWN, "unknown: the model does not give the type of data", certainty, "[ORT-REG]"), []
    if not case.has_kernel:
        return _without_kernel(case)
    if case.placed.home is Home.CPU:
        return _result(_V.SHAPE, f"CPU on purpose: {_chain(case.placed.chain)}", certainty, "[ORT-FALLBACK]"), []
    broken_rules = broken(case)
    findings = [finding for _, finding in broken_rules] + ([_lone_kernel(case)] if case.asked and not case.has_cpu_kernel else [])
    codes = tuple(dict.fromkeys(finding.code for finding in findings))
    if broken_rules:
        rule, first = broken_rules[0]
        text = rule.text.format(failure=case.failure, codes=", ".join(codes))
        part = None if rule.verdict is _V.FAILS else part
        more = {"part": part, "codes": codes, "sometimes": rule.sometimes}
        return _result(rule.verdict, text, rule.certainty, first.source, **more), findings
    if breaks_onnx:
        return _refused_by_onnx(*codes), findings
    placement = "DirectML by itself" if case.cut else "fused with its neighbours"
    if case.asked:
        other = "the CPU" if case.has_cpu_kernel else f"no session ({', '.join(codes)})"
        remedy = "; with int32 indices, every adapter has its types" if case.asks_for_indices else ""
        reason = f"; by itself because {case.cut}" if case.cut else ""
        text = f"{placement} if the adapter has {alternatives(case.asked)}, otherwise {other}{remedy}{reason}"
        return _result(_V.ADAPTER, text, certainty, "[ORT-EP]", part=part, codes=codes), findings
    verdict, text = (_V.SINGLE, f"{placement}, because {case.cut}") if case.cut else (_V.FUSED, placement)
    return _result(verdict, text, certainty, "[ORT-PARTITION]", part=part), findings


def _result(verdict: ProviderVerdict, text: str, certainty: Certainty, source: str, **more: Any) -> ProviderNode:
    return ProviderNode(verdict=verdict, text=text, certainty=certainty, source=source, **more)


_UNSORTED = _result(_V.UNKNOWN, "unknown: the nodes are not sorted (EXP304)", _INFERRED, "[ORT-GRAPH]", codes=("EXP304",))


def _refused_by_onnx(*codes: str) -> ProviderNode:
    return _result(_V.FAILS, "ONNX refuses the node (EXP101)", _INFERRED, "[ORT-GRAPH]", codes=("EXP101", *codes))


def _without_kernel(case: ProviderCase) -> tuple[ProviderNode, list[Finding]]:
    version = f"{case.operator}-{case.since}"
    if case.has_cpu_kernel:
        what = f"type {case.data_type}" if case.since in case.kernel.since else version
        return _result(_V.TYPE, f"CPU: the provider has no kernel for {what}", _READ, "[ORT-REG]"), []
    finding = CODES["ORT108"].finding(
        "data",
        expected=alternatives(DIRECTML_TYPES),
        got=f"{case.data_type}, for which no provider has a kernel of {version}; the session cannot be created: NOT_IMPLEMENTED",
        remedy="cast data before the node, and the result back behind it",
    )
    text = f"no kernel anywhere for {case.data_type}: the session cannot be created ({finding.code})"
    return _result(_V.NO_KERNEL, text, _READ, "[ORT-REG]", codes=(finding.code,)), [finding]


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
    contradictions: Iterable[Contradiction],
    runtime_types: Mapping[tuple[str, str], PartialType],
    placed: Mapping[Key, PlacedNode],
) -> Iterator[tuple[str, Finding]]:
    """Yield a finding for each node of another operator that may fail on DirectML because the model declares wrong sizes."""
    makers = {(node.key[0], name): node for node in placed.values() for name in node.proto.output}
    for contradiction in contradictions:
        maker = makers.get((contradiction.graph, contradiction.tensor))
        if maker is None or maker.home is not Home.DEVICE or any(True for _ in subgraphs(maker.proto)):
            continue
        inputs = zip(maker.proto.input, maker.inputs, strict=True)
        if all(runtime_types.get((contradiction.graph, name), type_).numbers is not None for name, type_ in inputs if name):
            continue
        failure = f"if DirectML runs {printable(contradiction.operator)}, it ends with {NUMBER}"
        for fault in stale(contradiction.tensor, contradiction.runtime, contradiction.inferred, failure, failure):
            yield contradiction.place, CODES["ORT102"].finding(**fault._asdict())


def _summary(nodes: Sequence[ProviderNode], converted: int, unloaded: int = 0) -> ProviderSummary:
    """Count nodes by verdict.

    `converted`: the number of nodes that run on DirectML on every adapter if their indices become int32.
    """
    count_of = Counter(node.verdict for node in nodes)
    running = (_V.FUSED, _V.SINGLE, _V.DIFFERS, _V.UNCLEAR)
    counts = {
        "directml": sum(count_of[verdict] for verdict in running),
        "parts": len({node.part for node in nodes if node.part is not None}),
        "either": count_of[_V.ADAPTER],
        "converted": converted,
        "cpu": count_of[_V.TYPE] + count_of[_V.SHAPE],
        "shapes": count_of[_V.SHAPE],
        "folded": count_of[_V.FOLDED],
        "fails": count_of[_V.FAILS] + count_of[_V.NO_KERNEL],
        "sometimes": sum(node.sometimes for node in nodes if node.verdict is _V.FAILS),
        "unloaded": unloaded,
        "differs": count_of[_V.DIFFERS],
        "unclear": count_of[_V.UNCLEAR],
        "unknown": count_of[_V.UNKNOWN],
    }
    return ProviderSummary.of(Provider.ONNXRUNTIME_DIRECTML, counts)
