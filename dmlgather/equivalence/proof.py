"""The proof that two programs index alike: by their meanings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dmlgather.dialects.index_graph import IndexGraph, Opaque, Step
from dmlgather.equivalence.leaves import Leaves
from dmlgather.equivalence.matching import Matched
from dmlgather.equivalence.meaning import Meaning, meaning
from dmlgather.equivalence.parts import PartMaker
from dmlgather.equivalence.symbols import Leaf
from dmlgather.equivalence.tables import Tables


@dataclass(frozen=True, slots=True)
class Proof:
    """proven: whether it was. reason: why it was not. step: the first step that stops it, or "". same: the names of the opaque
    steps of both programs that were taken to write the same. alone: of each program, the opaque steps that the other one does not
    do: no output depends on them, but they may raise.
    """

    proven: bool
    reason: str = ""
    step: str = ""
    same: tuple[tuple[str, str], ...] = ()
    alone: tuple[tuple[Step, ...], tuple[Step, ...]] = ((), ())


def prove(first: IndexGraph, second: IndexGraph, inputs: Matched, *, valid: bool) -> Proof:
    """Prove that two programs raise for the same inputs, and else write the same.

    valid: only for inputs for which no index of the first program is out of range; there the second one does not raise.
    """
    parts = PartMaker(Tables(Leaves()))
    leaves = [
        parts.leaves.leaf("input", number, kind.dtype, kind.layout.extent, name)
        for number, (name, kind) in enumerate(zip(inputs.names, inputs.types, strict=True))
    ]
    one = _meaning(first, [leaves[number] for number in inputs.first], parts, valid)
    others = [leaves[number] for number in inputs.second]
    if valid and one.checks is None:
        return Proof(False, "an index of the first program is out of range for all inputs")
    two = meaning(second, others, parts, one.checks) if valid else _meaning(second, others, parts, valid)
    return _compared(one, two, parts, (first, second))


def _meaning(graph: IndexGraph, inputs: list[Leaf], parts: PartMaker, valid: bool) -> Meaning:
    """What a program means where its own checks on inputs hold, which are found first."""
    found = meaning(graph, inputs, parts, valid=valid)
    given = None if found.checks is None else found.checks.of_inputs()
    return meaning(graph, inputs, parts, given, valid=valid) if given is not None and not given.empty else found


def _compared(one: Meaning, two: Meaning, parts: PartMaker, graphs: Sequence[IndexGraph]) -> Proof:
    same = tuple((step, two.makers[leaf]) for leaf, step in one.makers.items() if leaf in two.makers)
    if one.checks is None or two.checks is None:
        if one.checks is two.checks:
            return Proof(True, same=same)
        side = "first" if one.checks is None else "second"
        return Proof(False, f"the {side} program raises for all inputs")
    checks = one.checks.difference(two.checks)
    if checks:
        return Proof(False, checks)
    for name, a, b in zip(graphs[0].outputs, one.outputs, two.outputs, strict=True):
        if parts.form(a) != parts.form(b):
            return _stopped(graphs[0].label(name), one, two, graphs)
    return Proof(True, same=same, alone=(_alone(one, two, graphs[0]), _alone(two, one, graphs[1])))


def _alone(own: Meaning, other: Meaning, graph: IndexGraph) -> tuple[Step, ...]:
    """The opaque steps of a program whose outputs the other one has not."""
    names = {step for leaf, step in own.makers.items() if leaf not in other.makers}
    return tuple(step for step in graph.steps if step.name in names and isinstance(step.work, Opaque))


def _stopped(output: str, one: Meaning, two: Meaning, graphs: Sequence[IndexGraph]) -> Proof:
    """Why two outputs are not known to be equal: the first step, of the first program if it has one, that has no partner."""
    for own, others, graph, side, other in ((one, two, graphs[0], "first", "second"), (two, one, graphs[1], "second", "first")):
        alone = {step: "" for leaf, step in own.makers.items() if leaf not in others.makers}
        alone |= {step: why for leaf, (step, why) in own.stops.items() if leaf not in others.stops}
        for step in graph.steps:
            if alone.get(step.name):
                reason = f"{step.name} of the {side} program is followed no further: {alone[step.name]}"
                return Proof(False, f"output {output!r}: {reason}", step.name)
            if step.name in alone:
                reason = f"the {other} program does not do {step.name} with inputs that are known to be equal"
                return Proof(False, f"output {output!r}: {reason}", step.name)
    return Proof(False, f"output {output!r}: the programs read other elements, or compute with them otherwise")
