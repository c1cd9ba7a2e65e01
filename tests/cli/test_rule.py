"""What the codes of findings say, and `dmlgather rule`, which explains them."""

from __future__ import annotations

import re

from dmlgather.directml import Severity
from dmlgather.report.code_registry import CODES

REQUIRES = {Severity.ERROR: r"\bmust\b", Severity.WARNING: r"\bshould\b", Severity.NOTE: r"\bmust\b"}


def test_no_title_reads_as_a_fact() -> None:
    """A title is printed where its rule does not hold: "error: the level takes the type" would say the opposite."""
    assert not {code: row.title for code, row in CODES.items() if not re.search(REQUIRES[row.severity], row.title)}
