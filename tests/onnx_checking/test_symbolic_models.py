"""Verdicts on models with unknown sizes agree with those on the same models with numbers, and with runs in onnxruntime."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto

from dmlgather.directml import FeatureLevel
from dmlgather.onnx.problems.node_reading import PROBLEMS
from dmlgather.onnx_checking.check import check_model
from dmlgather.onnx_checking.checked_model import CheckedModel, CheckedNode, Verdict
from dmlgather.onnx_checking.verdicts import judge
from tests import seeds
from tests.onnx_checking.modelling import findings_of, saved
from tests.onnx_checking.sessions import OFF, REFUSALS, run
from tests.onnx_checking.symbolic_models import SymbolicModel, symbolic_model
from tests.onnx_checking.symbolic_nodes import PASSED, disagreement, expressions, holds, meaning, random_node, told_sizes

LEVELS = ("1_0", "2_1", "3_0", "6_4")

COUNT = 8
"""How many values of its symbols each model is tried with."""


@pytest.mark.parametrize("part", range(4))
def test_nodes_of_expressions(part: int) -> None:
    for _ in range(40):
        seed = seeds.seed()
        rng = random.Random(seed)
        node = random_node(rng)
        assert disagreement(node, FeatureLevel.parse(rng.choice(LEVELS)), rng, COUNT) is None, seed


def test_a_size_of_a_value_is_no_symbol() -> None:
    """Models call their values v0, v1, v2 and so on: a run alone shows such a size."""
    assert holds(("1 <= N <= 7", "M = 4"), {"K": 1, "N": 6, "M": 4})
    with pytest.raises(NameError):
        holds(("v2[1] >= 1",), {"K": 1, "N": 6, "M": 4})


@pytest.mark.parametrize(("seed", "level"), [(247990206, "2_1"), (699601376931, "6_4")], ids=["blocks", "slice"])
def test_a_node_that_was_once_refused_is_taken(seed: int, level: str) -> None:
    """Channels of 3*M*N in blocks of 4, of which small sizes were not tried, and large ones have too many elements; a slice
    backwards, which takes the first element where its end lies before that.
    """
    node = random_node(random.Random(seed))
    assert level == "6_4" or node.inputs[0].type.shape == (5, "3*M*N", 1, "floor(M/3)")
    assert judge(node, FeatureLevel.parse(level), expressions()[0], {}).verdict is Verdict.TAKEN


def test_a_size_of_one_that_is_not_the_smallest_input() -> None:
    """Of mod(N, 4) batches, level 2_1 takes 1, with N = 5; the smallest N of two components is 2."""
    rng = random.Random(8947982392377279187)
    node = random_node(rng)
    assert node.inputs[0].type.shape == ("mod(N, 4)", "floor(N/2)", "3*M*N", "M", "N")
    judged = judge(node, FeatureLevel.parse("2_1"), expressions()[0], {})
    told = told_sizes(judged.findings)
    assert judged.verdict is Verdict.REFUSED
    assert told is not None
    assert told["N"] % 4 > 1


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_models(tmp_path: Path, part: int) -> None:
    for _ in range(10):
        seed = seeds.seed()
        assert list(disagreements(tmp_path, seed)) == [], seed


def disagreements(folder: Path, seed: int) -> Iterator[str]:
    """How the verdicts on a model differ from those with numbers, and from what a run shows."""
    model, rng = symbolic_model(seed), random.Random(seed)
    level = rng.choice(LEVELS)
    symbolic = _checked(folder, model.proto(), level)
    told = [sizes for each in symbolic.findings if (sizes := told_sizes([each])) and sizes.keys() <= set(model.symbols)]
    for number in range(COUNT):
        values = {symbol: rng.choice((rng.randint(1, 3), rng.randint(0, 12))) for symbol in model.symbols}
        values |= told[number] if number < len(told) else {}
        concrete = _checked(folder, model.proto(values), level)
        shapes = run_time_shapes(model, values)
        for node, known in zip(symbolic.nodes, concrete.nodes, strict=True):
            assert node.place == known.place
            wrong = _verdicts(symbolic, node, concrete, known, values) or _shapes(node, known, values, shapes)
            if wrong:
                yield f"{node.place} with {values} at {level}: {wrong}"


def _checked(folder: Path, model: onnx.ModelProto, level: str) -> CheckedModel:
    """What checking a model says, the host's arithmetic included."""
    return check_model(saved(folder, model), level, include_host=True)


def _verdicts(
    symbolic: CheckedModel, node: CheckedNode, concrete: CheckedModel, known: CheckedNode, values: Mapping[str, int]
) -> str | None:
    """How the verdict on a node differs from that with numbers."""
    findings, known_findings = findings_of(symbolic, node.place), findings_of(concrete, node.place)
    if node.verdict is Verdict.UNREACHED or known.verdict is Verdict.UNREACHED:
        return None if known.verdict is Verdict.UNREACHED else f"it is reached, although {node.reason}"
    if any(each.code == "EXP301" for each in known_findings):
        return None  # of old operators, ONNX infers no types where a size is 0
    try:
        held = holds(node.provided, values)
    except NameError:
        return None  # sizes that only a run shows
    if node.verdict is Verdict.REFUSED:
        told = told_sizes(findings)
        here = held if told is None else all(values.get(name) == size for name, size in told.items())
        return "it is not refused" if here and known.verdict is not Verdict.REFUSED else None
    if node.verdict is Verdict.UNKNOWN or any(each.code in PASSED for each in known_findings):
        return None
    if held and known.verdict is not Verdict.TAKEN:
        return f"refused, although {node.provided}: {[each.got for each in known_findings]}"
    if held and (node.lowest is None or known.lowest is None or known.lowest.level > node.lowest.level):
        return f"taken from {known.lowest} on, not {node.lowest}"
    exact = not any(isinstance(value, str) for tensor in node.inputs for value in tensor.values or ())
    return f"taken, although not {node.provided}" if exact and not held and known.verdict is Verdict.TAKEN else None


def _shapes(
    node: CheckedNode, known: CheckedNode, values: Mapping[str, int], shapes: Mapping[str, tuple[int, ...]]
) -> str | None:
    """How the shape of a node's output differs from that in a run."""
    (output,) = node.outputs
    run = shapes.get(output.name)
    if run is None:
        return None
    if known.verdict is Verdict.TAKEN and not known.provided and 0 in run:
        return f"taken, although its output has shape {run}"
    for size, found in zip(output.shape or (), run, strict=output.shape is not None):
        try:
            meant = size if isinstance(size, int) else meaning(size, values) if size else found
        except (NameError, ZeroDivisionError):
            continue
        if meant != found and holds(node.provided, values):
            return f"its output has shape {run}, not {output.shape}"
    return None


def run_time_shapes(model: SymbolicModel, values: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
    """The shapes of what the family's nodes of the main graph compute in onnxruntime; none where it refuses the model."""
    outputs = [node.output[0] for node in model.nodes if node.op_type in PROBLEMS]
    if not outputs:
        return {}
    feeds = {
        name: np.zeros(model.shape(name, values), np.int64 if kind == TensorProto.INT64 else np.float32)
        for name, (kind, _) in model.inputs.items()
    }
    try:
        return {name: array.shape for name, array in run(model.proto(values, outputs), feeds, OFF).items()}
    except REFUSALS:
        return {}
