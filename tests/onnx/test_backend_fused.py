"""Prepared models run as fused graphs: how many launches are left, what stays the same, and what is kept for later runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from onnx.parser import parse_model

from dmlgather.dialects.index_graph import IndexGraph
from dmlgather.fusion import Fused, fuse
from dmlgather.onnx import Backend
from dmlgather.onnx.backend import PreparedModel, prepared_model
from tests.at_once import at_once

HEAD = '<ir_version: 8, opset_import: ["" : 13]>'
X, IDS = np.arange(12, dtype=np.float32).reshape(3, 4), np.array([2, 0])


def parsed(text: str) -> Any:
    return parse_model(f"{HEAD} {text}")


def launches(text: str, **inputs: Any) -> list[tuple[str, ...]]:
    """What each launch of a model holds."""
    prepared: Any = Backend.prepare(parsed(text))
    prepared.run(inputs)
    (ready,) = prepared._kept.values()
    return [step.work.holds or (step.name,) for step in ready.runner.graph.steps]


def node(operator: str, output: str) -> str:
    return f"{operator} node that gives {output!r}"


def test_views_join_the_gathers_around_them() -> None:
    text = """m (float[N,M] x, int64[K] i) => (float[a,b] y) <int64[1] zero = {0}, int64[1] two = {2}>
    { t = Transpose(x) g = Gather(t, i) u = Unsqueeze(g, zero) s = Slice(u, zero, two, two) y = Squeeze(s, zero) }"""
    (held,) = launches(text, x=X, i=np.array([1, 3, 0]))
    nodes = (("Transpose", "t"), ("Gather", "g"), ("Unsqueeze", "u"), ("Slice", "s"), ("Squeeze", "y"))
    assert held == tuple(node(*pair) for pair in nodes)


def test_what_decides_shapes_is_computed_beforehand() -> None:
    """The second size of x, picked from its shape, is where a slice ends; the shape of a reshape is an input of the model."""
    text = """m (float[N,M] x, int64[K] i, int64[2] shape) => (float[a,b] y) <int64 one = {1}, int64[1] zero = {0}>
    { s = Shape(x) m = Gather(s, one) e = Unsqueeze(m, zero) c = Cast <to = 6> (e) d = Cast <to = 7> (c)
      t = Transpose(x) g = Slice(t, zero, d) y = Reshape(g, shape) }"""
    assert len(launches(text, x=X, i=IDS, shape=np.array([6, 2]))) == 1
    prepared = Backend.prepare(parsed(text))
    for shape in ([6, 2], [6, 2], [2, -1], [6, 2], [12, 1]):
        (found,) = prepared.run([X, IDS, np.array(shape)])
        assert found.tobytes() == X.T.tobytes()
        assert found.shape == X.T.reshape(shape).shape


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        (
            "g = Gather(x, i) y = Transpose(g)",
            r"Gather node that gives 'g': indices\[1\] = 9 is out of range for axis 0 of size 3",
        ),
        ("g = Gather(x, i) y = Slice(g, zero, one)", r"Gather node that gives 'g': indices\[1\] = 9 is out of range"),
        (
            "g = Gather <axis = 1> (x, i) h = Gather(x, i) y = Identity(g)",
            r"Gather node that gives 'g': indices\[1\] = 9 .* axis 1",
        ),
        ("h = Gather(x, i) y = Identity(x)", r"Gather node that gives 'h': indices\[1\] = 9 is out of range"),
        (
            "g = Gather(x, i) h = Gather(g, zero) y = Transpose(h)",
            r"Gather node that gives 'g': indices\[1\] = 9 is out of range",
        ),
        (
            "t = Transpose(x) g = Gather(t, i) y = Flatten1(g)".replace("Flatten1", "Transpose"),
            r"'g': indices\[1\] = 9 .* size 4",
        ),
    ],
)
def test_a_bad_index_is_named_as_without_fusing(nodes: str, message: str) -> None:
    """Also one whose element a later slice drops, and one in a gather that no output needs."""
    model = parsed(f"m (float[N,M] x, int64[K] i) => (float[a,b] y) <int64[1] zero = {{0}}, int64[1] one = {{1}}> {{ {nodes} }}")
    prepared = Backend.prepare(model)
    for _ in range(2):
        with pytest.raises(IndexError, match=message):
            prepared.run([X, np.array([0, 9])])
        prepared.run([X, IDS])


def test_the_fused_graphs_of_the_last_shapes_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[IndexGraph] = []

    def counted(graph: IndexGraph) -> Fused:
        made.append(graph)
        return fuse(graph)

    monkeypatch.setattr(prepared_model, "fuse", counted)
    monkeypatch.setattr(prepared_model, "RUNS_KEPT", 3)
    prepared = Backend.prepare(parsed("m (float[N,M] x, int64[K] i) => (float[a,b] y) { g = Gather(x, i) y = Transpose(g) }"))

    def run(size: int) -> None:
        x = np.arange(3.0 * size, dtype=np.float32).reshape(3, size)
        assert prepared.run([x, IDS])[0].tobytes() == np.ascontiguousarray(x[IDS].T).tobytes()

    for size in (1, 2, 3, 1, 2, 3, 1):
        run(size)
    assert len(made) == 3
    for size in (4, 1, 3, 2):
        run(size)
    assert len(made) == 5


def test_an_array_that_decides_shapes_is_told_by_all_its_elements() -> None:
    text = (
        "m (int64[N] table, int64[1] i, float[12] x) => (float[a] y) { n = Gather(table, i) z = Identity(x) y = Slice(z, i, n) }"
    )
    prepared = Backend.prepare(parsed(text))
    table, x = np.full(1000, 3), np.arange(12, dtype=np.float32)
    for last in (3, 3, 4, 4, 3):
        table[0] = last
        assert prepared.run([table, np.array([0]), x])[0].tolist() == list(range(last))
    with pytest.raises(ValueError, match="Slice node that gives 'y': the type of 'y' is not known"):
        prepared.run([np.full(1025, 3), np.array([0]), x])


def test_strings_are_fused() -> None:
    prepared = Backend.prepare(parsed("m (string[N,M] x, int64[K] i) => (string[a,b] y) { g = Gather(x, i) y = Transpose(g) }"))
    words = np.array([["a", "bb", ""], ["é", "d", "ccc"]], object)
    for _ in range(2):
        assert prepared.run([words, np.array([1, 1, 0])])[0].tolist() == words[[1, 1, 0]].T.tolist()


def test_an_output_that_is_named_twice_or_is_a_constant_has_memory_of_its_own() -> None:
    prepared = Backend.prepare(
        parsed("""m (float[N,M] x, int64[K] i) => (float[a,b] y, float[c,d] z, int64[e] s, float[N,M] w)
    { g = Gather(x, i) y = Transpose(g) z = Identity(y) s = Shape(y) w = Identity(x) }""")
    )
    first, second = prepared.run([X, IDS]), prepared.run([X, IDS])
    every = [X, IDS, *first, *second]
    assert not any(np.shares_memory(one, other) for at, one in enumerate(every) for other in every[at + 1 :])
    assert first[0].tobytes() == first[1].tobytes()
    assert second[2].tolist() == [4, 2]


def test_threads_share_the_fused_graphs() -> None:
    prepared = Backend.prepare(parsed("m (float[N,M] x, int64[K] i) => (float[a,b] y) { g = Gather(x, i) y = Transpose(g) }"))

    def run(size: int) -> bool:
        x = np.arange(3.0 * size, dtype=np.float32).reshape(3, size)
        return bool(prepared.run([x, IDS])[0].tobytes() == np.ascontiguousarray(x[IDS].T).tobytes())

    assert all(at_once(lambda first: all(run(size % 50 + 1) for size in range(first, first + 50)), range(0, 20, 5)))


MODELS: dict[str, tuple[str, Callable[[Any, Any], list[Any]]]] = {
    "two nodes": ("m (float[N,4] x, int64[K] i) => (float[a,b] y) { g = Gather(x, i) y = Transpose(g) }", lambda x, i: [x[i].T]),
    "one node": ("m (float[N,4] x, int64[K] i) => (float[a,b] y) { y = Gather(x, i) }", lambda x, i: [x[i]]),
    "an input, a constant and a result twice": (
        "m (float[N,4] x, int64[K] i) => (float[a,b] x, int64[1] c, float[a,b] y, float[a,b] y)"
        " { c = Constant <value = int64[1] {7}> () y = Gather(x, i) }",
        lambda x, i: [x, np.array([7]), x[i], x[i]],
    ),
    "a cast": (
        "m (float[N,4] x, int64[K] i) => (double[a,b] y) { g = Gather(x, i) y = Cast<to=11>(g) }",
        lambda x, i: [x[i].astype(float)],
    ),
}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("device", ["CPU", "REFERENCE"])
def test_a_repeated_run_plans_nothing(name: str, device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text, expected = MODELS[name]
    prepared = Backend.prepare(parsed(text), device)
    x, i = np.arange(12, dtype=np.float32).reshape(3, 4), np.array([2, 0])

    def check(x: Any, i: Any, given: Any) -> None:
        results = prepared.run(given)
        for number, (found, right) in enumerate(zip(results, expected(x, i), strict=True)):
            assert (found.dtype, found.shape, found.tobytes()) == (right.dtype, right.shape, right.tobytes())
            assert found.flags.c_contiguous
            assert found.flags.writeable
            others = [x, i, *results[:number]]
            assert not any(np.shares_memory(found, other) for other in others if isinstance(other, np.ndarray))

    for _ in range(2):
        check(x, i, [x, i])
    monkeypatch.setattr(PreparedModel, "_adopting", lambda *_: pytest.fail("planned again"))
    for number in range(3):
        other, index = x + number, np.roll(i, number)
        check(other, index, [other, index])
        check(other, index, {"i": index, "x": other})
        check(other, index, (np.asfortranarray(other), np.repeat(index, 2)[::2]))


def test_errors_of_repeated_runs_are_those_of_the_first() -> None:
    prepared = Backend.prepare(parsed("m (float[N,4] x, int64[K] i) => (float[a,b] y) { y = Gather <axis = 0> (x, i) }"))
    x = np.zeros((3, 4), np.float32)
    for bad in (3, -4, 3, 5):
        with pytest.raises(IndexError, match=rf"indices\[1\] = {bad} is out of range for axis 0 of size 3"):
            prepared.run([x, np.array([0, bad])])
        for wrong, error in ((x.astype(float), TypeError), (x[:, :3], ValueError), (x.view(np.ma.MaskedArray), TypeError)):
            with pytest.raises(error):
                prepared.run([wrong, np.array([0, 1])])
        with pytest.raises(ValueError, match="and 1 were given"):
            prepared.run([x])
        assert prepared.run([x, np.array([0, 1])])[0].shape == (2, 4)
