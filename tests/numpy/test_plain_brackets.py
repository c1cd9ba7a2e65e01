"""Brackets of plain entries, written anew for each call: a call that is known gives what NumPy gives. NumPy judges."""

from __future__ import annotations

import contextlib
import random
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dmlgather as dg
from dmlgather.calls import prepared
from dmlgather.numpy import index_expression
from dmlgather.numpy.plain_brackets import call_key, is_plain
from tests import seeds
from tests.at_once import at_once
from tests.chain_count import each_seed
from tests.dialects.brackets import Spelling, random_bits, some_key
from tests.dialects.expressions import numpys
from tests.dialects.outcomes import content

ROWS = np.arange(40, dtype=np.float32).reshape(8, 5)
IDS = np.array([3, -1, 0])
LONG = np.broadcast_to(np.float32(0), (1, 2**60))


def judged(seed: int) -> bool:
    """Brackets of a seed on other data of the same type and shape, and with other index arrays, three times. Whether NumPy takes
    them.
    """
    rng = random.Random(seed)
    data = random_bits(rng, rng.choice(("int64", "float32", "uint8", "complex128")))
    key, good = some_key(rng, data.shape, Spelling(), far=rng.choice((0.0, 0.0, 0.3))), 0
    for number in range(3):
        data = np.roll(data, 1)
        entries = tuple(np.roll(entry, number) if isinstance(entry, np.ndarray) and entry.ndim else entry for entry in key)
        expected = numpys(data, entries)
        if isinstance(expected, Exception):
            with pytest.raises(IndexError):
                dg.index[entries](data)
            continue
        good += 1
        out = np.empty(expected.shape, data.dtype)
        for found in (dg.index[entries](data), dg.index[entries](data, out=out)):
            assert content(found) == content(expected), entries
        assert found is out
    return good > 0


def test_brackets_written_anew_give_what_numpy_gives() -> None:
    assert sum(each_seed(judged, 150)) > 50


@pytest.mark.parametrize(
    "key",
    [
        IDS,
        IDS.reshape(3, 1),
        np.array([3, 7, 0], "u4"),
        (slice(2, None), IDS),
        (IDS, slice(None, None, -1)),
        (..., IDS),
        (None, 2, IDS),
        3,
    ],
    ids=str,
)
def test_a_call_that_is_known_makes_nothing_of_its_entries(monkeypatch: pytest.MonkeyPatch, key: Any) -> None:
    prepared.forget()
    entries = key if isinstance(key, tuple) else (key,)
    dg.index[key](ROWS)
    monkeypatch.setattr(index_expression, "parse_entry", lambda *_: pytest.fail("an entry is read"))
    for shift in range(3):
        data = ROWS + shift
        anew = tuple(
            entry.copy() - shift % 2 if isinstance(entry, np.ndarray) and entry.dtype.kind == "i" else entry for entry in entries
        )
        anew = tuple(np.where(entry < -5, 0, entry) if isinstance(entry, np.ndarray) else entry for entry in anew)
        assert dg.index[anew](data).tobytes() == data[anew].tobytes()


@pytest.mark.parametrize(
    "item",
    [True, np.True_, np.int64(1), 2**63, -(2**63) - 1, [0, 1], (0, 1), IDS.view(np.recarray), np.array(1), IDS > 0,
     IDS.astype(">i8"), IDS.astype(np.uint64), IDS.astype(float),
     slice(np.int64(0), 3), slice(True, 2), slice(0.0, 1), ((3,), "int64"), "a"],
    ids=repr,
)  # fmt: skip
def test_an_entry_that_has_to_be_read_at_once_is_not_plain(item: Any) -> None:
    assert not is_plain((0, item))


def test_several_index_arrays_are_not_plain() -> None:
    assert is_plain((IDS, 0))
    assert not is_plain((IDS, 0, IDS))


def key(items: tuple[Any, ...], x: Any, out: Any = None) -> Any:
    found = call_key(items, x, out)
    assert found is not None
    return found[0]


def test_entries_that_mean_something_else_have_another_key() -> None:
    entries: list[tuple[Any, ...]] = [
        (0,), (None,), (...,), (slice(0),), (slice(None),), (slice(None), None), (slice(0, None),), (slice(None, None, 0),),
        (0, 0), (0, None), (IDS,), (IDS[:2],), (IDS[::-1],), (IDS[:, None],), (IDS.astype("i4"),), (IDS.astype("u4"),), (IDS, 0),
        (0, IDS), (IDS, slice(0)), (slice(0), IDS),
    ]  # fmt: skip
    assert all(map(is_plain, entries))
    others = [ROWS[:4], ROWS.astype("i4"), ROWS.T, ROWS[::-1]]
    outs = [None, np.zeros(3), np.zeros(3, "i8"), np.zeros((3, 1)), np.zeros(6)[::2]]
    keys = [key(each, ROWS) for each in entries]
    keys += [key((0,), each, out) for each in others for out in outs]
    assert len(set(keys)) == len(keys)
    assert key((IDS, 0), ROWS) == key((IDS + 1, 0), ROWS + 1)


