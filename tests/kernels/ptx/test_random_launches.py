"""ci/heavy interpret continues after a failed round, and its last lines repeat the failed rounds."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from dmlgather.backends.cuda.variants import VARIANTS
from tests.kernels.ptx import random_launches
from tests.kernels.ptx.random_launches import MOST_FAILURES, Round, main
from tests.kernels.ptx.runs import Kernels, broken


def lines_of(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: str, bad: int) -> list[str]:
    """Return the command's output if rounds fail whose seed is a multiple of `bad`. No round runs anything."""

    def run_round(architecture: str, seed: int, each: int) -> Round:
        return Round(architecture, seed, launches=1, failure="" if seed % bad else "a fault")

    monkeypatch.setattr(random_launches, "run_round", run_round)
    monkeypatch.setattr(random_launches, "share", lambda ran: "nothing ran")
    code = main(arguments, ThreadPoolExecutor(1))
    lines = capsys.readouterr().out.splitlines()
    assert code == any(line.startswith("repeat: ") for line in lines)
    return lines


def repeats(lines: list[str]) -> list[list[str]]:
    """Return the arguments of the commands that repeat failures."""
    return [line.removeprefix("repeat: ci/heavy interpret ").split() for line in lines if line.startswith("repeat: ")]


def test_interpret_goes_on_after_failures_and_repeats_them(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = lines_of(monkeypatch, capsys, "96", "7", bad=10)
    failed = repeats(lines)
    assert 1 < len(failed) < MOST_FAILURES
    assert lines[-len(failed) - 1].startswith(f"96 launches of {len(VARIANTS)} kernels in ")
    assert lines[-len(failed) - 1].endswith(f" s: {len(failed)} rounds failed")
    assert failed == repeats(lines_of(monkeypatch, capsys, "96", "7", bad=10)), "its seed decides"
    for arguments in failed:
        assert repeats(lines_of(monkeypatch, capsys, *arguments, bad=10)) == [arguments]


def test_interpret_ends_after_many_failures(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    lines = lines_of(monkeypatch, capsys, "10000", "7", bad=1)
    assert MOST_FAILURES <= len(repeats(lines)) < 2 * MOST_FAILURES


def test_without_a_failure_nothing_is_repeated(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert lines_of(monkeypatch, capsys, "40", "7", bad=10**20)[-1].endswith("s: no violation, every result right")


def test_a_round_names_its_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel that writes one element beyond its output ends its round."""
    source_of = broken("if (thread >= a.threads) return;", "if (thread > a.threads) return;").source_of
    monkeypatch.setattr(random_launches, "Kernels", lambda architecture: Kernels(architecture, source_of))
    monkeypatch.setattr(random_launches, "executed", lambda variant, kernels: np.zeros(1, np.bool_))
    done = random_launches.run_round("compute_90", 5, 1)
    assert "outside every buffer" in done.failure
    assert "strides [" in done.failure, "the plan"
