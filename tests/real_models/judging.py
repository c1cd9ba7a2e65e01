"""The judge of `check` on the nodes of a model, based on onnxruntime's runs of the model."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from dmlgather.directml import FeatureLevel
from dmlgather.directml.findings import LocatedFinding
from dmlgather.onnx_checking.checked_model import CheckedModel, CheckedNode, CheckedTensor, Verdict
from tests.dialects import binding
from tests.real_models.expressions import evaluate
from tests.real_models.observing import ModelRuns, NodeRun, SeenTensor
from tests.real_models.stepping import Activation

SYMBOL = re.compile(r"[\w.]+(\[\d+\])?")
"""Matches a named size that is no expression."""


@dataclass
class Judgement:
    """A result of the judge. wrong: each disagreement, as a line. outside: runs of nodes whose conditions did not hold. narrow:
    those of them that DirectML still accepts. unclear: conditions whose names are known only in products. unseen: nodes that
    no run reached.
    """

    wrong: list[str] = field(default_factory=list)
    outside: int = 0
    narrow: list[str] = field(default_factory=list)
    unclear: list[str] = field(default_factory=list)
    unseen: list[str] = field(default_factory=list)


def judge(checked: CheckedModel, level: FeatureLevel, runs: ModelRuns) -> Judgement:
    """Compare every node of a checked model with all its runs."""
    return _Judge(checked, level, runs).judgement


class _Judge:
    def __init__(self, checked: CheckedModel, level: FeatureLevel, runs: ModelRuns) -> None:
        self.level, self.judgement = level, Judgement()
        self.findings: dict[str, list[LocatedFinding]] = {}
        for finding in checked.findings:
            self.findings.setdefault(finding.subject, []).append(finding)
        places = Counter((node.graph, node.index) for node in checked.nodes)
        self.judgement.wrong += [
            f"{graph} {index}: two nodes have one place" for (graph, index), number in places.items() if number > 1
        ]
        nodes = {(node.graph, node.index): node for node in checked.nodes}
        sizes = {activation: dict(known) for activation, known in runs.sizes.items()}
        pairs = []
        for run in runs.nodes:
            if run.place in nodes:
                pairs.append((nodes[run.place], run))
            else:
                self.wrong(f"{run.place[0]}/{run.place[1]}", "it ran, but the report does not have it")
        for is_one in (SYMBOL.fullmatch, lambda _: True):  # symbols first, because they decide expressions
            for node, run in pairs:
                known = _seen_from(run.activation, sizes)
                learnt = sizes.setdefault(run.activation, {})
                for name, size in _named_sizes(node, run):
                    if is_one(name) and evaluate(name, known) is None:
                        learnt.setdefault(name, size)
        for node, run in pairs:
            self.node(node, run, _seen_from(run.activation, sizes))
        ran = {run.place for run in runs.nodes}
        self.judgement.unseen = [node.place for node in checked.nodes if (node.graph, node.index) not in ran]
        self.judgement.wrong = list(dict.fromkeys(self.judgement.wrong))

    def wrong(self, place: str, text: str) -> None:
        self.judgement.wrong.append(f"{place} at {self.level}: {text}")

    def node(self, node: CheckedNode, run: NodeRun, sizes: Mapping[str, int]) -> None:
        for fault in run.faults:
            self.wrong(node.place, fault)
        for tensor, real in _tensors(node, run):
            self.tensor(node, tensor, real, sizes)
        own = {f"{role}[{axis}]": size for role, each in run.tensors.items() for axis, size in enumerate(each.shape)}
        if node.verdict is Verdict.UNREACHED:
            self.wrong(node.place, "it is said to be unreached, but it ran")
        elif node.verdict is Verdict.TAKEN:
            self.taken(node, run, own | dict(sizes))
        elif node.verdict is Verdict.REFUSED:
            self.refused(node, run)

    def tensor(self, node: CheckedNode, tensor: CheckedTensor, real: SeenTensor, sizes: Mapping[str, int]) -> None:
        if tensor.type not in (None, real.type):
            self.wrong(node.place, f"{tensor.role} is said to be of type {tensor.type}; it was {real.type}")
        for what, said, was in (("shape", tensor.shape, real.shape), ("values", tensor.values, real.values)):
            if said is not None and was is not None and not _agree(said, was, sizes):
                self.wrong(node.place, f"{tensor.role} is said to be of {what} {said}; it was {was}")

    def taken(self, node: CheckedNode, run: NodeRun, sizes: Mapping[str, int]) -> None:
        held = {condition: evaluate(condition, sizes) for condition in node.provided}
        unclear = [condition for condition, answer in held.items() if answer is None]
        refusals = run.refused[self.level]
        if unclear and any(_named_in(condition, node) for condition in unclear):
            self.judgement.unclear.append(f"{node.place} at {self.level}: {unclear[0]!r} is about a part of a size")
        elif unclear:
            self.wrong(node.place, f"condition {unclear[0]!r} has names that no tensor of the run has")
        elif not all(held.values()):
            self.judgement.outside += 1
            if not refusals:
                broken = next(condition for condition, answer in held.items() if not answer)
                self.judgement.narrow.append(f"{node.place} at {self.level}: {broken!r} did not hold, and DirectML takes it")
        elif refusals:
            self.wrong(node.place, f"it is said to be taken; DirectML's documents call for {', '.join(sorted(refusals))}")
        else:
            self.forms(node, run)

    def forms(self, node: CheckedNode, run: NodeRun) -> None:
        shapes = [each.shape for each in node.inputs]
        known = not node.provided and all(shape is not None and all(isinstance(size, int) for size in shape) for shape in shapes)
        if known and node.taken is not None and node.taken.operators != run.forms.get(self.level):
            self.wrong(node.place, f"it is said to be {node.taken.operators}; its descriptors are {run.forms.get(self.level)}")
        if node.lowest is None:
            self.wrong(node.place, "it is taken, but no lowest level is named")
            return
        if run.refused[node.lowest.level]:
            self.wrong(
                node.place, f"it is said to be taken from {node.lowest.level} on; DirectML's documents do not take it there"
            )
        below = [level for level in binding.LEVELS if level < node.lowest.level]
        if known and below and not run.refused[below[-1]]:
            self.wrong(
                node.place, f"it is said to be taken from {node.lowest.level} on; DirectML's documents take it at {below[-1]}"
            )

    def refused(self, node: CheckedNode, run: NodeRun) -> None:
        errors = [finding for finding in self.findings.get(node.place, ()) if str(finding.severity) == "error"]
        if run.refused[self.level]:
            return
        some_sizes = any("(with " in finding.got for finding in errors)
        if not some_sizes:
            self.wrong(
                node.place,
                f"it is said to be refused ({', '.join(finding.code for finding in errors)}); DirectML's documents take it",
            )


def _tensors(node: CheckedNode, run: NodeRun) -> Iterator[tuple[CheckedTensor, SeenTensor]]:
    """Yield the tensors of a node in the report and in the run."""
    for tensor in (*node.inputs, *node.outputs):
        if tensor.role in run.tensors:
            yield tensor, run.tensors[tensor.role]


def _agree(said: Sequence[int | str | None], was: Sequence[int], sizes: Mapping[str, int]) -> bool:
    """Return True if each number in the report is that of the run."""
    numbers = [evaluate(one, sizes) if isinstance(one, str) else one for one in said]
    return len(numbers) == len(was) and all(number in (None, there) for number, there in zip(numbers, was, strict=True))


def _named_in(condition: str, node: CheckedNode) -> bool:
    """Return True if a size of the node's tensors has the condition's name. The product of two names has both."""
    words = set(re.findall(r"[^\W\d][\w.\[\]]*", condition))
    sizes = (str(size) for tensor in (*node.inputs, *node.outputs) for size in tensor.shape or ())
    return any(words & set(re.findall(r"[^\W\d][\w.\[\]]*", size)) for size in sizes)


def _named_sizes(node: CheckedNode, run: NodeRun) -> Iterator[tuple[str, int]]:
    """Yield the report's names of the sizes and values of a node's tensors, with their values in the run."""
    for tensor, real in _tensors(node, run):
        for axis, (size, there) in enumerate(zip(tensor.shape or (), real.shape, strict=False)):
            if not isinstance(size, int):
                yield f"{tensor.name}[{axis}]" if size is None else size, there
        for value, there in zip(tensor.values or (), real.values or (), strict=False):
            if isinstance(value, str):
                yield value, there


def _seen_from(activation: Activation, sizes: Mapping[Activation, Mapping[str, int]]) -> dict[str, int]:
    """Return the sizes of a graph's run, and of the surrounding runs unless it hides them."""
    outer = {} if activation.parent is None else _seen_from(activation.parent, sizes)
    return outer | dict(sizes.get(activation, {}))
