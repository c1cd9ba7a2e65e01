"""Table of the heavier checks in docs/testing.md."""

from __future__ import annotations

from ci.pages.blocks import table
from tests.heavy import CHECKS


def script_tables() -> dict[str, str]:
    """Return the table by the name of its block."""
    heading = ("check", "after changes of")
    return {"the heavier checks": table(heading, [(f"`{check.usage}`", check.due) for check in CHECKS])}
