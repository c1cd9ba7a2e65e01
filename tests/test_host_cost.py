"""The script that times calls on the host runs all its measurements."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import numpy as np
import pytest

from dmlgather.backends.cpu.engine import load
from tests.gpus import host

SCRIPT = Path(__file__).parents[1] / "benchmarks" / "host_cost.py"


@pytest.mark.parametrize("on_gpu", [False, pytest.param(True, marks=pytest.mark.gpu)])
def test_the_script_prints_the_times_of_every_row(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], on_gpu: bool
) -> None:
    if not on_gpu:
        monkeypatch.setitem(sys.modules, "cupy", None)  # whether it is installed or not
    script = runpy.run_path(str(SCRIPT))
    rows = [*script["on_numpy"](), *script["planning"](), *(script["on_cupy"]() if on_gpu else ())]
    assert len(rows) == 14 + (load() is not None) + 15 * on_gpu
    for row in rows:  # both do the same
        if row.theirs is not None:
            ours, theirs = row.call(), row.theirs()
            assert ours is None or np.array_equal(host(ours), host(theirs)), row.name  # None: it writes into `out`
    monkeypatch.setitem(script["timed"].__globals__, "ROUNDS", 2)
    monkeypatch.setitem(script["timed"].__globals__, "CALLS", 3)
    monkeypatch.setattr(sys, "argv", ["host_cost.py", *["--gpu"] * on_gpu])
    script["main"]()
    _, _, header, rule, *lines = capsys.readouterr().out.splitlines()
    assert (header.count("|"), rule.count("|")) == (6, 6)
    names = [line.split(" | ")[0].removeprefix("| ") for line in lines]
    assert [name for name in names if not name.startswith(("PyTorch", "JAX"))] == [row.name for row in rows]
    for line in lines:
        _, ours, beside, theirs, ratio, _ = map(str.strip, line.strip("|").join("||").split("|")[1:])
        assert float(ours) > 0
        assert not beside or float(theirs) / float(ours) == pytest.approx(float(ratio), abs=0.02, rel=0.02)


def test_the_option_gpu_needs_cupy(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setitem(sys.modules, "cupy", None)
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.setattr(sys, "argv", ["host_cost.py", "--gpu"])
    with pytest.raises(SystemExit):
        runpy.run_path(str(SCRIPT), run_name="__main__")
    assert "--gpu needs CuPy: " in capsys.readouterr().err
