"""Every code that `check` reports, and the codes as SARIF rules."""

from __future__ import annotations

import re
from typing import Any

from dmlgather.dialects import export_codes as dialects
from dmlgather.directml import codes as directml
from dmlgather.directml.codes import Code

CODES: dict[str, Code] = {**directml.CODES, **dialects.CODES}
"""Every code, in order."""

SOURCES = {**directml.SOURCES, **dialects.SOURCES}
"""The document of each key that a source has in brackets."""

PAGES = {"DML": "docs/findings.md", "EXP": "docs/expressing.md"}
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


def rules() -> list[Any]:
    """The rules as SARIF's reportingDescriptor objects, in the order of `INDEX`."""
    from pydantic_sarif import model as sarif

    found = []
    for code in CODES.values():
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
