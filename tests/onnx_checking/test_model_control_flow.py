"""Branches that are taken or not, loops whose iterations are known, and what no run of a model reaches."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest

from dmlgather.onnx_checking.check import check_model
from dmlgather.onnx_checking.sizes.values import Unknown
from tests.onnx_checking.following import contents_of, known_values, ran, with_outputs
from tests.onnx_checking.modelling import parsed

CONSTANTS = "int64[1] zero = {0}, int64[1] one = {1}, int64 eight = {8}, int64 second = {1}, int64 three = {3}, bool yes = {1}"
NESTED = """
  s = Shape(X) w = Gather(s, second) wide = Equal(w, eight)
  Z = If(wide) <
    then_branch = a () => (float[k,l] t) { t = Slice(X, zero, one) },
    else_branch = b () => (float[p,q] f) { f = If(on) <
      then_branch = c () => (float[u,v] g) { g = Slice(X, zero, one) },
      else_branch = d () => (float[u,v] h) { h = Relu(X) }> }>
"""


LOCAL = '<ir_version: 9, opset_import: ["" : 17, "local" : 1]>'


@pytest.mark.parametrize(("sizes", "reason"), [("N,8", "'wide' always chooses then_branch"), ("N,M", None)])
def test_no_run_reaches_the_other_branch(tmp_path: Path, sizes: str, reason: str | None) -> None:
    """A condition that is not known reaches both."""
    model = parsed(f"agraph (float[{sizes}] X, bool on) => (float[i,j] Z) <{CONSTANTS}> {{ {NESTED} }}")
    assert {node.place: node.unreached for node in contents_of(model, tmp_path).nodes} == {
        "Gather_1": None,
        "If_3.then_branch/Slice_0": None,
        "If_3.else_branch/If_0.then_branch/Slice_0": reason,
    }


def test_calls_in_a_branch_that_is_not_taken_do_not_count(tmp_path: Path) -> None:
    model = parsed(f"""{LOCAL} agraph (float[N,8] X) => (float[i,j] Z) <{CONSTANTS}> {{
      Z = If(yes) <then_branch = a () => (float[k,l] t) {{ t = Relu(X) }},
                   else_branch = b () => (float[p,q] f) {{ f = local.cut(X) }}> }}
    <opset_import: ["" : 17], domain: "local"> cut(x) => (y) {{ o = Constant<value = int64[1] {{1}}>() y = Slice(x, o, o) }}""")
    (node,) = contents_of(model, tmp_path).nodes
    assert node.unreached == "nothing calls the function"


BOTH = {
    "one rank": ("ReduceMax<axes = [0]>(X)", (1, 8), (None, 8)),
    "one size in common": ("Slice(X, zero, one, one)", ("N", 1), ("N", None)),
}


@pytest.mark.parametrize(("other", "alone", "both"), BOTH.values(), ids=BOTH)
def test_both_branches_have_a_rank_or_size_in_common(tmp_path: Path, other: str, alone: object, both: tuple[object, ...]) -> None:
    text = f"""agraph (float[N,8] X, bool on) => () <{CONSTANTS}> {{
      A = {other}
      Z = If(on) <then_branch = a () => (float t) {{ t = Relu(X) }}, else_branch = b () => (float f) {{ f = Identity(A) }}>
    }}"""
    model = parsed(text)
    for branch in model.graph.node[-1].attribute:
        branch.g.output[0].type.tensor_type.ClearField("shape")
    known, _ = known_values(model, tmp_path)
    assert known["A"].type.shape == alone
    shape = known["Z"].type.shape
    assert shape is not None
    assert all(found == size for found, size in zip(shape, both, strict=True) if size is not None)
    assert all(isinstance(found, str) for found, size in zip(shape, both, strict=True) if size is None)


LOOP = (
    "Z = Loop({times}, {on}, eight) "
    "<body = more (int64 i, bool o, int64 k) => (bool go, int64 m) {{ {condition} m = Add(k, i) }}>"
)
LOOPS = {
    "a number of iterations": ("three", "", "go = Identity(o)", 11),
    "a condition": ("", "yes", "go = Less(i, three)", 14),
    "both": ("eight", "yes", "go = Less(i, second)", 9),
    "no iteration": ("second", "no", "go = Identity(o)", 8),
    "endless": ("", "", "go = Identity(o)", None),
    "too many iterations": ("far", "", "go = Identity(o)", None),
    "a condition that is not known": ("three", "", "go = Identity(on)", None),
}


@pytest.mark.parametrize(("times", "on", "condition", "value"), LOOPS.values(), ids=LOOPS)
def test_loops(tmp_path: Path, times: str, on: str, condition: str, value: int | None) -> None:
    constants = f"{CONSTANTS}, bool no = {{0}}, int64 far = {{1099511627776}}"
    loop = LOOP.format(times=times or '""', on=on or '""', condition=condition)
    model = parsed(f"agraph (bool on) => () <{constants}> {{ {loop} }}".replace('""', "missing"))
    for node in model.graph.node:
        node.input[:] = ["" if name == "missing" else name for name in node.input]
    known, _ = known_values(model, tmp_path)
    elements = known["Z"].elements
    assert (None if isinstance(elements, Unknown) else elements.tolist()) == value


CARRIED = {
    "it keeps its sizes": ("m = Relu(k)", ("N", 4)),
    "it grows": ("m = Concat <axis = 0> (k, k)", (None, 4)),
    "its dimensions change places": ("m = Transpose(k)", (None, None)),
    "its rank changes": ("m = Unsqueeze(k, zero)", None),
}


@pytest.mark.parametrize(("work", "shape"), CARRIED.values(), ids=CARRIED)
@pytest.mark.parametrize("on", [False, True])
def test_a_loop_carries_values_of_changing_sizes(tmp_path: Path, work: str, shape: tuple[object, ...] | None, on: bool) -> None:
    """How often the loop is gone through depends on an input: one time or three."""
    body = f"(int64 i, bool o, float k) => (bool go, float m, float r) {{ go = Identity(on) {work} r = Neg(k) }}"
    model = parsed(f"agraph (float[N,4] X, bool on) => () <{CONSTANTS}> {{ Z, R = Loop(three, yes, X) <body = b {body}> }}")
    graph = model.graph.node[0].attribute[0].g
    for value in (*graph.input[2:], *graph.output[1:]):
        value.type.tensor_type.ClearField("shape")
    known, sizes = known_values(model, tmp_path)
    found = {name: value.type.shape for name, value in known.items()}
    symbols = [None if each is None else [size if size in (4, "N") else None for size in each] for each in found.values()]
    assert symbols == [None if shape is None else [*shape], None if shape is None else [None, *shape]]
    runs = ran(with_outputs(model), {"X": np.zeros((2, 4), np.float32), "on": np.array(on)})
    if runs is None:
        assert on
        assert shape != ("N", 4), "onnxruntime stacks values of one shape only"
        return
    for name, each in found.items():
        pairs = zip(each or (), runs[name].shape, strict=each is not None)
        assert all(sizes.at(size, {"N": 2}) == there for size, there in pairs if size in (4, "N"))


@pytest.mark.slow
def test_loops_in_loops_end(tmp_path: Path) -> None:
    """Each of four loops has a thousand iterations: together they have a million millions."""
    inner = "m0 = Add(k0, i0)"
    for depth in range(4):
        body = f"(int64 i{depth}, bool o{depth}, int64 k{depth}) => (bool g{depth}, int64 m{depth})"
        inner = f"m{depth + 1} = Loop(many, yes, eight) <body = b{depth} {body} {{ g{depth} = Identity(o{depth}) {inner} }}>"
    model = parsed(f"agraph () => () <{CONSTANTS}, int64 many = {{1000}}> {{ {inner} }}")
    start = time.process_time()
    known, _ = known_values(model, tmp_path)
    assert isinstance(known["m4"].elements, Unknown)
    assert time.process_time() - start < 60


def test_iterations_without_nodes_are_counted(tmp_path: Path) -> None:
    """Five loops of a thousand iterations each: what the first ones compute is known."""
    body = "(int64 i{0}, bool o{0}, int64 k{0}) => (bool o{0}, int64 k{0}) {{ }}"
    loops = " ".join(f"m{at} = Loop(many, yes, eight) <body = b{at} {body.format(at)}>" for at in range(5))
    known, _ = known_values(parsed(f"agraph () => () <{CONSTANTS}, int64 many = {{1000}}> {{ {loops} }}"), tmp_path)
    assert [isinstance(known[f"m{at}"].elements, Unknown) for at in range(5)] == [False] * 4 + [True]


def test_sizes_in_functions_are_told_from_those_outside(tmp_path: Path) -> None:
    """Both graphs have a size that shape inference calls unk__0; the function is given the value of the outer one."""
    model = parsed(f"""{LOCAL} agraph (float[N] X, float[M] Y) => (float[k] Z) <{CONSTANTS}, int64[1] two = {{2}}> {{
      a = NonZero(X) s = Shape(a) n = Slice(s, one, two) Z = local.cut(Y, n) }}
    <opset_import: ["" : 17], domain: "local"> cut(y, n) => (z) {{
      o = Constant<value = int64[1] {{0}}>() b = NonZero(y) t = Transpose(b) z = Slice(t, o, n) }}""")
    nodes = {node.place: node for node in contents_of(model, tmp_path).nodes}
    cut = next(node for place, node in nodes.items() if place.startswith("local:cut"))
    outer, inner = nodes["Slice_2"].outputs[0].elements, cut.inputs[2].elements
    assert not isinstance(outer, Unknown)
    assert not isinstance(inner, Unknown)
    assert inner.tolist() == outer.tolist()
    assert cut.inputs[0].type.shape is not None
    assert cut.inputs[0].type.shape[0] not in inner.tolist()


def test_a_value_of_each_iteration_is_decided_by_no_input(tmp_path: Path) -> None:
    model = parsed(f"""agraph (float[8] X, int64 times) => (float[i] Z) <{CONSTANTS}> {{
      Z = Loop(times, yes, X) <body = b (int64 n, bool on, float[8] x) => (bool more, float[8] y) {{
        more = Identity(on) at = Reshape(n, one) y = Slice(x, zero, at) }}>
    }}""")
    node = next(node for node in contents_of(model, tmp_path).nodes if node.proto.op_type == "Slice")
    ends = node.inputs[2].elements
    assert isinstance(ends, Unknown)
    assert (ends.decided_by, "another value in each iteration of the Loop" in ends.reason) == (None, True)
    (finding,) = check_model(tmp_path / "model.onnx").findings
    assert finding.remedy.startswith("unroll the loop, or replace the Slice by a Gather ")


def test_names_of_sizes_in_branches_and_iterations_are_their_own(tmp_path: Path) -> None:
    """Exporters call the results of both branches, or of each iteration, alike."""
    model = parsed(f"""agraph (float[N,8] X, bool on) => (float[i,j] Z, int64[k] W) <{CONSTANTS}> {{
      Z = If(on) <then_branch = a () => (float[P,Q] y) {{ y = Slice(X, zero, one) }},
                  else_branch = b () => (float[P,Q] z) {{ z = Gather<axis = 1>(X, zero) }}>
      W = Loop(three, yes, one) <body = c (int64 n, bool go, int64[A] v) => (bool more, int64[B] w) {{
        more = Identity(go) w = Concat<axis = 0>(v, one) }}>
    }}""")
    contents = contents_of(model, tmp_path)
    shapes = {node.place: node.outputs[0].type.shape for node in contents.nodes}
    assert shapes == {"If_0.then_branch/Slice_0": ("min(1, N)", 8), "If_0.else_branch/Gather_0": ("N", 1)}
    looped = known_values(model, tmp_path)[0]["W"].elements
    assert np.array_equal(looped, [1] * 4)  # type: ignore[arg-type] # it is known
