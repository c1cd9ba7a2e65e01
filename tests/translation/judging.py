"""Random problems, translated and run in the library that they were translated to: the same bits as the source's meaning.

The meaning is what the reference backend makes of the problem, which live libraries judge in the tests of each dialect.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import numpy as np

from dmlgather.dialects.problem import Problem
from dmlgather.eager import execute
from dmlgather.lax.problems.gather import LaxGather
from dmlgather.plan import OutOfBounds
from dmlgather.translation import Translation, translate
from tests.translation.live import RAISED, RUNS, NotCoveredError, Outcome, content
from tests.translation.random_problems import Array, random_inputs, random_problem

VERSIONS = {
    "onnx": ({"opset": 13}, {"opset": 17}, {"opset": 12}, {"opset": 21}),
    "openvino": ({"version": 16}, {"version": 8}, {"version": 7}, {"version": 1}),
    "jax": ({},),
    "directml": ({"level": "6_4"}, {"level": "3_0"}),
}

REFUSED = (
    "has type",  # a data type that the version does not take
    "opset",  # an operator that the version does not have
    "takes no",
    "EXP1",  # what DirectML cannot describe
    "DML201",
    "every index is an error",
    "positions in the flattened data",
    "nothing is moved",
    "cannot compute positions",
    "which DirectML's gathers and slices cannot do",
)
"""What reasons say."""


def meaning(problem: Problem, inputs: list[Array]) -> Outcome:
    """What the problem does."""
    try:
        return [np.asarray(execute(problem, inputs, device="reference"))]
    except IndexError:
        return RAISED


def always_equal(problem: Problem, to: str) -> bool:
    """Whether a translation must also be equal for indices that are out of range."""
    plan = problem.plan()
    if not plan.lookups or to == "onnx":
        return True
    if to == "directml":
        signed = problem.tensors[1].dtype.kind == "i"
        clamps = plan.out_of_bounds in (OutOfBounds.CLAMP, OutOfBounds.PROMISE)
        return clamps and all(lookup.wrap == (lookup.limit if signed else 0) for lookup in plan.lookups)
    return plan.out_of_bounds is not OutOfBounds.RAISE


def no_judge(problem: Problem, to: str, made: Translation) -> bool:
    """Whether the live library is known to be wrong, or to crash."""
    assert made.graph is not None
    empty = any(0 in tensor.shape for tensor in made.graph.types.values())
    if to == "openvino":  # evaluate counts negative indices of Gather-7 from the end, and divides by the size of empty tensors
        return empty or any(getattr(step.work, "version", None) in (1, 7) for step in made.graph.steps)
    if to == "onnx":  # onnxruntime checks no index of a GatherND without output
        return empty and problem.plan().out_of_bounds is OutOfBounds.RAISE
    return empty and to == "jax"


def judge(seeds: Iterable[int], targets: Iterable[str] = tuple(VERSIONS), *, extreme: bool = False) -> Counter[str]:
    """How many runs agreed, by target, and what was refused. AssertionError, which names the seed, for another result.

    extreme: whether index values of more than 32 bits are tried, which onnxruntime before 1.32 clamps wrongly.
    """
    found: Counter[str] = Counter()
    for seed in seeds:
        problem = random_problem(seed)
        for to in targets:
            version = VERSIONS[to][seed % len(VERSIONS[to])]
            made = translate(problem, to, **version)  # type: ignore[arg-type] # each has its own type
            if not made.ok:
                assert any(words in made.reason for words in REFUSED), (seed, to, version, made.reason)
                found[f"{to}: {made.reason[:40]}"] += 1
                continue
            if no_judge(problem, to, made):
                found[f"{to} cannot judge"] += 1
                continue
            for valid in (True, False):
                narrowed = to == "jax" and isinstance(problem, LaxGather)  # JAX reads other elements than its pages say
                inputs = random_inputs(problem, seed, valid=valid, extreme=extreme and not narrowed)
                if inputs is None or not (valid or always_equal(problem, to)):
                    continue
                try:
                    got = RUNS[to](made, inputs)
                except NotCoveredError as error:
                    found[f"{to} cannot run: {str(error)[-70:]}"] += 1
                    continue
                assert content(got) == content(meaning(problem, inputs)), (seed, to, version, problem, inputs, str(made))
                found[to] += 1
    return found
