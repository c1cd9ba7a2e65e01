"""Faults put into what is compared: a stored pair notices each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
import pytest

from dmlgather.dialects.index_graph import IndexGraph, Opaque, Step
from dmlgather.equivalence import Equivalence, decide, deciding
from tests.equivalence.adversary.judging import judged, random_pair
from tests.noticing import BrokenPrograms


def _changed(graph: IndexGraph, change: Callable[[Step, Opaque], Step]) -> IndexGraph:
    """The graph with other opaque steps."""
    return replace(graph, steps=tuple(change(each, each.work) if isinstance(each.work, Opaque) else each for each in graph.steps))


def _without_attributes(step: Step, work: Opaque) -> Step:
    return replace(step, work=replace(work, attributes=()))


def _in_order(step: Step, work: Opaque) -> Step:
    same = len({*step.inputs}) == 2
    return replace(step, inputs=tuple(sorted(step.inputs))) if same else step


def _one_operator(*names: str) -> Callable[[Step, Opaque], Step]:
    """These are one operator."""

    def change(step: Step, work: Opaque) -> Step:
        known = work.operator.lower().rpartition(".")[2] in names
        return replace(step, work=replace(work, operator=names[0], attributes=())) if known else step

    return change


def _rounded(graph: IndexGraph) -> IndexGraph:
    """Constants are numbers of float16."""
    with np.errstate(all="ignore"):
        constants = {
            name: array.astype(np.float16).astype(array.dtype) if array.dtype.kind == "f" else array
            for name, array in graph.constants.items()
        }
    return replace(graph, constants=constants)


def _without_zeros(graph: IndexGraph) -> IndexGraph:
    """A sum of anything and zeros is left out."""
    kept, names = list[Step](), dict[str, str]()
    for step in graph.steps:
        read = replace(step, inputs=tuple(names.get(name, name) for name in step.inputs))
        zero = (
            len(read.inputs) == 2
            and isinstance(step.work, Opaque)
            and step.work.operator.lower().rpartition(".")[2] in ("add", "sub")
        )
        others = [name for name in read.inputs if name not in graph.constants or graph.constants[name].any()]
        if zero and len(others) == 1 and graph.types[others[0]] == graph.types[step.outputs[0]]:
            names[step.outputs[0]] = others[0]
        else:
            kept.append(read)
    return replace(graph, steps=tuple(kept), outputs=tuple(names.get(name, name) for name in graph.outputs))


def _without_unneeded(graph: IndexGraph) -> IndexGraph:
    """Steps that no output needs are left out, those as well that raise."""
    wanted, kept = set(graph.outputs), list[Step]()
    for step in reversed(graph.steps):
        if wanted.intersection(step.outputs):
            kept.append(step)
            wanted.update(step.inputs)
    return replace(graph, steps=tuple(reversed(kept)))


ONE_INPUT = (
    *(
        "exp",
        "sigmoid",
        "tanh",
        "sqrt",
        "floor",
        "ceil",
        "relu",
        "erf",
        "log",
        "reciprocal",
        "softplus",
        "mish",
        "softsign",
        "round",
    ),
    *("sin", "cos", "abs", "neg", "sign"),
)
COMPARISONS = ("less", "lessorequal", "greater", "greaterorequal", "equal")

FAULTS: Mapping[str, Callable[[IndexGraph], IndexGraph]] = {
    "attributes are left out": lambda graph: _changed(graph, _without_attributes),
    "operands have no order": lambda graph: _changed(graph, _in_order),
    "two functions are one": lambda graph: _changed(graph, _one_operator(*ONE_INPUT)),
    "two comparisons are one": lambda graph: _changed(graph, _one_operator(*COMPARISONS)),
    "numbers are rounded": _rounded,
    "zeros are left out": _without_zeros,
    "what raises is left out": _without_unneeded,
}


def judge(name: str, seed: int) -> tuple[str, str]:
    """What the pair of this seed shows of `equivalent` as it is, and with a fault."""
    sound, broken = _shown(seed), ""
    with pytest.MonkeyPatch.context() as patch:

        def faulty(first: IndexGraph, second: IndexGraph, **given: object) -> Equivalence:
            return decide(FAULTS[name](first), FAULTS[name](second), **given)  # type: ignore[arg-type] # as they are

        patch.setattr(deciding, "decide", faulty)
        broken = _shown(seed)
    return sound, broken


def _shown(seed: int) -> str:
    try:
        judged(random_pair(seed, ("onnx", "onnx")))
    except AssertionError as error:
        return str(error)
    return ""


PROGRAMS = BrokenPrograms("tests/equivalence/adversary/test_planted.py", FAULTS, judge)


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_noticed(name: str) -> None:
    assert PROGRAMS.check(name).startswith("proven, but the programs differ")
