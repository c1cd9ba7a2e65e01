"""The compiled engine, called by ctypes. Large calls give up the interpreter lock. `cpu_kernels/engine.h` has its functions."""

from __future__ import annotations

import ctypes
import sys
from array import array
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import lru_cache, partial
from math import prod
from pathlib import Path
from struct import unpack
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dmlgather import host
from dmlgather.backends.addresses import address_of, has_known_fields
from dmlgather.backends.footprints import ArrayCall, Signature
from dmlgather.plan import IndexPlan, OutOfBounds
from dmlgather.wording import counted

NAME = {"win32": "dmlgather.dll", "darwin": "libdmlgather.dylib"}.get(sys.platform, "libdmlgather.so")
LIBRARY = Path(__file__).with_name(NAME)
INTERFACE = 2
"""Of the header: the number changes with every change of the words or the functions."""
POLICIES = (OutOfBounds.CLAMP, OutOfBounds.FILL, OutOfBounds.RAISE, OutOfBounds.PROMISE)
SMALL = 4096
"""Bytes of an output, and indices, up to which a call keeps the interpreter lock: to give it up takes as long as the call."""
METH_FASTCALL = 0x80
"""Of Python's C interface: a function that takes its arguments as a pointer and a number."""
LOOPS = ("", "baseline", "avx2", "avx512", "neon")
"""Instruction sets; "" is the best one of this machine. Both tables are in the order of the C enums."""


class Engine:
    """A loaded library."""

    def __init__(self, path: Path) -> None:
        """OSError where it is no library of this platform or has another interface, AttributeError where it lacks a function."""
        library, holding = ctypes.CDLL(str(path)), ctypes.PyDLL(str(path))
        pointer, number = ctypes.c_void_p, ctypes.c_int64

        def function(name: str, result: Any, *arguments: Any, of: ctypes.CDLL = library) -> Any:
            found: Any = of[f"dmlgather_{name}"]  # a new object each time, with its own types
            found.restype, found.argtypes = result, arguments or None
            return found

        if (interface := function("interface", number)()) != INTERFACE:
            remedy = "install dmlgather again, or run ci/setup in a checkout"
            raise OSError(f"it has interface {interface}, expected {INTERFACE}: {remedy}")
        # It reads the environment, which other threads change only while they hold the interpreter lock: so it holds that too.
        self._prepare = function("prepare", pointer, pointer, number, of=holding)
        self._free, self.text = function("free", None, pointer), function("describe", ctypes.c_char_p, pointer)
        ways = (library, holding)  # by whether the interpreter lock is held
        self.run = [function("run", number, *(pointer,) * 4, of=way) for way in ways]
        self.run_bound = [function("run_bound", number, of=way) for way in ways]
        self.run_bound_silently = [function("run_bound", None, of=way) for way in ways]
        self.array_call = _array_calls(library) if has_known_fields() else None
        """Makes a function of an `_ArrayForms`; None where nobody knows how arrays lie in memory."""

    def prepare(self, plan: IndexPlan, threads: int = 0, block_units: int = 0, loops: str = "") -> EngineProgram:
        """The program for a canonical plan. threads, block_units, loops: for tests; 0 and "" as measured.

        ValueError when the engine refuses the plan, has no memory for it, or the machine lacks the loops; SettingError as
        `host.threads`.
        """
        host.threads()  # The engine reads the same variable, and ignores what is no number.
        words = array("q", _words(plan, threads, block_units, LOOPS.index(loops)))
        program = self._prepare(words.buffer_info()[0], len(words))
        if program is None:
            raise ValueError(f"the compiled engine refuses this plan, or has no memory for it (loops {loops!r}): {plan}")
        handle = _Handle(program)
        handle.free = self._free
        return EngineProgram(self, plan, handle)


class EngineProgram:
    """An immutable program of the engine, made by `Engine.prepare`. Threads may share it.

    launch: takes the addresses of the extents' first elements in data, indices (0 without lookups) and output, and returns -1, or
    under RAISE the smallest offset (elements of the index tensor) of a bad index. The caller keeps the memory alive.
    """

    def __init__(self, engine: Engine, plan: IndexPlan, handle: _Handle) -> None:
        self._engine, self._handle, self._raises = engine, handle, plan.out_of_bounds is OutOfBounds.RAISE
        self._small = max(prod(plan.shape) * plan.element_bytes, plan.index_extent) <= SMALL  # RAISE checks also for no output
        self.launch: Callable[[int, int, int], int] = partial(engine.run[self._small], handle)

    def bind(self, data: NDArray[Any], indices: NDArray[Any] | None, out: NDArray[Any]) -> Callable[[], int | None]:
        """A function that runs on these arrays, whose first elements are those of the extents. It returns None, or a bad index as
        `launch` states it, keeps the arrays alive, and calls one function with one argument that is made here.
        """
        call = _BoundCall(self._handle.value, address_of(data), 0 if indices is None else address_of(indices), address_of(out))
        call.keeps = (self._handle, data, indices, out)
        argument = ctypes.byref(call)  # keeps `call`
        if not self._raises:
            return partial(self._engine.run_bound_silently[self._small], argument)
        execute: Callable[[], int] = partial(self._engine.run_bound[self._small], argument)
        return lambda: None if (bad := execute()) < 0 else bad

    def array_call(self, arrays: Sequence[Signature], spans: Sequence[tuple[int, int]]) -> ArrayCall | None:
        """What runs on arrays of these signatures, inputs first, and keeps the program alive. None where nothing reads arrays.

        spans: for each array, bytes from its pointer to the first element of the extent, and to the end of the last one.
        """
        if self._engine.array_call is None:
            return None
        words = [self._handle.value or 0, int(self._small), len(arrays)]
        for (dtype, shape, strides, _), (start, end) in zip(arrays, spans, strict=True):
            words += [id(dtype), len(shape), start, end - start, *shape, *strides]
        try:
            forms = _ArrayForms(array("q", words))
        except OverflowError:  # no array has strides that are no 64-bit integers; a caller may state them
            return None
        # The engine keeps the method; types are compared by their ids.
        forms.keeps = self._engine, self._handle, [dtype for dtype, *_ in arrays]
        return self._engine.array_call(forms)

    def describe(self) -> str:
        """The inner loop, units, blocks and threads."""
        return str(self._engine.text(self._handle), "ascii")


