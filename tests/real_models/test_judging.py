"""The judge of real models, on small models: it observes runs, and notices wrong verdicts and bits."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx.parser
import pytest
from onnx import ModelProto

from dmlgather.directml import FeatureLevel
from dmlgather.onnx_checking.check import check_model
from dmlgather.onnx_checking.checked_model import CheckedModel, CheckedNode, DirectMLForm, Verdict
from tests.dialects import binding
from tests.onnx import described
from tests.onnx.calling import FUNCTIONS
from tests.real_models.judging import Judgement, judge
from tests.real_models.observing import ModelRuns
from tests.real_models.stepping import Activation, Stepper, session

LEVEL = FeatureLevel.parse("6_4")
LEVELS = FeatureLevel.parse("1_0"), LEVEL

MODEL = """<ir_version: 8, opset_import: ["": 17, "own": 1]>
g (float[N, 6] x, int64[M] ids, bool which, int64 times) =>
  (float[M, 6] rows, float[A, B] last, int64[C] counts, float[P, Q] rest)
{
    rows = Gather (x, ids)
    rest = own.Rest <from: ints = [1]> (x)
    last = If (which) <
        then_branch = t () => (float[P, Q] y) {
            s = Constant <value_ints = [1]> ()
            e = Constant <value_ints = [3]> ()
            y = Slice (x, s, e)
        },
        else_branch = f () => (float[P, Q] z) {
            a = Constant <value_ints = [-1]> ()
            z = Gather <axis = 1> (x, a)
        }
    >
    going = Constant <value_int = 1> ()
    yes = Cast <to = 9> (going)
    counts = Loop (times, yes) <
        body = b (int64 i, bool c) => (bool again, int64 found) {
            again = Identity (c)
            table = Constant <value_ints = [7, 8, 9]> ()
            found = Gather (table, i)
        }
    >
}
<domain: "own", opset_import: ["": 13]>
Rest <from> (v) => (w) {
    s = Constant <value_ints: ints = @from> ()
    e = Constant <value_ints = [100]> ()
    w = Slice (v, s, e)
}
"""


def feeds(which: bool, rows: int = 5) -> dict[str, Any]:
    random = np.random.default_rng(rows)
    return {
        "x": random.standard_normal((rows, 6), np.float32),
        "ids": random.integers(-rows, rows, 3),
        "which": np.array(which),
        "times": np.array(3),
    }


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, ModelProto]:
    proto = onnx.parser.parse_model(MODEL)
    path = tmp_path_factory.mktemp("models") / "small.onnx"
    onnx.save(proto, path)
    return path, proto


@pytest.fixture
def runs(model: tuple[Path, ModelProto]) -> ModelRuns:
    runs = ModelRuns(model[1], LEVELS)
    for which in (True, False):
        runs.run(feeds(which))
    return runs


def changed(model: tuple[Path, ModelProto], operator: str, **fields: Any) -> CheckedModel:
    """Return the check's result for the model, with another answer for the first node of that operator."""
    checked = check_model(model[0], LEVEL)
    nodes = list(checked.nodes)
    at = next(number for number, node in enumerate(nodes) if node.operator == operator)
    nodes[at] = nodes[at].model_copy(update=fields)
    return CheckedModel(checked.file, checked.opsets, tuple(nodes), checked.others, checked.findings)


def wrong(checked: CheckedModel, runs: ModelRuns) -> str:
    return "\n".join(judge(checked, LEVEL, runs).wrong)


def first(checked: CheckedModel, operator: str) -> CheckedNode:
    return next(node for node in checked.nodes if node.operator == operator)


def with_input(node: CheckedNode, number: int, **fields: Any) -> dict[str, Any]:
    """Return the inputs of a node, one of them with other facts."""
    inputs = list(node.inputs)
    inputs[number] = inputs[number].model_copy(update=fields)
    return {"inputs": tuple(inputs)}


def test_running_node_by_node_gives_the_outputs_of_the_model(model: tuple[Path, ModelProto]) -> None:
    whole = session(str(model[0]))
    for which in (True, False):
        found = Stepper(model[1], lambda _: None).run(feeds(which), Activation())
        for one, two in zip(found.values(), whole.run(None, feeds(which)), strict=True):
            assert isinstance(one, np.ndarray)
            np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize("level", LEVELS)
def test_all_nodes_are_seen_and_judged_right(model: tuple[Path, ModelProto], runs: ModelRuns, level: FeatureLevel) -> None:
    checked = check_model(model[0], level)
    assert len(checked.nodes) == 5
    assert judge(checked, level, runs) == Judgement()
    assert runs.executions == 2 * (3 * 4 + 3 * 3)  # two devices, and descriptors at two levels; 1_0 does not take int64


def test_a_branch_that_no_run_takes_is_not_judged(model: tuple[Path, ModelProto]) -> None:
    runs = ModelRuns(model[1], LEVELS)
    runs.run(feeds(which=True))
    (unseen,) = judge(check_model(model[0], LEVEL), LEVEL, runs).unseen
    assert ".else_branch/" in unseen


