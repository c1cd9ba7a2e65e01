"""The engine's calls on unconverted arrays of NumPy: the arrays it accepts, and the addresses it passes on. Judge: NumPy.

A stand-in runs the programs, so that an engine that accepts wrong arrays is noticed before it touches their memory.
"""

from __future__ import annotations

import ctypes
import gc
import sys
import warnings
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pytest
from numpy.lib.array_utils import byte_bounds

from dmlgather.backends.cpu.engine import SMALL, Engine
from dmlgather.backends.devices import CPU
from dmlgather.backends.footprints import WRITEABLE, logical, signature_on
from dmlgather.plan import IndexPlan, IndexType, Lookup, OutOfBounds
from tests import processes
from tests.cpu_kernels import building
from tests.cpu_kernels.engines import Mutation

Arrays: TypeAlias = list[Any]
LOOKUP = Lookup((1, 0), index_offset=0, limit=10, wrap=10, in_stride=3)
ROWS = IndexPlan((2, 3), (3, 1), (0, 1), 4, 30, 6, lookups=(LOOKUP,), index_type=IndexType.INT64, index_extent=2)
COPY = IndexPlan((6,), (1,), (1,), 4, 6, 6)


def call_arrays() -> Arrays:
    """Return data with negative strides, whose lowest element is not its first, indices, and an output between other elements.
    They lie far apart in one room.
    """
    room = np.zeros(4096, np.uint8)
    x = room[256:496].view("f4").reshape(10, 6)[::-1, ::-2]
    return [x, room[1024:1040].view("i8")[None], room[2048:2096].view("f4").reshape(2, 6)[:, 1:4]]


def frozen(array: Any) -> Any:
    array.setflags(write=False)
    return array


def over(array: Any, out: Any, shift: int) -> Any:
    """Return an array like `out` in the room of `array`, `shift` bytes after its first byte."""
    start = byte_bounds(array)[0] - byte_bounds(array.base)[0] + shift
    return np.ndarray(out.shape, out.dtype, array.base, start, out.strides)


def around(out: Any) -> int:
    low, high = byte_bounds(out)
    return high - low


@dataclass(frozen=True)
class Case:
    """Differences between a call's arrays and those of its signatures, and whether the call accepts them."""

    changed: Callable[[Any, Any, Any], Sequence[Any]]
    taken: bool = False


CASES = {
    "the same arrays": Case(lambda x, i, y: (x, i, y), taken=True),
    "others of the same signatures": Case(lambda x, i, y: call_arrays(), taken=True),
    "read-only inputs": Case(lambda x, i, y: (frozen(x), frozen(i), y), taken=True),
    "an output that ends where the data begins": Case(lambda x, i, y: (x, i, over(x, y, -around(y))), taken=True),
    "an output that begins where the data ends": Case(lambda x, i, y: (x, i, over(x, y, around(x))), taken=True),
    "an output that ends where the indices begin": Case(lambda x, i, y: (x, i, over(i, y, -around(y))), taken=True),
    "an output that begins where the indices end": Case(lambda x, i, y: (x, i, over(i, y, around(i))), taken=True),
    "another type of the data": Case(lambda x, i, y: (x.view("i4"), i, y)),
    "another type of the output": Case(lambda x, i, y: (x, i, y.view("i4"))),
    "indices without a sign": Case(lambda x, i, y: (x, i.view("u8"), y)),
    "fewer rows": Case(lambda x, i, y: (x[:9], i, y)),
    "more columns of the output": Case(lambda x, i, y: (x, i, np.zeros((2, 6), "f4")[:, 1:5])),
    "other strides of the data": Case(lambda x, i, y: (x[::-1], i, y)),
    "other strides of the last dimension": Case(lambda x, i, y: (x[:, ::-1], i, y)),
    "a dimension more": Case(lambda x, i, y: (x, i, y[..., None])),
    "a dimension less": Case(lambda x, i, y: (x, i[0], y)),
    "no dimension": Case(lambda x, i, y: (x, i, np.zeros((), "f4"))),
    "a read-only output": Case(lambda x, i, y: (x, i, frozen(y))),
    "an output that begins before the data ends": Case(lambda x, i, y: (x, i, over(x, y, around(x) - 1))),
    "an output that ends behind the data's begin": Case(lambda x, i, y: (x, i, over(x, y, 1 - around(y)))),
    "an output that begins before the indices end": Case(lambda x, i, y: (x, i, over(i, y, around(i) - 1))),
    "an output that ends behind the indices' begin": Case(lambda x, i, y: (x, i, over(i, y, 1 - around(y)))),
    "a subclass": Case(lambda x, i, y: (x.view(np.recarray), i, y)),
    "no array": Case(lambda x, i, y: (x, i, None)),
    "a list": Case(lambda x, i, y: (x, i.tolist(), y)),
    "an array too few": Case(lambda x, i, y: (x, i)),
    "an array too many": Case(lambda x, i, y: (x, i, y, y)),
    "no arrays": Case(lambda x, i, y: ()),
}


