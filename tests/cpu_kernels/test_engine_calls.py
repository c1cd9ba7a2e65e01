"""Loading and calling the compiled engine. Judge: a stand-in in C that includes its header and reports its arguments."""

from __future__ import annotations

import _ctypes
import ctypes
import gc
import random
import sys
import weakref
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dmlgather import host
from dmlgather.backends.cpu import engine
from dmlgather.backends.cpu.engine import Engine
from dmlgather.plan import OutOfBounds
from dmlgather.selftest.random_plans import random_plan
from tests.cpu_kernels import building
from tests.cpu_kernels.test_array_calls import COPY, ROWS

PACKAGE = Path(engine.__file__).parents[2]
C_POLICIES = (OutOfBounds.CLAMP, OutOfBounds.FILL, OutOfBounds.RAISE, OutOfBounds.PROMISE)
"""The policies in the order of `enum policy` in the header."""


@pytest.fixture(scope="module")
def library() -> Path:
    return building.program("engine_stand_in.c", building.LIBRARY)


@pytest.fixture(scope="module")
def stand_in(library: Path) -> Engine:
    return Engine(library)


def parsed(text: str) -> list[tuple[str, list[int]]]:
    """Return the stand-in's report: the names of the header, each with its words."""
    return [(name, [*map(int, words)]) for name, *words in map(str.split, text.splitlines())]


@given(seed=st.integers(0, 2**32))
def test_a_plan_arrives_in_the_fields_of_the_header(stand_in: Engine, seed: int) -> None:
    rng = random.Random(seed)
    plan = random_plan(rng)
    threads, units, loops = rng.randrange(1, 9), rng.randrange(99), rng.choice(("", "baseline", "avx2", "avx512"))
    fill = plan.fill + bytes(16 - len(plan.fill))
    kind = plan.index_type
    expected: list[tuple[str, Any]] = [
        ("rank", [len(plan.shape)]),
        ("lookups", [len(plan.lookups)]),
        ("element_bytes", [plan.element_bytes]),
        ("index_bytes", [0 if kind is None else np.dtype(kind.value.lower()).itemsize]),
        ("index_signed", [0 if kind is None else int(kind.value.startswith("I"))]),
        ("policy", [C_POLICIES.index(plan.out_of_bounds)]),
        *((name, [getattr(plan, name)]) for name in ("in_extent", "index_extent", "out_extent", "in_offset", "out_offset")),
        ("fill", [int.from_bytes(half, sys.byteorder, signed=True) for half in (fill[:8], fill[8:])]),
        ("threads", [threads]),
        ("block_units", [units]),
        ("loops", [{"": 0, "baseline": 1, "avx2": 2, "avx512": 3}[loops]]),
        *((name, [*getattr(plan, name)]) for name in ("shape", "out_strides", "in_strides")),
    ]
    for lookup in plan.lookups:
        expected.append(("lookup", [lookup.index_offset, lookup.limit, lookup.wrap, lookup.in_stride]))
        expected.append(("index_strides", [*lookup.index_strides]))
    assert parsed(stand_in.prepare(plan, threads, units, loops).describe()) == expected


def test_a_plan_that_the_engine_refuses_is_an_error(stand_in: Engine) -> None:
    with pytest.raises(ValueError, match=r"refuses this plan, or has no memory for it \(loops 'neon'\): shape \[6\]"):
        stand_in.prepare(COPY, loops="neon")


@pytest.mark.parametrize("policy", list(OutOfBounds))
def test_runs_pass_addresses_and_return_bad_indices(library: Path, stand_in: Engine, policy: OutOfBounds) -> None:
    plan = replace(ROWS, out_of_bounds=policy, fill=bytes(4) if policy is OutOfBounds.FILL else b"")
    program = stand_in.prepare(plan)
    data, indices, out = np.zeros(40, "f4")[5:], np.zeros(2, np.int64), np.zeros(6, "f4")
    seen = ctypes.CDLL(str(library))["last_call"]
    seen.restype = ctypes.POINTER(ctypes.c_void_p * 4)
    answer = 7 if policy is OutOfBounds.RAISE else None
    addresses = [array.ctypes.data for array in (data, indices, out)]
    assert program.bind(data, indices, out)() == answer
    assert seen().contents[1:] == addresses
    data[:] = 1
    assert program.launch(16, 32, 48) == (-1 if answer is None else answer)
    assert seen().contents[1:] == [16, 32, 48]
    stand_in.prepare(COPY).bind(data, None, out)()
    assert seen().contents[1:] == [addresses[0], None, addresses[2]]


