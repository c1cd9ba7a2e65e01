"""The subcommand `levels`: show what operators support at each feature level, as text, JSON or a page of Markdown."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Annotated, Any

import typer

from dmlgather.cli import common
from dmlgather.cli.common import AsJson, JsonFile, JsonOutput
from dmlgather.directml import OPERATORS, operator_named, support
from dmlgather.directml.support import INDICES, ONE_TO_EIGHT, Row
from dmlgather.directml.types import RELEASES, DataType, FeatureLevel
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
        str | None, typer.Option(metavar="NAME", help="Same as OPERATOR.", autocompletion=common.operators)
    ] = None,
    as_json: AsJson = False,
    output: JsonFile = None,
    as_markdown: Annotated[bool, typer.Option("--markdown", help="Print the support matrix as a page of Markdown.")] = False,
) -> int:
    """Show the data types and dimension counts of each operator, and the feature level that introduced them."""
    if as_markdown and (as_json or output is not None):
        raise typer.BadParameter("expected at most one of --json and --markdown", param_hint="'--markdown'")
    if name is not None and operator is not None:
        raise typer.BadParameter("expected at most one of OPERATOR and --operator", param_hint="'--operator'")
    names = list(OPERATORS)
    selected = operator if name is None else name
    if selected is not None:
        try:
            names = [operator_named(selected.upper()).type]
        except ValueError as error:
            raise typer.BadParameter(str(error), param_hint="'OPERATOR'" if operator is None else "'--operator'") from None
    if as_markdown:
        put(page(names))
        return 0
    tables = [support(name) for name in names]
    JsonOutput(as_json, output).write(lambda: tables)
    if not as_json:
        put("\n\n".join(map(table, tables)) + "\n")
    return 0


def table(data: dict[str, Any]) -> str:
    """Return a `SupportedOperator`, given as plain data, as text wrapped to the terminal."""
    from dmlgather.report.snippets import wrapped
    from dmlgather.report.text import terminal_width

    rows = [("level", "tensor", "dimensions", "data types")]
    for step in data["levels"]:
        for tensor, row in step["tensors"].items():
            rows.append((step["level"], tensor, _range(row["dimension_counts"]), " ".join(row["data_types"])))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = list[str]()
    for *cells, types in rows:
        start = "".join(f"{cell.ljust(width)}  " for cell, width in zip(cells, widths, strict=False))
        lines += wrapped(types, terminal_width(), start)
    return "\n".join([f"{data['operator']} ({data['value']}), from feature level {data['introduced']}", *lines])


def _range(counts: list[int]) -> str:
    return str(counts[0]) if len(counts) == 1 else f"{counts[0]}-{counts[-1]}"


INTRODUCTION = """# Support matrix

The tables show the lowest DirectML feature level at which each operator takes a data type or a number of dimensions. Later
levels take everything that earlier levels take. A tensor needs a level that takes both its type and its number of dimensions.
The last level is {last}; nothing here changes after {changed}.

`dmlgather levels` prints the tables, also with `--json`. In Python, `dmlgather.support("GATHER")` returns the table of an
operator, and `dmlgather.minimum_level(descriptor)` the lowest level of a descriptor.
DML101 to DML115 in [Findings](findings.md) are the rules for sizes, strides, flags and alignment at every level.
[Sources](findings.md#sources) explains the keys in brackets."""

VERSIONS = """The highest level depends on the version of DirectML, rarely on the driver. A program uses the DirectML of its
Windows, or brings one along (the package Microsoft.AI.DirectML). Versions 1.2, 1.3 and 1.14 had no wide release.

Options and functions take a level as `4_1`, `4.1`, `LEVEL_4_1`, `0x4100` or `DML_FEATURE_LEVEL_4_1`. They also take the version
that introduced the level, as `DirectML 1.7`. A bare number is a level: `1.0` is level 1_0."""

NEVER = "–"


def page(names: Sequence[str]) -> str:
    """Return a page of Markdown about operators, given as "DML_OPERATOR_GATHER"."""
    return "\n\n".join(_parts(names)) + "\n"


def _parts(names: Sequence[str]) -> Iterator[str]:
    operators = [operator_named(name) for name in names]
    gathers = [operator for operator in operators if "indices_tensor" in operator.inputs]
    yield INTRODUCTION.format(last=max(FeatureLevel), changed=max(row.level for operator in operators for row in operator.table))
    yield "## Data types of InputTensor and OutputTensor"
    yield "Both tensors have the same type."
    titles = [operator.name for operator in operators]
    yield _matrix("data type", titles, [kind.name for kind in DataType], lambda name, kind: _from(name, "InputTensor", kind))
    if gathers:
        yield "## Data types of IndicesTensor"
        yield "Negative values of the signed types count from the end. No level takes other types."
        indices = [kind.name for kind in INDICES]
        titles = [operator.name for operator in gathers]
        yield _matrix("data type", titles, indices, lambda name, kind: _from(name, "IndicesTensor", kind))
    yield "## Dimension counts"
    yield "All tensors of an operator have the same number of dimensions."
    counts = [str(count) for count in ONE_TO_EIGHT]
    yield _matrix("dimensions", [operator.name for operator in operators], counts, _count_from)
    yield "## Operators"
    rows = [(each.type, str(each.value), str(each.introduced), each.table[0].source) for each in operators]
    yield _table(("operator", "number of DML_OPERATOR_TYPE", "from level", "source"), rows)
    yield "## Versions of DirectML"
    yield VERSIONS
    head = ("DirectML", "highest feature level", "first Windows with it", "in the package", "source")
    yield _table(
        head, [(r.version, r.level, r.windows or NEVER, "yes" if r.redistributable else "no", r.source) for r in RELEASES]
    )


def _from(name: str, tensor: str, data_type: str) -> str:
    return _lowest(name, lambda row: row.tensor == tensor and DataType[data_type] in row.data_types)


def _count_from(name: str, count: str) -> str:
    return _lowest(name, lambda row: int(count) in row.dimension_counts)


def _lowest(name: str, takes: Callable[[Row], bool]) -> str:
    return next((str(row.level) for row in operator_named(name).table if takes(row)), NEVER)


def _matrix(corner: str, columns: Sequence[str], rows: Sequence[str], cell: Callable[[str, str], str]) -> str:
    """Return a Markdown table. Rows with equal cells are merged into one row with several names."""
    merged = dict[tuple[str, ...], list[str]]()
    for row in rows:
        merged.setdefault(tuple(cell(column, row) for column in columns), []).append(row)
    return _table((corner, *columns), [(", ".join(names), *cells) for cells, names in merged.items()])


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = (head, ["---"] * len(head), *rows)
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
