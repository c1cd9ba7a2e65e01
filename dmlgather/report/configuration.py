"""Finding and reading the configuration: dmlgather.toml, or `[tool.dmlgather]` in pyproject.toml."""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from pydantic import AfterValidator, Field, ValidationError

from dmlgather.directml.types import FeatureLevel, FeatureLevelField, level_hint
from dmlgather.files import FileError, read_text
from dmlgather.onnx_checking.checked_model import Provider
from dmlgather.record import Record, plainly
from dmlgather.report.code_registry import CODES
from dmlgather.report.formats import FORMATS, Output, complete
from dmlgather.report.paths import specification
from dmlgather.wording import alternatives, closest, dotted


def _code(code: str) -> str:
    if code not in CODES:
        raise ValueError(f"{code!r} is not a code")
    return code


def _reason(reason: str) -> str:
    if not reason.strip():
        raise ValueError("a reason must not be empty")
    return reason


def _formats(formats: list[str]) -> list[str]:
    complete(map(Output.parse, formats))
    return formats


def _pattern(pattern: str) -> str:
    specification([pattern])
    return pattern


Pattern = Annotated[str, AfterValidator(plainly(_pattern))]
"""A pattern of paths in the syntax of .gitignore, relative to the configuration's folder."""


class Ignore(Record, strict=True):
    """An entry of the configuration: findings with this code are ignored. Reports still count them."""

    code: Annotated[str, AfterValidator(plainly(_code))]
    """The code: "DML305"."""

    reason: Annotated[str, AfterValidator(plainly(_reason))]
    """The reason for ignoring the findings, which reports show."""

    paths: Annotated[list[Pattern], Field(min_length=1)] | None = None
    """Patterns of the files in which findings are ignored, relative to the configuration's folder. They also match the source
    files that create descriptors. Default: all files.
    """


class Configuration(Record, strict=True):
    """A project's settings for checks. Options of the command override the settings."""

    level: FeatureLevelField = FeatureLevel.LEVEL_6_4
    """The DirectML feature level to check for."""

    levels: dict[Pattern, FeatureLevelField] = Field(default={})
    """Feature levels for some of the files, by pattern relative to the configuration's folder. The last pattern that matches a
    file applies.
    """

    exclude: list[Pattern] = Field(default=[])
    """Patterns of files to skip in folders, relative to the configuration's folder."""

    formats: Annotated[list[str], AfterValidator(plainly(_formats))] = Field(default=[])
    """Formats of the report, each with a file ("sarif:report.sarif"). At most one has no file; it goes to standard output."""

    baseline: Annotated[str, Field(min_length=1)] | None = None
    """The baseline file, relative to the configuration's folder."""

    error_on_warning: bool = False
    """True if warnings fail the check, too."""

    include_host: bool = False
    """True if nodes of ONNX models that only compute shapes, bounds and conditions are judged like other nodes."""

    provider: Annotated[Provider, Field(strict=False)] | None = None
    """A program that runs ONNX models on DirectML. `check` also shows what it does with each node."""

    ignore: list[Ignore] = Field(default=[])
    """Codes of findings that reports ignore."""


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
    "provider": (f"a provider ({alternatives(Provider)})", "write one of them in quotes, or remove the key"),
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
"""For each key, the expected value and the remedy for other values."""


_BLANK = re.compile(r"\s*(#.*)?")


def line_of(text: str, path: Sequence[str | int]) -> int | None:
    """Return the line number, from 1, of the TOML statement that sets the value at `path`.

    The first lines up to this statement form the shortest beginning of `text` that parses and has the value.
    """
    lines = text.split("\n")
    begun = 0
    for end in range(1, len(lines) + 1):
        try:
            parsed = tomllib.loads("\n".join(lines[:end]))
        except tomllib.TOMLDecodeError:  # a value of several lines continues
            continue
        if has(parsed, path):
            return next(number for number in range(begun, end) if not _BLANK.fullmatch(lines[number])) + 1
        begun = end
    return None


def has(value: Any, path: Sequence[str | int]) -> bool:
    """Return True if a parsed document has a value at this path of keys and indices."""
    for step in path:
        try:
            value = value[step]
        except (LookupError, TypeError):
            return False
    return True


OWN, SHARED = "dmlgather.toml", "pyproject.toml"
"""If a folder has both files, the first one is used."""

TABLE = ("tool", "dmlgather")
"""The configuration's keys in pyproject.toml."""

KeyPath = tuple[str | int, ...]
"""Keys and indices from a document's root to a value."""


