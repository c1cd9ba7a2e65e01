"""The codes of all findings of `check`, their SARIF rules, and their sections of the documentation."""

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
"""All codes, those of providers last."""

SOURCES = {**directml.SOURCES, **dialects.SOURCES, **provider.SOURCES}
"""Key -> document. The source of a code names its documents by keys in brackets."""

PAGES = {"DML": "docs/findings.md", "EXP": "docs/expressing.md", "ORT": "docs/onnxruntime-findings.md"}
"""First letters of codes -> the page with a section per code."""

INDEX = {code: number for number, code in enumerate(CODES)}
"""Code -> its position in `rules`."""


def help_uri(code: Code) -> str | None:
    """Return the address of a rule's first document; None for dmlgather's own rules, or if it depends on the operator."""
    for key in re.findall(r"\[([A-Z0-9-]+)\]", code.source):
        match = re.search(r"https://\S+", SOURCES[key])
        if match:
            return match[0]
    return None


def rules(providers: bool) -> list[Any]:
    """Return the rules as SARIF's reportingDescriptor objects, ordered as in `INDEX`. `providers`: include providers' rules."""
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
    """Return the section about a code as Markdown: why the rule exists and, for most codes, a failing and a fixed example.

    Heading, severity and source are left out. The wheel carries the pages.
    """
    page = PAGES[code[:3]]
    return written_out(_sections(page)[code], read_text(shipped(page)))


def documents(code: str) -> dict[str, str]:
    """Return the documents that a rule's source names, by key."""
    return {key: SOURCES[key] for key in re.findall(r"\[([A-Z0-9-]+)\]", CODES[code].source)}


@cache
def _sections(page: str) -> dict[str, str]:
    text = read_text(shipped(page))
    return {match["code"]: _HEAD.sub("", match["text"], count=1).strip() for match in _SECTION.finditer(text)}
