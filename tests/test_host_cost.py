"""The script that times calls on the host runs, and times every way."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest

from dmlgather.backends.cpu.engine import load

SCRIPT = Path(__file__).parents[1] / "benchmarks" / "host_cost.py"


def test_every_way_has_a_time(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setitem(sys.modules, "cupy", None)  # whether it is installed or not
    monkeypatch.setitem(sys.modules, "torch", None)
    script = runpy.run_path(str(SCRIPT))
    ways = {name: call for table in script["on_the_cpu"]() for name, call in table.items()}
    assert len(ways) == 16 + (load() is not None)
    monkeypatch.setitem(script["timed"].__globals__, "ROUNDS", 2)
    monkeypatch.setitem(script["timed"].__globals__, "CALLS", 3)
    monkeypatch.setattr(sys, "argv", ["host_cost.py"])
    script["main"]()
    header, rule, *rows = capsys.readouterr().out.splitlines()
    assert (header.count("|"), rule.count("|")) == (4, 4)
    assert [row.split(" | ")[0].removeprefix("| ") for row in rows] == list(ways)
    assert all(float(cell.strip(" |")) > 0 for row in rows for cell in row.split(" | ")[1:])


def test_a_gpu_needs_cupy(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setitem(sys.modules, "cupy", None)
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.setattr(sys, "argv", ["host_cost.py", "--gpu"])
    with pytest.raises(SystemExit):
        runpy.run_path(str(SCRIPT), run_name="__main__")
    assert "--gpu needs CuPy: " in capsys.readouterr().err
