"""Indices along one axis, by each dialect. Judges: one device, and what resolving means, written out in Python's integers."""

from __future__ import annotations

import pickle
import random
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import dmlgather as dg
from dmlgather.calls.arguments import type_of
from dmlgather.dialects.problem import TensorType
from dmlgather.directml.support import INDICES, UP_TO_64_BITS
from dmlgather.distributed import gather
from dmlgather.distributed.axis_rules import DIALECTS, AxisRule, axis_rule
from tests.distributed.one_device import gathered

INTEGERS = ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8")
INDEX_TYPES = {"directml": ("i4", "i8", "u4", "u8"), "onnx": ("i4", "i8"), "openvino": INTEGERS, "lax": INTEGERS}
POLICIES = (None, "clamp", "raise", "promise", dg.Fill(7))


def rule_of(
    dialect: str, extent: int, dtype: Any, index_dtype: Any, policy: Any = None, *, axis: int = 0, shape: tuple[int, ...] = (1,)
) -> AxisRule:
    """The rule of a gather along the last axis of a table, the others of which have size 1. shape: of the indices."""
    table = type_of("table", ((*(1,) * axis, extent), dtype))
    return axis_rule(dialect, table, type_of("indices", (shape, index_dtype)), axis, policy)


def looked_up(rule: AxisRule, data: NDArray[Any], indices: NDArray[Any]) -> NDArray[Any]:
    """What the rule's positions mean."""
    positions = rule.resolve(indices)
    assert positions.dtype == np.int64
    assert positions.shape == indices.shape
    fill = np.frombuffer(rule.fill or bytes(data.itemsize), data.dtype)
    return np.concatenate([data, fill], dtype=data.dtype)[positions]  # -1 is the last one


