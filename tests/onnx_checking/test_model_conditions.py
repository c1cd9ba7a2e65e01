"""Conditions on sizes that models compute with, and what is said where they contradict each other or nothing is known."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from dmlgather.onnx_checking.checked_model import CheckedModel, Verdict
from dmlgather.onnx_checking.conflicts import exclusive
from dmlgather.onnx_checking.sizes.conditions import Conditions, strongest
from dmlgather.onnx_checking.sizes.expressions import Sizes
from tests.onnx_checking.modelling import by_place, checked, findings_of, only, parsed
from tests.onnx_checking.sessions import OFF, run, session
from tests.onnx_checking.symbolic_nodes import holds

DOCUMENT = Path(__file__).parents[2] / "docs" / "onnx-check.md"

CONSTANTS = """int64[1] zero = {0}, int64[1] one = {1}, int64[1] three = {3}, int64[1] five = {5}, int64[1] seven = {7},
int64[1] eight = {8}, int64[1] nine = {9}, int64[1] last = {-1}, int64[1] fifth = {-5}, int64[1] from = {65},
int64[1] all = {9223372036854775807}"""

SLICES = {
    "`x[65:]` of `x[N]`": ("float[N] x", "y = Slice(x, from, all)"),
    "`x[-5:3]` of `x[N]`": ("float[N] x", "y = Slice(x, fifth, three)"),
    "`x[n - 5:n]` of `x[N]`, where `n` is the size `N`": ("float[N] x", "n = Shape(x) s = Sub(n, five) y = Slice(x, s, n)"),
    "`table[:seq]` of 512 rows": ("float[512,8] x, int64[seq] i", "n = Shape(i) y = Slice(x, zero, n)"),
    "`cache[:past + seq]` of 2048 rows": (
        "float[2048,8] x, int64[past] p, int64[seq] i",
        "n = Shape(i) m = Shape(p) e = Add(n, m) y = Slice(x, zero, e)",
    ),
    "`x[:min(seq, 7)]` of `x[M]`": ("float[M] x, int64[seq] i", "n = Shape(i) e = Min(n, seven) y = Slice(x, zero, e)"),
}
"""A slice as the page names it: the inputs of a model that has it, and its nodes."""


def _checked(folder: Path, inputs: str, nodes: str, level: str = "6_4") -> CheckedModel:
    return checked(folder, _text(inputs, nodes), level)


def _text(inputs: str, nodes: str) -> str:
    return f"agraph ({inputs}) => (float y) <{CONSTANTS}> {{ {nodes} }}"


@pytest.mark.parametrize("slice_of", SLICES)
def test_the_conditions_on_the_page(tmp_path: Path, slice_of: str) -> None:
    rows = dict(re.findall(r"^\| (`.*) \| `(.*)` \|$", DOCUMENT.read_text("utf-8"), re.MULTILINE))
    assert set(SLICES) == {row for row in rows if " of " in row}
    node = only(_checked(tmp_path, *SLICES[slice_of]))
    assert (node.verdict, " and ".join(node.provided)) == (Verdict.TAKEN, rows[slice_of])


PROVIDED = {
    "joined thrice": ("float[N] x", "j = Concat<axis = 0>(x, x, x) y = Slice(j, five, last)", ("N >= 3",)),
    "joined": ("float[past] x, float[seq] z", "j = Concat<axis = 0>(x, z) y = Slice(j, five, last)", ("past + seq >= 7",)),
    "indices": ("float[N,M] x", "i = Constant<value_ints = [2, -5]>() y = Gather(x, i)", ("N >= 5", "M >= 1")),
    "tuples": ("float[N,M] x", "i = Constant<value_ints = [2, 7]>() y = GatherND(x, i)", ("N >= 3", "M >= 8")),
}


@pytest.mark.parametrize(("inputs", "nodes", "provided"), PROVIDED.values(), ids=PROVIDED)
def test_conditions_by_hand(tmp_path: Path, inputs: str, nodes: str, provided: tuple[str, ...]) -> None:
    node = only(_checked(tmp_path, inputs, nodes))
    assert (node.verdict, node.provided) == (Verdict.TAKEN, provided)


def test_an_index_that_no_size_has_in_an_old_opset(tmp_path: Path) -> None:
    old = '<ir_version: 8, opset_import: ["" : 10]>'
    (finding,) = checked(tmp_path, f"{old} {_text('float[N] x', 'y = Gather(x, last)')}").findings
    assert (finding.code, finding.got) == ("EXP111", "-1")


SOLVED: dict[str, tuple[str, str, Callable[[int], int] | None]] = {
    "(n - 1) // 8 + 1": (
        "s = Sub(n, one) d = Div(s, eight) e = Add(d, one) y = Slice(x, zero, e)", "N >= 1", lambda n: (n - 1) // 8 + 1,
    ),
    "(n - 3) // 8 + 2": (
        "s = Sub(n, three) d = Div(s, eight) e = Add(d, one) f = Add(e, one) y = Slice(x, f, all)", "N >= 3", None,
    ),
    "(n - 9) // 8": ("s = Sub(n, nine) d = Div(s, eight) y = Slice(x, zero, d)", "N >= 17", lambda n: int((n - 9) / 8)),
    "(n - 1) % 8": ("s = Sub(n, one) m = Mod<fmod = 0>(s, eight) e = Add(m, one) y = Slice(x, zero, e)", "N >= 1", None),
    "n // 8": ("e = Div(n, eight) y = Slice(x, zero, e)", "N >= 8", lambda n: n // 8),
    "n - n // 3": ("d = Div(n, three) e = Sub(n, d) y = Slice(x, zero, e)", "N >= 1", lambda n: n - n // 3),
    "min(3, n) - min(1, n)": (
        "p = Min(n, three) q = Min(n, one) d = Sub(p, q) y = Slice(x, one, d)", "N >= 3", lambda n: min(n, 3) - min(n, 1) - 1,
    ),
}  # fmt: skip
"""Bounds that are computed from the size N: nodes, the condition on N, and how many elements are left where it holds."""


@pytest.mark.parametrize("bound", SOLVED)
def test_conditions_on_one_size_are_solved(tmp_path: Path, bound: str) -> None:
    """Judge of what is left: onnxruntime, at each size."""
    nodes, provided, left = SOLVED[bound]
    model = parsed(_text("float[N] x", f"n = Shape(x) {nodes}"))
    node = only(checked(tmp_path, model))
    assert (node.verdict, node.provided) == (Verdict.TAKEN, (provided,))
    by_onnxruntime = session(model, OFF)
    for n in range(1, 30):
        count = by_onnxruntime.run(None, {"x": np.zeros(n, np.float32)})[0].size
        if holds(node.provided, {"N": n}):
            assert count > 0
            assert left is None or count == left(n)


def test_conditions_that_are_solved_are_joined(tmp_path: Path) -> None:
    """No condition is said that another one contains, in a node's line and in the heading."""
    nodes = "n = Shape(x) d = Div(n, eight) [first] a = Slice(x, zero, d) [second] y = Slice(x, d, n)"
    found = _checked(tmp_path, "float[L] x", nodes)
    assert [node.provided for node in found.nodes] == [("L >= 8",), ("L >= 1",)]
    assert [each.text for each in strongest(condition for node in found.nodes for condition in node.conditions)] == ["L >= 8"]


