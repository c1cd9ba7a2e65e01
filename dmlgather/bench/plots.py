"""Plots of a report. They need matplotlib (extra `plot`); the suffix of the file is the format (PNG, SVG, …)."""

from __future__ import annotations

import statistics
from importlib import import_module
from itertools import cycle
from pathlib import Path
from typing import Any

from dmlgather.bench.bench_report import BenchReport, CaseReport
from dmlgather.bench.errors import BenchError

_OURS, _PEER, _LIMIT = "#1f5fa8", "#b9b9b9", "#444444"
_MARKERS = "os^vDP*X<>hpd"


def plot(report: BenchReport, file: str | Path) -> None:
    """Two bars per case, dmlgather's and the best peer's: the rate at which the necessary bytes were moved, relative to a copy.

    BenchError without matplotlib or for a suffix that it does not know, OSError when the file cannot be written.
    """
    cases = _copied(report)
    figure, axes = _figure(file, width=9, height=1.2 + 0.34 * len(cases))
    places = range(len(cases))
    ours = [100 * (case.share_of_copy("warm") or 0) for case in cases]
    theirs = [share / (case.ratio("warm") or float("inf")) for share, case in zip(ours, cases, strict=True)]
    axes.barh([place - 0.2 for place in places], ours, height=0.4, color=_OURS, label="dmlgather")
    axes.barh([place + 0.2 for place in places], theirs, height=0.4, color=_PEER, label="best peer")
    for place, case, length in zip(places, cases, theirs, strict=True):
        best = case.best("peer", "warm")
        if best is not None:
            axes.text(length, place + 0.2, f" {best.name} {case.ratio('warm'):.2f}", va="center", fontsize=6)
    axes.axvline(100, color=_LIMIT, linewidth=0.8)
    axes.set_yticks(places, [case.name for case in cases], fontsize=8)
    axes.set_ylim(len(cases) - 0.4, -0.6)
    axes.set_xlabel("percent of the copy rate (line: 100), warm; numbers: the best peer's time divided by dmlgather's")
    axes.set_title(_title(report), fontsize=9)
    axes.set_xlim(0, 1.18 * max(*ours, *theirs, 100))
    axes.legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=2, fontsize=7, frameon=False)
    figure.savefig(file)


def roofline(report: BenchReport, file: str | Path) -> None:
    """Bytes written per necessary byte (x) and bytes written per second (y), with the line of a copy.

    Raises as `plot`.
    """
    cases = _copied(report)
    figure, axes = _figure(file, width=9, height=6)
    points = [(case, case.traffic.output_bytes / case.traffic.bound_bytes) for case in cases]
    rate = statistics.median(map(_copy_rate, cases))
    ends = (0.8 * min(x for _, x in points), 1.25 * max(x for _, x in points))
    axes.plot(ends, [rate * x for x in ends], color=_LIMIT, linewidth=0.8, label=f"copy: {rate:.3g} GB/s (median)")
    for group, marker in zip(dict.fromkeys(case.group for case, _ in points), cycle(_MARKERS), strict=False):
        mine = [(x, case.traffic.output_bytes / case.ours.warm.median_ms / 1e6) for case, x in points if case.group == group]
        axes.scatter(*zip(*mine, strict=True), s=22, marker=marker, label=group)
    axes.set_xscale("log")
    axes.set_yscale("log")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(import_module("matplotlib.ticker").LogLocator(subs=(1, 2, 5)))
        axis.set_major_formatter("{x:g}")
        axis.set_minor_formatter("")
    axes.tick_params(labelsize=8)
    axes.set_xlabel("bytes written per necessary byte (indices, touched source, output)")
    axes.set_ylabel("GB written per second, warm")
    axes.set_title(_title(report), fontsize=9)
    axes.legend(fontsize=7, loc="lower left", bbox_to_anchor=(1.0, 0.0))
    figure.savefig(file)


def _figure(file: str | Path, width: float, height: float) -> tuple[Any, Any]:
    try:
        backend, figures = import_module("matplotlib.backends.backend_agg"), import_module("matplotlib.figure")
    except ImportError:
        raise BenchError("a plot needs matplotlib, which is not installed: pip install 'dmlgather[plot]'") from None
    figure = figures.Figure(figsize=(width, height), dpi=120, layout="constrained")
    kinds = backend.FigureCanvasAgg(figure).get_supported_filetypes()
    if Path(file).suffix.removeprefix(".").lower() not in kinds:
        raise BenchError(f"{file}: matplotlib writes {', '.join(sorted(kinds))}")
    return figure, figure.add_subplot()


def _copied(report: BenchReport) -> list[CaseReport]:
    """The cases in which a copy was timed; BenchError when there is none."""
    cases = [case for case in report.cases if case.share_of_copy("warm") is not None]
    if not cases:
        raise BenchError(f"a plot compares times with a copy's, which the suite {report.suite} does not measure; use --json")
    return cases


def _copy_rate(case: CaseReport) -> float:
    copy = case.best("copy", "warm")
    return 0.0 if copy is None else 2 * case.traffic.output_bytes / copy.median_ms("warm") / 1e6


def _title(report: BenchReport) -> str:
    machine = report.machine
    where = machine.gpu.name if machine.gpu and report.suite == "gpu" else f"{machine.processor}, {machine.cpus} CPUs"
    return f"suite {report.suite}: {where}, {report.date[:10]}"
