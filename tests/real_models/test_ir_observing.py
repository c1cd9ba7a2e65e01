"""The judge of IRs, on a small one: it sees the layers that run, and notices verdicts and bits that are wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx.parser
import pytest

import dmlgather as dg
from dmlgather.dialects.checked_model import CheckedModel, Verdict
from dmlgather.directml import FeatureLevel
from dmlgather.openvino.model.check import check_ir
from tests.real_models.ir_observing import FUNCTIONS, LayerRuns, NotConvertedError, convert
from tests.real_models.judging import Judgement, judge

LEVEL = FeatureLevel.parse("6_4")
LEVELS = FeatureLevel.parse("1_0"), LEVEL

MODEL = """<ir_version: 8, opset_import: ["": 17]>
g (float[N, 6] x, int64[M] ids, int64[N, K] columns, int64[P, 2] pairs) =>
  (float[M, 6] rows, float[N, K] picked, float[P] points, float[A, 3] part, float[N] last)
{
    rows = Gather (x, ids)
    picked = GatherElements <axis = 1> (x, columns)
    points = GatherND (x, pairs)
    starts = Constant <value_ints = [1, -1]> ()
    ends = Constant <value_ints = [100, -100]> ()
    axes = Constant <value_ints = [0, 1]> ()
    steps = Constant <value_ints = [1, -2]> ()
    part = Slice (x, starts, ends, axes, steps)
    end = Constant <value_int = -1> ()
    last = Gather <axis = 1> (x, end)
}
"""


def feeds(rows: int = 5) -> dict[str, Any]:
    random = np.random.default_rng(rows)
    return {
        "x": random.standard_normal((rows, 6), np.float32),
        "ids": random.integers(-rows, rows, 3),
        "columns": random.integers(-6, 6, (rows, 2)),
        "pairs": np.stack([random.integers(0, rows, 4), random.integers(0, 6, 4)], -1),
    }


@pytest.fixture(scope="module")
def ir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    path = folder / "small.onnx"
    onnx.save(onnx.parser.parse_model(MODEL), path)
    return convert(path, folder)


def runs_of(ir: Path) -> LayerRuns:
    runs = LayerRuns(ir, check_ir(ir, LEVEL).nodes, LEVELS)
    for rows in (5, 3):
        runs.run(feeds(rows))
    return runs


@pytest.mark.parametrize("level", LEVELS)
def test_every_layer_is_seen_and_right(ir: Path, level: FeatureLevel) -> None:
    checked, runs = check_ir(ir, level), runs_of(ir)
    assert len(runs.nodes) == 2 * len(checked.nodes)
    assert judge(checked, level, runs) == Judgement()
    assert runs.executions >= 2 * 3 * len(checked.nodes)


def test_a_wrong_verdict_is_noticed(ir: Path) -> None:
    checked = check_ir(ir, LEVEL)
    nodes = tuple(node.model_copy(update={"verdict": Verdict.REFUSED}) for node in checked.nodes)
    judgement = judge(CheckedModel(checked.file, nodes=nodes), LEVEL, runs_of(ir))
    assert len(judgement.wrong) == len(nodes)
    assert "it is said to be refused ()" in judgement.wrong[0]


def test_a_wrong_type_is_noticed(ir: Path) -> None:
    checked = check_ir(ir, LEVEL)
    first = checked.nodes[0]
    data = first.inputs[0].model_copy(update={"type": "f16"})
    nodes = (first.model_copy(update={"inputs": (data, *first.inputs[1:])}), *checked.nodes[1:])
    (wrong,) = judge(CheckedModel(checked.file, nodes=nodes), LEVEL, runs_of(ir)).wrong
    assert "data is said to be of type f16; it was f32" in wrong


def test_wrong_bits_are_noticed(ir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    right = dg.openvino.gather

    def with_a_wrong_bit(*arrays: Any, **named: Any) -> Any:
        found = right(*arrays, **named)
        found.reshape(-1).view(np.uint8)[-1] ^= 1
        return found

    with_a_wrong_bit.to_directml = right.to_directml  # type: ignore[attr-defined]
    monkeypatch.setattr(dg.openvino, FUNCTIONS["Gather"][0], with_a_wrong_bit)
    judgement = judge(check_ir(ir, LEVEL), LEVEL, runs_of(ir))
    assert any("its plan gives other bits than OpenVINO on cpu" in line for line in judgement.wrong)


def test_what_openvino_does_not_convert_is_told(tmp_path: Path) -> None:
    path = tmp_path / "foreign.onnx"
    text = '<ir_version: 8, opset_import: ["": 17, "own": 1]> g (float[2] x) => (float[2] y) { y = own.Thing (x) }'
    onnx.save(onnx.parser.parse_model(text), path)
    with pytest.raises(NotConvertedError, match="Thing"):
        convert(path, tmp_path)
