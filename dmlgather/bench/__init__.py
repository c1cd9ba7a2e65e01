"""The comparison suite: operators beside the peers' own spelling of the same, compared bit for bit before they are timed."""

from dmlgather.bench.errors import BenchError, MismatchError
from dmlgather.bench.peers import PEERS
from dmlgather.bench.picture import plot, roofline
from dmlgather.bench.report import BenchReport, CaseReport, Timing
from dmlgather.bench.runner import run
from dmlgather.bench.suites import SUITES, Budget
from dmlgather.bench.tables import lines, markdown
from dmlgather.bench.workloads import TABLES, WORKLOADS

__all__ = [
    "PEERS",
    "SUITES",
    "TABLES",
    "WORKLOADS",
    "BenchError",
    "BenchReport",
    "Budget",
    "CaseReport",
    "MismatchError",
    "Timing",
    "lines",
    "markdown",
    "plot",
    "roofline",
    "run",
]
