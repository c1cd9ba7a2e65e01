"""The host's arithmetic across branches, loops, scans, sequences and local functions."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

from dmlgather.onnx_checking.following.model_nodes import find_nodes
from dmlgather.onnx_checking.reading.file import read_model
from tests.onnx_checking.flow_traces import FlowTrace
from tests.onnx_checking.modelling import hosts, parsed
from tests.onnx_checking.random_flows import random_flow

Case = tuple[str, str, set[str]]
"""The outputs of a graph, its nodes, and the names of those that are the host's arithmetic."""

STATES = """s = Shape(x) [a] a = Gather(s, first)
    f, g, z = Loop(n, c, a, first, x) <body = l (int64 i, bool k, p, q, w) => (k2, p2, q2, w2)
        { k2 = Identity(k) p2 = Identity(q) [b] q2 = Gather(p, first) w2 = Reshape(w, q) }>"""

SCAN = """s = Shape(x) [a] a = Gather(s, first)
    f, r = Scan(a, s) <num_scan_inputs = 1, body = l (p, e) => (p2, o) { [b] p2 = Gather(p, first) o = Add(e, p) }>"""

BRANCHES = """s = Shape(x)
    r = If(c) <then_branch = t () => (u) { [a] u = Gather(s, first) },
               else_branch = e () => (v) { [b] v = Slice(s, first, one) }>"""

