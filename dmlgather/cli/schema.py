"""`dmlgather schema`: JSON Schemas of files and reports."""

from __future__ import annotations

import json
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dmlgather.output import put

if TYPE_CHECKING:
    from pydantic import BaseModel


class Schema(StrEnum):
    """What has a schema."""

    DESCRIPTOR = "descriptor"
    MODEL = "model"
    REPORT = "report"
    COMPARISON = "comparison"
    CONFORMANCE = "conformance"
    SELFTEST = "selftest"
    CONFIGURATION = "configuration"
    BASELINE = "baseline"


def schema(
    name: Annotated[
        Schema,
        typer.Argument(
            help="What the schema describes: a file that is read, what check --output-format json prints (report), what "
            "compare --json prints (comparison), what conformance read --json prints (conformance), or what selftest "
            "--json writes (selftest)."
        ),
    ] = (Schema.MODEL),
) -> int:
    """Print a JSON Schema (draft 2020-12), for editors and other programs."""
    put(json.dumps(schema_of(name), indent=2) + "\n")
    return 0


def schema_of(name: Schema) -> dict[str, Any]:
    """The schema as plain data."""
    from dmlgather.directml.dxdispatch import json_schema

    if name is Schema.DESCRIPTOR:
        return json_schema.descriptor_schema()
    if name is Schema.MODEL:
        return json_schema.model_schema()
    return {"$schema": json_schema.DIALECT, **_documents()[name].model_json_schema(mode="serialization")}


def _documents() -> dict[Schema, type[BaseModel]]:
    from dmlgather.comparing.compare_report import CompareReport
    from dmlgather.conformance.conformance_report import ConformanceReport
    from dmlgather.report.baseline import Baseline
    from dmlgather.report.check_report import CheckReport
    from dmlgather.report.configuration import Configuration
    from dmlgather.selftest.selftest_report import SelfTestReport

    return {
        Schema.REPORT: CheckReport,
        Schema.COMPARISON: CompareReport,
        Schema.CONFORMANCE: ConformanceReport,
        Schema.SELFTEST: SelfTestReport,
        Schema.CONFIGURATION: Configuration,
        Schema.BASELINE: Baseline,
    }
