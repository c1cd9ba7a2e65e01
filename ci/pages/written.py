"""All generated files."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.bench_report import BenchReport
from ci.pages import dump_header
from ci.pages.benchmark_tables import full, summary
from ci.pages.blocks import replaced, table
from ci.pages.graph_diagram import example
from ci.pages.legend_tables import legend_tables
from ci.pages.model_tables import checked_models
from ci.pages.script_tables import script_tables
from ci.pages.traffic_tables import Rows, sweep_table, traffic_summary, traffic_tables
from conformance.conformance_report import ConformanceReport
from conformance.manifest import WrittenCases
from conformance.questions import open_questions
from dmlgather.cli.levels import page
from dmlgather.cli.schema import Schema, document_schema, schema_of
from dmlgather.directml import OPERATORS, FeatureLevel
from tests.kernels.goals import Goals

ROOT = Path(__file__).parents[2]

CHECKOUT = {"benchmark": BenchReport, "cases": WrittenCases, "conformance": ConformanceReport}
"""Types of the JSON documents of commands outside the package."""


def written() -> Iterator[tuple[str, str]]:
    """Yield the path in the checkout and the text of each generated file."""
    for kind in Schema:
        yield f"docs/schemas/{kind}.json", _schema(schema_of(kind))
    for document, model in CHECKOUT.items():
        yield f"docs/schemas/{document}.json", _schema(document_schema(model))
    yield "docs/support.md", page(list(OPERATORS))
    yield "docs/graphs/gather.svg", example()
    yield str(dump_header.HEADER), dump_header.rendered(_text(str(dump_header.HEADER)))
    for name, report in _results().items():
        yield _beside(name), full(Path(name).name, report)
    for name, contents in blocks().items():
        yield name, replaced(_text(name), contents)


def blocks() -> dict[str, dict[str, str]]:
    """Return the generated blocks by page and name."""
    return {
        "docs/benchmarks.md": {name: summary(_beside(name), report) for name, report in _results().items()},
        "conformance/questions.md": {"the open questions": _questions()},
        "docs/explain.md": legend_tables(),
        "docs/kernels.md": {
            "traffic": traffic_summary(_rows("traffic")),
            "sweep": _goals().summary({name: row["ours"] for name, row in _rows("sweep").items()}),
        },
        "docs/testing.md": script_tables(),
        "tests/kernels/sweep.md": {"sweep": sweep_table(_rows("sweep"), _goals())},
        "tests/kernels/traffic.md": {"traffic": traffic_tables(_rows("traffic"))},
        "tests/real_models/counts.md": {"real models": checked_models(_record("tests/real_models/counts.json"))},
    }


def _results() -> dict[str, BenchReport]:
    """Return the reports that docs/benchmarks.md shows, by file name."""
    names = re.findall(r"<!-- (benchmarks/results/\S+): ci/pages writes it -->", _text("docs/benchmarks.md"))
    return {name: BenchReport.model_validate_json(_text(name)) for name in names}


def _beside(name: str) -> str:
    """Return the name of the Markdown file beside a JSON file."""
    return name.removesuffix(".json") + ".md"


def _rows(record: str) -> Rows:
    """Return the rows of tests/kernels/RECORD.json."""
    rows: Rows = _record(f"tests/kernels/{record}.json")["rows"]
    return rows


def _goals() -> Goals:
    return Goals(**_record("tests/kernels/sweep.json")["goals"])


def _questions() -> str:
    rows = (
        (f"`{item.key}`", item.asks, item.decided, "; ".join(answer.means for answer in item.answers[1:]), item.source)
        for item in open_questions(max(FeatureLevel))
    )
    return table(("case", "question", "dmlgather's answer", "other possible answers", "source"), rows)


def _schema(schema: dict[str, Any]) -> str:
    return json.dumps(schema, indent=2) + "\n"


def _record(name: str) -> Any:
    return json.loads(_text(name))


def _text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")
