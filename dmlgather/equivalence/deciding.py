"""Deciding whether two graphs index alike: a proof, or a counterexample."""

from __future__ import annotations

from dmlgather.dialects.index_graph import IndexGraph
from dmlgather.dialects.normal_forms import normalised
from dmlgather.dialects.problem import whole
from dmlgather.equivalence.matching import matched
from dmlgather.equivalence.proof import Proof, prove
from dmlgather.equivalence.results import Equivalence, Given
from dmlgather.equivalence.search import Search


def check_decision(given: object, seed: object) -> None:
    """ValueError for another `given` and for a negative seed, TypeError for a seed that is no integer."""
    if given not in ("any", "valid"):
        raise ValueError(f"given is {given!r}, expected 'any' or 'valid'")
    if whole("seed", seed) < 0:
        raise ValueError(f"seed is {seed}, expected an integer of 0 or more")


def decide(first: IndexGraph, second: IndexGraph, *, given: Given = "any", flat: bool = False, seed: int = 0) -> Equivalence:
    """Whether two graphs write the same for the same inputs, and raise for the same ones: the same bits, but for how opaque steps
    round that have one normal form.

    given: for which inputs. flat: elements are compared in row-major order, whatever the shapes of inputs and outputs are. seed:
    of the search for a counterexample. ValueError and TypeError for another `given` or `seed`.
    """
    check_decision(given, seed)
    first, second = normalised(first).needed(), normalised(second).needed()
    inputs = matched(first, second, flat=flat)
    if isinstance(inputs, str):
        return Equivalence("different", given, inputs)
    try:
        proof = prove(first, second, inputs, valid=given == "valid")
    except RecursionError:
        proof = Proof(False, "the programs look up indices in each other, or compute with them, more deeply than can be followed")
    if proof.proven:
        return Equivalence("proven", given, "; ".join(inputs.remarks))
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
