"""CONTRIBUTING.md's recipe for operators that `check` propagates, with made-up ones: an entry is enough."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dmlgather.onnx.problems.node_reading import StatedNode
from dmlgather.onnx_checking.checked_model import Verdict
from dmlgather.onnx_checking.following import operators
from dmlgather.onnx_checking.following.operator_entries import KnownNode, OperatorEntry, Shape
from tests.onnx_checking.modelling import by_place, checked


def swapped(_: StatedNode, data: Any) -> Any:
    """The last two dimensions change places."""
    rank = data.ndim
    return data.transpose([*range(rank - 2), rank - 1, rank - 2])


def halved(_: StatedNode, data: Any) -> Any:
    """The first half of the first dimension."""
    return data[(slice(0, data.shape[0] // 2),)]


def half(call: KnownNode) -> list[Shape | None] | None:
    shape = call.shape(0)
    return None if shape is None else [[call.size("floor_divide", shape[0], 2), *shape[1:]]]


def between(compute: Any, low: Any, value: Any, high: Any) -> Any:
    """Clip with another order of its inputs."""
    return compute("minimum", compute("maximum", value, low), high)


ROWS = {
    "SwapLast": operators.moving(swapped),
    "Halve": operators.moving(halved, sizes=half),
    "Between": operators.computing(between, gives=1),
    "SliceLike": OperatorEntry(host=(1,)),
}
"""One row for each; a second rule where sizes with names are computed with."""


@pytest.fixture(autouse=True)
def added(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, row in ROWS.items():
        monkeypatch.setitem(operators.OPERATORS, name, row)


TABLES = {
    **dict.fromkeys(("_FOLLOWED", "_OTHERS", "_RUNTIME"), ""),
    "_MICROSOFT": "com.microsoft.",
    "_BLOCKS": "com.microsoft.nchwc.",
}
"""The parts of the table, with the domains of their operators."""

FIRST = "zero = Constant<value_ints = [0]>() one = Constant<value_ints = [1]>()"


@pytest.mark.parametrize(
    ("nodes", "condition"),
    [
        ("t = SwapLast(x) s = Shape(t) n = Gather(s, one)", "K >= N"),
        ("t = Halve(x) s = Shape(t) n = Gather(s, zero)", "K >= floor(N/2)"),
        ("s = Shape(x) m = Gather(s, zero) n = Between(one, m, five)", "K >= min(5, max(1, N))"),
        ("s = Shape(x) n = Halve(s)", "K >= N"),
    ],
    ids=("moved", "halved", "computed", "moved elements"),
)
def test_check_follows_sizes_with_names(tmp_path: Path, nodes: str, condition: str) -> None:
    """The bound of the slice is the size of x that the made-up operator passes on."""
    head = f"agraph (float[N,4] x, float[K] v) => (float[M] y) {{ {FIRST} five = Constant<value_ints = [5]>()"
    text = f"{head} {nodes} [cut] y = Slice(v, zero, n) }}"
    node = by_place(checked(tmp_path, text))["cut"]
    assert node.verdict is Verdict.TAKEN
    assert condition in node.provided


def test_check_knows_what_the_caller_has_to_know(tmp_path: Path) -> None:
    text = f"agraph (float[N,4] x) => (float[M] y) {{ {FIRST} s = Shape(x) [n] n = Gather(s, zero) y = SliceLike(x, n) }}"
    assert by_place(checked(tmp_path, text))["n"].verdict is Verdict.HOST


def named(table: ast.Dict) -> Iterator[str]:
    """The operators that a dictionary of rows names, in its source."""
    for key, value in zip(table.keys, table.values, strict=True):
        if isinstance(key, ast.Constant):
            yield str(key.value)
        elif isinstance(value, ast.Call):
            yield from (str(each.value) for each in value.args if isinstance(each, ast.Constant))


def test_each_operator_stands_once() -> None:
    tree = ast.parse(Path(operators.__file__).read_text(encoding="utf-8"))
    tables = {
        node.target.id: list(named(node.value))
        for node in tree.body
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and isinstance(node.value, ast.Dict)
    }
    names = [f"{domain}{name}" for table, domain in TABLES.items() for name in tables[table]]
    assert len(names) == len(set(names)) > 150
    assert {*names} == operators.OPERATORS.keys() - ROWS.keys()