class ConfigurationError(Exception):
    """A configuration cannot be used. `problems`: a message for each error in it."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


class LoadedConfiguration(NamedTuple):
    """A configuration, with the path and the text of its file."""

    file: Path
    text: str
    configuration: Configuration

    @property
    def folder(self) -> Path:
        """The folder to which the configuration's paths are relative."""
        return self.file.parent

    def line(self, *path: str | int) -> int | None:
        """Return the line number of a key, or None if it is not found."""
        return line_of(self.text, (*_table(self.file), *path))


def find(folder: Path) -> LoadedConfiguration | None:
    """Load the configuration of a folder, or of the nearest folder above. Raise ConfigurationError if it cannot be used."""
    for parent in (folder, *folder.parents):
        for name in (OWN, SHARED):
            file = parent / name
            if os.path.isfile(file):  # noqa: PTH113 # unlike Path.is_file, it never raises
                loaded = load(file, _relative_to_cwd(file), required=name == OWN)
                if loaded is not None:
                    return loaded
    return None


def _relative_to_cwd(file: Path) -> Path:
    cwd = Path.cwd()
    return file.relative_to(cwd) if file.is_relative_to(cwd) else file


def load(file: Path, display_path: Path | None = None, required: bool = True) -> LoadedConfiguration | None:
    """Load a configuration file. Raise ConfigurationError if it cannot be used.

    `required`: False to return None for a pyproject.toml without dmlgather's table.
    """
    display_path = display_path or file
    table = _table(file)
    try:
        text = read_text(file)
    except FileError as error:
        raise ConfigurationError([f"{display_path}: the configuration {error}"]) from None
    if not required and TABLE[1] not in text:
        return None
    try:
        document = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigurationError([_syntax(display_path, str(error))]) from None
    if not has(document, table):
        if not required:
            return None
        raise ConfigurationError(
            [f"{display_path}: expected a table [{'.'.join(table)}], got none; fix: add it, or name another file"]
        )
    data: Any = document
    for step in table:
        data = data[step]
    try:
        return LoadedConfiguration(display_path, text, Configuration.model_validate(data))
    except ValidationError as error:
        raise ConfigurationError(list(_problems(error, display_path, text, document, table))) from None


def _table(file: Path) -> tuple[str, ...]:
    return TABLE if file.name == SHARED else ()


def _syntax(file: Path, message: str) -> str:
    place = re.search(r" \(at (?:line (\d+), column (\d+)|end of document)\)", message)
    where = f":{place[1]}:{place[2]}" if place and place[1] else ""
    text = message.replace(place[0], " at the end of the file" if not place[1] else "") if place else message
    return f"{file}{where}: expected TOML, got an error: {text[:1].lower()}{text[1:]}; fix: see https://toml.io for the syntax"


def _problems(error: ValidationError, file: Path, text: str, document: Any, table: tuple[str, ...]) -> Iterator[str]:
    for item in error.errors(include_url=False):
        steps = tuple(step for step in item["loc"] if step != "[key]")
        path: KeyPath = (*table, *steps)
        existing = path
        while not has(document, existing):
            existing = existing[:-1]
        line = line_of(text, existing)
        expected, got, remedy = _explained(item["type"], steps, item["input"])
        place = f"{file}:{line}" if line is not None and existing else str(file)
        yield f"{place}: {dotted(path) or 'the file'}: expected {expected}, got {got}; fix: {remedy}"


def _explained(kind: str, steps: KeyPath, value: Any) -> tuple[str, str, str]:
    if kind == "extra_forbidden":
        part = Ignore if len(steps) > 1 else Configuration
        key, keys = str(steps[-1]), list(part.model_fields)
        similar = closest(key, keys) or next((name for name in keys if name in key.split("_")), None)
        remedy = f"write {similar}, or remove it" if similar else "remove it"
        if steps == TABLE[:1]:
            remedy = f"in {OWN}, write its keys without a table, at the top"
        return f"one of {', '.join(keys)}", f"the key {key!r}", remedy
    if not steps:
        return "a table", _shown(value), "write [tool.dmlgather] in pyproject.toml"
    name = next(str(step) for step in reversed(steps) if step in EXPECTED)
    if name == "levels" and steps[-1] not in (name, value):  # a level, not a pattern
        name = "level"
    expected, remedy = EXPECTED[name]
    if name == "level" and isinstance(value, str | float):
        remedy += level_hint(str(value))
    if kind == "missing":
        return expected, "nothing", remedy
    similar = closest(value, CODES) if name == "code" and isinstance(value, str) else None
    return expected, _shown(value), f"write {similar}" if similar else remedy


def _shown(value: Any) -> str:
    text = json.dumps(value, default=str, ensure_ascii=False)
    return text if len(text) <= 80 else text[:77] + "..."
