"""The rules that every graph holds, and what is left of one when only its outputs count."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from dmlgather.dialects.index_graph import Elementwise, IndexGraph, Step, chain
from dmlgather.dialects.problem import TensorType
from dmlgather.dialects.views import ReshapeView, TransposeView

FLOATS = TensorType((2, 3), np.dtype(np.float32))
TURNED = TensorType((3, 2), np.dtype(np.float32))
BOOL = TensorType((), np.dtype(bool))


def two_steps() -> IndexGraph:
    turn = Step("turn", TransposeView(FLOATS, (1, 0)), ("x",), ("y",))
    other = Step("other", Elementwise("where", FLOATS.dtype), ("yes", "x", "x"), ("z",))
    return IndexGraph(("x", "yes"), ("y",), (turn, other), {"yes": BOOL, "x": FLOATS, "y": TURNED, "z": FLOATS})


def test_steps_that_no_output_needs_are_left_out() -> None:
    graph = two_steps()
    assert [step.name for step in graph.needed().steps] == ["turn"]
    assert graph.needed().types.keys() == {"x", "yes", "y"}
    assert graph.makers["z"].name == "other"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"inputs": ("yes",)}, "turn reads 'x', which nothing before it writes"),
        ({"inputs": ("x", "yes", "y")}, "turn writes 'y', which already exists"),
        ({"types": {"yes": BOOL, "x": FLOATS, "y": TURNED}}, "value 'z' of other has no type"),
        (
            {"types": {"yes": BOOL, "x": FLOATS, "y": FLOATS, "z": FLOATS}},
            "turn takes float32 \\[3, 2\\] as 'y', but the type of 'y' is",
        ),
        ({"outputs": ("w",)}, "output 'w' is no value of the graph"),
    ],
)
def test_a_graph_that_breaks_a_rule_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(two_steps(), **change)


def test_constants_have_their_types() -> None:
    with pytest.raises(ValueError, match="constant 'x' has the type int8 \\[2\\], but float32"):
        replace(two_steps(), inputs=("yes",), constants={"x": np.zeros(2, np.int8)})


def test_a_chain_passes_data_on() -> None:
    graph = chain([TransposeView(FLOATS, (1, 0)), ReshapeView(TURNED, (6,))])
    assert graph.inputs == ("data",)
    assert graph.types[graph.outputs[0]].shape == (6,)
    with pytest.raises(
        ValueError, match="problem 1 \\(reshape\\) takes data of float32 \\[2, 3\\], but the problem before it gives"
    ):
        chain([TransposeView(FLOATS, (1, 0)), ReshapeView(FLOATS, (6,))])
    with pytest.raises(ValueError, match="at least one problem"):
        chain([])


def test_arithmetic_wraps_around_in_its_type() -> None:
    one, most = np.ones(1, np.int8), np.full(1, 127, np.int8)
    assert Elementwise("add", np.dtype(np.int8)).compute([most, one]).tolist() == [-128]
    assert Elementwise("cast", np.dtype(np.uint8)).compute([-one]).tolist() == [255]


def test_where_moves_bits_of_any_type() -> None:
    nans = np.array([0x7FC00001, 0xFFA00002], np.uint32).view(np.float32)
    chosen = Elementwise("where", np.dtype(np.float32)).compute([np.array([False, True]), nans[:1], nans])
    assert chosen.view(np.uint32).tolist() == [0x7FC00001, 0x7FC00001]
    chosen = Elementwise("where", np.dtype(np.float32)).compute([np.array([True, False]), nans[:1], nans])
    assert chosen.view(np.uint32).tolist() == [0x7FC00001, 0xFFA00002]
