"""Table of the heavier checks in docs/testing.md."""

from __future__ import annotations

from ci.pages.blocks import table
from tests.heavy import CHECKS, Check


def script_tables() -> dict[str, str]:
    """Return the block: name -> table."""
    heading = ("check", "does", "minutes", "in `.ci/run`", "due before changes of")
    return {"the heavier checks": table(heading, [_row(check) for check in CHECKS])}


def _row(check: Check) -> tuple[str, ...]:
    whole = f" (whole: {check.count[2]:,} {check.count[1]})" if check.count is not None else ""
    return (
        f"`{check.usage}`",
        check.does.partition(". ")[0] + whole,
        f"{check.minutes}",
        f"`{check.short}`" if check.short else "–",
        check.due,
    )
