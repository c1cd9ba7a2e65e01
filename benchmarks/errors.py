"""Errors of the benchmark suite."""

from __future__ import annotations


class BenchError(RuntimeError):
    """A suite cannot run, for example because of an unknown name or a missing package. The message has the remedy."""


class MismatchError(RuntimeError):
    """A contender has a wrong result. Its case is not timed."""


class UnsupportedWorkloadError(Exception):
    """A peer cannot run, or not this workload. The report has the message."""