def test_a_size_that_is_left_where_the_others_are_numbers() -> None:
    sizes = Sizes()
    conditions = Conditions(sizes)
    conditions.require(("N", "M"), (), 7)
    conditions.require((3,), ("N",))
    conditions.require(("N",), (), 3)
    least = sizes.compute("minimum", "K", sizes.compute("add", "N", 4) or 0)
    conditions.require((least or 0,), ("M",))
    assert {each.text for each in conditions.stated()} == {"N = 3", "M + N >= 7", "M <= 7", "K >= M"}
    assert {each.text for each in conditions.solved().stated()} == {"N = 3", "4 <= M <= 7", "K >= M"}


def test_names_with_signs_in_them_stand_apart(tmp_path: Path) -> None:
    """Names of ONNX may have any characters, so that an expression cannot be taken apart again."""
    model = parsed(_text("float[past] x, float[seq] z", "j = Concat<axis = 0>(x, z) y = Slice(j, five, last)"))
    for value, name in zip(model.graph.input, ("/past-len", "a + b"), strict=True):
        value.type.tensor_type.shape.dim[0].dim_param = name
    (condition,) = only(checked(tmp_path, model)).conditions
    assert condition.terms == {"/past-len": 1, "a + b": 1}
    assert (condition.at_least, condition.at_most, set(condition.symbols)) == (7, None, {"/past-len", "a + b"})


def test_values_that_are_sizes_are_shown(tmp_path: Path) -> None:
    _, _, ends, *_ = only(_checked(tmp_path, *SLICES["`table[:seq]` of 512 rows"])).inputs
    assert ends.values == ("seq",)


def test_steps_that_depend_on_sizes(tmp_path: Path) -> None:
    found = _checked(tmp_path, "float[N] x, int64[seq] i", "n = Shape(i) y = Slice(x, zero, all, zero, n)")
    (finding,) = found.findings
    assert (only(found).verdict, finding.code, finding.path) == (Verdict.UNKNOWN, "EXP302", "steps")
    assert finding.got == "'n', computed from sizes: seq; they depend on the model's input 'i'"
    assert finding.remedy == "declare seq in the model, as numbers"


IN_BRANCHES = """y = If<then_branch = t () => (float[A] a) { [first] a = Slice(x, from, all) },
    else_branch = e () => (float[B] b) { [second] b = Slice(x, fifth, three) }>(c)"""
