"""The published schemas: what the command prints, and what an editor can offer from them."""

from __future__ import annotations

import inspect
import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from ci.pages.written import CHECKOUT
from dmlgather.cli.schema import Schema, schema_of
from dmlgather.directml.fields import Structure
from dmlgather.directml.operators import OPERATORS
from dmlgather.directml.tensor import BufferTensorDesc
from tests.cli.command import Command

FOLDER = Path(__file__).parents[2] / "docs" / "schemas"


@pytest.mark.parametrize("name", list(Schema))
def test_the_published_schema_is_the_one_that_the_command_prints(command: Command, name: Schema) -> None:
    printed = command("schema", name).out
    assert (FOLDER / f"{name}.json").read_text() == printed, "run .venv/bin/python -m ci.pages"
    jsonschema.Draft202012Validator.check_schema(json.loads(printed))


def test_there_are_no_other_schemas() -> None:
    assert {path.stem for path in FOLDER.iterdir()} == {*map(str, Schema), *CHECKOUT}


@pytest.mark.parametrize("name", [Schema.DESCRIPTOR, Schema.MODEL])
def test_every_field_of_every_structure_is_named_and_described(name: Schema) -> None:
    definitions = schema_of(name)["$defs"]
    structures: list[type[Structure]] = [*(operator.desc for operator in OPERATORS.values()), BufferTensorDesc]
    for structure in structures:
        key = structure.__name__ if structure is not BufferTensorDesc else f"{structure.__name__}Fields"
        shown = definitions[key]["properties"]
        source = "".join(inspect.getsource(each) for each in structure.__mro__ if issubclass(each, Structure))
        for field, info in structure.model_fields.items():
            written = re.search(rf'^    {field}: .*\n    """([\s\S]*?)"""', source, re.MULTILINE)
            assert written, f"{key}.{field}"
            assert shown[info.alias]["description"].split() == written[1].split(), f"{key}.{field}"


def test_the_report_is_described_throughout() -> None:
    schema = schema_of(Schema.REPORT)
    classes = {f"#/$defs/{name}": part.get("description") for name, part in schema["$defs"].items()}
    for path, part in _properties(schema):
        assert part.get("description") or classes[part["$ref"]], path


def _properties(schema: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    found = []
    for owner, part in (("", schema), *schema["$defs"].items()):
        found += [(f"{owner}.{name}", item) for name, item in part.get("properties", {}).items()]
    return found
