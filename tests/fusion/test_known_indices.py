"""Gathers by known indices, which become views if the indices are evenly spaced. Judge: NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from dmlgather.dialects.advanced_indexing import indexing, stacked
from dmlgather.dialects.graph_building import GraphBuilder
from dmlgather.dialects.planned import under
from dmlgather.dialects.problem import TensorType
from dmlgather.fusion import Fused, fuse, fusing
from dmlgather.plan import OutOfBounds
from tests.fusion.random_graphs import gathering

X = np.arange(24 * 3, dtype=np.int16).reshape(24, 3)


def picked(indices: NDArray[Any], policy: OutOfBounds = OutOfBounds.RAISE, shape: tuple[int, ...] = X.shape) -> Fused:
    """Return x[indices] with known indices, for x with this shape and the type of X."""
    graph = GraphBuilder()
    x = graph.input("x", TensorType(shape, X.dtype))
    known = graph.constant(indices)
    problem = gathering(graph.types[x], graph.types[known], 0, policy, wraps=True, fill=b"\xff\xff")
    return fuse(graph.build([graph.problem("rows", problem, x, known)]))


EVEN: dict[str, NDArray[Any]] = {
    "counting": np.arange(24),
    "counting down": np.arange(24)[::-1],
    "every third": np.arange(0, 24, 3, dtype=np.uint8),
    "from the end": np.arange(-5, 0),
    "round the end": np.arange(-3, 3) - 21,
    "groups": np.array([0, 1, 2, 10, 11, 12, 20, 21, 22]),
    "groups of groups": np.array([0, 1, 6, 7, 12, 13, 18, 19])[::-1],
    "columns first": np.arange(24).reshape(4, 6).T,
    "a block": np.arange(24).reshape(4, 6)[1:3, ::2].astype(np.uint64),
    "the same again and again": np.full((2, 3), 5),
    "one": np.array(-1),
    "repeated": np.repeat(np.arange(4), 3),
}

UNEVEN: dict[str, NDArray[Any]] = {
    "in any order": np.array([3, 0, 2, 1]),
    "groups of several sizes": np.array([0, 1, 2, 10, 11]),
    "groups apart from each other": np.array([0, 1, 5, 6, 20, 21]),
    "not a sum of rows and columns": np.array([[0, 1], [2, 4]]),
}


@pytest.mark.parametrize("name", EVEN | UNEVEN)
def test_evenly_spaced_indices_make_a_view(name: str) -> None:
    indices = (EVEN | UNEVEN)[name]
    fused = picked(indices)
    (launch,) = fused.launches
    assert bool(launch.plan.lookups) == (name in UNEVEN)
    assert fused(X).tolist() == X[indices].tolist()


@pytest.mark.parametrize("mask", [X >= 36, X % 3 == 1, (X >= 30) & (X % 3 < 2)], ids=["rows", "a column", "two columns"])
def test_a_regular_mask_makes_a_view(mask: NDArray[Any]) -> None:
    places = mask.nonzero()
    graph = GraphBuilder()
    x, known = graph.input("x", TensorType(X.shape, X.dtype)), graph.constant(np.stack(places, -1))
    index = TensorType(places[0].shape, places[0].dtype)
    problem = indexing(graph.types[x], [index, index])
    fused = fuse(graph.build([graph.problem("cells", problem, x, known)]))
    assert not fused.launches[0].plan.lookups
    assert fused(X).tolist() == X[mask].tolist()


CUBE = np.arange(4 * 6 * 5, dtype=np.int16).reshape(4, 6, 5)
TOGETHER: dict[str, tuple[Any, ...]] = {
    "pairs in groups": (np.array([0, 1, 2, 3]), np.array([0, 1, 0, 1])),
    "groups in both": (np.array([0, 0, 1, 1]), np.array([0, 1, 4, 5])),
    "a grid": (np.array([[0, 0], [1, 1]]), np.array([[0, 1], [0, 1]])),
    "rows by columns": (np.array([[3], [1]]), np.array([[0, 2, 4]])),
    "a grid with steps both ways": (np.array([[0, 0, 0], [2, 2, 2]]), np.array([[4, 2, 0]] * 2)),
    "three in groups of groups": (np.repeat([0, 1], 4), np.tile(np.repeat([1, 3], 2), 2), np.tile([0, 4], 4)),
    "three of three shapes": (np.array([[[0]], [[2]]]), np.array([[5], [3]]), np.array([0, 1, 2, 3, 4])),
    "apart from each other": (np.array([0, 1, 2, 3]), slice(None, None, -2), np.array([0, 1, 0, 1])),
    "behind a new dimension": (None, np.array([-1, -2, -1, -2]), np.array([[1], [2]])),
    "one even, one not": (np.array([0, 3, 1, 2]), np.array([0, 1, 3, 4])),
    "neither even": (np.array([3, 0, 2]), np.array([5, 1, 4])),
    "both empty": (np.zeros((0, 2), np.int64), np.zeros((1, 2), np.int64)),
}


def looked_up_together(entries: tuple[Any, ...], policy: OutOfBounds = OutOfBounds.RAISE) -> Fused:
    """CUBE[entries], with known index arrays."""
    graph = GraphBuilder()
    x = graph.input("x", TensorType(CUBE.shape, CUBE.dtype))
    arrays = [entry for entry in entries if isinstance(entry, np.ndarray)]
    stated = [TensorType(each.shape, each.dtype) if isinstance(each, np.ndarray) else each for each in entries]
    problem = under(indexing(graph.types[x], stated), policy, b"\xff\xff" if policy is OutOfBounds.FILL else b"")
    return fuse(graph.build([graph.problem("cells", problem, x, graph.constant(stacked(stated, arrays)))]))


@pytest.mark.parametrize("name", TOGETHER)
def test_several_index_arrays_make_one_launch(name: str) -> None:
    entries = TOGETHER[name]
    for policy in (OutOfBounds.RAISE, OutOfBounds.CLAMP, OutOfBounds.FILL):
        fused = looked_up_together(entries, policy)
        (launch,) = fused.launches
        assert len(launch.plan.lookups) == (2 if name in ("one even, one not", "neither even") else 0)
        assert fused(CUBE).tolist() == CUBE[entries].tolist()


def test_a_bad_index_in_one_of_several_arrays_follows_the_policy() -> None:
    rows, columns = np.array([0, 1, 2, 3]), np.array([0, 1, 6, 7])
    with pytest.raises(IndexError, match="6 is out of range for axis 1 of size 6"):
        looked_up_together((rows, columns))(CUBE)
    clamped = looked_up_together((rows, columns), OutOfBounds.CLAMP)(CUBE)
    assert clamped.tolist() == CUBE[rows, [0, 1, 5, 5]].tolist()
    filled = looked_up_together((rows, columns), OutOfBounds.FILL)(CUBE)
    assert filled.tolist() == [*CUBE[[0, 1], [0, 1]].tolist(), *[[-1] * 5] * 2]


def test_known_indices_out_of_range_follow_the_policy() -> None:
    far = np.arange(20, 28)
    with pytest.raises(IndexError, match="indices\\[4\\] = 24 is out of range for axis 0 of size 24"):
        picked(far)(X)
    filled = picked(far, OutOfBounds.FILL)(X)
    assert filled.tolist() == [*X[20:].tolist(), *[[-1] * 3] * 4]
    clamped = picked(far, OutOfBounds.CLAMP)(X)
    assert clamped.tolist() == X[np.minimum(far, 23)].tolist()


def test_only_small_results_are_computed_while_fusing(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = GraphBuilder()
    known = graph.constant(np.arange(6).reshape(2, 3))
    turned = graph.transposed("turned", known, (1, 0))
    sums = graph.elementwise("sums", "add", "int64", turned, graph.constant(1))
    both = graph.concatenated("both", [turned, sums], 0)
    built = graph.build([both])
    assert fuse(built).graph.steps == ()
    assert fuse(built)().tolist() == [[0, 3], [1, 4], [2, 5], [1, 4], [2, 5], [3, 6]]
    monkeypatch.setattr(fusing, "MOST_KNOWN", 6)
    assert [step.name for step in fuse(built).graph.steps] == ["both"]


def test_an_error_in_known_indices_is_raised_at_the_call() -> None:
    graph = GraphBuilder()
    table, far = graph.constant(X), graph.constant(np.array([24]))
    problem = gathering(graph.types[table], graph.types[far], 0, OutOfBounds.RAISE, wraps=True)
    fused = fuse(graph.build([graph.problem("rows", problem, table, far)]))
    with pytest.raises(IndexError, match="indices\\[0\\] = 24 is out of range"):
        fused()


def test_the_largest_index_is_clamped() -> None:
    assert picked(np.array(2**63 - 1), OutOfBounds.CLAMP, (24,))(X[:, 0]).tolist() == X[23, 0]
