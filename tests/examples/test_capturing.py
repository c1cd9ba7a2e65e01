"""examples/capturing.py. Judge: onnxruntime's results for the same nodes in a model without branches, unrolled by hand."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnxruntime
import pytest
from capturing import Feed, Scope, record, sites
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from onnx import ModelProto, NodeProto, checker, parser

DEPTH = 3
PATHS = [path for depth in range(DEPTH + 1) for path in itertools.product((True, False), repeat=depth)]
"""Every graph of a tree of Ifs, by the conditions of its branches."""

Path = tuple[bool, ...]


def _in_family(node: NodeProto) -> bool:
    return node.op_type in {"Gather", "Slice"}


def _model(inputs: str, outputs: str, body: str) -> ModelProto:
    model = parser.parse_model(f'<ir_version: 8, opset_import: ["" : 16]> test ({inputs}) => ({outputs}) {{ {body} }}')
    checker.check_model(model, full_check=True)
    return model


def _step(path: Path, name: Callable[[Path], str]) -> str:
    """Return the node of a graph in the tree. It reads the outer graph's result. Else-branches slice, the others gather."""
    data = name(path[:-1]) if path else "x"
    node = f"Gather <axis = 1> ({data}, i)" if all(path[-1:]) else f"Slice ({data}, from, to, , by)"
    return f"{name(path)} = {node}"


def _nested(path: Path = ()) -> str:
    """Return a graph of the tree with the If inside it. The branches of an If give their values the same names."""
    depth = len(path)
    step = _step(path, lambda path: f"v{len(path)}")
    if depth == DEPTH:
        return f"{step} r{depth} = Identity (v{depth})"
    then, other = (f"b{depth} () => (float[n{depth}, m] r{depth + 1}) {{ {_nested((*path, way))} }}" for way in (True, False))
    return f"{step} r{depth} = If (c{depth}) <then_branch = {then}, else_branch = {other}>"


def _unrolled(path: Path) -> str:
    return "v" + "".join("et"[way] for way in path)


INPUTS = "float[n, m] x, int64[m] i, int64[1] from, int64[1] to, int64[1] by"
TREE = _model(f"{INPUTS}, bool c0, bool c1, bool c2", "float[p, m] r0", _nested())
STRAIGHT = _model(
    INPUTS,
    ", ".join(f"float[p{number}, m] {_unrolled(path)}" for number, path in enumerate(PATHS)),
    " ".join(_step(path, _unrolled) for path in PATHS),
)


@functools.cache
def _straight() -> onnxruntime.InferenceSession:
    return onnxruntime.InferenceSession(STRAIGHT.SerializeToString(), providers=["CPUExecutionProvider"])


def _values(feed: Feed) -> dict[str, NDArray[Any]]:
    """Return the unrolled model's results: the value of every graph of the tree."""
    names = [_unrolled(path) for path in PATHS]
    given = {name: feed[name] for name in ("x", "i", "from", "to", "by")}
    return dict(zip(names, _straight().run(names, given), strict=True))


def _feed(random: np.random.Generator, conditions: Path) -> Feed:
    rows, columns = random.integers(2, 6, 2)
    return {
        "x": random.normal(size=(rows, columns)).astype(np.float32),
        "i": random.integers(-columns, columns, columns),
        "from": np.array([-1]),
        "to": np.array([-rows - 1]),
        "by": np.array([-1]),
        **{f"c{depth}": np.array(condition) for depth, condition in enumerate(conditions)},
    }


def _taken(path: Path, choices: Sequence[Path]) -> list[int]:
    """Return the feeds that take a branch, of those that reach its If."""
    return [number for number in _arrivals(path[:-1], choices) if choices[number][len(path) - 1] == path[-1]]


def _arrivals(path: Path, choices: Sequence[Path]) -> list[int]:
    """Return the feeds that run a graph: those that take it, or, if none does, all that reach its If."""
    return (_taken(path, choices) or _arrivals(path[:-1], choices)) if path else list(range(len(choices)))


def _scope(path: Path) -> Scope:
    return tuple(f"r{depth}.{'then' if way else 'else'}_branch" for depth, way in enumerate(path))


def _bits(array: NDArray[Any] | None) -> Any:
    return None if array is None else (array.dtype, array.shape, array.tolist() if array.dtype == object else array.tobytes())


