"""Which nodes give the sizes that conditions are about, and whether data decide these, as runs of onnxruntime show."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from tests import seeds
from tests.onnx_checking.modelling import by_place, checked, parsed
from tests.onnx_checking.sessions import session

TRIALS = 12
"""Runs with random data."""

CONSTANTS = "int64[1] zero = {0}, int64[1] all = {9223372036854775807}, int64 none = {0}, int64 one = {1}, int64[1] ones = {1}"

COUNTED = "the number of elements that NonZero 'maker' finds"

BRANCHES = """then_branch = g () => (float[p] q) { q = Concat<axis = 0>(x, x) },
else_branch = h () => (float[r] t) { t = Identity(x) }"""

CONV = "m = Conv<pads = [3, 0, 3, 0], strides = [2, 1]>"

FILTER = "w = ConstantOfShape<value = float[1] {1.0}>(kernel)"

MODELS: dict[str, tuple[str, str, str, int, bool]] = {
    "NonZero": ("[maker] m = NonZero(x)", "int64", COUNTED, 1, True),
    "NonZero, transposed": ("[maker] n = NonZero(x) m = Transpose(n)", "int64", COUNTED, 0, True),
    "Compress": (
        "b = Greater(x, f) [maker] m = Compress(x, b)",
        "float", "the number of elements that Compress 'maker' keeps", 0, True,
    ),
    "Unique": (
        "i = Cast<to = 7>(x) [maker] m, a, b, c = Unique(i)",
        "int64", "the number of different elements that Unique 'maker' finds", 0, True,
    ),
    "NonMaxSuppression": (
        "s = Shape(x) t = Concat<axis = 0>(ones, s, ones) r = Reshape(x, t) b = Expand(r, four)"
        " u = Transpose<perm = [0, 2, 1]>(r) k = Size(x) [maker] m = NonMaxSuppression(b, u, k, half, half)",
        "int64", "the number of boxes that NonMaxSuppression 'maker' selects", 0, True,
    ),
    "a shape from data": (
        "k = ReduceMax<keepdims = 1>(x) i = Cast<to = 7>(k) [maker] m = ConstantOfShape(i)",
        "float", "a size that ConstantOfShape 'maker' gives", 0, True,
    ),
    "a limit from data": (
        "k = ReduceMax<keepdims = 0>(x) i = Cast<to = 7>(k) [maker] m = Range(none, i, one)",
        "int64", "a size that Range 'maker' gives", 0, True,
    ),
    "what follows from a count": (
        f"n = NonZero(x) t = Transpose(n) h = Cast<to = 1>(t) {FILTER} v = Unsqueeze(h, both) [maker] {CONV}(v, w)",
        "float", "a size that Conv 'maker' gives", 2, True,
    ),
    "what follows from a size": (
        f"{FILTER} v = Unsqueeze(x, outer) [maker] {CONV}(v, w)", "float", "a size that Conv 'maker' gives", 2, False,
    ),
    "a condition on a count": (
        f"n = NonZero(x) s = Shape(n) k = Gather(s, one) c = Greater(k, three) [maker] m = If(c) <{BRANCHES}>",
        "float", "a size that If 'maker' gives", 0, True,
    ),
    "a condition on a size": (
        f"s = Shape(x) k = Gather(s, none) c = Greater(k, three) [maker] m = If(c) <{BRANCHES}>",
        "float", "a size that If 'maker' gives", 0, False,
    ),
}  # fmt: skip
"""By what gives the size: the nodes, the type of their result, what is said of its size, its axis, and whether data decide it."""


def _model(case: str) -> onnx.ModelProto:
    nodes, dtype, _, axis, _ = MODELS[case]
    constants = (
        f"{CONSTANTS}, int64[1] axis = {{{axis}}}, int64 three = {{3}}, float f = {{1.5}}, float[1] half = {{0.5}}, "
        "int64[3] four = {1, 1, 4}, int64[4] kernel = {1, 1, 3, 1}, int64[2] both = {0, 1}, int64[3] outer = {0, 1, 3}"
    )
    return parsed(f"agraph (float[N] x) => ({dtype} y) <{constants}> {{ {nodes} [last] y = Slice(m, zero, all, axis) }}")


def _sizes(case: str) -> set[int]:
    """The sizes that onnxruntime gives for data of one shape."""
    by_onnxruntime = session(_model(case))
    draws = [np.zeros(9), np.ones(9), np.arange(9), *seeds.numpy_rng().integers(0, 4, (TRIALS, 9))]
    return {by_onnxruntime.run(None, {"x": data.astype(np.float32)})[0].shape[MODELS[case][3]] for data in draws}


@pytest.mark.parametrize("case", MODELS)
def test_a_size_names_its_node_and_whether_data_decide_it(tmp_path: Path, case: str) -> None:
    _, _, text, _, depends = MODELS[case]
    node = by_place(checked(tmp_path, _model(case)))["last"]
    (maker,) = (maker for condition in node.conditions for maker in condition.makers.values())
    assert (maker.place, maker.text, maker.from_data) == ("maker", text, depends)
    assert (len(_sizes(case)) > 1) == depends


def test_sizes_of_inputs_have_no_makers(tmp_path: Path) -> None:
    nodes = "a = Relu(x) [last] y = Slice(a, zero, all, ones)"
    node = by_place(checked(tmp_path, f"agraph (float[N, K] x) => (float y) <{CONSTANTS}> {{ {nodes} }}"))["last"]
    assert [condition.makers for condition in node.conditions] == [{}, {}]
