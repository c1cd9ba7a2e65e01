"""Errors of the benchmark suite."""

from __future__ import annotations


class BenchError(RuntimeError):
    """The suite cannot run: an unknown name, a missing package. The message contains the remedy."""


class MismatchError(RuntimeError):
    """The result of a contender differs; nothing of that case is timed."""


class UnsupportedWorkloadError(Exception):
    """A peer cannot do a workload, or cannot run; the message has the reason and is part of the report."""
