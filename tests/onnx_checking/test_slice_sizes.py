"""What slices leave of an axis of any size: their sizes, the conditions on them, and constant indices into them.

Judge: NumPy's slices of `arange(N)` for many N, and onnxruntime.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from onnx import ModelProto, numpy_helper

from dmlgather.onnx_checking.checked_model import CheckedModel, CheckedNode, Verdict
from tests import seeds
from tests.onnx_checking.following import ran
from tests.onnx_checking.modelling import checked, findings_of, parsed
from tests.onnx_checking.symbolic_nodes import holds, meaning

FRONT, END = -(2**63), 2**63 - 1

Bounds = tuple[int, int, int]
"""Start, end and step."""

MANY = 45
"""Sizes below it are tried; bounds are less than a third of it."""


def _left(size: int, bounds: Bounds) -> int:
    """How many elements NumPy leaves. ONNX takes a start before the first element as that one, where the step is negative."""
    start, end, step = bounds
    return len(np.arange(size)[max(start, -size) if step < 0 else start : end : step])


def _most(bounds: Bounds) -> int | None:
    """The most elements that are left of any axis; None where their number grows with the axis."""
    counts = [_left(size, bounds) for size in (*range(MANY), 1000, 1001)]
    return None if counts[-1] > MANY else max(counts)


def _model(bounds: Bounds, gather: str = "Gather", index: object = 0) -> ModelProto:
    """A slice of the rows of x, and a gather of constant rows of what it leaves."""
    start, end, step = bounds
    output = "float[a]" if gather == "GatherND" else "float[a,b]"
    constants = ", ".join(f"int64[1] {name} = {{{value}}}" for name, value in zip("seat", (start, end, 0, step), strict=True))
    nodes = f"[slice] z = Slice(x, s, e, a, t) [of] y = {gather}(z, index)"
    model = parsed(f"g (float[N,3] x) => ({output} y) <{constants}> {{ {nodes} }}")
    model.graph.initializer.append(numpy_helper.from_array(np.array(index, np.int64), "index"))
    return model


def _nodes(folder: Path, model: ModelProto) -> tuple[CheckedModel, CheckedNode, CheckedNode]:
    found = checked(folder, model)
    one, two = found.nodes
    return found, one, two


@pytest.mark.parametrize(
    ("bounds", "size"),
    [
        ((-1, FRONT, -1), "N"),
        ((-1, FRONT, -2), "floor(N/2 + 1/2)"),
        ((-1, 0, -1), "max(0, N - 1)"),
        ((-3, FRONT, -1), "min(N, max(1, N - 2))"),
        ((3, FRONT, -1), "min(4, N)"),
        ((END, FRONT, -1), "N"),
        ((-1, -4, -1), "min(3, N)"),
        ((-1, FRONT, -3), "floor(N/3 + 2/3)"),
        ((1, 3, 1), "max(0, min(2, N - 1))"),
        ((-5, 3, 1), "max(0, min(3, N, 8 - N))"),
        ((2, -2, 1), "max(0, N - 4)"),
    ],
)
def test_sizes_by_hand(tmp_path: Path, bounds: Bounds, size: str) -> None:
    _, node, gather = _nodes(tmp_path, _model(bounds))
    assert node.outputs[0].shape == (size, 3)
    assert [meaning(size, {"N": each}) for each in range(MANY)] == [_left(each, bounds) for each in range(MANY)]
    assert all(condition.symbols == ("N",) for condition in (*node.conditions, *gather.conditions))


@pytest.mark.parametrize(
    ("bounds", "index", "most"),
    [
        ((0, 2, 1), 2, 2),
        ((-3, END, 1), 3, 3),
        ((0, 4, 2), 2, 2),
        ((1, 3, 1), 2, 2),
        ((3, FRONT, -1), 4, 4),
        ((-1, -4, -1), 5, 3),
        ((-6, -2, 3), -3, 2),
        ((-3, 5, 1), 3, 3),
        ((7, 1, -4), 2, 2),
        ((-9, -12, -1), 3, 3),
    ],
)
@pytest.mark.parametrize("gather", ["Gather", "GatherElements", "GatherND"])
def test_an_index_that_no_size_admits(tmp_path: Path, gather: str, bounds: Bounds, index: int, most: int) -> None:
    indices, place = {"Gather": ([index], "indices[0]"), "GatherElements": ([[0, index]], "indices[0,1]")}.get(
        gather, ([[0, 0], [index, 2]], "indices[1,0]")
    )
    found, node, refused = _nodes(tmp_path, _model(bounds, gather, indices))
    assert (node.verdict, refused.verdict) == (Verdict.TAKEN, Verdict.REFUSED)
    (finding,) = found.findings
    assert (finding.code, finding.path, finding.got) == ("EXP111", place, str(index))
    assert finding.expected == f"{-most} … {most - 1}, as data has at most size {most} in dimension 0"
    assert _most(bounds) == most
    for size in range(0, MANY, 4):
        feeds = {"x": np.zeros((size, 3), np.float32)}
        assert ran(_model(bounds, gather, indices), feeds) is None, "onnxruntime refuses it too"


def test_random_slices(tmp_path: Path) -> None:
    """Of numbers as bounds: the size is exact, so are conditions, and an index is refused where no size has it."""
    rng = seeds.rng()
    verdicts = set()
    for _ in range(60):
        bounds = (rng.choice((rng.randint(-14, 14), 0, -1, END, FRONT)), rng.choice((rng.randint(-14, 14), END - 1, FRONT)), 1)
        bounds = (*bounds[:2], rng.choice((1, 1, 2, 5, -1, -1, -2, -3)))
        index = rng.choice((0, -1, rng.randint(-9, 9)))
        counts, most = {size: _left(size, bounds) for size in range(1, MANY)}, _most(bounds)
        found, node, gather = _nodes(tmp_path, _model(bounds, "Gather", [index]))
        size = node.outputs[0].shape
        assert size is not None
        assert [meaning(str(size[0]), {"N": each}) for each in counts] == list(counts.values()), bounds
        needed = index + 1 if index >= 0 else -index
        for each, least, what in ((node, 1, "Slice"), (gather, needed, "Gather")):
            ok = [number for number, count in counts.items() if count >= least]
            if each.verdict is Verdict.TAKEN:
                assert [number for number in counts if holds(each.provided, {"N": number})] == ok, (bounds, index, what)
            else:
                assert not ok, (bounds, index, what)
        verdicts.add(gather.verdict)
        codes = [finding.code for finding in findings_of(found, "of")]
        expected = ["EXP111"] * (most is not None and needed > most) + ["EXP102"] * (most == 0)
        assert codes == expected, (bounds, index)
        if codes == ["EXP111"]:
            assert f"at most size {most} " in findings_of(found, "of")[0].expected
    assert verdicts == {Verdict.TAKEN, Verdict.REFUSED}


EXPRESSIONS: dict[str, tuple[str, Callable[[int, int], int]]] = {
    "m": ("", lambda n, m: m),
    "-m": ("b = Neg(m)", lambda n, m: -m),
    "m + 2": ("b = Add(m, two)", lambda n, m: m + 2),
    "-m - 2": ("c = Neg(m) b = Sub(c, two)", lambda n, m: -m - 2),
    "(m - 1) // 2": ("c = Sub(m, one) b = Div(c, two)", lambda n, m: int((m - 1) / 2)),
    "n": ("b = Identity(n)", lambda n, m: n),
    "n - 1": ("b = Sub(n, one)", lambda n, m: n - 1),
    "n - 2": ("b = Sub(n, two)", lambda n, m: n - 2),
    "n - m": ("b = Sub(n, m)", lambda n, m: n - m),
    "2 - m": ("b = Sub(two, m)", lambda n, m: 2 - m),
    "max(n, m) + 1": ("c = Max(n, m) b = Add(c, one)", lambda n, m: max(n, m) + 1),
}
"""Bounds that are computed from the sizes N and M: by nodes, and by Python."""

EITHER_SIGN = {"-m", "2 - m", "n - m"}
"""Those that depend on two sizes which leave their sign open, for an axis of size N."""

SYMBOLIC = """g (float[N] x, float[M] w) => (float[a] z) <int64[1] one = {{1}}, int64[1] two = {{2}}, int64[1] s = {{{start}}},
int64[1] e = {{{end}}}, int64[1] a = {{0}}, int64[1] t = {{{step}}}> {{ n = Shape(x) m = Shape(w) {nodes}
[slice] z = Slice(x, {one}, {other}, a, t) y = Identity(z) }}"""


def _symbolic(numbers: Bounds, computed: str, at: int) -> tuple[str, Callable[[int, int], Bounds]]:
    """A model whose start or end is computed, and what its bounds are."""
    nodes, bound = EXPRESSIONS[computed]
    name = "b" if nodes else "m"
    start, end, step = numbers
    text = SYMBOLIC.format(
        start=start, end=end, step=step, nodes=nodes, one=name if at == 0 else "s", other=name if at == 1 else "e"
    )
    return text, lambda n, m: (bound(n, m), end, step) if at == 0 else (start, bound(n, m), step)


def _cases() -> Iterator[tuple[Bounds, str, int]]:
    for computed in EXPRESSIONS:
        for step in (1, 2, -1, -2):
            yield ((0, END, step) if step > 0 else (-1, FRONT, step)), computed, 0
            yield ((1, END, step) if step > 0 else (-2, FRONT, step)), computed, 1


def test_bounds_that_are_computed(tmp_path: Path) -> None:
    """The size of what is left is exact, also of an axis of size 0; under the conditions, something is left."""
    some = 0
    for numbers, computed, at in _cases():
        text, bounds = _symbolic(numbers, computed, at)
        found = checked(tmp_path, text)
        (node,) = found.nodes
        shape = node.outputs[0].shape
        assert shape is not None
        not_known = shape == ("a",)
        assert not_known is (computed in EITHER_SIGN)
        for n in range(9):
            for m in range(9):
                values, left = {"N": n, "M": m}, _left(n, bounds(n, m))
                assert not_known or meaning(str(shape[0]), values) == left, (numbers, computed, at, values)
                if n and node.verdict is Verdict.TAKEN and holds(node.provided, values):
                    assert left > 0, (numbers, computed, at, values)
                    some += 1
                assert node.verdict is not Verdict.REFUSED or left == 0
    assert some > 1000