class StandIn:
    """An engine that only records its arguments."""

    def __init__(self, library: Path) -> None:
        self.engine, functions = Engine(library), ctypes.CDLL(str(library))
        self._seen, self._held = functions["last_call"], functions["lock_held"]
        self._seen.restype = ctypes.POINTER(ctypes.c_void_p * 4)

    def call(self, plan: IndexPlan, arrays: Arrays) -> Callable[..., bool]:
        """Return a call for arrays of these signatures."""
        found = [signature_on(CPU, array) for array in arrays]
        spans = [(each.start, each.end) for each in (logical("", signature) for signature in found)]
        made = self.engine.prepare(plan).fast_path(found, spans)
        assert made is not None
        return made

    def seen(self) -> list[int]:
        """The addresses of the last run: data, indices, output."""
        return [pointer or 0 for pointer in self._seen().contents[1:]]

    def held(self) -> bool:
        """Whether the last run held Python's lock."""
        return bool(self._held())


@pytest.fixture(scope="module")
def stand_in() -> StandIn:
    return StandIn(building.program("engine_stand_in.c", building.LIBRARY))


def wrong(stand_in: StandIn, case: Case) -> str:
    """Return the faults of a call in this case."""
    first = call_arrays()
    call = stand_in.call(ROWS, first)
    arrays = case.changed(*first)
    taken = call(*arrays)
    if taken is not case.taken:
        return f"taken: {taken}"
    if taken and stand_in.seen() != (lowest := [byte_bounds(array)[0] for array in arrays]):
        return f"addresses {stand_in.seen()}, expected {lowest}"
    return ""


@pytest.mark.parametrize("name", CASES)
def test_a_call_takes_only_arrays_of_its_signatures(stand_in: StandIn, name: str) -> None:
    assert not wrong(stand_in, CASES[name])


CHANGES: dict[str, Any] = {"shape": (3, 10), "strides": (4, 40), "dtype": np.dtype("i4")}


@pytest.mark.parametrize("name", CHANGES)
def test_an_array_that_changes_in_place_is_noticed(stand_in: StandIn, name: str) -> None:
    arrays = [np.zeros((10, 3), "f4"), np.array([[3, 4]]), np.zeros((2, 3), "f4")]
    call, before = stand_in.call(ROWS, arrays), getattr(arrays[0], name)
    for value, taken in ((before, True), (CHANGES[name], False), (before, True)):
        with warnings.catch_warnings(action="ignore", category=DeprecationWarning):
            setattr(arrays[0], name, value)
        assert call(*arrays) is taken


def test_the_address_of_a_resized_array_is_current(stand_in: StandIn) -> None:
    x, y = np.zeros(6, "f4"), np.zeros(6, "f4")
    call = stand_in.call(COPY, [x, y])
    for size in (1 << 20, 6):
        y.resize(size, refcheck=False)
        assert call(x, y) is (size == 6)
    assert stand_in.seen() == [x.ctypes.data, 0, y.ctypes.data]


def test_arrays_without_dimensions_or_elements_are_taken(stand_in: StandIn) -> None:
    one = IndexPlan((), (), (), 4, 1, 1)
    for shape, plan in (((), one), ((0, 3), COPY), ((1,) * 64, one)):
        x, y = np.zeros(shape, "f4"), np.zeros(shape, "f4")
        call = stand_in.call(plan, [x, y])
        assert call(x, y)
        assert stand_in.seen() == [x.ctypes.data, 0, y.ctypes.data]
        assert not call(x, np.zeros((*shape, 1)[-64:], "f8"))


def test_a_call_with_a_bad_index_is_not_taken(stand_in: StandIn) -> None:
    arrays = call_arrays()
    assert not stand_in.call(replace(ROWS, out_of_bounds=OutOfBounds.RAISE), arrays)(*arrays)
    assert stand_in.seen()[2] == arrays[2].ctypes.data


