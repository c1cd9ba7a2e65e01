"""The configuration: `[tool.dmlgather]` in pyproject.toml, or dmlgather.toml; finding and reading it."""

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
    """Patterns of the files in which the code is ignored, relative to the configuration's folder: of checked files, and of source
    files whose lines created the descriptors. Default: all files."""


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

    provider: Annotated[Provider, Field(strict=False)] | None = None
    """A program that runs models on DirectML: `check` also says what it does with each node."""

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
"""The value that each key expects, and the remedy for any other."""


# Find and read a configuration; report everything that is wrong with one, with its place.


_BLANK = re.compile(r"\s*(#.*)?")


def line_of(text: str, path: Sequence[str | int]) -> int | None:
    """The line of the statement that gives `path` its value, counted from 1; None where there is none.

    The statement is the last one of the shortest beginning of the text that parses and has a value at `path`.
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
    """Whether there is a value at `path`."""
    for step in path:
        try:
            value = value[step]
        except (LookupError, TypeError):
            return False
    return True


OWN, SHARED = "dmlgather.toml", "pyproject.toml"
"""Files that hold a configuration; of two in one folder, the first is used."""

TABLE = ("tool", "dmlgather")
"""The table of a pyproject.toml that holds the configuration."""

KeyPath = tuple[str | int, ...]
"""Keys and indices from the root to a value."""


class ConfigurationError(Exception):
    """A configuration cannot be used; `problems` has a line for each thing that is wrong."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


class LoadedConfiguration(NamedTuple):
    """A configuration and the file it comes from."""

    file: Path
    text: str
    configuration: Configuration

    @property
    def folder(self) -> Path:
        """What its paths are relative to."""
        return self.file.parent

    def line(self, *path: str | int) -> int | None:
        """The line of a key."""
        return line_of(self.text, (*_table(self.file), *path))


def find(folder: Path) -> LoadedConfiguration | None:
    """The configuration of the nearest folder from `folder` upwards that has one. ConfigurationError when it cannot be used."""
    for above in (folder, *folder.parents):
        for name in (OWN, SHARED):
            file = above / name
            if os.path.isfile(file):  # noqa: PTH113 # unlike Path.is_file, it never raises
                found = load(file, _nearer(file), required=name == OWN)
                if found is not None:
                    return found
    return None


def _nearer(file: Path) -> Path:
    """`file` as messages name it: relative if it is in the current folder."""
    here = Path.cwd()
    return file.relative_to(here) if file.is_relative_to(here) else file


def load(file: Path, shown: Path | None = None, required: bool = True) -> LoadedConfiguration | None:
    """The configuration in `file`, which messages call `shown`. None where it is not required and a pyproject.toml has none.

    ConfigurationError when it cannot be used.
    """
    import tomllib

    shown = shown or file
    table = _table(file)
    try:
        text = read_text(file)
    except FileError as error:
        raise ConfigurationError([f"{shown}: the configuration {error}"]) from None
    if not required and TABLE[1] not in text:
        return None
    try:
        document = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigurationError([_syntax(shown, str(error))]) from None
    if not has(document, table):
        if not required:
            return None
        raise ConfigurationError([f"{shown}: expected a table [{'.'.join(table)}], got none; fix: add it, or name another file"])
    data: Any = document
    for step in table:
        data = data[step]
    try:
        return LoadedConfiguration(shown, text, Configuration.model_validate(data))
    except ValidationError as error:
        raise ConfigurationError(list(_problems(error, shown, text, document, table))) from None


def _table(file: Path) -> tuple[str, ...]:
    return TABLE if file.name == SHARED else ()


def _syntax(file: Path, message: str) -> str:
    place = re.search(r" \(at (?:line (\d+), column (\d+)|end of document)\)", message)
    where = f":{place[1]}:{place[2]}" if place and place[1] else ""
    text = message.replace(place[0], " at the end of the file" if not place[1] else "") if place else message
    return f"{file}{where}: expected TOML, got an error: {text[:1].lower()}{text[1:]}; fix: see https://toml.io for the syntax"


def _problems(error: ValidationError, file: Path, text: str, document: Any, table: tuple[str, ...]) -> Iterator[str]:
    """A line for each error that Pydantic found, with the place of the key, or of the table that lacks it."""
    for item in error.errors(include_url=False):
        steps = tuple(step for step in item["loc"] if step != "[key]")
        path: KeyPath = (*table, *steps)
        existing = path
        while not has(document, existing):
            existing = existing[:-1]
        line = line_of(text, existing)
        expected, got, remedy = _told(item["type"], steps, item["input"])
        place = f"{file}:{line}" if line is not None and existing else str(file)
        yield f"{place}: {dotted(path) or 'the file'}: expected {expected}, got {got}; fix: {remedy}"


def _told(kind: str, steps: KeyPath, given: Any) -> tuple[str, str, str]:
    """Expected, got and remedy of an error."""
    if kind == "extra_forbidden":
        part = Ignore if len(steps) > 1 else Configuration
        key, known = str(steps[-1]), list(part.model_fields)
        meant = closest(key, known) or next((name for name in known if name in key.split("_")), None)
        remedy = f"write {meant}, or remove it" if meant else "remove it"
        if steps == TABLE[:1]:
            remedy = f"in {OWN}, write its keys without a table, at the top"
        return f"one of {', '.join(known)}", f"the key {key!r}", remedy
    if not steps:
        return "a table", _shown(given), "write [tool.dmlgather] in pyproject.toml"
    name = next(str(step) for step in reversed(steps) if step in EXPECTED)
    if name == "levels" and steps[-1] not in (name, given):  # a level, not a pattern
        name = "level"
    expected, remedy = EXPECTED[name]
    if name == "level" and isinstance(given, str | float):
        remedy += level_hint(str(given))
    if kind == "missing":
        return expected, "nothing", remedy
    meant = closest(given, CODES) if name == "code" and isinstance(given, str) else None
    return expected, _shown(given), f"write {meant}" if meant else remedy


def _shown(value: Any) -> str:
    text = json.dumps(value, default=str, ensure_ascii=False)
    return text if len(text) <= 80 else text[:77] + "..."
