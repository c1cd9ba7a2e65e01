"""The structures that Python and the interpreter (`tests/simcuda/calls.cpp`) share, and the interpreter's functions."""

from __future__ import annotations

import ctypes
import functools
from ctypes import POINTER, c_char_p, c_int32, c_uint32, c_uint64, c_void_p

from tests.simcuda.library import library as built


class Counts(ctypes.Structure):
    _fields_ = [(name, c_uint64) for name in ("requests", "sectors", "lines", "bytes", "fetched", "distinct")]


class BufferCounts(ctypes.Structure):
    _fields_ = [("loads", Counts), ("stores", Counts)]


class Buffer(ctypes.Structure):
    _fields_ = [
        ("address", c_uint64),
        ("size", c_uint64),
        ("data", c_void_p),
        ("stored", c_void_p),
        ("sparse", c_void_p),
        ("counts", POINTER(BufferCounts)),
        ("flags", c_uint32),
    ]


class Totals(ctypes.Structure):
    _names = ("threads", "warps", "instructions", "thread_instructions", "shared_requests", "shared_passes", "shared_least")
    _fields_ = [(name, c_uint64) for name in _names]


class Facts(ctypes.Structure):
    _fields_ = [
        ("kernel", c_void_p),
        ("executed", POINTER(c_uint64)),
        ("instructions", c_uint32),
        ("parameter_bytes", c_uint32),
        ("static_shared", c_uint32),
    ]


class Request(ctypes.Structure):
    _fields_ = [
        ("kernel", c_void_p),
        ("parameters", c_char_p),
        ("buffers", POINTER(Buffer)),
        ("totals", POINTER(Totals)),
        ("most_instructions", c_uint64),
        ("buffer_count", c_int32),
        ("grid", c_uint32),
        ("block", c_uint32),
        ("first_block", c_uint32),
        ("last_block", c_uint32),
        ("dynamic_shared", c_uint32),
    ]


class Outcome(ctypes.Structure):
    _fields_ = [("fault", c_int32), ("line", c_int32), ("text", ctypes.c_char * 1000)]


@functools.cache
def library() -> ctypes.CDLL:
    library = ctypes.CDLL(str(built()))
    library.ptx_read.argtypes, library.ptx_read.restype = [c_char_p, c_char_p, c_uint64], c_void_p
    library.ptx_forget.argtypes = [c_void_p]
    library.ptx_kernel.argtypes, library.ptx_kernel.restype = [c_void_p, c_char_p], Facts
    library.ptx_text.argtypes, library.ptx_text.restype = [c_void_p, c_uint64], c_char_p
    library.ptx_line.argtypes = [c_void_p, c_uint64]
    library.ptx_launch.argtypes = [POINTER(Request), POINTER(Outcome)]
    library.ptx_sparse_new.restype = c_void_p
    library.ptx_sparse_delete.argtypes = [c_void_p]
    library.ptx_sparse_forget_stores.argtypes = [c_void_p]
    library.ptx_sparse_stored.argtypes, library.ptx_sparse_stored.restype = [c_void_p], c_uint64
    library.ptx_sparse_write.argtypes = [c_void_p, c_uint64, c_void_p, c_uint64]
    library.ptx_sparse_read.argtypes = [c_void_p, c_void_p, c_uint64, c_void_p, c_void_p]
    library.ptx_sizes.restype = c_uint64
    sizes = ctypes.sizeof(Request) << 32 | ctypes.sizeof(Facts) << 16 | ctypes.sizeof(Buffer)
    assert library.ptx_sizes() == sizes, "calls.cpp and structures.py disagree"
    return library