WRONG: dict[str, tuple[str, Callable[[CheckedNode], dict[str, Any]]]] = {
    "Gather_0 at 6_4: it is said to be refused ()": ("Gather", lambda _: {"verdict": Verdict.REFUSED, "taken": None}),
    "said to be unreached": ("Slice", lambda _: {"verdict": Verdict.UNREACHED}),
    "condition 'K >= 1' has names that": ("Gather", lambda _: {"provided": ("K >= 1",)}),
    "data is said to be of type int64": ("Gather", lambda node: with_input(node, 0, type="int64")),
    "data is said to be of shape ('N', 7)": ("Gather", lambda node: with_input(node, 0, shape=("N", 7))),
    "data is said to be of shape ('N + 1', 6)": ("Gather", lambda node: with_input(node, 0, shape=("N + 1", 6))),
    "indices is said to be of shape ()": ("Gather", lambda node: with_input(node, 1, shape=())),
    "starts is said to be of values (2,)": ("Slice", lambda node: with_input(node, 1, values=(2,))),
}


@pytest.mark.parametrize("words", WRONG)
def test_a_wrong_fact_of_a_node_is_noticed(model: tuple[Path, ModelProto], runs: ModelRuns, words: str) -> None:
    operator, fields = WRONG[words]
    assert words in wrong(changed(model, operator, **fields(first(check_model(model[0], LEVEL), operator))), runs)


def test_an_empty_tensor_that_is_called_taken_is_noticed(model: tuple[Path, ModelProto], runs: ModelRuns) -> None:
    runs.run(feeds(which=True, rows=1))  # x[1:] and x[1:3] would have no rows
    honest = judge(check_model(model[0], LEVEL), LEVEL, runs)
    assert not honest.wrong
    assert honest.outside == 2
    assert "documents call for EXP102" in wrong(changed(model, "Slice", provided=()), runs)


def test_a_condition_that_is_too_narrow_is_listed(model: tuple[Path, ModelProto], runs: ModelRuns) -> None:
    checked = changed(model, "Gather", provided=("N >= 6",))
    judgement = judge(checked, LEVEL, runs)
    assert judgement.outside == len(judgement.narrow) == 2
    assert "'N >= 6' did not hold" in judgement.narrow[0]


def test_a_condition_on_a_factor_of_a_size_is_left_open(model: tuple[Path, ModelProto], runs: ModelRuns) -> None:
    inputs = with_input(first(check_model(model[0], LEVEL), "Gather"), 0, shape=("K*L", 6))
    judgement = judge(changed(model, "Gather", **inputs, provided=("K >= 1", "M >= 1")), LEVEL, runs)
    assert not judgement.wrong
    assert "'K >= 1' is about a part of a size" in judgement.unclear[0]


def test_a_size_that_is_an_expression_is_computed(model: tuple[Path, ModelProto], runs: ModelRuns) -> None:
    inputs = with_input(first(check_model(model[0], LEVEL), "Gather"), 0, shape=("floor(N/2) + 3", "max(N, 6)"))
    assert not wrong(changed(model, "Gather", **inputs), runs)


def test_a_lowest_level_that_is_too_high_is_noticed(model: tuple[Path, ModelProto], runs: ModelRuns) -> None:
    high = DirectMLForm(level=LEVEL, operators=("GATHER",))
    checked = check_model(model[0], LEVEL)
    nodes = tuple(node.model_copy(update={"lowest": high}) if ".body" in node.graph else node for node in checked.nodes)
    assert nodes != checked.nodes
    assert "from 6_4 on; DirectML's documents take it at 5_0" in wrong(CheckedModel(checked.file, nodes=nodes), runs)


def test_a_node_that_ran_but_is_not_reported_is_noticed(model: tuple[Path, ModelProto], runs: ModelRuns) -> None:
    checked = check_model(model[0], LEVEL)
    assert "the report does not have it" in wrong(CheckedModel(checked.file, nodes=checked.nodes[1:]), runs)


def test_a_plan_with_other_bits_is_noticed(model: tuple[Path, ModelProto], monkeypatch: pytest.MonkeyPatch) -> None:
    gather = FUNCTIONS["Gather"]

    def with_a_wrong_bit(*arrays: Any, **named: Any) -> Any:
        found = gather(*arrays, **named)
        found.reshape(-1).view(np.uint8)[-1] ^= 1
        return found

    monkeypatch.setitem(FUNCTIONS, "Gather", with_a_wrong_bit)
    runs = ModelRuns(model[1], LEVELS)
    runs.run(feeds(which=True))
    found = wrong(check_model(model[0], LEVEL), runs)
    assert "Gather_0 at 6_4: its plan gives other bits than onnxruntime on cpu" in found
    assert "on reference" in found


def test_descriptors_with_other_bits_are_noticed(model: tuple[Path, ModelProto], monkeypatch: pytest.MonkeyPatch) -> None:
    run = binding.run
    monkeypatch.setattr(binding, "run", lambda *given, **bound: run(*given, **bound)[::-1])
    runs = ModelRuns(model[1], LEVELS)
    runs.run(feeds(which=True))
    assert "its descriptors at 6_4 give other bits" in wrong(check_model(model[0], LEVEL), runs)


def test_an_export_that_the_documents_contradict_is_noticed(
    model: tuple[Path, ModelProto], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(described, "refusals", lambda *_: {"EXP104"})
    runs = ModelRuns(model[1], LEVELS)
    runs.run(feeds(which=True))
    assert "to_directml takes it at 6_4; DirectML's documents call for EXP104" in wrong(check_model(model[0], LEVEL), runs)
