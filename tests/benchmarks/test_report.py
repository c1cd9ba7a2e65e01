"""A report with invented figures: ratios, means, tables, plots."""

from __future__ import annotations

import io
import sys
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from rich.console import Console

from benchmarks import BenchError, BenchReport, CaseReport, Timing, lines, plot, roofline
from benchmarks.bench_report import Measured, Traffic
from benchmarks.tables import rich_table, table_of
from dmlgather.selftest.selftest_report import Machine


def measured(name: str, role: Any, warm: float, cold: float, spelling: str = "say") -> Measured:
    def timing(value: float) -> Timing:
        return Timing(median_ms=value, low_ms=value, high_ms=value)

    return Measured(
        name=name, role=role, spelling=spelling, preallocated=True, rounds=5, clock="wall", warm=timing(warm), cold=timing(cold)
    )


def case(name: str, *entrants: Measured, **cannot: str) -> CaseReport:
    return CaseReport(
        name=f"{name} float32", workload=name, group="LLM", what="rows", device="cpu", operator="GATHER", dtype="float32",
        index_type="int64", draw="Uniform()", input_shape=(100, 10), input_strides=None, index_shape=(25_000,),
        output_shape=(25_000, 10), recipe="rows: taken", measured=entrants, cannot=cannot,
        traffic=Traffic(index_bytes=200_000, output_bytes=1_000_000, fetched_bytes=1_600_000, touched_bytes=4000),
    )  # fmt: skip


COPY = (measured("copy", "copy", 0.5, 1.0, "1 thread"), measured("copy", "copy", 0.25, 2.0, "2 threads"))
REPORT = BenchReport(
    suite="cpu",
    date="2026-01-02T03:04:05+00:00",
    machine=Machine(platform="Linux", processor="Abacus", cpus=2, memory_bytes=1, caches={"L3 Unified": 1}),
    versions={"python": "3.13.1", "numpy": "2.4"},
    settle_ms=10.0,
    flushed_bytes={"cpu": 2},
    peers={"numpy": "clamps", "torch": "checks"},
    missing={"jax": "cannot be imported"},
    cases=(
        case(
            "ahead", measured("dmlgather", "ours", 1.0, 2.0), measured("numpy", "peer", 4.0, 2.0, "slow"),
            measured("numpy", "peer", 3.0, 8.0, "quick"), measured("torch", "peer", 2.0, 5.0), *COPY,
        ),
        case(
            "behind", measured("dmlgather", "ours", 2.0, 2.0), measured("numpy", "peer", 1.0, 4.0), *COPY,
            measured("dmlgather", "checked", 0.0125, 1.0, "op(x)"), torch="no such view",
        ),
    ),
)  # fmt: skip


def test_a_timing_has_the_median_and_the_middle_half_of_rounds() -> None:
    assert Timing.of([9.0, 1.0, 5.0, 3.0, 100.0]) == Timing(median_ms=5000.0, low_ms=3000.0, high_ms=9000.0)
    assert Timing.of([1 / 3, 0.1]) == Timing(median_ms=216.665, low_ms=100.0, high_ms=333.33)
    assert Timing.of([0.25]) == Timing(median_ms=250.0, low_ms=250.0, high_ms=250.0)


def test_ratios_use_each_peers_quickest_spelling() -> None:
    ahead, behind = REPORT.cases
    assert ahead.ratios == {"warm": {"best": 2.0, "numpy": 3.0, "torch": 2.0}, "cold": {"best": 1.0, "numpy": 1.0, "torch": 2.5}}
    assert behind.ratios == {"warm": {"best": 0.5, "numpy": 0.5}, "cold": {"best": 2.0, "numpy": 2.0}}
    assert case("alone", measured("dmlgather", "ours", 1.0, 1.0)).ratios == {"warm": {}, "cold": {}}


def test_geometric_means_are_over_the_cases_of_each_peer() -> None:
    assert REPORT.geometric_means["warm"] == {"best": 1.0, "numpy": 1.225, "torch": 2.0}  # sqrt(2 * 0.5), sqrt(3 * 0.5)
    assert REPORT.geometric_means["cold"] == {"best": 1.414, "numpy": 1.414, "torch": 2.5}


def test_rates_count_useful_bytes_and_bytes_that_must_move() -> None:
    ahead = REPORT.cases[0]
    assert ahead.gigabytes_per_second("warm") == pytest.approx(2.2)  # 0.2 + 2 * 1.0 MB in 1 ms
    assert ahead.traffic.bound_bytes == 1_204_000
    assert ahead.share_of_copy("warm") == pytest.approx(0.1505)  # 1.204 MB/ms of 2 MB / 0.25 ms
    assert ahead.share_of_copy("cold") == pytest.approx(0.301)  # 1.204 MB / 2 ms of 2 MB / 1 ms
    assert case("no copy", measured("dmlgather", "ours", 1.0, 1.0)).share_of_copy("warm") is None


def test_a_report_round_trips_through_json() -> None:
    text = REPORT.to_json()
    assert '"geometric_means"' in text
    assert '"bound_bytes": 1204000' in text
    assert BenchReport.model_validate_json(text) == REPORT


