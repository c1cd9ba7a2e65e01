"""The comparison suite: operators beside the peers' own spelling of the same, compared bit for bit before they are timed."""

from dmlgather.bench.errors import BenchError, MismatchError
from dmlgather.bench.peers import PEERS
from dmlgather.bench.picture import plot
from dmlgather.bench.report import BenchReport, CaseReport, Timing
from dmlgather.bench.runner import ROUNDS, run
from dmlgather.bench.suites import SUITES

__all__ = ["PEERS", "ROUNDS", "SUITES", "BenchError", "BenchReport", "CaseReport", "MismatchError", "Timing", "plot", "run"]
