"""A user's view of CuPy on a machine without a GPU or driver, in separate processes with warnings as errors.

An existing GPU is hidden.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from dmlgather.backends.cuda import nvidia_driver
from tests import processes
from tests.cli.command import EXAMPLES

pytestmark = pytest.mark.cupy


ROOT = Path(__file__).parents[2]

NO_GPU = nvidia_driver.ask().error or "the NVIDIA driver finds no usable GPU (cuInit returned 100)"
REMEDY = "or run where there is a GPU; everything else works without one"


def run_python(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    inherited = {name: value for name, value in os.environ.items() if name != "CUPY_CACHE_DIR"}
    return processes.run(
        [sys.executable, "-W", "error", *arguments],
        env={**inherited, "PYTHONPATH": str(ROOT), "CUDA_VISIBLE_DEVICES": "", **variables},
        timeout=120,
    )


def command(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    module = ("benchmarks",) if arguments[0] == "benchmarks" else ("dmlgather.cli", arguments[0])
    return run_python("-m", *module, *arguments[1:], **variables)


SLICE = str(EXAMPLES / "slice.json")


@pytest.mark.parametrize(
    "arguments",
    [("run", "--device", "cuda", SLICE), ("compare", "--devices", "cuda,cpu", SLICE), ("benchmarks", "--suite", "gpu")],
    ids=lambda arguments: arguments[0],
)
def test_a_command_for_a_gpu_says_what_is_missing_in_one_line(arguments: tuple[str, ...]) -> None:
    found = command(*arguments)
    (line,) = found.stderr.splitlines()
    assert (found.returncode, found.stdout) == (2, "")
    assert line.startswith(f"dmlgather: {NO_GPU}")
    assert REMEDY in line


def test_commands_that_choose_a_device_use_the_cpu() -> None:
    found = command("run", SLICE)
    assert (found.returncode, found.stdout) == (0, "Resource 'output': 7, 9, 12, 14, 17, 19\n")
    found = command("compare", SLICE)
    assert found.returncode == 0
    assert "equal on cpu, reference" in found.stdout
    assert found.stderr.splitlines()[0] == f"cuda is left out: {NO_GPU}; `dmlgather env` says what to do"


def test_env_names_cupy_nvrtc_and_what_is_missing() -> None:
    found = command("env", "--json")
    assert (found.returncode, found.stderr) == (0, "")
    shown_json = json.loads(found.stdout)
    assert shown_json["cupy"].startswith("cupy-cuda1")
    assert shown_json["nvrtc"].startswith("nvidia-cuda-nvrtc")
    assert shown_json["gpu"] == {"usable": False, "devices": []}
    (missing,) = shown_json["missing"]
    assert "driver" in missing["what"]
    shown = command("env")
    assert (shown.returncode, shown.stderr) == (0, "")
    assert f"missing: {missing['what']}\n    {missing['remedy']}" in shown.stdout


CALLS = """
import numpy as np, dmlgather as dg
table, ids = np.zeros((3, 4), np.float32), np.array([1])
desc = dg.GatherOperatorDesc.of(table, ids, axis=0)
calls = [
    lambda: dg.onnx.gather(table, ids, device="cuda"),
    lambda: dg.openvino.gather(table, ids, 0, device="cuda:1"),
    lambda: dg.compile(desc, device="cuda")(table, ids),
    lambda: dg.compare(desc, table, ids, devices=("cuda", "cpu")),
]
for call in calls:
    try:
        call()
    except dg.DeviceError as error:
        print(error)
        assert error.__cause__ is None and error.__suppress_context__
print(dg.onnx.Backend.supports_device("CUDA"), dg.onnx.Backend.supports_device("CPU"))
print(dg.onnx.gather(table, ids).shape)
"""


def test_a_call_for_a_gpu_raises_a_device_error() -> None:
    found = run_python("-c", CALLS)
    assert (found.returncode, found.stderr) == (0, "")
    *errors, supported, shape = found.stdout.splitlines()
    assert len(errors) == 4
    assert all(NO_GPU in error and REMEDY in error for error in errors)
    assert (supported, shape) == ("False True", "(1, 4)")


def test_an_unwritable_home_folder_is_no_problem(tmp_path: Path) -> None:
    """CuPy makes a folder there at import (since 14.1)."""
    home = tmp_path / "home"
    home.write_text("")
    found = command("run", "--device", "cuda", SLICE, HOME=str(home))
    (line,) = found.stderr.splitlines()
    assert found.returncode == 2
    assert NO_GPU in line
    assert command("run", SLICE, HOME=str(home)).returncode == 0
    assert command("compare", SLICE, HOME=str(home)).returncode == 0
    found = command("run", "--device", "cuda", SLICE, HOME=str(home), CUPY_CACHE_DIR=str(tmp_path / "kernels"))
    assert NO_GPU in found.stderr


def test_importing_dmlgather_imports_no_cupy() -> None:
    found = run_python("-c", "import sys, dmlgather as dg; dg.onnx.gather, dg.compile; assert 'cupy' not in sys.modules")
    assert (found.returncode, found.stderr) == (0, "")
