"""Shape inference that crashes, hangs or cannot be started costs one model its shapes, and nothing else."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from dmlgather.onnx_checking.check import check_model
from dmlgather.onnx_checking.checked_model import CheckedModel, Verdict
from dmlgather.onnx_checking.reading import inference_process
from dmlgather.onnx_checking.reading.inference_process import InferenceLimits
from tests.onnx_checking.modelling import only, parsed, saved


def slicing(folder: Path, shape: Sequence[int] = (19,), start: int = 2, end: int = 9, step: int = 3) -> CheckedModel:
    """The check of a model that is one Slice of the first dimension."""
    bounds = {"s": start, "e": end, "a": 0, "t": step}
    constants = ", ".join(f"int64[1] {name} = {{{value}}}" for name, value in bounds.items())
    model = parsed(f"g (float[{','.join('1' * len(shape))}] x) => (float y) <{constants}> {{ y = Slice(x, s, e, a, t) }}")
    for dimension, size in zip(model.graph.input[0].type.tensor_type.shape.dim, shape, strict=True):
        dimension.dim_value = size
    return check_model(saved(folder, model))


def reason(checked: CheckedModel) -> str:
    """Why shapes were not inferred; empty where they were."""
    assert not checked.problems
    return next((finding.got for finding in checked.findings if finding.code == "EXP303"), "")


@pytest.mark.parametrize(("shape", "end", "step"), [([19], -7, 2**31), ([-1, 4], 3, 1)])
def test_a_crash_costs_one_model_its_shapes(tmp_path: Path, shape: list[int], end: int, step: int) -> None:
    found = reason(slicing(tmp_path, shape, 0 if step == 1 else 2, end, step))
    if "crashed" not in found:  # a version of onnx that was mended: the next test still ends the process
        assert not found
    after = slicing(tmp_path)
    assert not reason(after)
    assert (only(after).verdict, only(after).outputs[0].shape) == (Verdict.TAKEN, (3,))


def test_a_process_that_ends_is_named_and_replaced(tmp_path: Path) -> None:
    slicing(tmp_path)
    running = inference_process._running()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(running, "_answer", lambda request: _killed(running))
        assert "crashed (signal SIGKILL)" in reason(slicing(tmp_path))
    assert not reason(slicing(tmp_path))


def _killed(running: inference_process._InferenceProcess) -> tuple[bytes, float, bytes]:
    running._process.kill()
    running._process.wait()
    raise EOFError


def _checked(folder: Path, size: int, nodes: str, constants: str = "") -> CheckedModel:
    """The check of nodes that read x of this size and the indices i, and give y."""
    head = '<ir_version: 9, opset_import: ["" : 18]>'
    return check_model(saved(folder, f"{head} g (float[{size}] x, int64[4] i) => (float y) {constants} {{ {nodes} }}"))


@pytest.mark.slow
def test_a_limit_of_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(InferenceLimits, "of_file", lambda size: InferenceLimits(1e-3, 2**30))
    passed = "t0 = Neg(x) " + " ".join(f"t{at + 1} = Neg(t{at})" for at in range(20_000))
    found = _checked(tmp_path, 3, f"{passed} y = Gather(t20000, i)")
    assert reason(found) == "ONNX's shape inference takes more than its limit of 0.001 seconds"
    monkeypatch.undo()
    assert not reason(slicing(tmp_path))


on_linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux keeps a limit of memory")


@on_linux
@pytest.mark.parametrize("size", [30_000_000, 2**31 - 1])
def test_a_large_tensor_is_not_taken_for_a_shape(tmp_path: Path, size: int) -> None:
    found = _checked(tmp_path, size, "y = Gather(x, i)")
    assert not reason(found)
    assert (only(found).verdict, only(found).outputs[0].shape) == (Verdict.TAKEN, (4,))


@on_linux
@pytest.mark.parametrize("times", [24, 40])
def test_constants_that_double(tmp_path: Path, times: int) -> None:
    """Values of small shapes are still computed: what is reshaped by them has a known type."""
    doubled = " ".join(f"c{at + 1} = Concat<axis = 0>(c{at}, c{at})" for at in range(times))
    reshaped = "shape = Shape(x) longer = Concat<axis = 0>(shape, one) r = Reshape(x, longer)"
    nodes = f"{doubled} {reshaped} other = Gather(r, c{times}) y = Gather(r, i)"
    found = _checked(tmp_path, 8, nodes, "<int64[2] c0 = {0, 0}, int64[1] one = {1}>")
    assert not reason(found)
    other, gather = found.nodes
    assert (gather.verdict, gather.outputs[0].shape) == (Verdict.TAKEN, (4, 1))
    assert other.inputs[1].shape == (2 ** (times + 1),)


@on_linux
def test_a_limit_of_memory_costs_one_model_its_shapes(tmp_path: Path) -> None:
    found = _checked(tmp_path, 2**31 - 1, f"t = Split<num_outputs = {2**31 - 1}>(x) y = Gather(t, i)")
    assert reason(found) == "ONNX's shape inference takes more than its limit of 128 MB of memory"
    assert not reason(slicing(tmp_path))


def test_limits_grow_with_the_file() -> None:
    small, large = InferenceLimits.of_file(0), InferenceLimits.of_file(300_000_000)
    assert (small.seconds, small.memory) == (2.0, 128_000_000)
    assert (large.seconds, large.memory) == (600.0, 38_400_000_000)


def test_a_process_that_cannot_be_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inference_process._end()
    monkeypatch.setattr(sys, "executable", str(tmp_path / "none"))
    assert "no process for ONNX's shape inference can be started" in reason(slicing(tmp_path))
