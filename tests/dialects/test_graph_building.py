"""Building graphs: names, constants, and views that change nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dmlgather.dialects.graph_building import GraphBuilder
from dmlgather.dialects.index_graph import Bitcast
from dmlgather.dialects.problem import TensorType

ROWS = TensorType((2, 3), np.dtype("float32"))


def test_a_view_that_changes_nothing_is_no_step() -> None:
    graph = GraphBuilder()
    x = graph.input("x", ROWS)
    assert graph.reshaped("a", x, (2, 3)) == graph.transposed("b", x, (0, 1)) == graph.expanded("c", x, (2, 3)) == x
    assert graph.concatenated("d", [x], 1) == x
    assert not graph.steps


def test_names_that_are_taken_get_a_number() -> None:
    graph = GraphBuilder()
    x = graph.input("x", ROWS)
    first, second = graph.transposed("x", x, (1, 0)), graph.transposed("x", x, (1, 0))
    assert (first, second) == ("x (2)", "x (3)")
    assert [step.name for step in graph.build([second]).steps] == ["x", "x (2)"]


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (np.float32(0), np.float32(0), True),
        (np.float32(0), np.float32(-0.0), False),
        (np.int32(1), np.int64(1), False),
        (np.zeros(1, np.int8), np.zeros((1, 1), np.int8), False),
    ],
)
def test_equal_bytes_are_one_constant(one: Any, other: Any, same: bool) -> None:
    graph = GraphBuilder()
    assert (graph.constant(one) == graph.constant(other)) is same


def test_a_reshaped_constant_is_a_constant() -> None:
    graph = GraphBuilder()
    one = graph.constant(np.arange(6))
    assert graph.known(graph.reshaped("a", one, (2, 3))) is not None
    assert not graph.steps


def test_arithmetic_and_concatenations_have_the_shapes_of_numpy() -> None:
    graph = GraphBuilder()
    x = graph.input("x", TensorType((2, 3), np.dtype("int32")))
    more = graph.elementwise("more", "add", "int32", x, graph.constant(np.zeros((4, 1, 1), np.int32)))
    assert graph.types[more] == TensorType((4, 2, 3), np.dtype("int32"))
    assert graph.types[graph.concatenated("both", [more, more], 1)] == TensorType((4, 4, 3), np.dtype("int32"))


def test_a_bitcast_states_its_type_and_shape() -> None:
    graph = GraphBuilder()
    x = graph.input("x", ROWS)
    assert graph.bitcast("bytes", x, np.dtype("uint8"), [24]) == "bytes"
    (step,) = graph.build(["bytes"]).steps
    assert (step.name, step.work, step.outputs) == ("bytes", Bitcast(np.dtype("uint8"), (24,)), ("bytes",))
    assert graph.types["bytes"] == TensorType((24,), np.dtype("uint8"))
