"""The benchmark suite: dmlgather's operators and other libraries do the same, are compared bit for bit, and then timed."""

from dmlgather.bench.bench_report import BenchReport, CaseReport, Timing
from dmlgather.bench.errors import BenchError, MismatchError
from dmlgather.bench.peers import PEERS
from dmlgather.bench.plots import plot, roofline
from dmlgather.bench.runner import run
from dmlgather.bench.suites import SUITES, Budget
from dmlgather.bench.tables import lines
from dmlgather.bench.workloads import CHAINS, TABLES, WORKLOADS, Workload

__all__ = [
    "CHAINS",
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
    "Workload",
    "lines",
    "plot",
    "roofline",
    "run",
]
