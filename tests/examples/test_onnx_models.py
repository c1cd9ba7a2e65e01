"""examples/onnx_models.py on models that examples/data.py downloads, and its messages about nodes that differ or do not run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_models
import pytest
from data import FOLDER_VARIABLE, DataFile
from numpy.typing import NDArray

import dmlgather as dg
from tests import seeds
from tests.examples import FOLDER, run

SCRIPT = FOLDER / "onnx_models.py"


@pytest.mark.data
def test_every_node_of_the_real_models_is_executed_and_equal() -> None:
    number = str(seeds.seed(32))
    ended = run(SCRIPT, "--seed", number)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    seed, *lines = (line for line in ended.stdout.splitlines() if " left out: " not in line)
    assert seed == f"seed {number}"
    devices = "cpu, reference, cuda" if lines[0].endswith("cuda") else "cpu, reference"
    assert lines == [
        f"silero_vad/data/silero_vad.onnx (opset 16): 80 nodes found (60 Slice, 20 Gather), 80 executed, 80 equal on {devices}",
        "  46 in 4 runs of the model, 34 in 6 branches that these did not reach",
        f"magika/models/standard_v3_3/model.onnx (opset 15): 3 nodes found (3 Slice), 3 executed, 3 equal on {devices}",
        "  3 in 2 runs of the model",
    ]


def test_missing_models_name_the_script_to_run(tmp_path: Path) -> None:
    ended = run(SCRIPT, **{FOLDER_VARIABLE: str(tmp_path)})
    assert ended.returncode == 1
    assert ended.stderr == f"{tmp_path}/silero-vad-6.2.3/silero_vad.onnx is not there; run examples/data.py first\n"


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DataFile:
    """Return a model with a Gather, and with a Slice in the body of a loop."""
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    body = "b (int64 step, bool go, float[k] a) => (bool on, float[l] o) { o = Slice (a, i, i) on = Identity (go) }"
    inputs, outputs = "float[k, m] x, int64[l] i, int64 n, bool c", "float[p, m] y, float[q] z"
    nodes = f"y = Gather (x, i) z = Loop (n, c, x) <body = {body}>"
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 16]> test ({inputs}) => ({outputs}) {{ {nodes} }}')
    file = DataFile("small", "1", "folder/small.onnx", 0)
    file.path.parent.mkdir()
    onnx.save(model, file.path)
    return file


FEED = {"x": np.arange(6, dtype=np.float32).reshape(2, 3), "i": np.array([1, 1, 0]), "n": np.array(0), "c": np.array(True)}
FEED["x"][0, 0] = np.array(0x7FC0BEEF, np.uint32).view(np.float32)  # a NaN with a payload
NEVER = "  never executed: z.body / Slice o"


def test_a_node_that_never_runs_is_named(small: DataFile, capsys: pytest.CaptureFixture[str]) -> None:
    assert not onnx_models.check(small, [FEED, FEED], ["cpu", "reference"])
    assert capsys.readouterr().out.splitlines() == [
        "folder/small.onnx (opset 16): 2 nodes found (1 Gather, 1 Slice), 1 executed, 1 equal on cpu, reference",
        "  1 in 2 runs of the model",
        NEVER,
    ]


def _other_payload(result: NDArray[np.float32]) -> NDArray[np.float32]:
    return np.where(np.isnan(result), np.float32(np.nan), result)


def _refused(result: NDArray[np.float32]) -> NDArray[np.float32]:
    raise ValueError(f"no {result.ndim} dimensions")


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (_other_payload, "1 of 9 elements, first the one at offset 6"),
        (np.negative, "9 of 9 elements, first the one at offset 0"),
        (lambda result: result.astype(np.float64), "float64 of shape (3, 3) instead of float32 of shape (3, 3)"),
        (lambda result: result[None], "float32 of shape (1, 3, 3) instead of float32 of shape (3, 3)"),
        (_refused, "ValueError: no 2 dimensions"),
    ],
)
def test_a_node_that_differs_is_named(
    spoil: Callable[[Any], Any], said: str, small: DataFile, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def gather(*inputs: Any, device: str, **attributes: Any) -> Any:
        right = dg.onnx.gather(*inputs, device=device, **attributes)
        return right if device == "cpu" else spoil(right)

    monkeypatch.setitem(onnx_models.FUNCTIONS, "Gather", gather)
    assert not onnx_models.check(small, [FEED], ["cpu", "reference"])
    assert capsys.readouterr().out.splitlines() == [
        "folder/small.onnx (opset 16): 2 nodes found (1 Gather, 1 Slice), 1 executed, 0 equal on cpu, reference",
        "  1 in 1 runs of the model",
        f"  differs: Gather y: on reference, {said}",
        NEVER,
    ]