def test_a_bound_call_keeps_its_program_and_its_arrays(library: Path, stand_in: Engine) -> None:
    frees = ctypes.CDLL(str(library))["frees"]
    frees.restype = ctypes.c_int64
    gc.collect()
    before = frees()
    data, out = np.zeros(6, "f4"), np.zeros(6, "f4")
    alive = [weakref.ref(data), weakref.ref(out)]
    program = stand_in.prepare(COPY)
    run, launch = program.bind(data, None, out), program.launch
    del program, data, out
    assert run() is None
    assert all(found() is not None for found in alive)
    del run
    assert [found() for found in alive] == [None, None]
    assert frees() == before
    del launch
    assert frees() == before + 1


def test_status_describes_the_loaded_engine(monkeypatch: pytest.MonkeyPatch, library: Path) -> None:
    monkeypatch.setattr(engine, "LIBRARY", library)
    monkeypatch.delenv("DMLGATHER_PURE", raising=False)
    monkeypatch.setenv("DMLGATHER_NUM_THREADS", "1")
    assert engine.status() == "compiled engine, avx512, 1 thread"
    assert engine.load() is engine.load()
    assert isinstance(engine.load(), Engine)


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("engine.so", f"the dmlgather that Python has imported, {PACKAGE}, has no compiled engine (engine.so): "),
        (__file__, "the compiled engine cannot be loaded: "),
        (_ctypes.__file__, "the compiled engine cannot be loaded: "),
    ],
    ids=["absent", "not a library", "a library without the functions"],
)
def test_status_says_why_there_is_no_engine(monkeypatch: pytest.MonkeyPatch, path: str, words: str) -> None:
    monkeypatch.setattr(engine, "LIBRARY", Path(path))
    monkeypatch.delenv("DMLGATHER_PURE", raising=False)
    assert engine.load() is None
    assert engine.status().startswith(words)


def test_an_engine_with_another_interface_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "LIBRARY", building.program("engine_stand_in.c", (*building.LIBRARY, "-DSTATED=7")))
    monkeypatch.delenv("DMLGATHER_PURE", raising=False)
    assert engine.load() is None
    expected = "the compiled engine cannot be loaded: it has interface 7, expected 2: install dmlgather again, or run ci/setup"
    assert engine.status().startswith(expected)


def test_the_environment_can_forbid_the_engine(monkeypatch: pytest.MonkeyPatch, library: Path) -> None:
    monkeypatch.setattr(engine, "LIBRARY", library)
    monkeypatch.setenv("DMLGATHER_PURE", "1")
    assert engine.load() is None
    assert engine.status() == "DMLGATHER_PURE is 1"
    monkeypatch.setenv("DMLGATHER_PURE", "0")
    assert engine.load() is not None
    monkeypatch.setenv("DMLGATHER_PURE", "yes")
    for asked in (engine.load, engine.status):
        with pytest.raises(ValueError, match="DMLGATHER_PURE is 'yes', expected 1 "):
            asked()


@pytest.mark.parametrize("value", ["0", "-1", "two", "1.5", " ", "²", "0" * 30])
def test_a_malformed_number_of_threads_is_refused(monkeypatch: pytest.MonkeyPatch, stand_in: Engine, value: str) -> None:
    monkeypatch.setenv("DMLGATHER_NUM_THREADS", value)
    with pytest.raises(ValueError, match=rf"DMLGATHER_NUM_THREADS is '{value}', expected a positive number of threads"):
        stand_in.prepare(COPY)


def test_threads_are_at_most_the_cpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DMLGATHER_NUM_THREADS", raising=False)
    assert host.threads() == host.cpus()
    monkeypatch.setenv("DMLGATHER_NUM_THREADS", str(10**30))
    assert host.threads() == host.cpus()
    monkeypatch.setenv("DMLGATHER_NUM_THREADS", "1")
    assert host.threads() == 1
