"""The configuration: `[tool.dmlgather]` in pyproject.toml, or dmlgather.toml."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from pydantic import AfterValidator, Field

from dmlgather.directml.types import FeatureLevel, FeatureLevelField
from dmlgather.record import Record, plainly
from dmlgather.report.code_registry import CODES
from dmlgather.report.formats import FORMATS, Output, complete
from dmlgather.report.patterns import specification
from dmlgather.wording import alternatives


def _code(code: str) -> str:
    if code not in CODES:
        raise ValueError(f"{code!r} is not a code")
    return code


def _reason(reason: str) -> str:
    if not reason.strip():
        raise ValueError("a reason is not empty")
    return reason


def _formats(formats: list[str]) -> list[str]:
    complete(map(Output.parse, formats))
    return formats


def _pattern(pattern: str) -> str:
    specification([pattern])
    return pattern


Pattern = Annotated[str, AfterValidator(plainly(_pattern))]
"""A pattern of paths relative to the folder of the configuration, as .gitignore writes them."""


class Ignore(Record, strict=True):
    """A code whose findings are ignored, and why. Reports still show how many there are."""

    code: Annotated[str, AfterValidator(plainly(_code))]
    """The code: "DML305"."""

    reason: Annotated[str, AfterValidator(plainly(_reason))]
    """Why its findings are ignored. Reports show it."""

    paths: Annotated[list[Pattern], Field(min_length=1)] | None = None
    """Patterns of the files in which it is ignored, relative to the configuration's folder; all files when left out."""


class Configuration(Record, strict=True):
    """A project's settings for its checks. Options of the command override them."""

    level: FeatureLevelField = FeatureLevel.LEVEL_6_4
    """The DirectML feature level to check for."""

    levels: dict[Pattern, FeatureLevelField] = Field(default={})
    """Other levels for some files, by patterns relative to the configuration's folder. The last that matches applies."""

    exclude: list[Pattern] = Field(default=[])
    """Patterns of files that are not checked where their folder is, relative to the configuration's folder."""

    formats: Annotated[list[str], AfterValidator(plainly(_formats))] = Field(default=[])
    """Formats of the report, each with a file, as in "sarif:report.sarif"; at most one without, for standard output."""

    baseline: Annotated[str, Field(min_length=1)] | None = None
    """The baseline to compare with, relative to the configuration's folder."""

    error_on_warning: bool = False
    """Whether warnings fail the check as errors do."""

    include_host: bool = False
    """Whether nodes of models that are the host's arithmetic are judged like the others."""

    ignore: list[Ignore] = Field(default=[])
    """Codes whose findings are ignored, each with a reason."""


_BOOLEAN = ("true or false", "write one of them without quotes, or remove the key")

EXPECTED: Mapping[str, tuple[str, str]] = {
    "level": (f"a feature level ({alternatives(FeatureLevel)})", 'write one of them in quotes, such as "6_4"'),
    "levels": (f"a table of patterns and feature levels ({alternatives(FeatureLevel)})", 'write "PATTERN" = "LEVEL" in it'),
    "exclude": ("a list of patterns of paths", 'write like ["old/", "/models/*.json"], or remove the key'),
    "formats": (
        f"a list of formats ({alternatives(FORMATS)}), each alone or with a file of its own, at most one without a file",
        'write like ["text", "sarif:report.sarif"]',
    ),
    "baseline": ("the name of a file", "write one in quotes, or remove the key"),
    "error_on_warning": _BOOLEAN,
    "include_host": _BOOLEAN,
    "ignore": (
        "a list of tables with code, reason and perhaps paths",
        "write [[ignore]] tables, in pyproject.toml [[tool.dmlgather.ignore]]",
    ),
    "code": ("a code that `dmlgather rule` lists", 'write one of them in quotes, such as "DML305"'),
    "reason": ("text that says why the code is ignored", "say why, or remove the entry"),
    "paths": (
        "a list of one or more patterns of paths",
        'write like ["old/", "/models/*.json"], or remove the key for all files',
    ),
}
"""The value that each key expects, and the remedy for any other."""
