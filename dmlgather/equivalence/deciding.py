"""Deciding whether two graphs index alike: a proof, or a counterexample."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dmlgather.dialects.index_graph import IndexGraph, Opaque, Step
from dmlgather.dialects.problem import whole
from dmlgather.dialects.shared_operators import BY_OWN, NAMES, TITLES, with_shared_operators
from dmlgather.equivalence.meaning import Meaning, meaning
from dmlgather.equivalence.parts import PartMaker
from dmlgather.equivalence.results import Equivalence, Given
from dmlgather.equivalence.search import Matched, Search, matched
from dmlgather.equivalence.symbols import Leaf, Leaves
from dmlgather.equivalence.tables import Tables
from dmlgather.graph_sources import check_all_read, read_program


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


RAISE_NOTHING = "raise_nothing"
"""The assumption that operators outside the family that no output needs raise for no inputs."""

ASSUMPTIONS = NAMES | {RAISE_NOTHING}
"""What a proof may assume: operators that two libraries compute alike, by name, and that other operators raise nothing."""

_CANNOT_RAISE = NAMES - {"cast", "divide"} | {"bitcast", "overwrite"}  # a cast may refuse a text that is no number


def check_decision(given: object, seed: object, assume: Collection[str]) -> None:
    """ValueError for another `given`, a negative seed and an unknown operator, TypeError for a seed that is no integer."""
    if given not in ("any", "valid"):
        raise ValueError(f"given is {given!r}, expected 'any' or 'valid'")
    if whole("seed", seed) < 0:
        raise ValueError(f"seed is {seed}, expected an integer of 0 or more")
    listed = isinstance(assume, Collection) and not isinstance(assume, str)
    unknown = sorted(repr(name) for name in assume if name not in ASSUMPTIONS) if listed else []
    if unknown or not listed:
        found = f"{', '.join(unknown)} in it" if listed else repr(assume)
        raise ValueError(f"assume has {found}, expected a collection of these: {', '.join(sorted(ASSUMPTIONS))}")


def decide(
    first: IndexGraph,
    second: IndexGraph,
    *,
    given: Given = "any",
    flat: bool = False,
    seed: int = 0,
    assume: Collection[str] = ASSUMPTIONS,
) -> Equivalence:
    """Whether two graphs write the same bits for the same inputs, and raise for the same ones.

    given: for which inputs. flat: elements are compared in row-major order, whatever the shapes of inputs and outputs are. seed:
    of the search for a counterexample. assume: of `ASSUMPTIONS`, the operators that a proof may take to be the same where the
    graphs are of different libraries, and RAISE_NOTHING. ValueError and TypeError for another `given`, `seed` or `assume`.
    """
    check_decision(given, seed, assume)
    first, second = first.needed(), second.needed()
    inputs = matched(first, second, flat=flat)
    if isinstance(inputs, str):
        return Equivalence("different", given, inputs)
    proof, assumptions = _proof(first, second, inputs, given, ())
    if not proof.proven and assume and not _libraries(first) & _libraries(second):
        proof, assumptions = _proof(first, second, inputs, given, assume)
    if proof.proven:
        alone = [*_may_raise(first, proof.alone[0], "first"), *_may_raise(second, proof.alone[1], "second")]
        if alone and RAISE_NOTHING not in assume:
            return Equivalence("not proven", given, f"it is not known that {alone[0]}")
        return Equivalence("proven", given, "; ".join(inputs.remarks), assumptions=(*assumptions, *alone))
    search = Search(first, second, inputs, valid=given == "valid", seed=seed)
    found = search.run()
    if found is not None and not found.doubt:
        output = found.counterexample.output
        what = (
            f"output {output!r} differs for some inputs" if output is not None else "one program raises where the other does not"
        )
        return Equivalence("different", given, what, counterexample=found.counterexample)
    reasons = [proof.reason, *([] if found is None else [found.doubt]), *inputs.remarks]
    if search.too_large:
        reasons.append("the programs are too large to be run, so no counterexample was searched")
    return Equivalence("not proven", given, "; ".join(reasons), proof.step)


def _may_raise(graph: IndexGraph, alone: tuple[Step, ...], side: str) -> list[str]:
    """That what no output of a program needs raises nothing, in words: of each such step that might raise."""
    return [
        f"{step.name} of the {side} program, which no output needs, raises nothing"
        for step in (*graph.unread, *alone)
        if isinstance(step.work, Opaque) and not _cannot_raise(step.work.operator)
    ]


def _cannot_raise(operator: str) -> bool:
    """Whether an operator raises for no inputs: those that libraries share, and JAX's but for calls of other code."""
    row = BY_OWN.get(operator.rpartition(".")[0] if operator.count(".") > 1 else operator)
    known = (operator if row is None else row.name) in _CANNOT_RAISE
    return known or (operator.startswith("lax.") and "call" not in operator)


