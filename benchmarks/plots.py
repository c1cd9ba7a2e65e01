"""Plots of a report, with matplotlib (extra `plot`). The file's suffix is the format."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from importlib import import_module
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.bench_report import BenchReport, CaseReport
from benchmarks.errors import BenchError
from dmlgather.files import writing
from dmlgather.package import missing_extra

_OURS, _PEER, _LIMIT = "#1f5fa8", "#b9b9b9", "#444444"

_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
"""Okabe and Ito's colours, safe for colour-blind readers; without the pale yellow."""

_MARKERS = "os^vDP*X<>hpd"
"""dmlgather's marker, then those of the peers."""

_PANELS_ACROSS = 3

_SHIFT = 1.06
"""Factor between the x of neighbouring workloads, because many of them have equal x."""


def plot(report: BenchReport, file: str | Path) -> None:
    """Plot two bars per case, for dmlgather and the best peer: the rate of moving the necessary bytes, relative to a copy.

    Raises BenchError without matplotlib or for an unknown suffix, FileError if the file cannot be written.
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
    _save(figure, file)


def roofline(report: BenchReport, file: str | Path) -> None:
    """Plot bytes written per second (y) over bytes written per necessary byte (x), with the line of a copy.

    Each group of cases has a panel. Colours are workloads; markers are dmlgather and the peers, hollow for types of one byte.
    """
    cases = _copied(report)
    panels = _panels(cases)
    contenders = ("dmlgather", *dict.fromkeys(peer for case in cases for peer in case.peers))
    markers = dict(zip(contenders, cycle(_MARKERS), strict=False))
    rows = math.ceil(len(panels) / _PANELS_ACROSS)
    figure, _ = _figure(file, width=10, height=1.6 + 2.4 * rows, axes=False)
    grid = figure.subplots(rows, _PANELS_ACROSS, squeeze=False)
    rate = statistics.median(map(_copy_rate, cases))
    for axes, panel in zip(grid.flat, panels, strict=False):
        axes.set_title(panel[0].group, fontsize=9)
        axes.margins(0.08, 0.2)
        _points(axes, panel, markers)
        _copy_line(axes, rate)
        axes.legend(fontsize=7, loc="best", handletextpad=0.2, borderpad=0.3)
    for axes in grid.flat[len(panels) :]:
        axes.set_axis_off()
    axes_text = (
        "x: bytes written per necessary byte (indices, touched source, output), workloads side by side; y: GB written per second"
    )
    figure.suptitle(f"{_title(report)}, warm\n{axes_text}", fontsize=9)
    lines = import_module("matplotlib.lines")
    handles = [
        *(
            lines.Line2D([], [], color=_PEER, markeredgecolor=_LIMIT, marker=markers[name], ls="", label=name)
            for name in contenders
        ),
        lines.Line2D([], [], color=_LIMIT, markerfacecolor="none", marker="o", ls="", label="hollow: types of one byte"),
        lines.Line2D([], [], color=_LIMIT, linewidth=0.8, label=f"copy: {rate:.3g} GB/s (median)"),
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=5, fontsize=8, frameon=False)
    _save(figure, file)


def _save(figure: Any, file: str | Path) -> None:
    with writing(Path(file), ()) as stream:
        figure.savefig(stream, format=Path(file).suffix.removeprefix("."))


def _panels(cases: Sequence[CaseReport]) -> list[list[CaseReport]]:
    """Group the cases. A group with more workloads than colours gets several panels."""
    panels = []
    for group in dict.fromkeys(case.group for case in cases):
        workloads = list(dict.fromkeys(case.workload for case in cases if case.group == group))
        for first in range(0, len(workloads), len(_COLOURS)):
            part = workloads[first : first + len(_COLOURS)]
            panels.append([case for case in cases if case.group == group and case.workload in part])
    return panels


def _points(axes: Any, cases: Sequence[CaseReport], markers: Mapping[str, str]) -> None:
    """Draw the points of a panel, and add the workloads to its legend."""
    colours = dict(zip(dict.fromkeys(case.workload for case in cases), _COLOURS, strict=False))
    workloads = list(colours)
    for case in cases:
        shift = _SHIFT ** (workloads.index(case.workload) - (len(workloads) - 1) / 2)
        best = {"dmlgather": case.ours, **{name: case.best("peer", "warm", name) for name in case.peers}}
        colour, hollow = colours[case.workload], np.dtype(case.dtype).itemsize == 1
        for name, measured in best.items():
            if measured is not None:
                x, y = _written_share(case) * shift, case.traffic.output_bytes / measured.median_ms("warm") / 1e6
                axes.scatter(
                    x, y, s=44 if name == "dmlgather" else 20, marker=markers[name], edgecolors=colour,
                    facecolors="none" if hollow else colour, linewidths=0.9, gid=f"{case.name}: {name}",
                )  # fmt: skip
    for workload, colour in colours.items():
        axes.scatter([], [], s=20, marker="s", color=colour, label=workload)
    axes.set_xscale("log")
    axes.set_yscale("log")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(import_module("matplotlib.ticker").LogLocator(subs=(1, 2, 5)))
        axis.set_major_formatter("{x:g}")
        axis.set_minor_formatter("")
    axes.tick_params(labelsize=7)


def _copy_line(axes: Any, rate: float) -> None:
    """Draw the line of a copy over the panel's range. `rate`: GB written per second."""
    axes.autoscale_view()
    low, high = axes.get_xlim()
    low, high = low / _SHIFT**2, high * _SHIFT**2
    axes.plot((low, high), (rate * low, rate * high), color=_LIMIT, linewidth=0.8)
    axes.set_xlim(low, high)


def _written_share(case: CaseReport) -> float:
    return case.traffic.output_bytes / case.traffic.bound_bytes


def _figure(file: str | Path, width: float, height: float, *, axes: bool = True) -> tuple[Any, Any]:
    try:
        backend, figures = import_module("matplotlib.backends.backend_agg"), import_module("matplotlib.figure")
    except ImportError as error:
        raise missing_extra("a plot", "plot", error) from None
    figure = figures.Figure(figsize=(width, height), dpi=120, layout="constrained")
    formats = backend.FigureCanvasAgg(figure).get_supported_filetypes()
    if Path(file).suffix.removeprefix(".").lower() not in formats:
        raise BenchError(f"{file}: matplotlib writes {', '.join(sorted(formats))}")
    return figure, figure.add_subplot() if axes else None


def _copied(report: BenchReport) -> list[CaseReport]:
    """Return the cases with a timed copy. Raises BenchError if there are none."""
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
