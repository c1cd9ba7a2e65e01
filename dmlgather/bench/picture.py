"""A picture of a report: one bar per case and peer, as long as its ratio. Needs matplotlib (extra `plot`)."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from dmlgather.bench.errors import BenchError
from dmlgather.bench.report import BenchReport


def plot(report: BenchReport, file: str | Path) -> None:
    """Write `report` as a picture; the file's suffix says which kind. BenchError without matplotlib or for a suffix that it
    does not know, OSError when the file cannot be written.
    """
    try:
        backend, figures = import_module("matplotlib.backends.backend_agg"), import_module("matplotlib.figure")
    except ImportError:
        raise BenchError("a plot needs matplotlib, which is not installed: pip install 'dmlgather[plot]'") from None
    bars = [(case.name, versus) for case in report.cases for versus in case.versus]
    several = len({versus.peer for _, versus in bars}) > 1
    labels = [f"{name} ({versus.peer})" if several else name for name, versus in bars]
    figure = figures.Figure(figsize=(8, 0.6 + 0.32 * len(bars)), layout="constrained")
    axes = figure.add_subplot()
    axes.barh(range(len(bars)), [versus.ratio for _, versus in bars], color="#4c72b0")
    axes.set_yticks(range(len(bars)), labels)
    axes.invert_yaxis()
    axes.axvline(1.0, color="black", linewidth=0.8)
    axes.set_xlabel("times as fast as the peer (medians); right of the line is ahead")
    axes.set_title(f"{report.suite}: {report.machine.processor}, {report.machine.cpus} CPUs", fontsize="medium")
    canvas = backend.FigureCanvasAgg(figure)
    if Path(file).suffix.removeprefix(".").lower() not in canvas.get_supported_filetypes():
        raise BenchError(f"{file}: matplotlib writes {', '.join(sorted(canvas.get_supported_filetypes()))}")
    figure.savefig(file)