@pytest.mark.slow
@settings(max_examples=20)
@given(st.lists(st.tuples(st.booleans(), st.booleans(), st.booleans()), min_size=1, max_size=4), st.integers(0, 2**32 - 1))
def test_every_node_of_a_tree_of_ifs_is_recorded(choices: list[Path], seed: int) -> None:
    random = np.random.default_rng(seed)
    feeds = [_feed(random, conditions) for conditions in choices]
    recording = record(TREE, feeds, _in_family)
    straight = [_values(feed) for feed in feeds]
    for path in PATHS:
        arrivals = _arrivals(path, choices)
        found = [execution for execution in recording.executions if execution.site.scope == _scope(path)]
        assert len(found) == len(arrivals)
        for execution, number in zip(found, arrivals, strict=True):
            feed, values = feeds[number], straight[number]
            data = values[_unrolled(path[:-1])] if path else feed["x"]
            rest = [feed["i"]] if all(path[-1:]) else [feed["from"], feed["to"], None, feed["by"]]
            assert [_bits(array) for array in execution.inputs] == [_bits(array) for array in (data, *rest)]
            assert [_bits(array) for array in execution.outputs] == [_bits(values[_unrolled(path)])]
    unreached = {path for path in PATHS if path and not _taken(path, choices)}
    assert set(recording.lifted) == {_scope(path) for path in unreached}
    assert not recording.refused


@pytest.mark.parametrize("condition", [True, False])
@pytest.mark.parametrize("kind", ["float", "float16", "double", "bool", "int8", "uint64", "string"])
def test_values_of_every_kind_pass_an_if(kind: str, condition: bool) -> None:
    then, other = f"t () => ({kind}[k] r) {{ r = Gather (x, i) }}", f"e () => ({kind}[n] r) {{ r = Identity (x) }}"
    body = f"y = If (c) <then_branch = {then}, else_branch = {other}>"
    model = _model(f"{kind}[n] x, int64[k] i, bool c", f"{kind}[p] y", body)
    dtype = {"float": "float32", "double": "float64", "string": "object"}.get(kind, kind)
    x = np.array([str(number) if kind == "string" else number for number in range(4)]).astype(dtype)
    i = np.array([3, -4, 1])
    recording = record(model, [{"x": x, "i": i, "c": np.array(condition)}], _in_family)
    (execution,) = recording.executions
    assert [_bits(array) for array in (*execution.inputs, *execution.outputs)] == [_bits(array) for array in (x, i, x[i])]
    assert recording.lifted == ([] if condition else [("y.then_branch",)])


def test_a_branch_that_cannot_run_on_what_it_reads_is_refused() -> None:
    then = "t () => (float[k] r) { zero = Constant <value_ints = [0]> () s = Squeeze (x, zero) r = Gather (s, i) }"
    other = "e () => (float[q] r) { shape = Constant <value_ints = [-1]> () r = Reshape (x, shape) }"
    body = f"y = If (c) <then_branch = {then}, else_branch = {other}>"
    model = _model("float[n, m] x, int64[k] i, bool c", "float[p] y", body)
    feed = {"x": np.zeros((2, 3), np.float32), "i": np.array([0]), "c": np.array(False)}
    recording = record(model, [feed], _in_family)
    assert not recording.executions
    assert [str(site) for site in sites(model.graph, _in_family)] == ["y.then_branch / Gather r"]
    assert list(recording.refused) == recording.lifted == [("y.then_branch",)]
    assert "Squeeze" in recording.refused["y.then_branch",]


def test_bodies_of_loops_are_found_but_not_recorded() -> None:
    body = "b (int64 step, bool go, float[k] a) => (bool on, float[k] o) { o = Gather (a, i) on = Identity (go) }"
    model = _model("float[k] x, int64[k] i, int64 n, bool c", "float[k] y", f"y = Loop (n, c, x) <body = {body}>")
    feed = {"x": np.zeros(2, np.float32), "i": np.array([1, 0]), "n": np.array(3), "c": np.array(True)}
    assert [site.scope for site in sites(model.graph, _in_family)] == [("y.body",)]
    assert not record(model, [feed], _in_family).executions


def test_a_value_of_unknown_type_is_named() -> None:
    text = '<ir_version: 8, opset_import: ["" : 16, "other" : 1]> test (float[n] x, int64[k] i) => (float[k] y)'
    model = parser.parse_model(f"{text} {{ z = other.Unknown (x) y = Gather (z, i) }}")
    with pytest.raises(ValueError, match="does not tell the element type of z"):
        record(model, [], _in_family)