CASES: dict[str, Case] = {
    "a result of both branches that is a shape": ("float[M] z", f"{BRANCHES} z = Reshape(x, r)", {"a", "b"}),
    "one that is a shape and an output": ("float[M] z, int64[K] r", f"{BRANCHES} z = Reshape(x, r)", set()),
    "names from outside that are used in one branch each": (
        "float[M] z",
        """s = Shape(x) [a] a = Gather(s, first) [b] b = Gather(s, first)
           z = If(c) <then_branch = t () => (u) { u = Reshape(x, a) },
                      else_branch = e () => (v) { w = Cast<to = 1>(b) v = Mul(x, w) }>""",
        {"a"},
    ),
    "what is only in a branch": (
        "float[M] z",
        """z = If(c) <then_branch = t () => (u) { s = Shape(x) [a] a = Gather(s, first) u = Reshape(x, a) },
                      else_branch = e () => (v) { [b] v = Slice(x, first, one) }>""",
        {"a"},
    ),
    "the number of iterations, and the conditions": (
        "float[M] z",
        """s = Shape(x) [a] a = Gather(s, zero) [b] b = Gather(s, zero) d = Cast<to = 9>(b)
           z = Loop(a, d, x) <body = l (int64 i, bool k, p) => (k2, q)
               { t = Shape(p) [e] e = Gather(t, zero) k2 = Cast<to = 9>(e) q = Neg(p) }>""",
        {"a", "b", "e"},
    ),
    "states that become a shape by turns": ("float[M] z", STATES, {"a", "b"}),
    "states that become a shape and an output by turns": ("float[M] z, int64[K] g", STATES, set()),
    "a state that only reaches itself": (
        "float[M] z",
        """f, z = Loop(n, c, first, x) <body = l (int64 i, bool k, p, w) => (k2, p2, w2)
               { k2 = Identity(k) [b] p2 = Gather(p, first) w2 = Neg(w) }>""",
        set(),
    ),
    "what the iterations of a loop leave": (
        "float[M] z",
        """s = Shape(x)
           r = Loop(n, c) <body = l (int64 i, bool k) => (k2, o) { k2 = Identity(k) [b] o = Gather(s, zero) }>
           z = Reshape(x, r)""",
        {"b"},
    ),
    "results of a Scan": ("float[M] z", f"{SCAN} z = Reshape(x, r)", {"a", "b"}),
    "results of a Scan, and a state that is an output": ("float[M] z, int64[K] f", f"{SCAN} z = Reshape(x, r)", set()),
    "a state of a Scan of no step": (
        "float[M] z, int64[K] f",
        """s = Shape(x) [a] a = Gather(s, first) z = Reshape(x, a)
           f, r = Scan(a, s) <num_scan_inputs = 1, body = l (p, e) => (p2, o) { p2 = Neg(e) o = Neg(e) }>""",
        set(),
    ),
    "a state of a Loop of no iteration": (
        "float[M] z, int64[K] f",
        """s = Shape(x) [a] a = Gather(s, first) z = Reshape(x, a)
           f = Loop(n, c, a) <body = l (int64 i, bool k, p) => (k2, p2) { k2 = Identity(k) p2 = Neg(i) }>""",
        set(),
    ),
    "a graph that no one knows what for": (
        "float[M] z, int64[K] f",
        """s = Shape(x) [a] a = Gather(s, first) z = Reshape(x, a)
           f = elsewhere.Map(a) <body = l (p) => (o)
               { [b] b = Gather(s, first) t = Reshape(x, b) [c] o = Gather(s, first) }>""",
        {"b"},
    ),
    "parts of a sequence": (
        "float[M] z",
        """s = Shape(x) [a] a = Gather(s, first) q = SequenceConstruct(a, a)
           m = SequenceMap(q) <body = l (p) => (o) { [b] o = Gather(p, first) }>
           r = ConcatFromSequence<axis = 0>(m) z = Reshape(x, r)""",
        {"a", "b"},
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_graphs_inside_nodes(tmp_path: Path, case: str) -> None:
    outputs, nodes, expected = CASES[case]
    constants = "<int64[1] first = {0}, int64[1] one = {1}, int64 zero = {0}>"
    head = '<ir_version: 9, opset_import: ["" : 17, "elsewhere" : 1]>'
    assert hosts(tmp_path, f"{head} g (float[N, 3] x, bool c, int64 n) => ({outputs}) {constants} {{ {nodes} }}") == expected


FUNCTIONS = {
    "sized": "(p) => (o) { zero = Constant<value = int64[1] {0}>() s = Shape(p) [b] t = Gather(s, zero) o = Reshape(p, t) }",
    "first": "(p) => (o) { zero = Constant<value = int64[1] {0}>() [f] o = Gather(p, zero) }",
    "reshaped": "(p, q) => (o) { o = Reshape(p, q) }",
}
"""Local functions: their inputs, outputs and nodes."""

CALLS: dict[str, Case] = {
    "a shape inside": ("float[M] z", "z = local.sized(x)", {"b"}),
    "a shape outside": (
        "float[M] z",
        "s = Shape(x) [a] a = Gather(s, first) r = local.first(a) z = Reshape(x, r)",
        {"a", "f"},
    ),
    "of one call a shape, of another an output": (
        "float[M] z, int64[K] y",
        "s = Shape(x) [a] a = Gather(s, first) y = local.first(a) r = local.first(s) z = Reshape(x, r)",
        set(),
    ),
    "a field inside": ("float[M] z", "s = Shape(x) [a] a = Gather(s, first) z = local.reshaped(x, a)", {"a"}),
    "a known value that goes in": (
        "float[M] z",
        "[a] a = Gather(first, first) r = local.first(a) z = Reshape(x, r)",
        {"a", "f"},
    ),
    "no call": ("float[N] z", "z = Neg(x)", set()),
}


@pytest.mark.parametrize("case", CALLS)
def test_local_functions(tmp_path: Path, case: str) -> None:
    """A function that nothing calls is judged."""
    outputs, nodes, expected = CALLS[case]
    used = FUNCTIONS if case == "no call" else {name: text for name, text in FUNCTIONS.items() if f"local.{name}" in nodes}
    functions = " ".join(f'<domain: "local", opset_import: ["" : 18]> {name} {text}' for name, text in used.items())
    graph = f"g (float[N] x) => ({outputs}) <int64[1] first = {{0}}> {{ {nodes} }}"
    assert hosts(tmp_path, parsed(f'<ir_version: 9, opset_import: ["" : 18, "local" : 1]> {graph} {functions}')) == expected


@pytest.mark.slow
@pytest.mark.parametrize("calls", [1, 3])
@pytest.mark.parametrize("start", range(0, 100, 20))
def test_random_models_agree_with_traces_of_their_runs(tmp_path: Path, start: int, calls: int) -> None:
    """A function that is called several times is analysed for all its calls at once: fewer nodes are the host's then, or some
    whose result reaches nothing in one call, and what the host has to know in another.
    """
    told = 0
    for seed in range(start, start + 20):
        model = random_flow(seed, calls)
        path = tmp_path / f"{seed}.onnx"
        onnx.save(model, path)
        nodes = find_nodes(read_model(path)).nodes
        found = {node.proto.name for node in nodes if node.is_shape_computation}
        trace, names = FlowTrace(model), {node.proto.name for node in nodes}
        assert found == trace.host & names if calls == 1 else found.isdisjoint(trace.device), seed
        told += len(found)
    assert told
