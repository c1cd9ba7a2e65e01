"""The engine reads the same properties of array objects as NumPy states."""

from __future__ import annotations

import ctypes
import sysconfig
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from dmlgather.backends import addresses

FROZEN = np.arange(6)
FROZEN.setflags(write=False)
ARRAYS: dict[str, Any] = {
    "scalar": np.array(3),
    "empty": np.empty((0, 3)),
    "reversed": np.arange(12).reshape(3, 4)[::-1, ::-2],
    "misaligned": np.zeros(17, np.uint8)[1:].view(np.int64),
    "read-only": FROZEN,
    "of another package's type": np.zeros(3, ml_dtypes.bfloat16),
    "objects": np.array([None, "a"]),
    "of a subclass": np.zeros(3).view(np.recarray),
    "broadcast": np.broadcast_to(np.arange(3), (4, 3)),
}


@pytest.mark.parametrize("name", ARRAYS)
def test_an_address_is_that_of_numpy(name: str) -> None:
    assert addresses.address_of(ARRAYS[name]) == addresses._ask(ARRAYS[name]) == ARRAYS[name].ctypes.data


def test_the_address_of_a_resized_array_is_current() -> None:
    array = np.zeros(4)
    for size in (1 << 12, 1 << 20, 2):
        array.resize(size, refcheck=False)
        assert addresses.address_of(array) == array.ctypes.data


def test_numpy_is_asked_if_reading_the_field_disagrees(monkeypatch: pytest.MonkeyPatch) -> None:
    assert addresses._reader() is addresses._read
    monkeypatch.setattr(addresses, "_FIELD", addresses._FIELD + 8)  # the number of dimensions
    assert addresses._reader() is addresses._ask


@pytest.mark.parametrize("name", ARRAYS)
def test_the_fields_of_an_array_object_match_numpy(name: str) -> None:
    array = ARRAYS[name]
    found = addresses.ArrayObject.from_address(id(array))
    assert (found.type, found.element_type) == (id(type(array)), id(array.dtype))
    assert (found.data or 0) == array.ctypes.data
    assert (tuple(found.sizes[: found.rank]), tuple(found.strides[: found.rank])) == (array.shape, array.strides)
    assert bool(found.flags & 0x400) is array.flags.writeable


def test_the_fields_are_known_unless_python_has_no_gil() -> None:
    assert addresses.has_known_fields() is not bool(sysconfig.get_config_var("Py_GIL_DISABLED"))


FIELDS = [name for name, _ in addresses.ArrayObject._fields_]


@pytest.mark.parametrize(
    ("one", "other"), [("sizes", "strides"), ("base", "element_type"), ("type", "element_type"), ("rank", "flags")]
)
def test_fields_in_another_order_are_not_trusted(monkeypatch: pytest.MonkeyPatch, one: str, other: str) -> None:
    kinds: dict[str, Any] = dict(addresses.ArrayObject._fields_)
    names = [other if name == one else one if name == other else name for name in FIELDS]

    class Exchanged(ctypes.Structure):
        _fields_ = tuple((name, kinds[name]) for name in names)

    monkeypatch.setattr(addresses, "ArrayObject", Exchanged)
    assert not addresses.has_known_fields()


@pytest.mark.parametrize(
    ("name", "value"),
    [("_WRITEABLE", 0x200), ("_FIELD", object.__basicsize__ + 8), ("address_of", addresses._ask)],
    ids=["another flag", "objects that begin otherwise", "addresses that are asked for"],
)
def test_fields_that_disagree_with_numpy_are_not_trusted(monkeypatch: pytest.MonkeyPatch, name: str, value: Any) -> None:
    monkeypatch.setattr(addresses, name, value)
    assert not addresses.has_known_fields()
