"""Models that build their validators at first use, also in several threads at once, and descriptions of fields."""

from __future__ import annotations

import sys
from typing import Annotated

import pytest
from pydantic import ConfigDict, Field, ValidationError

from dmlgather.record import BuiltOnUse, Record
from tests import processes
from tests.at_once import at_once

THREADS = 8


class Part(Record):
    """A part."""

    size: Annotated[int, Field(ge=1)]
    """Elements of
    the part."""


class Whole(Part):
    """What has parts."""

    model_config = ConfigDict(alias_generator=str.upper, validate_by_name=True)

    parts: tuple[Part, ...] = ()
    """Its parts."""

    first: Part
    """Another description than that of the class."""

    last: Part
    """A part."""

    name: str = Field(description="Stated.")
    """Not shown."""

    bare: int = 0


class Narrow(Part):
    """A field that is declared anew has no description of the class before."""

    size: int


def test_fields_are_described_by_the_docstrings_under_them() -> None:
    shown = {key: each.get("description") for key, each in Whole.model_json_schema()["properties"].items()}
    assert shown == {
        "SIZE": "Elements of\nthe part.",
        "PARTS": "Its parts.",
        "FIRST": "Another description than that of the class.",
        "LAST": None,  # the class has the same description
        "NAME": "Stated.",
        "BARE": None,
    }
    assert set(Whole.model_json_schema(by_alias=False)["properties"]) == set(Whole.model_fields)
    assert "description" not in Narrow.model_json_schema()["properties"]["size"]


def test_a_model_is_built_at_its_first_use() -> None:
    class Fresh(Part):
        """Nobody has used it."""

    assert not Fresh.__pydantic_complete__
    assert Fresh(size=3).size == 3
    assert Fresh.__pydantic_complete__
    with pytest.raises(ValidationError, match="greater than or equal to 1"):
        Fresh(size=0)


def test_importing_the_descriptors_builds_no_validators() -> None:
    script = (
        "import dmlgather.cli.documents, dmlgather.directml.dxdispatch.model_file, dmlgather.report.settings\n"
        "from dmlgather.record import BuiltOnUse\n"
        "def below(kind): return [kind, *(one for each in kind.__subclasses__() for one in below(each))]\n"
        "print(len(below(BuiltOnUse)), [kind for kind in below(BuiltOnUse) if kind.__pydantic_complete__])"
    )
    done = processes.run([sys.executable, "-c", script], check=True, timeout=60)
    number, _, built = done.stdout.strip().partition(" ")
    assert int(number) > 40
    assert built == "[]"


def test_threads_that_first_use_a_model_get_equal_results() -> None:
    """No thread gets an error or a value judged by the rules of the base class."""
    for _ in range(20):

        class Fresh(Part):
            """Nobody has used it."""

            depth: Annotated[int, Field(ge=1)]

        def use(kind: type[BuiltOnUse]) -> tuple[object, object]:
            with pytest.raises(ValidationError) as caught:
                kind.model_validate({"size": 1, "depth": 0})
            return caught.value.errors()[0]["loc"], kind.model_validate({"size": 1, "depth": 2}).model_dump()

        assert at_once(use, [Fresh] * THREADS) == [(("depth",), {"size": 1, "depth": 2})] * THREADS