def test_an_error_is_said_at_each_call() -> None:
    calls: list[tuple[type[Exception], str, Callable[[], Any]]] = [
        (IndexError, r"indices\[1\] = 8 is out of range for axis 0 of size 8", lambda: dg.index[np.array([0, 8, 1])](ROWS)),
        (ValueError, "overlaps input", lambda: dg.index[IDS](ROWS, out=ROWS[:3])),
        (ValueError, "read-only", lambda: dg.index[IDS](ROWS, out=np.broadcast_to(np.float32(0), (3, 5)))),
        (ValueError, "expected", lambda: dg.index[IDS](ROWS, out=np.empty((3, 4), np.float32))),
        (TypeError, "expected", lambda: dg.index[IDS](ROWS, out=np.empty((3, 5), np.float64))),
        (IndexError, "entry 0 is 9, which is out of range", lambda: dg.index[9](ROWS)),
        (IndexError, "entries 0 and 1 are ellipses", lambda: dg.index[..., ...](ROWS)),
        (ValueError, "an array spans at most", lambda: dg.index[IDS * 0](LONG)),
        (ValueError, "an array spans at most", lambda: dg.index[np.zeros((0, 3), np.int64)](LONG)),
        (ValueError, "the step must not be 0", lambda: dg.index[::0](ROWS)),
    ]
    good = np.empty((3, 5), np.float32)
    for error, words, call in calls:
        for _ in range(3):
            assert dg.index[IDS](ROWS).tobytes() == dg.index[IDS](ROWS, out=good).tobytes() == ROWS[IDS].tobytes()
            with pytest.raises(error, match=words):
                call()


def test_an_index_array_that_changes_is_read_as_it_is_now() -> None:
    ids: Any = IDS.copy()
    kept = dg.index[ids]
    for number in range(4):
        ids[...] = seeds.numpy_rng().integers(-8, 8, 3) if number else IDS
        assert kept(ROWS).tobytes() == ROWS[ids].tobytes()
    assert str(kept) == "dg.index[int64 [3]]"
    assert [array is ids for array in kept.indices] == [True]


@pytest.mark.parametrize("change", [lambda ids: ids.resize(6, refcheck=False), lambda ids: setattr(ids, "dtype", "i4")])
def test_an_index_array_changed_in_place_spoils_no_other_call(change: Callable[[Any], None]) -> None:
    """What the expression itself gives is not promised."""
    prepared.forget()
    ids = np.arange(3)
    kept = dg.index[ids]
    kept(ROWS)
    with warnings.catch_warnings():  # newer NumPy warns of a type that is set
        warnings.simplefilter("ignore")
        change(ids)
    with contextlib.suppress(ValueError):
        kept(ROWS)
    other = np.array(ids)[::-1].copy()
    assert np.array_equal(dg.index[other](ROWS), ROWS[other])


def test_a_policy_and_a_device_are_no_part_of_what_is_known() -> None:
    far = IDS + 100
    for _ in range(3):
        with pytest.raises(IndexError):
            dg.index[far](ROWS)
        assert dg.index[far](ROWS, out_of_bounds="clamp").tobytes() == ROWS[[7, 7, 7]].tobytes()
        assert dg.index[far](ROWS, out_of_bounds=dg.Fill(1)).tobytes() == np.ones((3, 5), np.float32).tobytes()
        assert dg.index[IDS](ROWS, device="reference").tobytes() == dg.index[IDS](ROWS).tobytes()
        with pytest.raises(TypeError, match="stream"):
            dg.index[IDS](ROWS, stream="none")


def test_strings_objects_and_types_of_any_size_are_moved() -> None:
    for data in (
        np.array(["a", "bc", "d"]),
        np.array([None, "x", 3.5], object),
        np.arange(48, dtype="u1").view("V16"),
        np.zeros(3, ">i2"),
    ):
        for _ in range(3):
            found = dg.index[np.array([2, 0])](data)
            assert (found.dtype, found.tolist()) == (data.dtype, data[[2, 0]].tolist())


def test_no_brackets_and_empty_ones_are_not_the_same() -> None:
    with pytest.raises(ValueError, match="no steps"):
        dg.index(ROWS)
    for _ in range(3):
        assert dg.index[()](ROWS).tobytes() == ROWS.tobytes()


def test_threads_may_write_brackets_at_once() -> None:
    def right(number: int) -> bool:
        rng = np.random.default_rng(number)
        for _ in range(60):
            data, ids = rng.random((rng.integers(1, 4), 3)), rng.integers(0, 1, rng.integers(1, 4))
            if not np.array_equal(dg.index[ids](data), data[ids]):
                return False
        return True

    prepared.forget()
    assert all(at_once(right, range(4)))
