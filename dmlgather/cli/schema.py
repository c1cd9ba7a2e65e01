"""`dmlgather schema`: JSON Schema of what is read and written."""

from __future__ import annotations

import json
import sys
from enum import StrEnum
from typing import Annotated, Any

import typer


class Schema(StrEnum):
    """What there is a schema of."""

    DESCRIPTOR = "descriptor"
    MODEL = "model"
    REPORT = "report"


def schema(
    name: Annotated[
        Schema, typer.Argument(help="What the schema describes: a file, or what check --output-format json prints.")
    ] = (Schema.MODEL),
) -> int:
    """Print a JSON Schema (draft 2020-12), for editors and other programs."""
    sys.stdout.write(json.dumps(schema_of(name), indent=2) + "\n")
    return 0


def schema_of(name: Schema) -> dict[str, Any]:
    """The schema as plain data."""
    from dmlgather.directml.dxdispatch import schema as files

    if name is Schema.REPORT:
        from dmlgather.report.check_report import CheckReport

        return {"$schema": files.DIALECT, **CheckReport.model_json_schema(mode="serialization")}
    return files.descriptor_schema() if name is Schema.DESCRIPTOR else files.model_schema()