CONTRADICTIONS = {
    "numbers": (
        "float[N] x",
        "[first] a = Slice(x, from, all) [second] b = Slice(x, fifth, three) [third] y = Slice(x, one, all)",
        "N >= 66 for this node, but 1 <= N <= 7 for second",
    ),
    "bounds that depend on sizes": (
        "float[N] x, float[3] t",
        "s = Shape(x) n = Sub(s, five) [first] a = Slice(x, n, all) [second] y = Slice(t, s, all)",
        "N >= 5 for this node, but N <= 2 for second",
    ),
    "branches, of which one is taken": ("float[N] x, bool c", IN_BRANCHES, None),
    "different sizes, although both are called data[0]": (
        "float[?] x, float[?] z",
        "[first] a = Slice(x, from, all) [second] y = Slice(z, fifth, three)",
        None,
    ),
}


@pytest.mark.parametrize(("inputs", "nodes", "got"), CONTRADICTIONS.values(), ids=CONTRADICTIONS)
def test_conditions_that_contradict_each_other(tmp_path: Path, inputs: str, nodes: str, got: str | None) -> None:
    found = _checked(tmp_path, inputs, nodes)
    assert {node.verdict for node in found.nodes} == {Verdict.TAKEN}
    said = [(each.code, each.severity, each.subject, each.got) for each in found.findings]
    assert said == ([] if got is None else [("EXP305", "warning", "first", got)])
    assert "Shape" not in nodes or "no bound changes its sign" in found.findings[0].expected


@pytest.mark.parametrize("of", [5, 6, 9])
def test_a_bound_that_is_cut_off_contradicts_nothing(tmp_path: Path, of: int) -> None:
    """Where the first slice leaves something, onnxruntime cuts the second one off."""
    nodes = "s = Shape(x) n = Sub(s, five) a = Slice(x, n, all) b = Slice(t, zero, s) y = Concat<axis = 0>(a, b)"
    model = parsed(_text("float[N] x, float[3] t", nodes))
    found = checked(tmp_path, model)
    assert not found.findings
    assert [(node.verdict, node.provided) for node in found.nodes] == [(Verdict.TAKEN, ("N >= 5",)), (Verdict.TAKEN, ("N >= 1",))]
    feeds = {"x": np.zeros(of, np.float32), "t": np.zeros(3, np.float32)}
    assert run(model, feeds, OFF)["y"].shape == (8,)


def test_sizes_that_are_not_found_name_their_input(tmp_path: Path) -> None:
    nodes = (
        "n = Shape<end = 1>(x) m = Shape<start = 1>(x) p = Mul(n, m) q = Mod(p, from) r = Mod(q, five) d = Sub(r, from) "
        "e = Mul(d, q) g = Abs(e) y = Slice(x, g, r)"
    )
    (finding,) = _checked(tmp_path, "float[N,M] x", nodes).findings
    assert (finding.code, finding.path) == ("EXP302", "data")
    assert finding.got.endswith("; they depend on the model's input 'x'")


def test_an_initializer_that_callers_may_replace(tmp_path: Path) -> None:
    text = f"agraph (float[N] x, int64[1] k) => (float y) <int64[1] k = {{3}}, {CONSTANTS}> {{ y = Slice(x, zero, k) }}"
    (finding,) = checked(tmp_path, text).findings
    assert finding.code == "EXP302"
    assert finding.got == "'k', an initializer that is an input as well, so that callers may replace it"
    assert "an initializer that is no input" in finding.remedy


def test_places_that_exclude_each_other() -> None:
    assert exclusive("a/If_0.then_branch/x", "a/If_0.else_branch/If_1.then_branch/x")
    assert not exclusive("a/If_0.then_branch/x", "a/If_1.else_branch/x")
    assert not exclusive("a/If_0.then_branch/x", "a/If_0.then_branch/y")
    assert not exclusive("Slice.4", "Slice.6")
    assert not exclusive("a", "a")


def test_an_unknown_bound_names_what_it_depends_on(tmp_path: Path) -> None:
    nodes = (
        "[cut] a = Slice(x, begin, all) p = NonZero(scores) q = Gather(p, zero) r = Reshape(q, last) [rest] y = Slice(x, r, all)"
    )
    found = _checked(tmp_path, "float[N] x, int64[1] begin, float[4] scores", nodes)
    assert [by_place(found)[place].verdict for place in ("cut", "rest")] == [Verdict.UNKNOWN, Verdict.UNKNOWN]
    (cut,), (rest,) = findings_of(found, "cut"), findings_of(found, "rest")
    assert cut.got == "'begin', an input of the graph"
    assert re.fullmatch(r"'r', .*NonZero.*; it depends on the model's input 'scores'", rest.got)


def test_nodes_that_no_run_reaches(tmp_path: Path) -> None:
    """Neither is judged: the second would be refused for its empty slice."""
    branches = """then_branch = t () => (float[A] a) { a = Slice(x, one, three) },
        else_branch = e () => (float[B] b) { b = Slice(x, three, three) }"""
    nodes = f"n = Shape(x) f = Constant<value_ints = [4]>() c = Equal(n, f) y = If<{branches}>(c)"
    found = _checked(tmp_path, "float[4] x", nodes)
    one, two = found.nodes
    assert (one.verdict, two.verdict) == (Verdict.TAKEN, Verdict.UNREACHED)
    assert two.reason is not None
    assert "then_branch" in two.reason
    assert not found.findings