@pytest.mark.parametrize("elements", [SMALL // 4, SMALL // 4 + 1])
def test_only_large_calls_release_the_interpreter_lock(stand_in: StandIn, elements: int) -> None:
    arrays = [np.zeros(elements, "f4"), np.zeros(elements, "f4")]
    call = stand_in.call(IndexPlan((elements,), (1,), (1,), 4, elements, elements), arrays)
    assert call(*arrays)
    assert stand_in.held() is (elements * 4 <= SMALL)


def test_impossible_strides_have_no_fast_path(stand_in: StandIn) -> None:
    """A caller may state such strides for one element or none."""
    stated = (np.dtype("f4"), (1, 6), (2**63, 4), WRITEABLE)
    assert stand_in.engine.prepare(COPY).fast_path([stated, stated], [(0, 24), (0, 24)]) is None


def test_a_call_keeps_its_program_and_no_array(stand_in: StandIn) -> None:
    frees = ctypes.CDLL(str(building.program("engine_stand_in.c", building.LIBRARY)))["frees"]
    arrays, counts = call_arrays(), list[int]()
    call = stand_in.call(ROWS, arrays)
    gc.collect()
    before = frees()
    for times in (1, 100):
        assert all(call(*arrays) for _ in range(times))
        counts.append(sum(map(sys.getrefcount, arrays)))
    assert counts[0] == counts[1]
    assert frees() == before
    del call
    assert frees() == before + 1


def test_a_call_keeps_its_engine_alive() -> None:
    """Threads whose first calls race may load it twice. Only the calls keep one of the two alive."""
    found = StandIn(building.program("engine_stand_in.c", building.LIBRARY))
    engine, call = weakref.ref(found.engine), found.call(ROWS, arrays := call_arrays())
    del found
    gc.collect()
    assert engine() is not None
    assert call(*arrays)
    del call
    gc.collect()
    assert engine() is None


BROKEN = {
    "any class": ("array->type != python.array_type || ", "", "a subclass"),
    "any type of elements": ("array->element_type != form->element_type || ", "", "another type of the output"),
    "any number of dimensions": (" || array->rank != form->rank", "", "a dimension more"),
    "any sizes": ("array->sizes[d] != form->steps[d] || ", "", "fewer rows"),
    "any strides": (" || array->strides[d] != form->steps[form->rank + d]", "", "other strides of the data"),
    "the first size and stride alone": ("d < form->rank; ++d", "d < 1; ++d", "other strides of the last dimension"),
    "sizes in the place of strides": ("form->steps[form->rank + d]", "form->steps[d]", "the same arrays"),
    "any number of arrays": ("if (count != call->count) return", "if (count > call->count) return", "an array too few"),
    "outputs that cannot be written": (
        "arrays[out])->flags & WRITEABLE",
        "arrays[out])->flags | WRITEABLE",
        "a read-only output",
    ),
    "inputs that can be written": ("arrays[out])->flags & WRITEABLE", "arrays[0])->flags & WRITEABLE", "read-only inputs"),
    "the pointer taken for the lowest element": ("array->data + (uintptr_t)form->start", "array->data", "the same arrays"),
    "an end too early": ("low[out] < high[i]", "low[out] + 1 < high[i]", "an output that begins before the data ends"),
    "an end too late": ("low[out] < high[i]", "low[out] <= high[i]", "an output that begins where the data ends"),
    "a begin too late": ("low[i] < high[out]", "low[i] + 1 < high[out]", "an output that ends behind the data's begin"),
    "a begin too early": ("low[i] < high[out]", "low[i] <= high[out]", "an output that ends where the data begins"),
    "indices that are written": ("i < out; ++i", "i < 1; ++i", "an output that begins before the indices end"),
    "no overlap is looked for": ("low[i] < high[out] && ", "0 && ", "an output that ends behind the indices' begin"),
    "no indices": ("out > 1 ? (void *)low[1]", "out > 2 ? (void *)low[1]", "the same arrays"),
}
"""Errors in the engine's call: the replaced text, its replacement, and the case that notices it."""


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_call_is_noticed(tmp_path: Path, name: str) -> None:
    before, after, case = BROKEN[name]
    engine = Mutation("arrays.c", before, after).engine(tmp_path)
    assert wrong(StandIn(building.program("engine_stand_in.c", (*building.LIBRARY, "-Wno-error"), engine)), CASES[case])


def test_nothing_beyond_a_call_is_read() -> None:
    """AddressSanitizer and UBSan check array objects and a record whose parts have exactly the needed size."""
    driver = building.program("array_calls_driver.c", building.ADDRESS)
    done = processes.run([driver])
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
