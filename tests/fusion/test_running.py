"""Runs of fused graphs: inputs of any layout, new result arrays, released memory, and errors of the steps."""

from __future__ import annotations

import pickle
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from dmlgather.backends import arrays, cpu
from dmlgather.calls.prepared import forget
from dmlgather.dialects.graph_building import GraphBuilder
from dmlgather.dialects.problem import TensorType
from dmlgather.dialects.views import ReshapeView, SliceView, TransposeView
from dmlgather.dialects.windows import Window
from dmlgather.fusion import Fused, fuse
from dmlgather.fusion import fused as running
from dmlgather.fusion.prepared_graph import GraphCall
from dmlgather.plan import IndexPlan, OutOfBounds
from tests.fusion.random_graphs import gathering


class Subclass(np.ndarray[Any, Any]):
    """An array that is converted before it is read."""


FLOATS = TensorType((4, 6), np.dtype(np.float32))
X = np.arange(24, dtype=np.float32).reshape(4, 6)
IDS = np.array([3, 1, 1])


def gather_and_turn(policy: OutOfBounds = OutOfBounds.RAISE) -> Fused:
    """Return a graph of x[i].T with one launch."""
    graph = GraphBuilder()
    x, i = graph.input("x", FLOATS), graph.input("i", TensorType((3,), np.dtype("int64")))
    rows = graph.problem("rows", gathering(FLOATS, graph.types[i], 0, policy, wraps=True), x, i)
    return fuse(graph.build([graph.transposed("turned", rows, (1, 0))]))


def flattened() -> Fused:
    """Return a graph of x.T.reshape(24)[2:14] with one launch."""
    turned, flat = TransposeView(FLOATS, (1, 0)), ReshapeView(TensorType((6, 4), FLOATS.dtype), (24,))
    return fuse([turned, flat, SliceView(flat.output, (Window(4, 12, 1),))])


def layouts(array: NDArray[Any]) -> dict[str, NDArray[Any]]:
    """Return the same elements in different layouts."""
    wide = np.zeros((2 * array.shape[0], 3 * array.shape[1]), array.dtype)
    wide[::2, ::3] = array
    odd = np.zeros(array.shape, np.dtype([("byte", "u1"), ("it", array.dtype)]))
    odd["it"] = array
    return {
        "packed": array,
        "transposed": np.asfortranarray(array),
        "apart": wide[::2, ::3],
        "reversed": array[::-1, ::-1].copy()[::-1, ::-1],
        "at odd addresses": odd["it"],
    }


@pytest.mark.parametrize("layout", layouts(X))
@pytest.mark.parametrize("device", ["cpu", "reference"])
def test_inputs_of_any_layout_are_read(layout: str, device: str) -> None:
    found = layouts(X)[layout]
    assert gather_and_turn()(found, IDS, device=device).tolist() == X[IDS].T.tolist()
    assert gather_and_turn()(found, np.repeat(IDS, 2)[::2], device=device).tolist() == X[IDS].T.tolist()
    assert flattened()(found, device=device).tolist() == X.T.reshape(24)[4:16].tolist()


def test_a_broadcast_input_is_read() -> None:
    rows = np.broadcast_to(X[:1], (4, 6))
    assert flattened()(rows).tolist() == rows.T.reshape(24)[4:16].tolist()


@pytest.mark.parametrize("layout", [name for name in layouts(X) if name != "at odd addresses"])
def test_outputs_of_any_layout_are_written(layout: str) -> None:
    out = layouts(np.full((6, 3), -1, np.float32))[layout]
    assert gather_and_turn()(X, IDS, out=out) is out
    assert out.tolist() == X[IDS].T.tolist()
    views = fuse([TransposeView(FLOATS, (1, 0)), ReshapeView(TensorType((6, 4), FLOATS.dtype), (4, 6))])
    out = layouts(np.full((4, 6), -1, np.float32))[layout]
    assert views(X, out=out) is out
    assert out.tolist() == X.T.reshape(4, 6).tolist()


