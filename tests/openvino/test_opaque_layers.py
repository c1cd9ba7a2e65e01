"""Shapes behind layers that are not looked into, where the batch is open. OpenVINO judges, also the names of the layers."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dmlgather.openvino.model.index_graph import index_graph
from dmlgather.openvino.model.layer_table import LAYERS as ROWS
from dmlgather.openvino.model.layer_table import broadcast_shape, reduced_shape, same_shape
from tests.openvino.ir import parameter, save
from tests.openvino.random_chains import op
from tests.openvino.runtime import openvino

SHAPED = {name for name, row in ROWS.items() if row.shape in (same_shape, broadcast_shape, reduced_shape)}
"""The layers whose output's shape follows, but for products."""


def c(values: Any, dtype: Any = np.float32) -> Any:
    return op.constant(np.array(values, dtype))


def reduced(name: str, x: Any) -> Any:
    return getattr(op, f"reduce_{name}")(x, c([0, -1], np.int64), False)


ONES = [1.0] * 4
PLAIN = """abs acos acosh asin asinh atan atanh ceiling cos cosh erf exp floor hsigmoid hswish log mish negative relu sigmoid sign
    sin sinh softplus softsign sqrt swish tan tanh"""
"""Functions that take one value."""

LAYERS: Mapping[str, Callable[[Any], Any]] = {
    **{name: getattr(op, name) for name in PLAIN.split()},
    "batchnorminference": lambda x: op.batch_norm_inference(x, c(ONES), c(ONES), c(ONES), c(ONES), 1e-5),
    "clamp": lambda x: op.clamp(x, 0.0, 1.0),
    "convert": lambda x: op.convert(x, "f64"),
    "convertlike": lambda x: op.convert_like(x, c([1], np.int32)),
    "cumsum": lambda x: op.cum_sum(x, c(1, np.int64)),
    "elu": lambda x: op.elu(x, 1.0),
    "fakequantize": lambda x: op.fake_quantize(x, c(0), c(1), c(0), c(1), 4),
    "grn": lambda x: op.grn(x, 1.0),
    "gelu": lambda x: op.gelu(x, "erf"),
    "groupnormalization": lambda x: op.group_normalization(x, c(ONES), c(ONES), 2, 1e-5),
    "hardsigmoid": lambda x: op.hard_sigmoid(x, c(0.2), c(0.5)),
    "isfinite": op.is_finite,
    "isinf": op.is_inf,
    "isnan": op.is_nan,
    "lrn": lambda x: op.lrn(x, c([1], np.int64), 1.0, 1.0, 1.0, 1),
    "logsoftmax": lambda x: op.log_softmax(x, 1),
    "mvn": lambda x: op.mvn(x, c([2], np.int64), True, 1e-5, "inside_sqrt"),
    "normalizel2": lambda x: op.normalize_l2(x, c([1], np.int64), 1e-5, "add"),
    "prelu": lambda x: op.prelu(x, c(ONES)),
    "round": lambda x: op.round(x, "half_to_even"),
    "selu": lambda x: op.selu(x, c(1.0), c(1.0)),
    "softmax": lambda x: op.softmax(x, 1),
    "add": lambda x: op.add(c([ONES[:3]]), x),
    "divide": lambda x: op.divide(x, c(ONES[:3])),
    "equal": lambda x: op.equal(c([[1.0]]), x),
    "floormod": lambda x: op.floor_mod(x, c(2.0)),
    "greater": lambda x: op.greater(x, c([[[[1.0]]]])),
    "greaterequal": lambda x: op.greater_equal(x, c(1.0)),
    "less": lambda x: op.less(x, c(1.0)),
    "lessequal": lambda x: op.less_equal(x, c(1.0)),
    "maximum": lambda x: op.maximum(c(1.0), x),
    "minimum": lambda x: op.minimum(x, c(1.0)),
    "mod": lambda x: op.mod(x, c(2.0)),
    "multiply": lambda x: op.multiply(x, c(np.ones((5, 1, 1, 1)))),
    "notequal": lambda x: op.not_equal(x, c(1.0)),
    "power": lambda x: op.power(x, c(2.0)),
    "select": lambda x: op.select(op.greater(x, c(0.5)), c(1.0), c([ONES[:3]])),
    "squareddifference": lambda x: op.squared_difference(c(np.ones((2, 1, 4, 3))), x),
    "subtract": lambda x: op.subtract(x, c(1.0)),
    **{f"reduce{name}": partial(reduced, name) for name in ("l1", "l2", "max", "mean", "min", "prod", "sum")},
    "reducelogicaland": lambda x: op.reduce_logical_and(op.is_nan(x), c([1], np.int64), True),
    "reducelogicalor": lambda x: op.reduce_logical_or(op.is_nan(x), c([1], np.int64), False),
}
"""By the layer's name in lower case: a program that ends with it."""


@pytest.mark.parametrize("name", sorted(LAYERS))
def test_shapes_behind_an_open_batch(name: str, tmp_path: Path) -> None:
    table = parameter("rows", [-1, 4, 3], np.float32)
    made = LAYERS[name](table)
    path = save(tmp_path, [made], [table])
    types = re.findall(r'<layer [^>]*type="(\w+)"', path.read_text("utf-8"))
    assert {each for each in types if each.lower() == name} <= SHAPED
    assert name in map(str.lower, types), "this names no layer of OpenVINO's"
    graph = index_graph(path, {"rows": (2, 4, 3)})
    model = openvino.Core().read_model(path)
    model.reshape([2, 4, 3])
    assert graph.types[graph.outputs[0]].shape == tuple(model.outputs[0].shape)


def test_every_name_is_a_layers() -> None:
    assert sorted(LAYERS) == sorted(map(str.lower, SHAPED))
