"""The table of real models (tests/real_models), generated from the committed record."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ci.pages.blocks import table

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
"""The columns of checked models: name in the record -> heading."""

Row = Mapping[str, Any]


def checked_models(record: Row) -> str:
    """The models, and the IRs that OpenVINO makes of them, with what they were made with."""
    models = {name: {**row["onnx"], "package": row["version"]} for name, row in record["models"].items()}
    irs = {name: row["ir"] for name, row in record["models"].items() if row["ir"] is not None}
    others = [name for name, row in record["models"].items() if row["ir"] is None and row["version"]]
    versions = ", ".join(f"{name} {version}" for name, version in record["versions"].items())
    without = "".join(f"\n- `{name}`" for name in others)
    return "\n\n".join(
        (
            _checked("model", models),
            *([f"OpenVINO does not convert these models:\n{without}"] if others else []),
            "The IRs that OpenVINO makes of the models:",
            _checked("IR of", irs),
            f"Counted on {record['machine']}, with {versions}.",
        )
    )


def _checked(first: str, rows: Mapping[str, Row]) -> str:
    """The rows, with their sums below those of real models."""
    real = [row for row in rows.values() if row.get("package") != ""]
    sums = {name: sum(row[name] for row in real) for name in SHOWN if name not in ("seconds", "mb")}
    largest = {name: max((row[name] for row in real), default=0) for name in ("seconds", "mb")}
    lines = [(_named(name, row.get("package")), *_cells(row)) for name, row in rows.items()]
    lines.insert(len(real), ("sum; the most seconds and MB", *_cells({**sums, **largest})))
    return table((first, *SHOWN.values()), lines, (first,))


def _named(name: str, version: str | None) -> str:
    """A model with its package's version; an IR has none, and the generated model an empty one."""
    return name if version == "" else f"`{name}` ({version})" if version else f"`{name}`"


def _cells(row: Row) -> Iterable[str]:
    return (f"{row[name]:,}" if isinstance(row[name], int) else str(row[name]) for name in SHOWN)
