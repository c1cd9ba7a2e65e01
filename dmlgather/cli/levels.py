"""`dmlgather levels`: the support tables."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from dmlgather.cli import common
from dmlgather.cli.common import AsJson, JsonFile, JsonOutput
from dmlgather.output import put


def levels(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="[OPERATOR]",
            help="Only this operator, such as GATHER.",
            show_default=False,
            autocompletion=common.operators,
        ),
    ] = None,
    operator: Annotated[
        str | None, typer.Option(metavar="NAME", help="The same as OPERATOR.", autocompletion=common.operators)
    ] = None,
    as_json: AsJson = False,
    output: JsonFile = None,
    as_markdown: Annotated[bool, typer.Option("--markdown", help="Print the support matrix as a page of Markdown.")] = False,
) -> int:
    """Show which data types and dimension counts each operator takes, from which feature level on."""
    from dmlgather.directml import OPERATORS, operator_named, support

    if as_markdown and (as_json or output is not None):
        raise typer.BadParameter("expected at most one of --json and --markdown", param_hint="'--markdown'")
    if name is not None and operator is not None:
        raise typer.BadParameter("expected at most one of OPERATOR and --operator", param_hint="'--operator'")
    names = list(OPERATORS)
    wanted = operator if name is None else name
    if wanted is not None:
        try:
            names = [operator_named(wanted.upper()).type]
        except ValueError as error:
            raise typer.BadParameter(str(error), param_hint="'OPERATOR'" if operator is None else "'--operator'") from None
    if as_markdown:
        from dmlgather.cli.support_page import page

        put(page(names))
        return 0
    tables = [support(name) for name in names]
    JsonOutput(as_json, output).write(lambda: tables)
    if not as_json:
        put("\n\n".join(map(table, tables)) + "\n")
    return 0


def table(data: dict[str, Any]) -> str:
    """One operator's table as text."""
    rows = [("level", "tensor", "dimensions", "data types")]
    for step in data["levels"]:
        for tensor, row in step["tensors"].items():
            rows.append((step["level"], tensor, _range(row["dimension_counts"]), " ".join(row["data_types"])))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join([f"{data['operator']} ({data['value']}), from feature level {data['introduced']}", *lines])


def _range(counts: list[int]) -> str:
    return str(counts[0]) if len(counts) == 1 else f"{counts[0]}-{counts[-1]}"
