"""Random problems, translated and run in the library that they were translated to: the same bits as the source's meaning.

The meaning is what the reference backend makes of the problem, which live libraries judge in the tests of each dialect.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from dmlgather.calls.eager import execute
from dmlgather.dialects.problem import Problem, TensorType
from dmlgather.dialects.views import ExpandView
from dmlgather.onnx.problems.gather import GatherND
from dmlgather.openvino.problems.gather import OpenVINOGather
from dmlgather.openvino.problems.slices import MASKS, OpenVINOStridedSlice
from dmlgather.plan import OutOfBounds
from dmlgather.translation import Translation, translate
from tests.onnx.specification import Call as OnnxCall
from tests.openvino.family_specification import FamilyCall
from tests.openvino.specification import Call as OpenVINOCall
from tests.peers.faults import Peer
from tests.peers.onnxruntime import CLAMPS, ONNXRUNTIME, clamps
from tests.peers.openvino import BROADCAST, EVALUATE, FAMILY
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

LEFT_OUT = "left out for a known fault of the library"

STRIDED = ("begin", "end", "strides")


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


def meets_a_known_fault(made: Translation, inputs: Sequence[Array], *, valid: bool) -> bool:
    """Whether the live library may be wrong about a translation, or crash. valid: whether no index is out of range."""
    assert made.graph is not None
    if made.to.startswith("onnx") and clamps(made.form) and any(CLAMPS.known_fault(array) for array in inputs[1:]):
        return True
    return any(peer.known_fault(call) for step in made.graph.steps for peer, call in _as_calls(step.work, made.to, valid=valid))


def _as_calls(work: object, to: str, *, valid: bool) -> Iterator[tuple[Peer[Any], Any]]:
    """A step as a call that a peer's faults are about, with an index out of range unless `valid`."""

    def indices(tensor: TensorType, outside: int) -> Array:
        return np.full(tensor.shape, 0 if valid else outside, np.int64)

    match work:
        case GatherND():
            batch = {"batch_dims": work.batch_dims} if work.batch_dims else {}
            yield ONNXRUNTIME, OnnxCall("GatherND", 13, (np.zeros(work.data.shape, "f4"), indices(work.indices, 2**31)), batch)
        case OpenVINOGather():
            data, looked_up = np.zeros(work.data.shape, "f4"), indices(work.indices, -1)
            yield EVALUATE, OpenVINOCall(work.version, data, looked_up, work.axis, work.batch_dims)
        case OpenVINOStridedSlice():
            more = {name: list(value) for name in (*STRIDED, *MASKS) if (value := getattr(work, name)) is not None}
            yield FAMILY, FamilyCall("StridedSlice", 1, (np.zeros(work.data.shape, "f4"),), more)
        case ExpandView() if to.startswith("openvino"):
            yield BROADCAST, (list(work.data.shape), list(work.shape))


def judge(seeds: Iterable[int], targets: Iterable[str] = tuple(VERSIONS)) -> Counter[str]:
    """How many runs agreed, by target, and what was refused. AssertionError, which names the seed, for another result."""
    found: Counter[str] = Counter()
    for seed in seeds:
        problem = random_problem(seed)
        for to in targets:
            version = VERSIONS[to][seed % len(VERSIONS[to])]
            made = translate(problem, to, **version)  # type: ignore[arg-type] # each has its own type
            if made.form is None:
                assert any(words in made.reason for words in REFUSED), (seed, to, version, made.reason)
                found[f"{to}: {made.reason[:40]}"] += 1
                continue
            for valid in (True, False):
                inputs = random_inputs(problem, seed, valid=valid)
                if inputs is None or not (valid or always_equal(problem, to)):
                    continue
                if to != "directml" and meets_a_known_fault(made, inputs, valid=valid):
                    found[LEFT_OUT] += 1
                    continue
                try:
                    got = RUNS[to](made, inputs)
                except NotCoveredError as error:
                    found[f"{to} cannot run: {str(error)[-70:]}"] += 1
                    continue
                assert content(got) == content(meaning(problem, inputs)), (seed, to, version, problem, inputs, str(made))
                found[to] += 1
    return found