def test_a_wrong_out_is_refused() -> None:
    fused = gather_and_turn()
    with pytest.raises(TypeError, match="out for 'turned' is float64 \\[6, 3\\], expected float32 \\[6, 3\\]"):
        fused(X, IDS, out=np.empty((6, 3)))
    with pytest.raises(ValueError, match="out for 'turned' is float32 \\[3, 6\\], expected float32 \\[6, 3\\]"):
        fused(X, IDS, out=np.empty((3, 6), np.float32))
    with pytest.raises(ValueError, match="out for 'turned' overlaps input 'x': pass another array"):
        fused(X, IDS, out=X.reshape(-1)[:18].reshape(6, 3))
    with pytest.raises(ValueError, match="out is read-only"):
        fused(X, IDS, out=np.broadcast_to(np.float32(0), (6, 3)))
    with pytest.raises(TypeError, match="out has \\['rows'\\], but the graph's outputs are \\['turned'\\]"):
        fused.run({"x": X, "i": IDS}, out={"rows": X})
    interleaved = np.zeros((6, 6), np.float32)
    assert fused(X, interleaved.view(np.int64)[::2, 0], out=interleaved[:, 3:]).tolist() == X[[0, 0, 0]].T.tolist(), "apart"


def test_wrong_inputs_are_refused() -> None:
    fused = gather_and_turn()
    with pytest.raises(TypeError, match="the graph takes 2 arrays \\(x, i\\), got 1"):
        fused(X)
    with pytest.raises(TypeError, match="x is float64 \\[4, 6\\], expected float32 \\[4, 6\\]"):
        fused(X.astype(float), IDS)
    with pytest.raises(ValueError, match="i is int64 \\[2\\], expected int64 \\[3\\]"):
        fused(X, IDS[:2])
    with pytest.raises(TypeError, match="values has \\['x'\\], but the graph takes \\['i', 'x'\\]"):
        fused.run({"x": X})
    with pytest.raises(TypeError, match="values has \\[3, 'x'\\], but the graph takes \\['i', 'x'\\]"):
        fused.run({"x": X, 3: IDS})  # type: ignore[dict-item] # as below, what a user may try
    for wrong in ([X, IDS], None, X):
        with pytest.raises(TypeError, match=r"values is of type .*, expected a mapping from names to arrays, such as {'x': …}"):
            fused.run(wrong)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"out is of type ndarray, expected a mapping .*, such as {'turned': …}"):
        fused.run({"x": X, "i": IDS}, out=X)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"out for 'turned': expected an array .*, got int"):
        fused(X, IDS, out=3)
    with pytest.raises(TypeError, match="the arrays are on the CPU, which has no streams"):
        fused(X, IDS, stream=1)


def several_outputs() -> Fused:
    """Return a graph of x, x as a row, a constant, x.T twice, and x.T as a row."""
    graph = GraphBuilder()
    x = graph.input("x", FLOATS)
    turned = graph.transposed("turned", x, (1, 0))
    rows = [graph.reshaped("row", x, (24,)), graph.constant([7, 8]), turned, turned, graph.reshaped("other row", turned, (24,))]
    return fuse(graph.build([x, *rows]))


def test_outputs_share_no_memory() -> None:
    fused = several_outputs()
    results = fused(X)
    expected = (X, X.reshape(-1), np.array([7, 8]), X.T, X.T, X.T.reshape(-1))
    assert [result.tolist() for result in results] == [array.tolist() for array in expected]
    for number, result in enumerate(results):
        others = [X, *fused.graph.constants.values(), *results[:number]]
        assert not any(np.shares_memory(result, other) for other in others)
    out = [np.zeros(array.shape, array.dtype) for array in expected]
    assert all(one is other for one, other in zip(fused(X, out=out), out, strict=True))
    assert [result.tolist() for result in out] == [array.tolist() for array in expected]
    with pytest.raises(ValueError, match="out has 1 array, but the graph has 6 outputs"):
        fused(X, out=[X])
    with pytest.raises(TypeError, match="out is of type ndarray, but the graph has 6 outputs: expected a list of arrays"):
        fused(X, out=np.zeros((6, 4, 6), np.float32))
    with pytest.raises(ValueError, match="out for 'turned' overlaps out for 'x'"):
        fused.run({"x": X}, out={"x": out[0], "turned": out[0].T})


