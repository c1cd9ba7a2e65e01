"""The compiled CPU engine, called by ctypes. `cpu_kernels/engine.h` declares the C functions."""

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
from dmlgather.backends.footprints import FastPath, Signature
from dmlgather.plan import IndexPlan, OutOfBounds
from dmlgather.wording import counted

NAME = {"win32": "dmlgather.dll", "darwin": "libdmlgather.dylib"}.get(sys.platform, "libdmlgather.so")
LIBRARY = Path(__file__).with_name(NAME)
INTERFACE = 2
"""Version of the C functions in `engine.h` and of the words that describe a plan."""
POLICIES = (OutOfBounds.CLAMP, OutOfBounds.FILL, OutOfBounds.RAISE, OutOfBounds.PROMISE)
SMALL = 4096
"""Calls with more output bytes or indices release the interpreter lock."""
METH_FASTCALL = 0x80
"""Flag of Python's C API: the function gets its arguments as an array."""
LOOPS = ("", "baseline", "avx2", "avx512", "neon")
"""Instruction sets in the order of the C enum. "" is the best one of this machine."""


class Engine:
    """The shared library of the compiled engine."""

    def __init__(self, path: Path) -> None:
        """Load the library.

        Raises OSError if it is for another platform or has another interface, and AttributeError if it lacks a function.
        """
        # Functions of a CDLL release the interpreter lock while they run; those of a PyDLL hold it.
        releasing, holding = ctypes.CDLL(str(path)), ctypes.PyDLL(str(path))
        pointer, number = ctypes.c_void_p, ctypes.c_int64

        def function(name: str, result: Any, *arguments: Any, of: ctypes.CDLL = releasing) -> Any:
            new: Any = of[f"dmlgather_{name}"]  # unlike an attribute of `of`, a new object each time
            new.restype, new.argtypes = result, arguments or None
            return new

        if (interface := function("interface", number)()) != INTERFACE:
            remedy = "install dmlgather again, or run ci/setup in a checkout"
            raise OSError(f"it has interface {interface}, expected {INTERFACE}: {remedy}")
        # `prepare` holds the interpreter lock because it reads the environment. Other threads change the environment only
        # while they hold the lock.
        self._prepare = function("prepare", pointer, pointer, number, of=holding)
        self._free, self.text = function("free", None, pointer), function("describe", ctypes.c_char_p, pointer)
        libraries = (releasing, holding)  # libraries[True] holds the interpreter lock
        self.run = [function("run", number, *(pointer,) * 4, of=library) for library in libraries]
        self.run_bound = [function("run_bound", number, of=library) for library in libraries]
        self.run_bound_silently = [function("run_bound", None, of=library) for library in libraries]
        self.fast_path = _fast_path_maker(releasing) if has_known_fields() else None
        """Function that makes a fast path. None if array objects have unexpected fields."""

    def prepare(self, plan: IndexPlan, threads: int = 0, block_units: int = 0, loops: str = "") -> EngineProgram:
        """Prepare a canonical plan. Raises ValueError if the engine refuses it, such as for a missing instruction set."""
        host.threads()  # raises for a wrong DMLGATHER_NUM_THREADS; the engine would ignore the value
        words = array("q", _words(plan, threads, block_units, LOOPS.index(loops)))
        program = self._prepare(words.buffer_info()[0], len(words))
        if program is None:
            raise ValueError(f"the compiled engine refuses this plan, or has no memory for it (loops {loops!r}): {plan}")
        handle = _Handle(program)
        handle.free = self._free
        return EngineProgram(self, plan, handle)


class EngineProgram:
    """A plan prepared by the engine. It is immutable and thread-safe.

    `launch`: function that takes the lowest addresses of data, indices (0 without lookups) and output, and executes the plan.
    It returns the smallest offset of a bad index under RAISE, else -1. The caller must keep the memory alive.
    """

    def __init__(self, engine: Engine, plan: IndexPlan, handle: _Handle) -> None:
        self._engine, self._handle, self._raises = engine, handle, plan.out_of_bounds is OutOfBounds.RAISE
        # RAISE also checks the indices of empty outputs.
        self._small = max(prod(plan.shape) * plan.element_bytes, plan.index_extent) <= SMALL
        self.launch: Callable[[int, int, int], int] = partial(engine.run[self._small], handle)

    def bind(self, data: NDArray[Any], indices: NDArray[Any] | None, out: NDArray[Any]) -> Callable[[], int | None]:
        """Return a function that runs the plan on these arrays, and keeps them alive.

        The function returns None, or under RAISE the smallest offset of a bad index.
        """
        call = _BoundCall(self._handle.value, address_of(data), 0 if indices is None else address_of(indices), address_of(out))
        call.owners = (self._handle, data, indices, out)
        argument = ctypes.byref(call)  # keeps `call` alive
        if not self._raises:
            return partial(self._engine.run_bound_silently[self._small], argument)
        execute: Callable[[], int] = partial(self._engine.run_bound[self._small], argument)
        return lambda: None if (bad := execute()) < 0 else bad

    def fast_path(self, arrays: Sequence[Signature], spans: Sequence[tuple[int, int]]) -> FastPath | None:
        """Return a builtin function that runs the plan on arrays with these signatures, or None.

        `spans`: for each array, the distance in bytes from its pointer to its lowest address, and to its end.
        """
        if self._engine.fast_path is None:
            return None
        words = [self._handle.value or 0, int(self._small), len(arrays)]
        for (dtype, shape, strides, _), (start, end) in zip(arrays, spans, strict=True):
            words += [id(dtype), len(shape), start, end - start, *shape, *strides]
        try:
            record = _FastPathRecord(array("q", words))
        except OverflowError:  # a stated stride does not fit 64 bits; no array has this stride
            return None
        # Keep the data types, because the C code compares their ids. Keep the engine, because it owns the method.
        record.owners = self._engine, self._handle, [dtype for dtype, *_ in arrays]
        return self._engine.fast_path(record)

    def describe(self) -> str:
        """Return the engine's description of the prepared plan, for `explain`."""
        return str(self._engine.text(self._handle), "ascii")


