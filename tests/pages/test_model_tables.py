"""The table of real models: its sums."""

from __future__ import annotations

from typing import Any

from ci.pages.model_tables import SHOWN, checked_models


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
