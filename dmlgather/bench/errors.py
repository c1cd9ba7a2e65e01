"""What can go wrong with a benchmark, in the words of whoever started it."""

from __future__ import annotations


class BenchError(RuntimeError):
    """The suite cannot run as asked: an unknown name, a missing package. The message says what to do."""


class MismatchError(RuntimeError):
    """A contender's result differs; nothing of that case was timed."""


class CannotSayError(Exception):
    """A peer has no way to say a workload, or to run at all; the message says why and goes into the report."""
