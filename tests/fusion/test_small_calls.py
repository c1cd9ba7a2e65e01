"""Calls of fused graphs on arrays of known signatures: nothing is planned. Judge: the same calls on converted arrays."""

from __future__ import annotations

import pickle
import random
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import dmlgather as dg
from dmlgather.dialects.graph_building import GraphBuilder
from dmlgather.dialects.problem import TensorType
from dmlgather.fusion import Fused, fuse, prepared_graph
from dmlgather.fusion import fused as running
from dmlgather.fusion.prepared_graph import signature_of
from tests import seeds
from tests.at_once import at_once
from tests.dialects import drafting

Array = NDArray[Any]
X = np.arange(60, dtype=np.float32).reshape(6, 10)
IDS = np.array([5, 0, -1, 2])
CHAINS = (
    dg.index[IDS][..., ::2].transpose(1, 0),  # one launch
    dg.index[IDS][:2][::-1],  # two
    dg.index[::-1].transpose(1, 0).reshape(4, 15).transpose(1, 0),
)


class Adopted(np.ndarray[Any, Any]):
    """An array without a known signature, because its class may have rules of its own."""


def expected(number: int, x: Array, ids: Array) -> Array:
    """Return NumPy's result of a chain."""
    return x[::-1].T.reshape(4, 15).T if number == 2 else x[ids][:2][::-1] if number else x[ids][..., ::2].T


def laid_out(rng: random.Random, array: Array) -> Array:
    """Return the same elements in any layout."""
    kind = rng.randrange(7)
    if kind == 0:  # at an odd address, with strides that are no multiples of an element
        records = np.zeros(array.shape, np.dtype([("byte", "u1"), ("it", array.dtype)]))
        records["it"] = array
        return records["it"]
    return drafting.at_an_odd_address(array) if kind == 1 else drafting.laid_out(rng, array, same=True)


def outcome(call: Callable[[], Any]) -> tuple[Any, ...]:
    """Return the shape, type and bits of a result, or an error's class and text."""
    try:
        found = call()
    except (IndexError, TypeError, ValueError) as error:
        return type(error), str(error)
    return found.shape, found.dtype, found.tobytes()


def out_for(rng: random.Random, x: Array, shape: tuple[int, ...]) -> Array:
    """Return an output array that may be unsuitable: of another shape, read-only, or overlapping the input."""
    choice = rng.random()
    if choice < 0.2 and x.size >= np.prod(shape):
        return x.reshape(-1)[: int(np.prod(shape))].reshape(shape)
    out = laid_out(rng, np.zeros(shape if choice < 0.9 else shape[::-1], np.float32))
    return np.broadcast_to(out[:1], out.shape) if choice < 0.3 else out


def faults(fused: Sequence[Fused], rng: random.Random, calls: int) -> list[str]:
    """Return the faults of random calls: other bits than NumPy's, or other errors than for converted arrays."""
    wrong = []
    for _ in range(calls):
        number = rng.randrange(len(CHAINS))
        x, ids = laid_out(rng, X + rng.randrange(9)), laid_out(rng, np.array([rng.randrange(-6, 6) for _ in IDS]))
        if rng.random() < 0.2:
            x = rng.choice((x.astype(">f4"), x[:5], x.astype(np.int32), x.view(Adopted)))
        if rng.random() < 0.1:
            ids = np.array([0, rng.choice((6, -7)), 0, 0])
        given = (x, ids)[: len(fused[number].graph.inputs)]
        options: dict[str, Any] = {"device": rng.choice((None, None, "cpu", "reference"))}
        right = outcome(lambda: expected(number, x, ids))  # noqa: B023 # called at once
        if rng.random() < 0.4:
            options["out"] = out_for(rng, x, fused[number].graph.types[fused[number].graph.outputs[0]].shape)
        adopted = outcome(lambda: fused[number](*(array.view(Adopted) for array in given), **options))  # noqa: B023
        if "out" in options and np.shares_memory(options["out"], x):
            right = adopted  # which is refused
        elif "out" in options and options["out"].flags.writeable:
            options["out"][...] = 99
        found = outcome(lambda: fused[number](*given, **options))  # noqa: B023
        if found != adopted or (not isinstance(found[0], type) and found != right):
            wrong.append(f"{CHAINS[number]}: {found} is not {adopted}")
    return wrong


@pytest.fixture(name="fused")
def all_fused() -> list[Fused]:
    found = [fuse(chain.problems(X)) for chain in CHAINS]
    assert [len(each.launches) for each in found] == [1, 2, 2]
    return found


def test_random_calls_of_changing_signatures_are_right(fused: list[Fused]) -> None:
    assert faults(fused, seeds.rng(), 80) == []


