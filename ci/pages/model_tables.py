"""Table of real models, from the committed record in tests/real_models."""

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
"""Headings of the table by names in the record."""

Row = Mapping[str, Any]


def checked_models(record: Row) -> str:
    """Return the table of models, with sums of the real ones, followed by machine and versions."""
    models = record["models"]
    rows = {name: row["counts"] for name, row in models.items()}
    real = [row for name, row in rows.items() if models[name]["version"]]
    sums = {name: sum(row[name] for row in real) for name in SHOWN if name not in ("seconds", "mb")}
    largest = {name: max((row[name] for row in real), default=0) for name in ("seconds", "mb")}
    lines = [(_named(name, models[name]["version"]), *_cells(row)) for name, row in rows.items()]
    lines.insert(len(real), ("sum; the most seconds and MB", *_cells({**sums, **largest})))
    versions = ", ".join(f"{name} {version}" for name, version in record["versions"].items())
    return f"{table(('model', *SHOWN.values()), lines, ('model',))}\n\nCounted on {record['machine']}, with {versions}."


def _named(name: str, version: str) -> str:
    return f"`{name}` ({version})" if version else name


def _cells(row: Row) -> Iterable[str]:
    return (f"{row[name]:,}" if isinstance(row[name], int) else str(row[name]) for name in SHOWN)