class _Handle(ctypes.c_void_p):
    free: Callable[[_Handle], None]

    def __del__(self) -> None:
        self.free(self)


class _BoundCall(ctypes.Structure):
    """The arguments of a bound call: the C struct `bound_call`. `owners`: the objects that own the memory."""

    _fields_ = tuple((name, ctypes.c_void_p) for name in ("program", "data", "indices", "out"))
    owners: tuple[Any, ...]


class _FastPathRecord(bytes):
    """The data of a fast path: the C struct `fast_path`. `owners`: the objects that must stay alive."""

    owners: tuple[Engine, _Handle, list[np.dtype[Any]]]


class _PythonFunctions(ctypes.Structure):
    """Addresses of Python's C functions that the engine calls: the C struct `python_functions`."""

    _fields_ = tuple((name, ctypes.c_void_p) for name in ("array_type", "bytes_of", "truth", "unlock", "lock"))


class _Method(ctypes.Structure):
    """A builtin function's definition: PyMethodDef of Python's C API."""

    _fields_ = (("name", ctypes.c_char_p), ("function", ctypes.c_void_p), ("flags", ctypes.c_int), ("doc", ctypes.c_char_p))


def _fast_path_maker(library: ctypes.CDLL) -> Callable[[_FastPathRecord], FastPath]:
    """Return a function that makes fast paths.

    A fast path is a builtin function, because a function of ctypes cannot take array objects.
    """
    names = ("PyBytes_AsString", "PyBool_FromLong", "PyEval_SaveThread", "PyEval_RestoreThread")
    addresses = (ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p) for name in names)
    use: Any = library["dmlgather_use"]
    use(ctypes.byref(_PythonFunctions(id(np.ndarray), *addresses)))
    method = _Method(b"run", ctypes.cast(library["dmlgather_call"], ctypes.c_void_p), METH_FASTCALL, None)
    new: Any = ctypes.pythonapi["PyCFunction_NewEx"]
    new.restype, new.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)
    return lambda record: new(ctypes.addressof(method), record, None)  # keeps `method` alive


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
    """Return the compiled engine, or None if there is none. Raises SettingError if DMLGATHER_PURE has a wrong value."""
    return _load(host.is_pure(), LIBRARY)[0]


def status() -> str:
    """Return the engine's instruction set and threads, or the reason why there is no engine.

    Raises SettingError if DMLGATHER_PURE or DMLGATHER_NUM_THREADS has a wrong value.
    """
    engine, reason = _load(host.is_pure(), LIBRARY)
    return reason if engine is None else f"compiled engine, {instruction_sets(engine)[0]}, {counted(host.threads(), 'thread')}"


def instruction_sets(engine: Engine) -> tuple[str, ...]:
    """Return the instruction sets that this machine and the engine have, the best one first."""
    host.threads()
    least = IndexPlan((1,), (1,), (1,), element_bytes=1, in_extent=1, out_extent=1)
    available = []
    for loops in ("avx512", "avx2", "neon", "baseline"):
        with suppress(ValueError):
            engine.prepare(least, threads=1, loops=loops)
            available.append(loops)
    return tuple(available)


@lru_cache
def _load(pure: bool, path: Path) -> tuple[Engine | None, str]:
    if pure or not path.exists():
        return None, "DMLGATHER_PURE is 1" if pure else _absent(path.name)
    try:
        return Engine(path), ""
    except (OSError, AttributeError) as error:
        return None, f"the compiled engine cannot be loaded: {error}"


def _absent(name: str) -> str:
    """Return a sentence that says why there is no engine, and how to get it.

    A checkout has an engine only after an editable install. If Python runs in a checkout, it imports the checkout, even if a
    wheel is installed. The sentence tells these cases apart.
    """
    package = Path(__file__).parents[2]
    lacking = f"the dmlgather that Python has imported, {package}, has no compiled engine ({name}): "
    if (package.parent / "hatch_build.py").exists():
        folder = package.parent
        remedy = f"start Python outside of {folder}, or build an engine there: pip install --editable {folder}"
        return f"{lacking}it is the source; {remedy}"
    return f"{lacking}install dmlgather anew, without DMLGATHER_PURE=1"