def test_reshapes_and_bitcasts_are_not_launched() -> None:
    graph = GraphBuilder()
    bits = graph.bitcast("bits", graph.reshaped("row", graph.input("x", FLOATS), (24,)), np.dtype("uint16"), (8, 6))
    turned = graph.transposed("turned", bits, (1, 0))
    fused = fuse(graph.build([turned]))
    assert [launch.holds for launch in fused.launches] == [("turned",)]
    assert (fused.bytes_moved, fused.bytes_saved) == (2 * X.nbytes, 0)
    assert fused(X).tolist() == X.view(np.uint16).reshape(8, 6).T.tolist()
    assert fused(X.T.copy().T).tolist() == fused(X).tolist()
    copied = fuse(graph.build([bits]))  # otherwise it would be memory of the input
    assert (copied.launches, copied.bytes_moved) == ((), 2 * X.nbytes)


def test_a_bitcast_of_an_input_or_constant_is_copied() -> None:
    graph = GraphBuilder()
    x, constant = graph.input("x", FLOATS), graph.constant(X + 1)
    outputs = [x]
    for number, source in enumerate((x, constant, graph.transposed("turned", x, (1, 0)))):
        bits = graph.bitcast(f"bits {number}", source, np.dtype(np.int32), graph.types[source].shape)
        outputs += [source, bits, graph.bitcast(f"row {number}", bits, np.dtype(np.uint8), (96,))]
    fused = fuse(graph.build(outputs))
    for given in (X, X.T.copy().T, X.view(Subclass)):
        results = fused.run({"x": given})
        assert [*results] == outputs[1:]
        for name, result in results.items():
            others = [given, *fused.graph.constants.values(), *(other for key, other in results.items() if key != name)]
            assert not any(np.shares_memory(result, other) for other in others), name
            assert result.flags.writeable
        for number, expected in enumerate((X, X + 1, X.T)):
            assert results[f"bits {number}"].tolist() == np.ascontiguousarray(expected).view(np.int32).tolist()
            assert results[f"row {number}"].tobytes() == expected.tobytes()
    out = np.zeros((4, 6), np.int32)
    assert fused.run({"x": X}, out={"bits 0": out})["bits 0"] is out
    assert out.tobytes() == X.tobytes()


def test_intermediate_memory_is_freed_after_its_last_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = GraphBuilder()
    x = graph.input("x", FLOATS)
    value = x
    for number in range(4):
        value = graph.transposed(f"turned {number}", value, (1, 0))
        value = graph.concatenated(f"twice {number}", [value, value], 0)
    fused = fuse(graph.build([value]))
    made: list[weakref.ref[Any]] = []

    def observed(make: Any) -> Any:
        def observing(*args: Any, **kwargs: Any) -> Any:
            assert sum(reference() is not None for reference in made) <= 1, "the data of the step in front, no more"
            made.append(weakref.ref(result := make(*args, **kwargs)))
            return result

        return observing

    monkeypatch.setattr(arrays, "allocate", observed(arrays.allocate))
    monkeypatch.setattr(running, "_NEW", GraphCall(observed(np.empty)))
    for given in (X, X.view(Subclass)):
        made.clear()
        fused.run({"x": given})
        assert len(made) == 4


