"""The support matrix as a page of Markdown, generated from the tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from dmlgather.directml import CODES, SOURCES, support
from dmlgather.directml.operators import operator_named
from dmlgather.directml.releases import RELEASES
from dmlgather.directml.support import INDICES, ONE_TO_EIGHT, Row
from dmlgather.directml.types import DataType, FeatureLevel
from dmlgather.wording import alternatives

INTRODUCTION = """# Support matrix

What each operator supports, and from which DirectML feature level on. A level supports everything that earlier ones do; {last} is
the last, and the tables below do not change after {changed}. `dmlgather levels` shows the tables in a terminal, with `--json` as
data and with `--markdown` as this page; in Python, see `dmlgather.support("GATHER")`. `dmlgather.minimum_level(descriptor)` is
the lowest level of one descriptor. [Sources](#sources) explains the keys in brackets."""

VERSIONS = """The level depends on the version of DirectML, and hardly on the driver. A program uses the version of its
Windows, or brings one along (the package Microsoft.AI.DirectML). Versions 1.2, 1.3 and 1.14 were not released widely. A patch
changes no level.

Wherever a level is given, on the command line, in the configuration or in Python, `4_1`, `4.1`, `LEVEL_4_1`, `0x4100` and
`DML_FEATURE_LEVEL_4_1` mean the same, and so does `DirectML 1.7`, the version that brought it. A bare number is a level: `1.0` is
level 1_0, and `1.7` is refused, with a hint at `DirectML 1.7`."""

NEVER = "–"


def page(names: Sequence[str]) -> str:
    """The page for these operators ("DML_OPERATOR_GATHER")."""
    return "\n\n".join(_parts(names)) + "\n"


def _parts(names: Sequence[str]) -> Iterator[str]:
    operators = [operator_named(name) for name in names]
    gathers = [operator for operator in operators if "indices_tensor" in operator.inputs]
    yield INTRODUCTION.format(last=max(FeatureLevel), changed=max(row.level for one in operators for row in one.table))
    yield "## Data types of InputTensor and OutputTensor"
    yield "The lowest feature level that supports the type. Both tensors have the same type."
    titles = [operator.name for operator in operators]
    yield _matrix("data type", titles, [kind.name for kind in DataType], lambda name, kind: _from(name, "InputTensor", kind))
    if gathers:
        yield "## Data types of IndicesTensor"
        yield "No level supports any other type. Negative values of the signed types count from the end."
        indices = [kind.name for kind in INDICES]
        titles = [operator.name for operator in gathers]
        yield _matrix("data type", titles, indices, lambda name, kind: _from(name, "IndicesTensor", kind))
    yield "## Dimension counts"
    yield "The lowest feature level that supports the number of dimensions, which is the same for all tensors of an operator."
    counts = [str(count) for count in ONE_TO_EIGHT]
    yield _matrix("dimensions", [operator.name for operator in operators], counts, _count_from)
    yield "## Rules of every tensor"
    yield (
        "Sizes, strides, flags and alignment have the same rules in every operator and at every level. [Findings](findings.md) "
        "has a failing and a fixed example for each code."
    )
    codes = [code for code in CODES.values() if code.code.startswith("DML1")]
    yield _table(("code", "rule", "severity", "source"), [(c.code, c.title, str(c.severity), c.source) for c in codes])
    for operator in operators:
        data = support(operator.type)
        yield f"## {operator.type}"
        yield f"Number {data['value']} of DML_OPERATOR_TYPE, from feature level {data['introduced']} on."
        yield _table(("from level", "tensors", "dimensions", "data types", "source"), list(_rows(operator.table)))
    yield "## Versions of DirectML"
    yield VERSIONS
    head = ("DirectML", "highest feature level", "first Windows that has it", "in the package", "source")
    yield _table(
        head, [(r.version, r.level, r.windows or NEVER, "yes" if r.redistributable else "no", r.source) for r in RELEASES]
    )
    yield "## Sources"
    used = {key: SOURCES[key] for key in SOURCES if any(f"[{key}]" in text for text in _sources(names))}
    yield _table(("key", "source"), list(used.items()))


def _sources(names: Sequence[str]) -> Iterator[str]:
    yield from (code.source for code in CODES.values() if code.code.startswith("DML1"))
    yield from (row.source for name in names for row in operator_named(name).table)
    yield from (release.source for release in RELEASES)


def _rows(table: Sequence[Row]) -> Iterator[tuple[str, ...]]:
    """The rows; tensors that support the same from the same level on share one."""
    tensors: dict[tuple[str, ...], list[str]] = {}
    for row in table:
        counts = row.dimension_counts
        shown = f"{counts[0]} to {counts[-1]}" if len(counts) > 2 else alternatives(counts)
        types = " ".join(kind.name for kind in row.data_types)
        tensors.setdefault((str(row.level), shown, types, row.source), []).append(row.tensor)
    for (level, shown, types, source), names in tensors.items():
        yield level, ", ".join(names), shown, types, source


def _from(name: str, tensor: str, data_type: str) -> str:
    """The lowest level that supports the type for the operator's tensor."""
    return _lowest(name, lambda row: row.tensor == tensor and DataType[data_type] in row.data_types)


def _count_from(name: str, count: str) -> str:
    return _lowest(name, lambda row: int(count) in row.dimension_counts)


def _lowest(name: str, takes: Callable[[Row], bool]) -> str:
    return next((str(row.level) for row in operator_named(name).table if takes(row)), NEVER)


def _matrix(corner: str, columns: Sequence[str], rows: Sequence[str], cell: Callable[[str, str], str]) -> str:
    return _table((corner, *columns), [(row, *(cell(column, row) for column in columns)) for row in rows])


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = (head, ["---"] * len(head), *rows)
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
