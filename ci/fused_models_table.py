"""The table of fused models on the page about fusing, generated from the committed counts.

<!-- fused models: ci/pages writes it -->
(generated)
<!-- end of fused models -->
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

RECORD = "tests/real_models/fused.json"
OPENING, CLOSING = "<!-- fused models: ci/pages writes it -->\n", "<!-- end of fused models -->"


def rendered(text: str, root: Path) -> str:
    """`text` with a new table between the markers. root: the folder with `RECORD`."""
    head, opening, rest = text.partition(OPENING)
    record = json.loads((root / RECORD).read_text(encoding="utf-8"))
    return f"{head}{opening}\n{table(record)}\n{CLOSING}{rest.partition(CLOSING)[2]}"


def table(models: Mapping[str, Mapping[str, Any]]) -> str:
    """A row for each model that has a launch, the sums, and how many have none."""
    shown = {name: row for name, row in models.items() if row["launches_before"]}
    lines = ["| model | steps | launches | fused | MB moved | fused |", "| --- | --- | --- | --- | --- | --- |"]
    lines += [_row(f"`{name}`", row) for name, row in shown.items()]
    columns = ("moving", "launches_before", "launches_after", "bytes_before", "bytes_after")
    lines.append(_row("sum", {name: sum(row[name] for row in shown.values()) for name in columns}))
    refused = [name for name, row in models.items() if row["refused"] is not None]
    others = len(models) - len(shown) - len(refused)
    lines += ["", f"{others} models have no launch; {len(refused)} have no graph, because sizes follow only when they run."]
    return "\n".join(lines) + "\n"


def _row(name: str, row: Mapping[str, Any]) -> str:
    megabytes = (f"{row[key] / 1e6:.2f}" for key in ("bytes_before", "bytes_after"))
    counts = (f"{row[key]:,}" for key in ("moving", "launches_before", "launches_after"))
    return f"| {' | '.join((name, *counts, *megabytes))} |"
