"""Errors of the benchmark suite."""

from __future__ import annotations


class BenchError(RuntimeError):
    """The error for a suite that cannot run, such as an unknown name or a missing package. The message has the remedy."""


class MismatchError(RuntimeError):
    """The error for a contender with a wrong result. Its case is not timed."""


class UnsupportedWorkloadError(Exception):
    """The error for a peer that cannot run, or not this workload. The report has the message."""