def test_the_plain_text_table_has_ratios_and_notes() -> None:
    head, *rows = lines(REPORT)
    assert head.split() == [
        "case", "MB", "ours", "ms", "GB/s", "of", "copy", "best", "peer", "ratio", "cold", "numpy", "torch"
    ]  # fmt: skip
    assert rows[0].split() == ["ahead", "float32", "1", "1", "2.2", "15%", "torch", "2.00", "1.00", "3.00", "2.00"]
    assert rows[1].split() == ["behind", "float32", "1", "2", "1.1", "8%", "numpy", "0.50", "◀", "2.00", "0.50", "◀", "-"]
    assert rows[2].split() == ["geometric", "mean", "1.00", "1.41", "1.23", "2.00"]
    assert rows[4] == "suite cpu on Abacus, 2 CPUs, 2026-01-02T03:04:05+00:00"
    assert "an index out of range, torch: checks" in rows
    assert "jax took no part: cannot be imported" in rows
    assert "torch cannot do behind: no such view" in rows
    assert "behind float32: op(x) takes 12.5 us" in rows


def test_the_table_for_a_terminal_marks_lost_cases() -> None:
    table = rich_table(REPORT, 200)
    assert tuple(column.header for column in table.columns) == table_of(REPORT).heading
    assert [list(column.cells)[1] for column in table.columns][6] == "0.50 ◀"
    assert [row.style for row in table.rows] == [None, "red", None]


def test_a_narrow_terminal_shows_fewer_peers() -> None:
    def shown(width: int) -> int:
        return len(rich_table(REPORT, width).columns)

    assert (shown(10), shown(200)) == (8, 10)
    enough = next(width for width in range(200) if shown(width) == 10)
    for width, last in ((enough, "torch"), (enough - 1, "numpy")):
        console = Console(width=width, file=io.StringIO())
        console.print(rich_table(REPORT, width))
        text = console.file.getvalue()  # type: ignore[attr-defined] # it is a StringIO
        assert text.splitlines()[0].split()[-1] == last
        assert "…" not in text
        assert "behind float32" in text


@pytest.mark.parametrize("draw", [plot, roofline])
def test_plots_are_written_as_png_and_svg(draw: Any, tmp_path: Path) -> None:
    draw(REPORT, tmp_path / "a.png")
    draw(REPORT, tmp_path / "a.svg")
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in (tmp_path / "a.svg").read_text()
    with pytest.raises(BenchError, match=r"a\.docx: matplotlib writes .*png"):
        draw(REPORT, tmp_path / "a.docx")


@dataclass(frozen=True)
class Point:
    """A point of a roofline, with its panel, case and contender."""

    panel: int
    case: str
    contender: str
    colour: str
    hollow: bool
    shape: bytes


def points(report: BenchReport, monkeypatch: pytest.MonkeyPatch) -> list[Point]:
    """Return the points in the figure of a roofline."""
    figures: list[Figure] = []
    monkeypatch.setattr(Figure, "savefig", lambda figure, *_, **__: figures.append(figure))
    with TemporaryDirectory() as folder:
        roofline(report, Path(folder, "a.svg"))
    found = []
    for number, axes in enumerate(figures[0].axes):
        for mark in axes.collections:
            case_name, _, contender = str(mark.get_gid() or "").partition(": ")
            if contender:
                edge: Any = mark.get_edgecolor()
                shape = np.asarray(mark.get_paths()[0].vertices).tobytes()
                found.append(Point(number, case_name, contender, to_hex(edge[0]), np.size(mark.get_facecolor()) == 0, shape))
    return found


def test_a_roofline_has_a_colour_per_case_and_a_marker_per_peer(monkeypatch: pytest.MonkeyPatch) -> None:
    narrow = [each.model_copy(update={"name": f"{each.workload} uint8", "dtype": "uint8"}) for each in REPORT.cases]
    found = points(REPORT.model_copy(update={"cases": (*REPORT.cases, *narrow)}), monkeypatch)
    contenders = {"ahead": ("dmlgather", "numpy", "torch"), "behind": ("dmlgather", "numpy")}
    assert sorted((point.case, point.contender) for point in found) == sorted(
        (f"{workload} {dtype}", name)
        for workload, names in contenders.items()
        for name in names
        for dtype in ("float32", "uint8")
    )
    colours = {workload: {point.colour for point in found if point.case.startswith(workload)} for workload in contenders}
    assert [len(each) for each in colours.values()] == [1, 1]
    assert colours["ahead"] != colours["behind"]
    shapes = {point.contender: point.shape for point in found}
    assert all(shapes[point.contender] == point.shape for point in found)
    assert len(set(shapes.values())) == 3
    assert {point.case for point in found if point.hollow} == {"ahead uint8", "behind uint8"}


def test_no_two_workloads_of_a_panel_share_a_colour(monkeypatch: pytest.MonkeyPatch) -> None:
    many = [case(f"case-{number}", measured("dmlgather", "ours", 1.0 + number, 2.0), *COPY) for number in range(17)]
    found = points(REPORT.model_copy(update={"cases": tuple(many)}), monkeypatch)
    assert len(found) == 17
    assert len({(point.panel, point.colour) for point in found}) == 17
    assert len({point.panel for point in found}) == 3


@pytest.mark.parametrize("draw", [plot, roofline])
def test_a_plot_without_matplotlib_names_the_extra(draw: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("matplotlib", "matplotlib.figure", "matplotlib.backends.backend_agg"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ModuleNotFoundError, match=r"package matplotlib, which is not installed: .*\(dmlgather's extra plot\)"):
        draw(REPORT, tmp_path / "a.png")