def drawn_indices(rng: random.Random, extent: int, dtype: np.dtype[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    limits = np.iinfo(dtype)
    kind = rng.random()
    values: list[int] = []
    for _ in range(int(np.prod(shape))):
        if kind < 0.3 and extent:
            values.append(rng.randrange(extent))
        elif rng.random() < 0.2:
            values.append(rng.choice([limits.min, limits.max, limits.max // 2 + 1]))
        else:
            values.append(rng.randint(-2 * extent - 1, 2 * extent + 1))
    return np.array([min(max(value, limits.min), limits.max) for value in values], dtype).reshape(shape)


def outcome(run: Callable[[], Any]) -> Any:
    try:
        found = run()
    except (IndexError, TypeError, ValueError) as error:
        return type(error), str(error)
    return found.dtype, found.shape, found.tobytes()


@settings(max_examples=120, deadline=None)
@given(st.sampled_from(DIALECTS), st.sampled_from(POLICIES), st.integers(0, 2**32))
def test_an_index_means_what_it_means_on_one_device(dialect: str, policy: Any, seed: int) -> None:
    rng = random.Random(seed)
    extent = rng.randint(1 if dialect == "directml" else 0, 7)
    data = np.arange(10, 10 + extent, dtype=rng.choice(["f4", "i1", "u8"]))
    low = 1 if dialect == "directml" else 0  # no descriptor has a size of 0
    shape = tuple(rng.randint(low, 3) for _ in range(rng.randint(0, 3)))
    indices = drawn_indices(rng, extent, np.dtype(rng.choice(INDEX_TYPES[dialect])), shape)
    axis = max(len(shape) - 1, 0) if dialect == "directml" else 0  # which has leading 1s

    def rule() -> AxisRule:
        return rule_of(dialect, extent, data.dtype, indices.dtype, policy, axis=axis, shape=shape)

    ours = outcome(lambda: looked_up(pickle.loads(pickle.dumps(rule())), data, indices))
    theirs = outcome(lambda: gathered(dialect, data, indices, 0, policy))
    if dialect == "lax" and ours[0] is IndexError:  # whose indices have a component more to name
        assert theirs[0] is IndexError
    elif ours[0] is ValueError:  # over an axis without elements, of which the words are the plan's there
        assert theirs[0] is ValueError
        assert extent == 0
    elif dialect == "directml" and not shape and ours[0] is IndexError:  # which describes a scalar as {1}
        assert ours[1].replace("[]", "[0]") == theirs[1]
    else:
        assert ours == theirs


def positions_written_out(indices: NDArray[Any], extent: int, wraps: bool, policy: str) -> list[int]:
    found = []
    for value in map(int, indices.reshape(-1)):
        position = value + extent if wraps and value < 0 else value
        if not 0 <= position < extent:
            position = -1 if policy == "fill" else min(max(position, 0), extent - 1)
        found.append(position)
    return found


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("extent", [2**31 + 5, 2**33 + 1, 2**62])
def test_an_axis_may_be_longer_than_a_descriptor_can_say(dialect: str, extent: int) -> None:
    limits = np.iinfo(np.int64)
    values = [0, -1, extent - 1, extent, -extent, -extent - 1, 2**31, 2**32, limits.min, limits.max]
    signed = np.array(values, np.int64)
    rule = rule_of(dialect, extent, "f4", "i8", "clamp")
    assert rule.resolve(signed).tolist() == positions_written_out(signed, extent, dialect != "lax", "clamp")
    if dialect != "onnx":
        unsigned = np.array([0, extent - 1, extent, 2**63 - 1, 2**63, 2**64 - 1], np.uint64)
        for policy, choice in (("clamp", "clamp"), ("fill", dg.Fill(0))):
            rule = rule_of(dialect, extent, "f4", "u8", choice)
            assert rule.resolve(unsigned).tolist() == positions_written_out(unsigned, extent, False, policy)


@pytest.mark.parametrize("dialect", ["directml", "onnx", "openvino"])
def test_an_axis_without_elements_has_no_index_in_bounds(dialect: str) -> None:
    some, none = np.array([[0], [-1]]), np.empty((0, 4), np.int64)
    for policy in POLICIES:
        assert rule_of(dialect, 0, "f4", "i8", policy).resolve(none).shape == none.shape
    assert rule_of(dialect, 0, "f4", "i8", dg.Fill(1)).resolve(some).tolist() == [[-1], [-1]]
    with pytest.raises(IndexError, match=r"\[0, 0\] = 0 is out of range .*: valid indices are none \(the axis has size 0\)"):
        rule_of(dialect, 0, "f4", "i8", "raise").resolve(some)
    for policy in ("clamp", "promise"):
        with pytest.raises(ValueError, match=r"2 indices along axis 3 of size 0: under .* nothing to read"):
            rule_of(dialect, 0, "f4", "i8", policy, axis=3).resolve(some)


@pytest.mark.parametrize("policy", POLICIES)
def test_an_index_that_reads_nothing_is_only_checked(policy: Any) -> None:
    indices = np.array([[0], [-1]])
    table, types = TensorType((0, 0), np.dtype("f4")), TensorType(indices.shape, indices.dtype)
    rule = axis_rule("onnx", table, types, 0, policy)
    ours = outcome(lambda: np.full((*rule.resolve(indices).shape, 0), 0, "f4"))
    assert ours == outcome(lambda: dg.onnx.gather(np.empty((0, 0), "f4"), indices, out_of_bounds=policy))


@pytest.mark.parametrize("dialect", ["onnx", "openvino", "lax"])
@pytest.mark.parametrize(
    ("dtype", "index_dtype"),
    [
        ("f4", "f4"),
        ("f4", "i2"),
        ("f4", "u8"),
        ("c8", "i8"),
        ("?", "i4"),
        (">f4", "i8"),
        ("M8[s]", "i8"),
        ("f4", "?"),
        ("f4", ">i4"),
    ],
)
def test_types_are_taken_and_refused_as_on_one_device(dialect: str, dtype: str, index_dtype: str) -> None:
    data, indices = np.zeros(3, dtype), np.zeros(2, index_dtype)
    theirs = outcome(lambda: gathered(dialect, data, indices, 0))
    ours = outcome(lambda: looked_up(rule_of(dialect, 3, dtype, index_dtype), data, indices))
    assert ours == theirs


def test_directml_takes_the_types_of_its_table() -> None:
    numpy_types = {"float32": "f4", "bool": "?", "complex64": "c8", "float16": "f2", "bfloat16": ml_dtypes.bfloat16, ">f4": ">f4"}
    numpy_types |= {name: name for name in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float64")}
    taken = {str(np.dtype(each)) for each in numpy_types.values() if _takes(each, "i4")}
    assert taken == {kind.name.lower() for kind in UP_TO_64_BITS}
    assert {each for each in INTEGERS if _takes("f4", each)} == {np.dtype(kind.name.lower()).str[1:] for kind in INDICES}
    with pytest.raises(TypeError, match=r"InputTensor has type complex64, but dialect 'directml' takes FLOAT64, .*or UINT8"):
        rule_of("directml", 3, "c8", "i4")
    with pytest.raises(TypeError, match=r"IndicesTensor has type int16, but dialect 'directml' takes .*UINT64 or UINT32"):
        rule_of("directml", 3, "f4", "i2")


def _takes(dtype: Any, index_dtype: Any) -> bool:
    try:
        rule_of("directml", 3, dtype, index_dtype)
    except TypeError:
        return False
    return True


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("dtype", ["O", "U3", "S4"])
def test_strings_are_refused(dialect: str, dtype: str) -> None:
    with pytest.raises(TypeError, match="strings and objects are stored elsewhere"):
        rule_of(dialect, 3, dtype, "i8")


def test_only_integers_are_resolved() -> None:
    with pytest.raises(TypeError, match="indices has type float64, expected integers"):
        rule_of("onnx", 3, "f4", "i8").resolve(np.zeros(2))


X = np.zeros((3, 2), np.float32)
PLAIN = TensorType((3, 2), np.dtype("float32"))
IDS = TensorType((4,), np.dtype("int64"))


@pytest.mark.parametrize(
    ("dtype", "others"),
    [
        (">f4", "dialect='onnx' or dialect='openvino'"),
        ("?", "dialect='onnx', dialect='openvino' or dialect='lax'"),
        ("c8", "dialect='onnx' or dialect='lax'"),
    ],
)
def test_the_dialects_that_take_a_type_are_named(dtype: str, others: str) -> None:
    table = TensorType((3, 2), np.dtype(dtype))
    bits = r" or \.view" if table.dtype.isnative else ""
    with pytest.raises(TypeError, match=rf"but dialect 'directml' takes .* with \.astype{bits}, or use {others}$"):
        axis_rule("directml", table, IDS, 0)
    for name in ("onnx", "openvino", "lax"):
        if name in others:
            axis_rule(name, table, IDS, 0)
        else:
            with pytest.raises(TypeError):
                axis_rule(name, table, IDS, 0)
    with pytest.raises(TypeError, match=r"IndicesTensor has type float64, .* with \.astype$"):
        axis_rule("directml", PLAIN, TensorType((4,), np.dtype("float64")), 0)


@pytest.mark.parametrize(
    ("table", "indices", "error", "words"),
    [
        (X, ["a"], TypeError, "indices has objects or strings, expected integers"),
        (X, np.array([1], object), TypeError, "indices has objects or strings, expected integers"),
        (X, slice(0, 3), TypeError, r"indices is slice\(0, 3, None\), expected integers: dmlgather.distributed.slice takes"),
        (X, {1}, TypeError, r"indices is of type set, expected integers: pass list\(indices\)$"),
        (X, iter([1]), TypeError, r"indices is of type list_iterator, expected integers: pass list\(indices\)$"),
        (X, "x.npy", TypeError, "indices is 'x.npy', expected integers: the table, which may be a path, comes first"),
        (X, X[:, 0] == 0, TypeError, r"indices has type bool, expected integers: numpy\.flatnonzero\(mask\) gives "),
        (X, 10**30, ValueError, "indices has an integer of more than 64 bits"),
        (X, [[0, -(2**64)]], ValueError, "indices has an integer of more than 64 bits"),
        (np.array([1], object), [0], TypeError, "the table has type object: objects are stored outside of their array"),
        ("", [0], ValueError, "table is '', expected the path of a .npy file or of a zarr store, or an array$"),
    ],
)
def test_objects_and_exchanged_arguments_are_refused(table: Any, indices: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=f"^{words}"):
        gather(table, indices)