def _libraries(graph: IndexGraph) -> set[str]:
    """The libraries whose opaque operators a graph has."""
    return TITLES.keys() & {step.work.operator.partition(".")[0] for step in graph.steps if isinstance(step.work, Opaque)}


def _proof(
    first: IndexGraph, second: IndexGraph, inputs: Matched, given: Given, assume: Collection[str]
) -> tuple[Proof, tuple[str, ...]]:
    """The proof, and what it takes for granted, in words."""
    (one, names), (two, others) = (with_shared_operators(graph, assume) for graph in (first, second))
    try:
        proof = prove(one, two, inputs, valid=given == "valid")
    except RecursionError:
        proof = Proof(False, "the programs look up indices in each other, or compute with them, more deeply than can be followed")
    same = ((names[step], others[other]) for step, other in proof.same if step in names)
    used = (f"{a.words} and {b.words} give the same bits" for a, b in same if not (a.exact and b.exact))
    return proof, tuple(dict.fromkeys(used))


# `equivalent`: whether two programs of any kind index alike.


def equivalent(
    first: Any,
    second: Any,
    /,
    *example: Any,
    inputs: Mapping[str, Any] | None = None,
    given: Given = "any",
    seed: int = 0,
    assume: Collection[str] = ASSUMPTIONS,
) -> Equivalence:
    """Whether two programs index alike: proven for all inputs of the stated shapes, or a counterexample, or not proven.

    first, second: each a path (.onnx, .xml, or .json of a DxDispatch model or a descriptor), an onnx.ModelProto, a function of
    JAX or a closed jaxpr, a module, a function or an ExportedProgram of PyTorch, what `dg.index` or `dg.fuse` gives, descriptors
    of DirectML, a problem or a chain of problems, or an IndexGraph. A function is PyTorch's where an example is a tensor of
    PyTorch, else JAX's; one of jax.jit always is JAX's. example: the arguments of functions, as arrays, tensors,
    jax.ShapeDtypeStruct or pairs (shape, dtype); of `dg.index`, the first one is the data. What stands between its brackets is a
    constant, and a placeholder there an input. inputs: what models leave open, as for `dg.onnx.index_graph`.

    given: "any": for all inputs, both programs raise or both write the same bits. "valid": the same, but only for inputs for
    which no index of the first program is out of range, by the rules of its own operators; there the second one must not raise.
    seed: of the search for a counterexample.

    Operators that do not index are not looked into: they give the same bits, or raise, where operator, attributes and inputs are
    equal. assume: the operators of which two libraries are assumed to give the same bits, such as "softmax", and "raise_nothing":
    that operators that no output needs raise for no inputs; all of these unless stated, () for none. `assumptions` of the result
    lists what a proof assumed.

    Raises ValueError for another `given` or `assume`, a negative `seed`, and `inputs` that neither program has, FileError for a
    file that cannot be used, TypeError for what is no program and for examples that neither program reads, and what the readers
    of programs raise.

    >>> import jax
    >>> table, ids = jax.ShapeDtypeStruct((100, 8), "float32"), jax.ShapeDtypeStruct((4,), "int32")
    >>> print(dg.equivalent(lambda x, i: x[i][:, ::-1], lambda x, i: x[:, ::-1][i], table, ids))
    proven: equal for all inputs of these shapes
    >>> print(dg.equivalent(lambda x, i: x[i], lambda x, i: x.at[i].get(mode="fill"), table, ids).verdict)
    different
    """
    check_decision(given, seed, assume)
    one = read_program(first, *example, inputs=inputs, others=True, argument="first")
    two = read_program(second, *example, inputs=inputs, others=True, argument="second")
    check_all_read([one, two], example, inputs)
    return decide(one.graph, two.graph, given=given, flat=one.buffers or two.buffers, seed=seed, assume=assume)
