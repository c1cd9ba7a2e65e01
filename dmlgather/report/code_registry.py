"""Every code that `check` reports, the codes as SARIF rules, and the sections of the pages that explain them."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from dmlgather.dialects import export_codes as dialects
from dmlgather.directml import codes as directml
from dmlgather.directml.codes import Code
from dmlgather.files import read_text, shipped
from dmlgather.onnx_checking.provider import codes as provider
from dmlgather.report.rule_examples import example_model, written_out

CODES: dict[str, Code] = {**directml.CODES, **dialects.CODES, **provider.CODES}
"""Every code, in order: those of providers last."""

SOURCES = {**directml.SOURCES, **dialects.SOURCES, **provider.SOURCES}
"""The document of each key that a source has in brackets."""

PAGES = {"DML": "docs/findings.md", "EXP": "docs/expressing.md", "ORT": "docs/onnxruntime-findings.md"}
"""The page that has a section for each code, by the first letters of the code."""

INDEX = {code: number for number, code in enumerate(CODES)}
"""The position of each code among the rules."""


def help_uri(code: Code) -> str | None:
    """The document that a rule comes from; None for rules of dmlgather, and where the document depends on the operator."""
    for key in re.findall(r"\[([A-Z0-9-]+)\]", code.source):
        found = re.search(r"https://\S+", SOURCES[key])
        if found:
            return found[0]
    return None


def rules(providers: bool) -> list[Any]:
    """The rules as SARIF's reportingDescriptor objects, in the order of `INDEX`. providers: those of providers as well."""
    from pydantic_sarif import model as sarif

    found = []
    for code in CODES.values():
        if code.code in provider.CODES and not providers:
            continue
        page = PAGES[code.code[:3]]
        text = f"{code.title}. Source: {code.source}. {page} has a failing and a fixed example under {code.code}."
        uri = help_uri(code)
        found.append(
            sarif.ReportingDescriptor(
                id=code.code,
                shortDescription=sarif.MultiformatMessageString(text=code.title),
                fullDescription=sarif.MultiformatMessageString(text=f"{code.title}. Source: {code.source}."),
                help=sarif.MultiformatMessageString(text=text),
                defaultConfiguration=sarif.ReportingConfiguration(level=sarif.Level(str(code.severity))),
                **({"helpUri": uri} if uri else {}),
            )
        )
    return found


# The sections of the pages that explain codes, which the wheel carries.


_SECTION = re.compile(r"^## (?P<code>[A-Z]{3}\d{3}) [^\n]*\n(?P<text>.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
_HEAD = re.compile(r"\s*\*\w+\* · [^\n]*\n")


def explanation(code: str) -> str:
    """The section about a code, as Markdown: why the rule exists, an example that breaks it and one that does not.

    The heading, the severity and the source are left out, which the registry of codes has as well.
    """
    page = PAGES[code[:3]]
    section = _sections(page)[code]
    return written_out(section, example_model(read_text(shipped(page)))) if code.startswith("DML") else section


def documents(code: str) -> dict[str, str]:
    """The documents that the rule comes from, by the keys in brackets of its source."""
    return {key: SOURCES[key] for key in re.findall(r"\[([A-Z0-9-]+)\]", CODES[code].source)}


@cache
def _sections(page: str) -> dict[str, str]:
    text = read_text(shipped(page))
    return {found["code"]: _HEAD.sub("", found["text"], count=1).strip() for found in _SECTION.finditer(text)}
