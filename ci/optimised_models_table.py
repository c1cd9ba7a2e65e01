"""The table on ONNX's page of models before and after onnxruntime's optimisations, generated from the committed verdicts.

<!-- optimised models: ci/pages writes it -->
(generated)
<!-- end of optimised models -->
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

RECORD = "tests/real_models/optimised.json"
OPENING, CLOSING = "<!-- optimised models: ci/pages writes it -->\n", "<!-- end of optimised models -->"

VERDICTS = ("proven", "not proven", "different", "no graph")
"""The columns."""


def rendered(text: str, root: Path) -> str:
    """`text` with a new table between the markers. root: the folder with `RECORD`."""
    head, opening, rest = text.partition(OPENING)
    record = json.loads((root / RECORD).read_text(encoding="utf-8"))
    return f"{head}{opening}\n{table(record)}\n{CLOSING}{rest.partition(CLOSING)[2]}"


def table(models: Mapping[str, Mapping[str, str]]) -> str:
    """A row for each form of the models: how many have each verdict."""
    forms = dict.fromkeys(form for row in models.values() for form in row)
    lines = [f"| optimised | {' | '.join(VERDICTS)} |", f"| --- |{' --- |' * len(VERDICTS)}"]
    for form in forms:
        counts = Counter(row[form].partition(":")[0] for row in models.values())
        lines.append(f"| {form} | {' | '.join(str(counts[verdict]) for verdict in VERDICTS)} |")
    return "\n".join(lines) + "\n"
