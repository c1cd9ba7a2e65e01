"""All codes of findings (such as DML302), with their rules in SARIF and their documentation."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from dmlgather.dialects import export_codes as dialects
from dmlgather.directml import codes as directml
from dmlgather.directml.codes import Code
from dmlgather.files import read_text, shipped
from dmlgather.onnx_checking.provider import codes as provider
from dmlgather.report.rule_examples import written_out

CODES: dict[str, Code] = {**directml.CODES, **dialects.CODES, **provider.CODES}
"""The codes about providers (ORT…) come last, so that reports without a provider can leave them out."""

SOURCES = {**directml.SOURCES, **dialects.SOURCES, **provider.SOURCES}
"""The documents that rules cite, by key. A rule's source has the keys in brackets."""

PAGES = {"DML": "docs/findings.md", "EXP": "docs/expressing.md", "ORT": "docs/onnxruntime-findings.md"}
"""The page with a section about each code, by the code's letters."""

INDEX = {code: number for number, code in enumerate(CODES)}
"""The position of each code in `rules`, for SARIF results."""


def help_uri(code: Code) -> str | None:
    """Return the address of the first document that a rule cites, if it has one."""
    for key in re.findall(r"\[([A-Z0-9-]+)\]", code.source):
        match = re.search(r"https://\S+", SOURCES[key])
        if match:
            return match[0]
    return None


def rules(providers: bool) -> list[Any]:
    """Return all rules as SARIF's reportingDescriptor objects, in the order of `INDEX`."""
    from pydantic_sarif import model as sarif

    descriptors = []
    for code in CODES.values():
        if code.code in provider.CODES and not providers:
            continue
        page = PAGES[code.code[:3]]
        text = f"{code.title}. Source: {code.source}. {page} explains {code.code}."
        uri = help_uri(code)
        descriptors.append(
            sarif.ReportingDescriptor(
                id=code.code,
                shortDescription=sarif.MultiformatMessageString(text=code.title),
                fullDescription=sarif.MultiformatMessageString(text=f"{code.title}. Source: {code.source}."),
                help=sarif.MultiformatMessageString(text=text),
                defaultConfiguration=sarif.ReportingConfiguration(level=sarif.Level(str(code.severity))),
                **({"helpUri": uri} if uri else {}),
            )
        )
    return descriptors


_SECTION = re.compile(r"^## (?P<code>[A-Z]{3}\d{3}) [^\n]*\n(?P<text>.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
_HEAD = re.compile(r"\s*\*\w+\* · [^\n]*\n")


def explanation(code: str) -> str:
    """Return the documentation's section about a code, as Markdown, without heading, severity and source."""
    page = PAGES[code[:3]]
    return written_out(_sections(page)[code], read_text(shipped(page)))


def documents(code: str) -> dict[str, str]:
    """Return the documents that a rule cites, by key."""
    return {key: SOURCES[key] for key in re.findall(r"\[([A-Z0-9-]+)\]", CODES[code].source)}


@cache
def _sections(page: str) -> dict[str, str]:
    text = read_text(shipped(page))
    return {match["code"]: _HEAD.sub("", match["text"], count=1).strip() for match in _SECTION.finditer(text)}
