"""The benchmark suite: dmlgather and other libraries do the same work; results are compared bit for bit, calls are timed."""

from benchmarks.bench_report import BenchReport, CaseReport, Timing
from benchmarks.errors import BenchError, MismatchError
from benchmarks.peers import PEERS
from benchmarks.plots import plot, roofline
from benchmarks.runner import run
from benchmarks.suites import SUITES, Budget
from benchmarks.tables import lines
from benchmarks.workloads import CHAINS, ON_HOSTS, TABLES, WORKLOADS, Workload

__all__ = [
    "CHAINS",
    "ON_HOSTS",
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
