"""Shape inference that crashes, hangs or cannot be started costs one model its shapes, and nothing else."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

from dmlgather.onnx_checking.check import check_model
from dmlgather.onnx_checking.checked_model import CheckedModel, Verdict
from dmlgather.onnx_checking.reading import inference_process
from dmlgather.onnx_checking.reading.inference_process import InferenceLimits


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
        patch.setattr(running, "_answer", lambda request: _killed(running))
        assert "crashed (signal SIGKILL)" in reason(slicing(tmp_path / "model.onnx", [19], 2, 9, 3))
    assert not reason(slicing(tmp_path / "model.onnx", [19], 2, 9, 3))


def _killed(running: inference_process._InferenceProcess) -> tuple[bytes, float, bytes]:
    running._process.kill()
    running._process.wait()
    raise EOFError


def limited(seconds: float, memory: int) -> Callable[[int], InferenceLimits]:
    """In the place of the limits that follow from a file's size."""
    return lambda size: InferenceLimits(seconds, memory)


@pytest.mark.slow
def test_a_limit_of_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(InferenceLimits, "of_file", limited(1e-3, 2**30))
    assert reason(check_model(repeated(tmp_path / "long.onnx", 20_000))) == (
        "ONNX's shape inference takes more than its limit of 0.001 seconds"
    )
    monkeypatch.undo()
    assert not reason(slicing(tmp_path / "model.onnx", [19], 2, 9, 3))


def repeated(path: Path, number: int) -> Path:
    """A model with many nodes that pass a value on, and a Gather."""
    nodes = [helper.make_node("Neg", [f"t{at}"], [f"t{at + 1}"]) for at in range(number)]
    nodes.append(helper.make_node("Gather", [f"t{number}", "indices"], ["output"]))
    return saved(path, nodes, [3])


def saved(path: Path, nodes: list[onnx.NodeProto], shape: list[int], constants: dict[str, list[int]] | None = None) -> Path:
    """A model of these nodes, which read t0 of that shape and the indices."""
    graph = helper.make_graph(
        nodes,
        "graph",
        [
            helper.make_tensor_value_info("t0", TensorProto.FLOAT, shape),
            helper.make_tensor_value_info("indices", TensorProto.INT64, [4]),
        ],
        [helper.make_tensor_value_info("output", TensorProto.FLOAT, None)],
        [helper.make_tensor(name, TensorProto.INT64, [len(values)], values) for name, values in (constants or {}).items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), path)
    return path


on_linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux keeps a limit of memory")


@on_linux
@pytest.mark.parametrize("size", [30_000_000, 2**31 - 1])
def test_a_large_tensor_is_not_taken_for_a_shape(tmp_path: Path, size: int) -> None:
    checked = check_model(saved(tmp_path / "large.onnx", [helper.make_node("Gather", ["t0", "indices"], ["output"])], [size]))
    (node,) = checked.nodes
    assert not reason(checked)
    assert node.verdict is Verdict.TAKEN
    assert node.outputs[0].shape == (4,)


@on_linux
@pytest.mark.parametrize("times", [24, 40])
def test_constants_that_double(tmp_path: Path, times: int) -> None:
    """Values of small shapes are still computed: what is reshaped by them has a known type."""
    nodes = [helper.make_node("Concat", [f"c{at}", f"c{at}"], [f"c{at + 1}"], axis=0) for at in range(times)]
    nodes.append(helper.make_node("Shape", ["t0"], ["shape"]))
    nodes.append(helper.make_node("Concat", ["shape", "one"], ["longer"], axis=0))
    nodes.append(helper.make_node("Reshape", ["t0", "longer"], ["reshaped"]))
    nodes.append(helper.make_node("Gather", ["reshaped", f"c{times}"], ["other"]))
    nodes.append(helper.make_node("Gather", ["reshaped", "indices"], ["output"]))
    checked = check_model(saved(tmp_path / "doubling.onnx", nodes, [8], {"c0": [0, 0], "one": [1]}))
    assert not reason(checked)
    assert checked.nodes[1].verdict is Verdict.TAKEN
    assert checked.nodes[1].outputs[0].shape == (4, 1)
    assert checked.nodes[0].inputs[1].shape == (2 ** (times + 1),)


@on_linux
def test_a_limit_of_memory_costs_one_model_its_shapes(tmp_path: Path) -> None:
    split = helper.make_node("Split", ["t0"], ["t1"], num_outputs=2**31 - 1)
    gather = helper.make_node("Gather", ["t1", "indices"], ["output"])
    checked = check_model(saved(tmp_path / "split.onnx", [split, gather], [2**31 - 1]))
    assert reason(checked) == "ONNX's shape inference takes more than its limit of 128 MB of memory"
    assert not reason(slicing(tmp_path / "model.onnx", [19], 2, 9, 3))


def test_limits_grow_with_the_file() -> None:
    small, large = InferenceLimits.of_file(0), InferenceLimits.of_file(300_000_000)
    assert (small.seconds, small.memory) == (2.0, 128_000_000)
    assert (large.seconds, large.memory) == (600.0, 38_400_000_000)


def test_a_process_that_cannot_be_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inference_process._end()
    monkeypatch.setattr(sys, "executable", str(tmp_path / "none"))
    assert "no process for ONNX's shape inference can be started" in reason(slicing(tmp_path / "model.onnx", [19], 2, 9, 3))
