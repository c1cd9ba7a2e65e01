"""The whole report as data."""

from __future__ import annotations

import json
from collections.abc import Iterator

from dmlgather.report.check_report import CheckReport


def lines(report: CheckReport) -> Iterator[str]:
    """The whole report as one JSON object; `dmlgather schema report` prints its schema."""
    yield json.dumps(report.model_dump(mode="json"), indent=2)
