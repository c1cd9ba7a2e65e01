"""Shape inference that crashes, hangs or cannot be started costs one model its shapes, and nothing else."""

from __future__ import annotations

import sys
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

from dmlgather.dialects.checked_model import CheckedModel, Verdict
from dmlgather.onnx.model import inference_process
from dmlgather.onnx.model.check import check_model


def slicing(path: Path, shape: list[int], start: int, end: int, step: int) -> CheckedModel:
    """The check of a model that is one Slice of the first dimension."""
    constants = {"starts": start, "ends": end, "axes": 0, "steps": step}
    graph = helper.make_graph(
        [helper.make_node("Slice", ["data", *constants], ["output"])],
        "graph",
        [helper.make_tensor_value_info("data", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("output", TensorProto.FLOAT, None)],
        [helper.make_tensor(name, TensorProto.INT64, [1], [value]) for name, value in constants.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    return check_model(path)


def reason(checked: CheckedModel) -> str:
    """Why shapes were not inferred; empty where they were."""
    assert not checked.problems
    return next((finding.got for finding in checked.findings if finding.code == "EXP303"), "")


@pytest.mark.parametrize(("shape", "end", "step"), [([19], -7, 2**31), ([-1, 4], 3, 1)])
def test_a_crash_costs_one_model_its_shapes(tmp_path: Path, shape: list[int], end: int, step: int) -> None:
    found = reason(slicing(tmp_path / "crash.onnx", shape, 0 if step == 1 else 2, end, step))
    if "crashed" not in found:  # a version of onnx that was mended: the next test still ends the process
        assert not found
    after = slicing(tmp_path / "fine.onnx", [19], 2, 9, 3)
    assert not reason(after)
    (node,) = after.nodes
    assert node.verdict is Verdict.TAKEN
    assert node.outputs[0].shape == (3,)


def test_a_process_that_ends_is_named_and_replaced(tmp_path: Path) -> None:
    slicing(tmp_path / "model.onnx", [19], 2, 9, 3)
    running = inference_process._running()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(running, "_answer", lambda model, strict: _killed(running))
        assert "crashed (signal SIGKILL)" in reason(slicing(tmp_path / "model.onnx", [19], 2, 9, 3))
    assert not reason(slicing(tmp_path / "model.onnx", [19], 2, 9, 3))


def _killed(running: inference_process._InferenceProcess) -> tuple[bool, bytes]:
    running._process.kill()
    running._process.wait()
    raise EOFError


def test_a_limit_of_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inference_process, "TIME_LIMIT", 0.0)
    inference_process._end()  # a fresh one takes longer to import onnx than that
    assert "took more than 0 seconds" in reason(slicing(tmp_path / "model.onnx", [19], 2, 9, 3))
    monkeypatch.undo()
    assert not reason(slicing(tmp_path / "model.onnx", [19], 2, 9, 3))


def test_a_process_that_cannot_be_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inference_process._end()
    monkeypatch.setattr(sys, "executable", str(tmp_path / "none"))
    assert "no process for ONNX's shape inference can be started" in reason(slicing(tmp_path / "model.onnx", [19], 2, 9, 3))
