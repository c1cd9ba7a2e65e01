"""The table of real models on the page about checking ONNX models, generated from the committed counts.

<!-- real models: ci/pages writes it -->
(generated)
<!-- end of real models -->
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

RECORD = "tests/real_models/counts.json"
OPENING, CLOSING = "<!-- real models: ci/pages writes it -->\n", "<!-- end of real models -->"

SHOWN = {
    "nodes": "nodes",
    "decided": "taken or refused",
    "conditional": "conditional",
    "host": "host",
    "unreached": "unreached",
    "undecided": "undecided",
    "refused": "refused",
    "refused_1_0": "refused at 1_0",
    "ran": "ran",
    "executions": "executions",
    "seconds": "s",
    "mb": "MB",
}
"""The columns: name in the record -> heading."""

Row = Mapping[str, Any]


def rendered(text: str, root: Path) -> str:
    """`text` with a new table between the markers. root: the folder with `RECORD`."""
    head, opening, rest = text.partition(OPENING)
    record = json.loads((root / RECORD).read_text(encoding="utf-8"))
    return f"{head}{opening}\n{tables(record)}\n{CLOSING}{rest.partition(CLOSING)[2]}"


def tables(record: Row) -> str:
    """The models, and the IRs that OpenVINO makes of them, with what they were made with."""
    models = {name: {**row["onnx"], "package": row["version"]} for name, row in record["models"].items()}
    irs = {name: row["ir"] for name, row in record["models"].items() if row["ir"] is not None}
    others = [name for name, row in record["models"].items() if row["ir"] is None and row["version"]]
    versions = ", ".join(f"{name} {version}" for name, version in record["versions"].items())
    without = "".join(f"\n- `{name}`" for name in others)
    return "\n\n".join(
        (
            _table("model", models),
            *([f"OpenVINO does not convert these models:\n{without}"] if others else []),
            "The IRs that OpenVINO makes of the models:",
            _table("IR of", irs),
            f"Counted on {record['machine']}, with {versions}.\n",
        )
    )


def _table(first: str, rows: Mapping[str, Row]) -> str:
    """The rows, with their sums below those of real models."""
    real = [row for row in rows.values() if row.get("package") != ""]
    sums = {name: sum(row[name] for row in real) for name in SHOWN if name not in ("seconds", "mb")}
    largest = {name: max((row[name] for row in real), default=0) for name in ("seconds", "mb")}
    lines = [(_named(name, row.get("package")), *_cells(row)) for name, row in rows.items()]
    lines.insert(len(real), ("sum; the most seconds and MB", *_cells({**sums, **largest})))
    head = ((first, *SHOWN.values()), ("---", *("---:" for _ in SHOWN)))
    return "\n".join(f"| {' | '.join(line)} |" for line in (*head, *lines))


def _named(name: str, version: str | None) -> str:
    """A model with its package's version; an IR has none, and the generated model an empty one."""
    return name if version == "" else f"`{name}` ({version})" if version else f"`{name}`"


def _cells(row: Row) -> Iterable[str]:
    return (f"{row[name]:,}" if isinstance(row[name], int) else str(row[name]) for name in SHOWN)
