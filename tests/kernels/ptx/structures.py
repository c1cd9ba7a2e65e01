"""The structures that Python and the interpreter share (`machine.h`), and the interpreter as a library, built on first use."""

from __future__ import annotations

import ctypes
import functools
import os
from ctypes import POINTER, c_int32, c_int64, c_uint32, c_uint64, c_void_p
from pathlib import Path

from tests import built

HERE = Path(__file__).parent
FLAGS = ("-std=c++20", "-O2", "-fPIC", "-Wall", "-Wextra", "-Werror")


class Instruction(ctypes.Structure):
    _fields_ = [("numbers", c_int32 * 16), ("offset", c_int64)]


class Register(ctypes.Structure):
    _fields_ = [("value", c_uint64), ("mask", c_uint64), ("initial", c_int32)]


class Kernel(ctypes.Structure):
    _fields_ = [
        ("code", c_void_p),
        ("registers", c_void_p),
        ("executed", c_void_p),
        ("instructions", c_int32),
        ("register_count", c_int32),
        ("parameter_bytes", c_uint32),
        ("static_shared_bytes", c_uint32),
    ]


class Buffer(ctypes.Structure):
    _fields_ = [
        ("address", c_uint64),
        ("size", c_uint64),
        ("data", c_void_p),
        ("stored", c_void_p),
        ("sparse", c_void_p),
        ("flags", c_uint32),
    ]


class Counts(ctypes.Structure):
    _fields_ = [(name, c_uint64) for name in ("requests", "sectors", "lines", "bytes", "fetched", "distinct")]


class BufferCounts(ctypes.Structure):
    _fields_ = [("loads", Counts), ("stores", Counts)]


class Totals(ctypes.Structure):
    _fields_ = [
        (name, c_uint64)
        for name in (
            "threads",
            "warps",
            "instructions",
            "thread_instructions",
            "shared_requests",
            "shared_passes",
            "shared_least",
        )
    ]


class Launch(ctypes.Structure):
    _fields_ = [
        ("kernel", POINTER(Kernel)),
        ("parameters", c_void_p),
        ("buffers", POINTER(Buffer)),
        ("counts", c_void_p),
        ("totals", c_void_p),
        ("most_instructions", c_uint64),
        ("buffer_count", c_int32),
        ("flat", c_int32),
        ("grid", c_uint32),
        ("block_size", c_uint32),
        ("first_block", c_uint32),
        ("last_block", c_uint32),
        ("dynamic_shared_bytes", c_uint32),
    ]


class Outcome(ctypes.Structure):
    _fields_ = [
        ("fault", c_int32),
        ("instruction", c_int32),
        ("block", c_uint32),
        ("thread", c_uint32),
        ("address", c_uint64),
        ("size", c_uint32),
        ("other", c_int32),
    ]


@functools.cache
def library() -> ctypes.CDLL:
    sources = [HERE / "execute.cpp", HERE / "launch.cpp"]
    compiler = os.environ.get("CXX", "g++")

    def build(folder: Path) -> None:
        built.run([compiler, *FLAGS, "-shared", *map(str, sources), "-o", str(folder / "ptx.so")])

    library = ctypes.CDLL(str(built.once("ptx-interpreter", (compiler, FLAGS), sorted(HERE.glob("*.[ch]*")), "ptx.so", build)))
    library.ptx_launch.restype = Outcome
    library.ptx_launch.argtypes = [POINTER(Launch)]
    library.ptx_sparse_new.restype = c_void_p
    library.ptx_sparse_delete.argtypes = [c_void_p]
    library.ptx_sparse_forget_stores.argtypes = [c_void_p]
    library.ptx_sparse_stored.argtypes, library.ptx_sparse_stored.restype = [c_void_p], c_uint64
    library.ptx_sparse_write.argtypes = [c_void_p, c_uint64, c_void_p, c_uint64]
    library.ptx_sparse_read.argtypes = [c_void_p, c_void_p, c_uint64, c_void_p, c_void_p]
    library.ptx_sizes.restype = c_uint64
    sizes = ctypes.sizeof(Launch) << 32 | ctypes.sizeof(Instruction) << 16 | ctypes.sizeof(Buffer)
    assert library.ptx_sizes() == sizes, "machine.h and machine.py disagree"
    return library