def test_a_prepared_graph_for_other_strides_gives_wrong_results(fused: list[Fused]) -> None:
    runner: Any = fused[0]._runner
    # Both have the same extent.
    graphs = [runner._prepared_on_the_host((None, *map(signature_of, (x, IDS)))) for x in (X, np.asfortranarray(X))]
    right: list[bool] = []
    for graph in graphs:
        runner._prepared_on_the_host = partial(lambda graph, _: graph, graph)
        for x in (X, np.asfortranarray(X)):
            found = outcome(lambda: fused[0](x, IDS))  # noqa: B023 # called at once
            right.append(found[-1] == expected(0, x, IDS).tobytes())
    assert right[::3] == [True, True]
    assert not all(right)


def test_a_call_of_known_signatures_plans_nothing(fused: list[Fused], monkeypatch: pytest.MonkeyPatch) -> None:
    out = np.empty((5, 4), np.float32)
    fused[0](X, IDS)
    fused[0](X, IDS, out=out)
    for place, name in (
        (running.GraphRunner, "_run_adopted"),
        (prepared_graph.PreparedGraph, "__init__"),
        (prepared_graph.Launcher, "launch"),
    ):
        monkeypatch.setattr(place, name, lambda *_: pytest.fail("planned again"))
    for number in range(3):
        x, ids = X + number, np.roll(IDS, number)
        assert fused[0](x, ids).tobytes() == expected(0, x, ids).tobytes()
        assert fused[0](x, ids, out=out) is out
        assert out.tobytes() == expected(0, x, ids).tobytes()


def test_a_bad_index_raises_at_every_call(fused: list[Fused]) -> None:
    for bad in (6, -7, 6):
        words = rf"^indices\[1\] = {bad} is out of range for axis 0 of size 6: valid indices are -6 … 5$"
        for number in (0, 1):
            with pytest.raises(IndexError, match=words):
                fused[number](X, np.array([0, bad, 0, 0]))
            assert fused[number](X, IDS).tobytes() == expected(number, X, IDS).tobytes()


def test_threads_may_call_fused_graphs_at_once(fused: list[Fused]) -> None:
    assert at_once(lambda seed: faults(fused, random.Random(seed), 12), range(6)) == [[]] * 6


def test_the_number_of_prepared_graphs_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "CALLS_KEPT", 5)
    fused = fuse(CHAINS[0].problems(X))
    for step in range(1, 20):
        x = np.zeros((6, 10 * step), np.float32)[:, ::step]
        assert fused(x, IDS).shape == (5, 4)
    runner = fused._runner
    assert (runner._prepared_on_the_host.cache_info().currsize, runner._prepared.cache_info().currsize) == (5, 5)


def test_an_array_resized_in_place_is_checked_again() -> None:
    data: Any = np.arange(12, dtype=np.float32)
    fused = fuse(dg.index[::-1].problems(data))
    assert fused(data).tolist() == [*range(11, -1, -1)]
    data.resize((3, 4), refcheck=False)
    with pytest.raises(ValueError, match="data is float32 \\[3, 4\\], expected float32 \\[12\\]"):
        fused(data)
    data.resize((12,), refcheck=False)
    data.flags.writeable = False
    assert fused(data).flags.writeable
    with pytest.raises(ValueError, match="out is read-only"):
        fused(np.zeros(12, np.float32), out=data)


@pytest.mark.parametrize("given", [X, X.view(Adopted)], ids=["known", "adopted"])
def test_results_share_no_memory(given: Array) -> None:
    graph = GraphBuilder()
    x = graph.input("x", TensorType(X.shape, X.dtype))
    outputs = [x, graph.constant([1, 2])]
    for number in range(2):
        bits = graph.bitcast(f"bits {number}", x, np.dtype(np.int32), X.shape)
        outputs += [bits, graph.reshaped(f"row {number}", bits, (60,)), graph.transposed(f"turned {number}", bits, (1, 0))]
    fused = fuse(graph.build(outputs))
    for _ in range(2):
        results = fused.run({"x": given})
        for name, result in results.items():
            result[...] = 7
            others = [X, *fused.graph.constants.values(), *(other for key, other in results.items() if key != name)]
            assert not any(np.shares_memory(result, other) for other in others), name
    assert X[0, 1] == 1


def test_an_expression_caches_its_fused_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    chain = dg.index[:, [1, 0]][::-1]
    cases = [np.arange(12).reshape(6, 2), np.arange(6.0).reshape(3, 2), np.array([["a", "b"], ["c", "d"]])]
    for x in cases:
        chain(x)
    monkeypatch.setattr("dmlgather.numpy.index_expression.fuse", lambda _: pytest.fail("fused again"))
    for x in (*cases, *cases[::-1]):
        assert chain(x).tolist() == x[:, [1, 0]][::-1].tolist()
        assert chain(x).dtype == x.dtype
        assert chain.fused(x) is chain.fused(x.copy())
    assert str(pickle.loads(pickle.dumps(chain))) == str(chain)
