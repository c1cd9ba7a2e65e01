"""Every case of the suite at a few kilobytes, and the peers of the test environment."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from benchmarks import SUITES, Budget
from benchmarks.kinds import ViewCopy, fitted
from benchmarks.suites import Case, cases

TINY = Budget(4096, 8192)
PRESENT = ("numpy", "jax", "onnxruntime", "openvino")
"""Peers that the extra `test` installs."""

ROOMY = 2**50


def all_cases() -> Iterator[Case]:
    """Yield every case of every suite once per element type, with every axis halved as often as possible."""
    seen = set()
    for part in SUITES["full"]:
        for case in cases(part, ROOMY, budget=TINY):
            if case.name in seen:
                continue
            seen.add(case.name)
            kind = case.kind
            for axis in range(len(kind.out_shape)):
                if not isinstance(kind, ViewCopy):  # windows need their extent
                    kind = fitted(kind, axis, 1, TINY.output_bytes, TINY.source_bytes)
            yield replace(case, kind=kind)
