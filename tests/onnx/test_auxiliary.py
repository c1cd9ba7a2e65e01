"""The auxiliary operators: their results against onnx's reference and onnxruntime."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from dmlgather.dialects.problem import TensorType
from dmlgather.onnx.problems.operator_versions import OperatorVersion
from dmlgather.onnx_checking.following.operators import compute
from tests.dialects.outcomes import content
from tests.onnx.auxiliary_drafts import (
    FLOATS,
    INTEGERS,
    Draft,
    by_onnxruntime,
    by_reference,
    draft,
    dtype_of,
    onnxruntime_runs,
    some_data,
    some_shape,
    versions,
)
from tests.peers.onnx_reference import REFERENCE


@pytest.mark.parametrize("version", versions("Identity", "Shape", "Squeeze", "Unsqueeze", "Reshape", "Transpose"), ids=str)
@settings(max_examples=30)
@given(seed=st.integers(0, 2**63))
def test_auxiliary_operators_move_as_the_judges_say(version: OperatorVersion, seed: int) -> None:
    found = draft(random.Random(seed), version)
    reference_is_judge = REFERENCE.known_fault(found) is None
    assume(reference_is_judge or onnxruntime_runs(found))
    if reference_is_judge:
        assert content(found.run()) == content(by_reference(found))
    if onnxruntime_runs(found):
        assert content(found.run()) == content(by_onnxruntime(found))


@pytest.mark.parametrize("version", versions("Cast"), ids=str)
@settings(max_examples=60)
@given(seed=st.integers(0, 2**63))
def test_casts_are_those_of_the_judges(version: OperatorVersion, seed: int) -> None:
    rng = random.Random(seed)
    known = [name for name in version.types if name in (*FLOATS, *INTEGERS, "bool")]
    source, target = rng.choice(known), rng.choice(known)
    to = TensorProto.DataType.Value(target.upper())
    found = Draft(version, [castable(rng, source, target, some_shape(rng))], {"to": to})
    judged = found if version.since >= 6 else Draft(versions("Cast")[1], found.inputs, {"to": to})  # the judges read no names
    if version.since < 6:
        found.attributes["to"] = target.upper()
    assert content(found.run()) == content(by_reference(judged))
    if onnxruntime_runs(judged):
        assert content(found.run()) == content(by_onnxruntime(judged))


def castable(rng: random.Random, source: str, target: str, shape: Sequence[int]) -> np.ndarray[Any, Any]:
    """Values whose conversion ONNX defines, and which are rounded at most once."""
    dtype = dtype_of(source)
    if source in INTEGERS and target in (*INTEGERS, "bool"):
        return some_data(rng, source, shape)
    special: list[float] = [0.0, 1.0, 3.0, 100.0]
    if source in FLOATS:
        special += [0.25, 1.5, 2.75]
        if target in (*FLOATS, "bool"):
            special += [-0.0, -1.0, -1.5, math.inf, -math.inf, 1e-7]  # 1e-7: subnormal in float16
    if target in FLOATS and source in ("float", "double", "int32", "int64", "uint32", "uint64"):
        special += [70000.0]  # infinite in float16
    if source == "bool":
        special = [0.0, 1.0]
    return np.array(rng.choices(special, k=math.prod(shape)), np.float64).astype(np.float32).astype(dtype).reshape(shape)


@pytest.mark.parametrize("source", FLOATS)
def test_cast_of_floats_to_bool_is_unequal_to_zero(source: str) -> None:
    dtype = dtype_of(source)
    smallest = np.frombuffer((1).to_bytes(dtype.itemsize, "little"), dtype)[0]
    values = np.array([0.0, -0.0, np.nan, np.inf, -np.inf, 0.5, smallest, -smallest], dtype)
    found = compute(helper.make_node("Cast", ["x"], ["y"], to=TensorProto.BOOL), 13, [values])
    assert found.tolist() == [False, False, True, True, True, True, True, True]


@pytest.mark.parametrize("source", FLOATS)
@pytest.mark.parametrize("target", INTEGERS)
def test_cast_of_what_does_not_fit_warns_of_nothing(source: str, target: str) -> None:
    values = np.array([np.nan, np.inf, -np.inf, 60000.0, -60000.0, 7.0], dtype_of(source))
    node = helper.make_node("Cast", ["x"], ["y"], to=TensorProto.DataType.Value(target.upper()))
    assert compute(node, 13, [values])[-1] == 7


VIEWS: dict[str, tuple[dict[str, Any], list[int] | None]] = {
    "Identity": ({}, None),
    "Squeeze": ({}, [1]),
    "Unsqueeze": ({}, [0]),
    "Reshape": ({}, [-1]),
    "Transpose": ({"perm": [2, 0, 1]}, None),
    "Cast": ({"to": TensorProto.FLOAT}, None),
}
"""Attributes and second input for a float32 array of shape [2, 1, 3]."""


@pytest.mark.parametrize("operator", VIEWS)
def test_nothing_is_copied_that_can_be_a_view(operator: str) -> None:
    attributes, second = VIEWS[operator]
    data = np.arange(6, dtype=np.float32).reshape(2, 1, 3)
    node = helper.make_node(operator, ["x"] if second is None else ["x", "second"], ["y"], **attributes)
    found = compute(node, 13, [data] if second is None else [data, np.array(second)])
    assert np.shares_memory(found, data)
    assert data.tobytes() == np.arange(6, dtype=np.float32).tobytes()


def test_shape_needs_no_array() -> None:
    node = helper.make_node("Shape", ["x"], ["y"], start=-2)
    assert compute(node, 15, [TensorType((7, 2**40, 3), np.dtype(np.float32))]).tolist() == [2**40, 3]


def test_squeeze_with_empty_axes_keeps_every_dimension() -> None:
    data = np.ones((1, 3, 1))  # onnx's shape inference and reference say so too, onnxruntime takes empty axes for none
    node = helper.make_node("Squeeze", ["x", "axes"], ["y"])
    assert compute(node, 13, [data, np.array([], np.int64)]).shape == (1, 3, 1)
    assert compute(node, 13, [data, None]).shape == (3,)


def test_unsqueeze_takes_one_axis_as_a_scalar() -> None:
    node = helper.make_node("Unsqueeze", ["x", "axes"], ["y"])
    assert compute(node, 13, [np.ones(3), np.array(-1)]).shape == (3, 1)


CONSTANTS: list[tuple[dict[str, Any], np.ndarray[Any, Any]]] = [
    ({"value_float": 1.5}, np.array(1.5, np.float32)),
    ({"value_floats": [1.5, -0.0]}, np.array([1.5, -0.0], np.float32)),
    ({"value_int": -(2**63)}, np.array(-(2**63))),
    ({"value_ints": [1, 2**62]}, np.array([1, 2**62])),
    ({"value_string": "é"}, np.array("é", object)),
    ({"value_strings": ["a", ""]}, np.array(["a", ""], object)),
]


@pytest.mark.parametrize(
    ("attributes", "expected"), CONSTANTS, ids=lambda item: next(iter(item)) if isinstance(item, dict) else ""
)
def test_constants_of_every_attribute(attributes: dict[str, Any], expected: np.ndarray[Any, Any]) -> None:
    node = helper.make_node("Constant", [], ["y"], **attributes)
    assert content(compute(node, 12, [])) == content(expected)
    with pytest.raises(ValueError, match=rf"Constant-11 has no attribute '{node.attribute[0].name}': it has only value"):
        compute(node, 11, [])


@settings(max_examples=100)
@given(seed=st.integers(0, 2**63))
def test_constant_tensors_of_every_listed_type(seed: int) -> None:
    rng = random.Random(seed)
    version = rng.choice(versions("Constant"))
    value = some_data(rng, rng.choice(version.types), some_shape(rng))
    node = helper.make_node(
        "Constant", [], ["y"], value=numpy_helper.from_array(np.ascontiguousarray(value).reshape(value.shape))
    )
    assert content(compute(node, version.since, [])) == content(value)
