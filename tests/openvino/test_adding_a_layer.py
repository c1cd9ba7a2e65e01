"""CONTRIBUTING.md's recipe for layers beside the family, with a made-up one: a row, and `check` and `fuse` know it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dmlgather as dg
from dmlgather.dialects.checked_model import Verdict
from dmlgather.openvino.model import layer_table
from dmlgather.openvino.model.index_graph import index_graph
from dmlgather.openvino.model.layer_calls import LayerCall
from tests.openvino.ir import checked, edge, layer, net, parameter_layer, write

INT64 = 'element_type="i64" shape="1" offset="{}" size="8"'


def without_first(call: LayerCall) -> Any:
    """All but the first of the first dimension."""
    return call.input(0)[(slice(1, None),)]


@pytest.fixture(autouse=True)
def added(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(layer_table.LAYERS, "WithoutFirst", layer_table.moving(without_first))


def test_check_follows_sizes_with_names(tmp_path: Path) -> None:
    """The bound of a Slice is the second size of x, which is left of its shape."""
    layers = (
        parameter_layer(0, "FP32 4,-1")
        + parameter_layer(1, "FP32 -1")
        + layer(2, "ShapeOf", {0: "FP32 4,-1"}, {1: "I64 2"}, 'output_type="i64"', version="opset3")
        + layer(3, "WithoutFirst", {0: "I64 2"}, {1: "I64 1"})
        + layer(4, "Const", None, {0: "I64 1"}, INT64.format(0))
        + layer(5, "Const", None, {0: "I64 1"}, INT64.format(8))
        + layer(6, "Slice", {0: "FP32 -1", 1: "I64 1", 2: "I64 1", 3: "I64 1"}, {4: "FP32 -1"})
        + layer(7, "Result", {0: "FP32 -1"}, None)
    )
    edges = ((0, 0, 2, 0), (2, 1, 3, 0), (1, 0, 6, 0), (4, 0, 6, 1), (3, 1, 6, 2), (5, 0, 6, 3), (6, 4, 7, 0))
    path = write(tmp_path, net(layers, "".join(edge(*ends) for ends in edges)), np.array([0, 1], np.int64).tobytes())
    (node,) = checked(path).nodes
    assert node.verdict is Verdict.TAKEN
    assert "Parameter_1[0] >= Parameter_0[1]" in node.provided


def test_fuse_has_its_step(tmp_path: Path) -> None:
    """A Gather of all rows but the first, in one launch; NumPy says what the result is."""
    layers = (
        parameter_layer(0, "FP32 5,2")
        + parameter_layer(1, "I64 3")
        + layer(2, "Const", None, {0: "I64 "}, INT64.format(0).replace('shape="1"', 'shape=""'))
        + layer(3, "WithoutFirst", {0: "FP32 5,2"}, {1: "FP32 4,2"})
        + layer(4, "Gather", {0: "FP32 4,2", 1: "I64 3", 2: "I64 "}, {3: "FP32 3,2"}, 'batch_dims="0"')
        + layer(5, "Result", {0: "FP32 3,2"}, None)
    )
    edges = ((0, 0, 3, 0), (3, 1, 4, 0), (1, 0, 4, 1), (2, 0, 4, 2), (4, 3, 5, 0))
    graph = index_graph(write(tmp_path, net(layers, "".join(edge(*ends) for ends in edges))))
    fused = dg.fuse(graph)
    assert (len(graph.steps), len(fused.graph.steps)) == (2, 1)
    x, rows = np.arange(10, dtype=np.float32).reshape(5, 2), np.array([3, 0, 1])
    np.testing.assert_array_equal(fused(x, rows), x[1:][rows])