class _Handle(ctypes.c_void_p):
    """Owns a C program, which is freed with it."""

    free: Callable[[_Handle], None]

    def __del__(self) -> None:
        self.free(self)


class _BoundCall(ctypes.Structure):
    """The header's `bound_call`, and the owners of what it points at."""

    _fields_ = tuple((name, ctypes.c_void_p) for name in ("program", "data", "indices", "out"))
    keeps: tuple[Any, ...]


class _ArrayForms(bytes):
    """The header's `array_call`, and the owners of what it points at."""

    keeps: tuple[Engine, _Handle, list[np.dtype[Any]]]


class _PythonFunctions(ctypes.Structure):
    """The header's `python_functions`."""

    _fields_ = tuple((name, ctypes.c_void_p) for name in ("array_type", "bytes_of", "truth", "unlock", "lock"))


class _Method(ctypes.Structure):
    """PyMethodDef of Python's C interface."""

    _fields_ = (("name", ctypes.c_char_p), ("function", ctypes.c_void_p), ("flags", ctypes.c_int), ("doc", ctypes.c_char_p))


def _array_calls(library: ctypes.CDLL) -> Callable[[_ArrayForms], ArrayCall]:
    """What makes builtin functions of the header's `dmlgather_call`: these take arrays as they are, which ctypes does not."""
    taken = ("PyBytes_AsString", "PyBool_FromLong", "PyEval_SaveThread", "PyEval_RestoreThread")
    addresses = (ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p) for name in taken)
    use: Any = library["dmlgather_use"]
    use(ctypes.byref(_PythonFunctions(id(np.ndarray), *addresses)))
    method = _Method(b"run", ctypes.cast(library["dmlgather_call"], ctypes.c_void_p), METH_FASTCALL, None)
    new: Any = ctypes.pythonapi["PyCFunction_NewEx"]
    new.restype, new.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)
    return lambda forms: new(ctypes.addressof(method), forms, None)  # keeps `method`


def _words(plan: IndexPlan, *options: int) -> list[int]:
    kind = plan.index_type
    words = [plan.rank, len(plan.lookups), plan.element_bytes, *((kind.bytes, int(kind.signed)) if kind else (0, 0))]
    words += [POLICIES.index(plan.out_of_bounds), plan.in_extent, plan.index_extent, plan.out_extent]
    words += [plan.in_offset, plan.out_offset, *unpack("2q", plan.fill.ljust(16, b"\0")), *options]
    words += [*plan.shape, *plan.out_strides, *plan.in_strides]
    for lookup in plan.lookups:
        words += [lookup.index_offset, lookup.limit, lookup.wrap, lookup.in_stride, *lookup.index_strides]
    return words


def load() -> Engine | None:
    """The engine; None where there is none, and `status` says why. SettingError as `host.is_pure`."""
    return _found(host.is_pure(), LIBRARY)[0]


def status() -> str:
    """One line: the engine, its instruction set and threads, or why there is none. SettingError as `load` and `host.threads`."""
    engine, why = _found(host.is_pure(), LIBRARY)
    return why if engine is None else f"compiled engine, {instruction_sets(engine)[0]}, {counted(host.threads(), 'thread')}"


def instruction_sets(engine: Engine) -> tuple[str, ...]:
    """Those of `LOOPS` that this machine has and the engine has loops for, the best one first. SettingError as `prepare`."""
    host.threads()
    least = IndexPlan((1,), (1,), (1,), element_bytes=1, in_extent=1, out_extent=1)
    found = []
    for loops in ("avx512", "avx2", "neon", "baseline"):
        with suppress(ValueError):
            engine.prepare(least, threads=1, loops=loops)
            found.append(loops)
    return tuple(found)


@lru_cache
def _found(pure: bool, path: Path) -> tuple[Engine | None, str]:
    """The engine in a file, or why it is not used."""
    if pure or not path.exists():
        absent = f"this installation has no compiled engine ({path.name}): install dmlgather anew, without DMLGATHER_PURE=1"
        return None, "DMLGATHER_PURE is 1" if pure else absent
    try:
        return Engine(path), ""
    except (OSError, AttributeError) as error:
        return None, f"the compiled engine cannot be loaded: {error}"
