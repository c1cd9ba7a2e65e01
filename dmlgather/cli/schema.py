"""The subcommand `schema`: print the JSON Schema of a file format or of a command's JSON."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

import typer

from dmlgather.cli.common import JsonFile, JsonOutput


class Schema(StrEnum):
    """Documents that have a JSON Schema."""

    DESCRIPTOR = "descriptor"
    MODEL = "model"
    REPORT = "report"
    COMPARISON = "comparison"
    SELFTEST = "selftest"
    RUN = "run"
    RULE = "rule"
    LEVELS = "levels"
    EXPLANATION = "explanation"
    TRANSLATION = "translation"
    AGREEMENT = "agreement"
    ENVIRONMENT = "environment"
    CONFIGURATION = "configuration"
    BASELINE = "baseline"


def schema(
    name: Annotated[
        Schema,
        typer.Argument(
            metavar="NAME",
            help="The document. Input files: descriptor, model, configuration, baseline. Output of --json: report (check), "
            "comparison (compare), selftest, run, rule, levels, explanation (explain), translation (translate), agreement "
            "(compare --against MODEL.onnx), environment (env).",
        ),
    ] = (Schema.MODEL),
    output: JsonFile = None,
) -> int:
    """Print a JSON Schema (draft 2020-12), for editors and other programs."""
    JsonOutput(True, output).write(lambda: schema_of(name))
    return 0


def schema_of(name: Schema) -> dict[str, Any]:
    """Return the JSON Schema of a document."""
    from dmlgather.directml.dxdispatch import json_schema

    if name is Schema.DESCRIPTOR:
        return json_schema.descriptor_schema()
    if name is Schema.MODEL:
        return json_schema.model_schema()
    return document_schema(_documents()[name])


def document_schema(kind: Any) -> dict[str, Any]:
    """Return the JSON Schema of a type that Pydantic knows."""
    from pydantic import TypeAdapter

    from dmlgather.directml.dxdispatch.json_schema import DIALECT

    return {"$schema": DIALECT, **TypeAdapter(kind).json_schema(mode="serialization")}


def _documents() -> dict[Schema, Any]:
    from dmlgather.cli import documents
    from dmlgather.comparing.saving import CompareReport
    from dmlgather.report.baseline import Baseline
    from dmlgather.report.check_report import CheckReport
    from dmlgather.report.configuration import Configuration
    from dmlgather.selftest.selftest_report import SelfTestReport

    return {
        Schema.REPORT: CheckReport,
        Schema.COMPARISON: CompareReport,
        Schema.SELFTEST: SelfTestReport,
        Schema.CONFIGURATION: Configuration,
        Schema.BASELINE: Baseline,
        Schema.RUN: documents.RunResult,
        Schema.RULE: list[documents.RuleRow] | documents.RulePage,
        Schema.LEVELS: list[documents.SupportedOperator],
        Schema.EXPLANATION: list[documents.ExplainedOperator | documents.UnexplainedNode],
        Schema.TRANSLATION: documents.TranslationResult,
        Schema.AGREEMENT: documents.ModelComparison,
        Schema.ENVIRONMENT: documents.Environment,
    }
