"""The subcommand `rule`: explain the codes of findings."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dmlgather.cli import common
from dmlgather.cli.common import AsJson, JsonFile, JsonOutput
from dmlgather.output import put

if TYPE_CHECKING:
    from dmlgather.directml.codes import Code


def rule(
    code: Annotated[
        str | None,
        typer.Argument(
            metavar="CODE", help="Code of a finding, such as DML302.", show_default=False, autocompletion=common.codes
        ),
    ] = None,
    *,
    as_json: AsJson = False,
    output: JsonFile = None,
) -> int:
    """Explain a code of `check`'s findings: the rule, its source and, for most codes, a failing and a fixed example.

    Without a code, list all codes. DML1xx to DML9xx: rules of DirectML and of model files. EXP1xx to EXP3xx: why DirectML
    cannot express another library's operator, or where it differs. ORT1xx to ORT3xx: what onnxruntime's DirectML provider does
    with a node.
    """
    from dmlgather.report.code_registry import CODES

    written = JsonOutput(as_json, output)
    if code is None:
        rows = list(CODES.values())
        written.write(lambda: [_row(row) for row in rows])
        if not as_json:
            put("".join(f"{row.code} {row.severity + ':':8} {row.title}\n" for row in rows))
        return 0
    entry = CODES.get(code.upper())
    if entry is None:
        raise typer.BadParameter(_unknown(code, list(CODES)), param_hint="'CODE'")
    written.write(lambda: _data(entry))
    if not as_json:
        _show(_page(entry))
    return 0


def _unknown(code: str, codes: list[str]) -> str:
    from dmlgather.wording import closest

    similar = closest(code, codes)
    hint = f"; did you mean {similar}?" if similar else "."
    return f"expected a code of a finding, got {code!r}{hint} `dmlgather rule` lists the codes"


def _row(code: Code) -> dict[str, Any]:
    return {"code": code.code, "severity": str(code.severity), "title": code.title, "source": code.source}


def _data(code: Code) -> dict[str, Any]:
    from dmlgather.report.code_registry import documents, explanation

    return {**_row(code), "documents": documents(code.code), "explanation": explanation(code.code)}


def _page(code: Code) -> str:
    from dmlgather.report.code_registry import documents, explanation

    sources = "\n".join(f"- {key}: {document}" for key, document in documents(code.code).items())
    parts = (f"# {code.code} {code.severity}: {code.title}", explanation(code.code), f"Source: {code.source}", sources)
    return "\n\n".join(filter(None, parts)) + "\n"


def _show(markdown: str) -> None:
    if not sys.stdout.isatty():
        put(markdown)
        return
    from rich.console import Console
    from rich.markdown import Markdown

    Console().print(Markdown(markdown))
