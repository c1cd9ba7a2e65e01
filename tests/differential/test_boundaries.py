"""Which elements are looked up by which lookups, and that every boundary is tried at every element."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
import pytest

import dmlgather as dg
from dmlgather.dialects.graph_building import GraphBuilder
from dmlgather.dialects.index_graph import IndexGraph
from dmlgather.dialects.problem import Problem, TensorType
from dmlgather.dialects.programs import graph_of_problem
from dmlgather.dialects.views import SliceView
from dmlgather.dialects.windows import Window
from dmlgather.differential.boundaries import Bounds, index_classes
from dmlgather.differential.trials import Trials

LONG, FLOAT = np.dtype(np.int64), np.dtype(np.float32)


@pytest.mark.parametrize(
    ("bounds", "dtype", "edges"),
    [
        (Bounds(5, 5, True), "int8", {0, 1, 4, 5, 6, -1, -5, -6, -128, 127}),
        (Bounds(5, 0, True), "int8", {0, 1, 4, 5, 6, -1, -5, -6, -128, 127}),
        (Bounds(3, 0, False), "uint8", {0, 1, 2, 3, 4, 128, 255}),
        (Bounds(300, 7, False), "int8", {0, 1, -1, -7, -8, -128, 127}),
        (Bounds(0, 0, False), "uint16", {0, 1, 128, 256, 257, 2**15, 2**16 - 1}),
        (
            Bounds(9, 9, False),
            "int32",
            {
                *(0, 1, 8, 9, 10, -1, -9, -10, -(2**31), 2**31 - 1),
                *(2**7, 2**8, 2**8 + 1, 1 - 2**8, 2**15, 2**16),
                2**16 + 1,
                1 - 2**16,
            },
        ),
    ],
)
def test_a_lookup_has_these_boundaries(bounds: Bounds, dtype: str, edges: set[int]) -> None:
    found = bounds.edges(np.dtype(dtype))
    assert len(found) == len(edges)
    assert {*found} == edges


@pytest.mark.parametrize("edge", [2**63, 2**64 - 1, 2**31, 2**32, 2**32 + 1, 2**15, 2**16])
def test_an_index_that_another_type_misreads_is_tried(edge: int) -> None:
    assert edge in Bounds(2, 0, False).edges(np.dtype(np.uint64))


def classes(graph: IndexGraph) -> dict[str, list[tuple[list[int], list[int]]]]:
    """The elements of each class, and the limits of what reads them."""
    found = index_classes(graph)
    return {
        name: [(one.elements.tolist(), sorted(each.limit for each in one.bounds)) for one in of] for name, of in found.items()
    }


def test_each_component_of_a_tuple_has_its_class() -> None:
    """Also where all have one limit."""
    for sizes in ((4, 9), (4, 4)):
        graph = graph_of_problem(dg.onnx.gather_nd.problem((sizes, "float32"), ((3, 2), "int64")))
        assert sorted(classes(graph)["indices"]) == [([0, 2, 4], [sizes[0]]), ([1, 3, 5], [sizes[1]])]


def gathers(*steps: tuple[str, tuple[int, ...], str]) -> IndexGraph:
    """Gathers along axis 0 of values, by name: data, its shape where it is new, indices."""
    graph = GraphBuilder()
    for number, (data, shape, indices) in enumerate(steps):
        if data not in graph.types:
            graph.input(data, TensorType(shape, LONG))
        if indices not in graph.types:
            graph.input(indices, TensorType((3,), LONG))
        problem = dg.onnx.gather.problem((graph.types[data].shape, "int64"), ((3,), "int64"))
        graph.problem("gather", problem, data, indices, output=f"r{number}")
    return graph.build([f"r{len(steps) - 1}"])


def test_the_elements_that_are_indices_have_a_class() -> None:
    graph = gathers(("table", (4,), "ids"), ("data", (7, 2), "r0"))
    assert classes(graph) == {"ids": [([0, 1, 2], [4])], "table": [([0], [7]), ([1, 2, 3], [7])]} or classes(graph) == {
        "ids": [([0, 1, 2], [4])],
        "table": [([1, 2, 3], [7]), ([0], [7])],
    }


def test_indices_that_two_lookups_read_have_both_limits() -> None:
    graph = gathers(("five", (5,), "ids"), ("nine", (9,), "ids"))
    assert classes(graph) == {"ids": [([0, 1, 2], [5, 9])]}
    (drawn, *_) = Trials(graph, {}, {}, 0).draws()
    assert ((drawn["ids"] >= -5) & (drawn["ids"] < 5)).all()


def test_indices_are_followed_through_views() -> None:
    """A window of every second element, and a transposition; the others are taken to be looked up as well."""
    graph = GraphBuilder()
    ids = graph.input("ids", TensorType((2, 6), LONG))
    window = graph.problem("window", SliceView(graph.types[ids], (Window(0, 2, 1), Window(1, 3, 2))), ids)
    turned = graph.transposed("turned", window, (1, 0))
    data = graph.input("data", TensorType((8,), FLOAT))
    graph.problem("gather", dg.onnx.gather.problem(((8,), "float32"), ((3, 2), "int64")), data, turned, output="r")
    found = classes(graph.build(["r"]))["ids"]
    assert sorted(found) == [([0, 2, 4, 6, 8, 10], [8]), ([1, 3, 5, 7, 9, 11], [8])]


TABLE = ((5, 4), "float32")


@pytest.mark.parametrize(
    "problem",
    [
        dg.onnx.gather.problem(TABLE, ((3,), "int32"), out_of_bounds="clamp"),
        dg.openvino.gather.problem(TABLE, ((3,), "uint8"), 1),
        dg.onnx.gather_nd.problem(((4, 4), "float32"), ((2, 2), "int64"), out_of_bounds="clamp"),
    ],
    ids=["clamp", "fill", "tuples"],
)
def test_each_element_has_each_boundary(problem: Problem) -> None:
    graph = graph_of_problem(problem)
    seen: dict[int, set[int]] = defaultdict(set)
    for draw in Trials(graph, {}, {}, 0).draws():
        for place, value in enumerate(draw["indices"].reshape(-1)):
            seen[place].add(int(value))
    (*_, bounds) = (bounds for one in index_classes(graph)["indices"] for bounds in one.bounds)
    for place, values in seen.items():
        assert values >= {*bounds.edges(problem.tensors[1].dtype)}, place


def test_each_boundary_that_raises_is_alone() -> None:
    """At the first and the last element of each component, with all others in range."""
    graph = graph_of_problem(dg.onnx.gather_nd.problem(((4, 6), "float32"), ((3, 2), "int64")))
    tried, limits = set(), np.array([[4, 6]] * 3)
    for draw in Trials(graph, {}, {}, 0).draws():
        array = draw["indices"]
        bad = np.argwhere((array < -limits) | (array >= limits))
        assert len(bad) <= 1
        tried |= {(int(row), int(column), int(array[row, column])) for row, column in bad}
    for column, limit in ((0, 4), (1, 6)):
        for edge in (limit, limit + 1, -limit - 1, 2**63 - 1, -(2**63), 2**32, 2**32 + 1):
            assert {(0, column, edge), (2, column, edge)} <= tried
    assert {column for _, column, _ in tried} == {0, 1}


def test_a_boundary_comes_before_random_indices() -> None:
    """What few draws can show of a large tensor."""
    graph = graph_of_problem(dg.onnx.gather.problem(TABLE, ((1,), "int64"), out_of_bounds="clamp"))
    drawn: list[Any] = [int(draw["indices"][0]) for draw in Trials(graph, {}, {}, 0).draws()]
    assert drawn[1:7] == [5, -6, 4, -5, -1, 0]