def test_programs_are_prepared_once_for_each_layout(monkeypatch: pytest.MonkeyPatch) -> None:
    fused, prepare, prepared = gather_and_turn(), cpu.prepare, list[IndexPlan]()
    forget()

    def counted(plan: IndexPlan) -> Any:
        prepared.append(plan)
        return prepare(plan)

    monkeypatch.setattr(cpu, "prepare", counted)
    for _ in range(3):
        fused(X, IDS)
        fused(np.asfortranarray(X), IDS)
    assert len(prepared) == 2


def test_a_bad_index_is_named_as_by_its_own_step() -> None:
    graph = GraphBuilder()
    x, i = graph.input("x", FLOATS), graph.input("i", TensorType((2, 3), np.dtype("int32")))
    turned = graph.transposed("turned", i, (1, 0))
    columns = graph.problem("columns", gathering(FLOATS, graph.types[turned], 1, OutOfBounds.RAISE, wraps=True), x, turned)
    fused = fuse(graph.build([graph.reshaped("flat", columns, (24,))]))
    assert [launch.holds for launch in fused.launches] == [("turned", "columns", "flat")]
    bad = np.array([[0, 1, 6], [-7, 2, 3]], np.int32)  # the step meets -7 first, but 6 comes first in memory
    for device in ("cpu", "reference"):
        with pytest.raises(IndexError) as error:
            fused(X, bad, device=device)
        assert str(error.value) == "indices[0, 1] = -7 is out of range for axis 1 of size 6: valid indices are -6 … 5"


def test_a_fused_graph_that_has_run_can_be_pickled() -> None:
    fused = gather_and_turn()
    expected = fused(X, IDS)
    again = pickle.loads(pickle.dumps(fused))
    assert again == fused
    assert again(X, IDS).tobytes() == expected.tobytes()


def test_strings_run_through_a_fused_graph() -> None:
    words = np.array([["a", "bb", "c"], ["d", "ee", "f"]])
    graph = GraphBuilder()
    text, i = graph.input("x", TensorType((2, 3), np.dtype(object))), graph.input("i", TensorType((2,), np.dtype("int64")))
    turned = graph.transposed("turned", text, (1, 0))
    for policy, expected in ((OutOfBounds.CLAMP, ["f", "f"]), (OutOfBounds.FILL, ["f", ""])):
        problem = gathering(graph.types[turned], graph.types[i], 0, policy, wraps=True, fill=bytes(8))
        rows = graph.problem(f"rows {policy}", problem, turned, i)
        last = SliceView(graph.types[rows], (Window.whole(2), Window(1, 1, 1)))
        fused = fuse(graph.build([graph.problem(f"last {policy}", last, rows)]))
        assert len(fused.launches) == 1
        result = fused(words, np.array([-1, 5]))
        assert result.ravel().tolist() == expected
        assert result.dtype == words.dtype


def test_a_graph_without_inputs_returns_its_constants() -> None:
    graph = GraphBuilder()
    ids = graph.constant([2, 0])
    assert fuse(graph.build([ids]))().tolist() == [2, 0]


def test_the_report_lists_launches_and_bytes() -> None:
    fused = gather_and_turn()
    assert str(fused) == (
        "2 steps in 1 launch, 168 bytes moved, 144 saved\nlaunch  steps it does  bytes  cut from\nturned  rows, turned     168"
    )
    report = fused.to_json()
    assert (report["bytes_moved"], report["bytes_saved"], report["steps"]) == (168, 144, 2)
    assert report["launches"][0]["holds"] == ["rows", "turned"]
    assert report["launches"][0]["bytes"] == {"index": 24, "read": 72, "written": 72, "total": 168}


@pytest.mark.usefixtures("no_collection")
def test_fused_graphs_are_freed_with_their_last_reference() -> None:
    """No collection of cycles is needed, as graphs may hold memory of a GPU."""
    fused = gather_and_turn()
    fused(X, IDS)
    gone: list[Callable[[], Any]] = [weakref.ref(fused._runner), weakref.ref(fused._runner._parts)]
    del fused
    assert [found() for found in gone] == [None, None]
