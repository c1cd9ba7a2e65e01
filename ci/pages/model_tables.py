"""The tables of real models (tests/real_models), generated from the committed records: checked, fused, and before and after
onnxruntime's optimisations.
"""

from __future__ import annotations

from collections import Counter
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

VERDICTS = ("proven", "not proven", "different", "no graph")
"""The columns of optimised models."""

Row = Mapping[str, Any]


def checked_models(record: Row) -> str:
    """The models, with the sums below those of real models, and what they were made with."""
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
    """A model with its package's version; the generated model has none."""
    return f"`{name}` ({version})" if version else name


def _cells(row: Row) -> Iterable[str]:
    return (f"{row[name]:,}" if isinstance(row[name], int) else str(row[name]) for name in SHOWN)


def fused_models(models: Mapping[str, Row]) -> str:
    """A row for each model that has a launch, the sums, and how many have none."""
    shown = {name: row for name, row in models.items() if row["launches_before"]}
    columns = ("moving", "launches_before", "launches_after", "bytes_before", "bytes_after")
    sums = {name: sum(row[name] for row in shown.values()) for name in columns}
    lines = [_fused(f"`{name}`", row) for name, row in shown.items()]
    made = table(("model", "steps", "launches", "fused", "MB moved", "fused"), [*lines, _fused("sum", sums)])
    refused = [name for name, row in models.items() if row["refused"] is not None]
    others = len(models) - len(shown) - len(refused)
    return f"{made}\n\n{others} models have no launch; {len(refused)} have no graph, because sizes follow only when they run."


def _fused(name: str, row: Row) -> tuple[str, ...]:
    megabytes = (f"{row[key] / 1e6:.2f}" for key in ("bytes_before", "bytes_after"))
    counts = (f"{row[key]:,}" for key in ("moving", "launches_before", "launches_after"))
    return (name, *counts, *megabytes)


def optimised_models(models: Mapping[str, Mapping[str, str]]) -> str:
    """A row for each form of the models: how many have each verdict."""
    counts = {
        form: Counter(row[form].partition(":")[0] for row in models.values())
        for form in dict.fromkeys(form for row in models.values() for form in row)
    }
    return table(
        ("optimised", *VERDICTS), [(form, *(str(found[verdict]) for verdict in VERDICTS)) for form, found in counts.items()]
    )
