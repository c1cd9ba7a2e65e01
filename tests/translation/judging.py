"""Random problems, translated and run in onnxruntime: the same bits as the source's meaning.

The meaning is what the reference backend makes of the problem, which live libraries judge in the tests of each dialect.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from importlib import import_module
from typing import Any

import numpy as np

import dmlgather as dg
from dmlgather.calls.eager import execute
from dmlgather.dialects.problem import Problem
from dmlgather.onnx.problems.gather import GatherND
from dmlgather.translation import Translation
from tests.onnx.specification import Call as OnnxCall
from tests.peers.onnxruntime import CLAMPS, ONNXRUNTIME, clamps
from tests.translation.random_problems import Array, random_inputs, random_problem

OPSETS = (13, 17, 12, 21)

REFUSED = (
    "has type",  # a data type that the version does not take
    "opset",  # an operator that the version does not have
    "takes no",
    "positions in the flattened data",
)
"""What reasons say."""

LEFT_OUT = "left out for a known fault of the library"

RAISED = "raised"
"""In the place of the outputs, where an index out of range was refused."""

Outcome = list[Array] | str


class NotCoveredError(Exception):
    """onnxruntime has no code for an operator of these types."""


def in_onnxruntime(model: Any, inputs: Sequence[Array]) -> Outcome:
    """onnxruntime, without its own changes of the graph; the model is checked before. inputs: in the model's order."""
    onnx, ort = import_module("onnx"), import_module("onnxruntime")
    onnx.checker.check_model(model, full_check=True)
    ort.set_default_logger_severity(4)  # it logs the errors that it raises
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    try:
        session = ort.InferenceSession(model.SerializeToString(), options)
    except Exception as error:
        if "NOT_IMPLEMENTED" in str(error):
            raise NotCoveredError(str(error)) from None
        raise
    names = [value.name for value in model.graph.input]
    try:
        return [np.asarray(array) for array in session.run(None, dict(zip(names, inputs, strict=True)))]
    except Exception as error:
        if "ndex" in str(error) or "indices" in str(error):
            return RAISED
        raise


def content(outcome: Outcome) -> object:
    """What of an outcome must be equal: types, shapes and every bit."""
    return outcome if isinstance(outcome, str) else [(array.dtype, array.shape, array.tobytes()) for array in outcome]


def meaning(problem: Problem, inputs: list[Array]) -> Outcome:
    """What the problem does."""
    try:
        return [np.asarray(execute(problem, inputs, device="reference"))]
    except IndexError:
        return RAISED


def meets_a_known_fault(made: Translation, inputs: Sequence[Array], *, valid: bool) -> bool:
    """Whether onnxruntime may be wrong about a translation, or crash. valid: whether no index is out of range."""
    assert made.graph is not None
    if clamps(made.form) and any(CLAMPS.known_fault(array) for array in inputs[1:]):
        return True
    return any(ONNXRUNTIME.known_fault(call) for step in made.graph.steps for call in _as_calls(step.work, valid=valid))


def _as_calls(work: object, *, valid: bool) -> Iterator[OnnxCall]:
    """A step as a call that the faults are about, with an index out of range unless `valid`."""
    if isinstance(work, GatherND):
        indices = np.full(work.indices.shape, 0 if valid else 2**31, np.int64)
        batch = {"batch_dims": work.batch_dims} if work.batch_dims else {}
        yield OnnxCall("GatherND", 13, (np.zeros(work.data.shape, "f4"), indices), batch)


def judge(seeds: Iterable[int], *, checked: bool = False) -> Counter[str]:
    """How many runs agreed, and what was refused. AssertionError, which names the seed, for another result.

    checked: whether `Translation.check` has to say so as well.
    """
    found: Counter[str] = Counter()
    for seed in seeds:
        problem, opset = random_problem(seed), OPSETS[seed % len(OPSETS)]
        made = dg.translate(problem, opset=opset)
        if made.form is None:
            assert any(words in made.reason for words in REFUSED), (seed, opset, made.reason)
            found[made.reason[:40]] += 1
            continue
        if checked:
            assert made.check, (seed, opset, problem, str(made), str(made.check))
            found[f"checked by {len(made.check.judges)}, with {len(made.check.remarks)} remarks"] += 1
        for valid in (True, False):
            inputs = random_inputs(problem, seed, valid=valid)
            if inputs is None:
                continue
            if meets_a_known_fault(made, inputs, valid=valid):
                found[LEFT_OUT] += 1
                continue
            try:
                got = in_onnxruntime(made.form, inputs)
            except NotCoveredError as error:
                found[f"cannot run: {str(error)[-70:]}"] += 1
                continue
            assert content(got) == content(meaning(problem, inputs)), (seed, opset, problem, inputs, str(made))
            found["equal"] += 1
    return found
