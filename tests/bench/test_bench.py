"""The benchmark suite on tiny sizes: what it reports, that every contender moves the same bits, and what it refuses.

Nothing here judges a time.
"""

from __future__ import annotations

import datetime
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dmlgather.bench import PEERS, SUITES, BenchError, BenchReport, MismatchError, Timing, plot, run, suites
from dmlgather.bench.case import Problem
from dmlgather.bench.suites import Suite
from dmlgather.bench.timing import interleave
from dmlgather.directml import validate

TINY = 0.004


@pytest.fixture(scope="module")
def report() -> BenchReport:
    """Every case against every peer; a result that differs by a bit is an error of `run` itself."""
    return run(peers=tuple(PEERS), rounds=2, scale=TINY)


def test_the_smoke_suite_has_ten_shapes_of_every_kind() -> None:
    cases = SUITES["smoke"].cases
    assert len(cases) == 10
    assert len({case.name for case in cases}) == 10
    problems = [case.make(TINY) for case in cases]
    assert {problem.desc.operator.name for problem in problems} == {"GATHER", "GATHER_ELEMENTS", "GATHER_ND1", "SLICE", "SLICE1"}
    for problem in problems:
        assert validate(problem.desc).ok


def test_numpy_says_what_the_documents_say() -> None:
    for case in SUITES["smoke"].cases:
        problem = case.make(0.0)
        documented = problem.desc.operator.reference(problem.desc, *problem.arrays)
        spelled = problem.numpy.call(*problem.arrays)
        assert spelled.tobytes() == documented.tobytes(), case.name
        into = np.empty_like(documented)
        problem.numpy.into(*problem.arrays, into)
        assert into.tobytes() == documented.tobytes(), case.name


def test_the_report_is_complete(report: BenchReport) -> None:
    assert (report.suite, report.rounds, report.scale) == ("smoke", 2, TINY)
    assert [case.name for case in report.cases] == [case.name for case in SUITES["smoke"].cases]
    for case in report.cases:
        assert [versus.peer for versus in case.versus] == list(PEERS)
        assert case.output_bytes > 0
        assert case.recipe
        for versus in case.versus:
            for timing in (versus.ours, versus.theirs):
                assert 0 < timing.low_ms <= timing.median_ms <= timing.high_ms
            assert versus.ratio == versus.theirs.median_ms / versus.ours.median_ms
    assert {"python", "numpy", "dmlgather"} <= set(report.versions)
    assert report.machine.cpus >= 1
    assert report.machine.processor
    assert datetime.datetime.fromisoformat(report.date).utcoffset() == datetime.timedelta(0)


def test_json_holds_everything_and_reads_back(report: BenchReport) -> None:
    document = json.loads(report.to_json())
    first = document["cases"][0]["versus"][0]
    assert first["ratio"] == round(report.cases[0].versus[0].ratio, 3)
    assert set(first["ours"]) == {"median_ms", "low_ms", "high_ms"}
    for case in document["cases"]:
        for versus in case["versus"]:
            del versus["ratio"]
    assert BenchReport.model_validate(document) == report


def test_the_table_has_a_line_per_case_and_peer(report: BenchReport) -> None:
    head, *lines = report.table()
    assert head.split() == ["case", "output", "MB", "peer", "ours", "ms", "theirs", "ms", "ratio", "recipe"]
    rows = lines[: lines.index("")]
    assert len(rows) == len(report.cases) * len(PEERS)
    versus = report.cases[0].versus[0]
    assert rows[0].split()[-5:] == [
        "numpy",
        f"{versus.ours.median_ms:.2f}",
        f"{versus.theirs.median_ms:.2f}",
        f"{versus.ratio:.2f}x",
        report.cases[0].recipe.partition(":")[0],
    ]
    assert "medians of 2 interleaved rounds" in lines[-1]


def test_progress_names_every_case_and_the_end() -> None:
    seen: list[tuple[int, int, str]] = []
    run(rounds=1, scale=TINY, progress=lambda *step: seen.append(step))
    assert seen == [*((number, 10, case.name) for number, case in enumerate(SUITES["smoke"].cases)), (10, 10, "")]


def test_a_wrong_result_is_an_error_before_anything_is_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    case = SUITES["smoke"].cases[3]

    def lying(scale: float) -> Problem:
        problem = case.make(scale)

        def call(*arrays: np.ndarray) -> np.ndarray:
            result = problem.numpy.call(*arrays)
            result[2, 5] = -result[2, 5]  # the same number for a NaN or a zero, but other bits
            return result

        return replace(problem, numpy=replace(problem.numpy, call=call))

    monkeypatch.setitem(suites.SUITES, "lie", Suite((replace(case, make=lying),), TINY))
    with pytest.raises(MismatchError, match=r"inner axis: not numpy's bits in 1 element, first at \[2, 5\]"):
        run("lie", rounds=1)


def test_unknown_names_are_refused() -> None:
    with pytest.raises(BenchError, match=r"unknown suite 'fast'; expected one of: smoke, large"):
        run("fast")
    with pytest.raises(BenchError, match=r"unknown peer torch, ort; expected some of: numpy, numpy-out"):
        run(peers=("torch", "numpy", "ort"))
    with pytest.raises(BenchError, match=r"unknown peer \(none\)"):
        run(peers=())
    with pytest.raises(BenchError, match=r"rounds is 0, expected at least 1"):
        run(rounds=0)


def test_contenders_take_turns_and_who_starts_changes() -> None:
    order: list[str] = []
    seconds = interleave({name: lambda name=name: order.append(name) for name in "abc"}, rounds=4)  # type: ignore[misc] # a default binds it
    assert "".join(order) == "abc" + "abc" + "bca" + "cab" + "abc"
    assert {name: len(times) for name, times in seconds.items()} == {"a": 4, "b": 4, "c": 4}


def test_a_timing_is_the_median_and_the_middle_of_the_rounds() -> None:
    assert Timing.of([9.0, 1.0, 5.0, 3.0, 100.0]) == Timing(median_ms=5000.0, low_ms=3000.0, high_ms=9000.0)
    assert Timing.of([0.25]) == Timing(median_ms=250.0, low_ms=250.0, high_ms=250.0)


def test_a_plot_without_matplotlib_says_how_to_get_it(
    report: BenchReport, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(BenchError, match=r"needs matplotlib, which is not installed: pip install 'dmlgather\[plot\]'"):
        plot(report, tmp_path / "ratios.png")


def test_a_plot_is_a_picture(report: BenchReport, tmp_path: Path) -> None:
    plot(report, tmp_path / "ratios.png")
    assert (tmp_path / "ratios.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(BenchError, match=r"ratios\.docx: matplotlib writes .*png"):
        plot(report, tmp_path / "ratios.docx")


def test_neither_the_package_nor_the_suite_loads_what_only_a_plot_needs() -> None:
    code = (
        "import sys, dmlgather; assert 'dmlgather.bench' not in sys.modules; import dmlgather.bench; "
        "print([name for name in ('matplotlib', 'rich', 'typer', 'cupy') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "[]"
