"""The configuration: `[tool.dmlgather]` in pyproject.toml, or dmlgather.toml."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from dmlgather.directml.types import FeatureLevel, FeatureLevelField
from dmlgather.report.formats import FORMATS, Output, complete
from dmlgather.report.patterns import specification
from dmlgather.report.rules import CODES
from dmlgather.wording import alternatives


def _code(code: str) -> str:
    if code not in CODES:
        raise ValueError(f"{code!r} is no code")
    return code


def _reason(reason: str) -> str:
    if not reason.strip():
        raise ValueError("a reason says something")
    return reason


def _formats(formats: list[str]) -> list[str]:
    complete(map(Output.parse, formats))
    return formats


def _pattern(pattern: str) -> str:
    specification([pattern])
    return pattern


Pattern = Annotated[str, AfterValidator(_pattern)]
"""A pattern of paths relative to the folder of the configuration, as .gitignore writes them."""


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, use_attribute_docstrings=True)


class Ignore(_Part):
    """A code that does not count, and why. What it stands for is still counted as ignored."""

    code: Annotated[str, AfterValidator(_code)]
    """The code: "DML305"."""

    reason: Annotated[str, AfterValidator(_reason)]
    """Why its findings do not count. Reports show it."""

    paths: Annotated[list[Pattern], Field(min_length=1)] | None = None
    """Patterns of the files in which it does not count, relative to the configuration's folder; in all files when left out."""


class Configuration(_Part):
    """What a project says about its checks. Options of the command win over it."""

    level: FeatureLevelField = FeatureLevel.LEVEL_6_4
    """The DirectML feature level to check for."""

    levels: dict[Pattern, FeatureLevelField] = {}
    """Other levels for some files, by patterns relative to the configuration's folder. Of several that match, the last counts."""

    formats: Annotated[list[str], AfterValidator(_formats)] = []
    """Formats of the report, each alone (on standard output, at most one) or with a file: "sarif:report.sarif"."""

    baseline: Annotated[str, Field(min_length=1)] | None = None
    """The baseline to compare with, relative to the configuration's folder."""

    ignore: list[Ignore] = []
    """Codes that do not count, each with a reason."""


EXPECTED: Mapping[str, tuple[str, str]] = {
    "level": (f"a feature level ({alternatives(FeatureLevel)})", 'write one in quotes: "6_4"'),
    "levels": (f"a table of patterns and feature levels ({alternatives(FeatureLevel)})", 'write "PATTERN" = "LEVEL" in it'),
    "formats": (
        f"a list of formats ({alternatives(FORMATS)}), each alone or with a file of its own, at most one without a file",
        'write like ["text", "sarif:report.sarif"]',
    ),
    "baseline": ("the name of a file", "write one in quotes, or remove the key"),
    "ignore": (
        "a list of tables with code, reason and perhaps paths",
        "write [[ignore]] tables, in pyproject.toml [[tool.dmlgather.ignore]]",
    ),
    "code": ("a code of docs/findings.md or docs/expressing.md", 'write one in quotes: "DML305"'),
    "reason": ("text that says why the code does not count", "say why, or remove the entry"),
    "paths": (
        "a list of one or more patterns of paths",
        'write like ["old/", "/models/*.json"], or remove the key for all files',
    ),
}
"""What each key takes, and what to write instead of anything else."""
