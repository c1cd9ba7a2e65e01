"""The tables of real models: sums, and what is not shown."""

from __future__ import annotations

from typing import Any

from ci.pages.model_tables import SHOWN, checked_models, fused_models, optimised_models


def counts(**more: Any) -> dict[str, Any]:
    return {**dict.fromkeys(SHOWN, 0), "seconds": 1.0, "mb": 60, **more}


def record(**models: Any) -> dict[str, Any]:
    return {"machine": "Linux", "versions": {"onnx": "1"}, "models": models}


def test_sums_and_the_largest_are_below() -> None:
    one = {"version": "1.0", "counts": counts(nodes=1000, seconds=2.5)}
    two = {"version": "2.0", "counts": counts(nodes=234, mb=70)}
    large = {"version": "", "counts": counts(nodes=9, mb=90)}
    lines = checked_models(record(one=one, two=two, large=large)).splitlines()
    assert lines[2].startswith("| `one` (1.0) | 1,000 | 0 |")
    assert lines[4].startswith("| sum; the most seconds and MB | 1,234 | 0 |")
    assert lines[4].endswith("| 2.5 | 70 |")
    assert lines[5].startswith("| large | 9 |")
    assert lines[-1] == "Counted on Linux, with onnx 1."


def fused(**more: Any) -> dict[str, Any]:
    names = ("moving", "launches_before", "launches_after", "bytes_before", "bytes_after")
    return {**dict.fromkeys(names, 0), "refused": None, **more}


def test_fused_models_sums_and_what_is_not_shown() -> None:
    one = fused(moving=1000, launches_before=12, launches_after=3, bytes_before=2_500_000, bytes_after=1_000_000)
    two = fused(moving=2, launches_before=1, launches_after=1, bytes_before=20_000, bytes_after=20_000)
    lines = fused_models({"a/one": one, "two": two, "none": fused(moving=3), "open": fused(refused="a size")}).splitlines()
    assert lines[2:5] == [
        "| `a/one` | 1,000 | 12 | 3 | 2.50 | 1.00 |",
        "| `two` | 2 | 1 | 1 | 0.02 | 0.02 |",
        "| sum | 1,002 | 13 | 4 | 2.52 | 1.02 |",
    ]
    assert lines[-1] == "1 models have no launch; 1 have no graph, because sizes follow only when they run."


def test_verdicts_are_counted_without_the_step_that_stops_a_proof() -> None:
    one = {"basic": "proven", "extended": "not proven: Add node 'a'"}
    two = {"basic": "not proven: Add node 'b'", "extended": "no graph"}
    assert optimised_models({"one": one, "two": two}).splitlines()[2:] == [
        "| basic | 1 | 1 | 0 | 0 |",
        "| extended | 0 | 1 | 0 | 1 |",
    ]
