"""The CUDA kernels on the host, in this process: exactly the launches that a device would get."""

from __future__ import annotations

import ctypes
import functools
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dmlgather.backends.cuda.arguments import CONSTANTS, CONSTANTS_OFFSET, LAYOUT, POINTERS
from dmlgather.backends.cuda.families import launches_for
from dmlgather.backends.cuda.launch import Launch
from dmlgather.plan import IndexPlan, OutOfBounds
from tests.kernels import build
from tests.kernels.units import has_barrier

NOTHING_BAD = 2**64 - 1


def run(
    plan: IndexPlan,
    data: NDArray[Any],
    indices: NDArray[Any] | None,
    out: NDArray[Any],
    *,
    alignment: int = 16,
    multiprocessors: int = 0,
    specialise: bool = True,
) -> int | None:
    """Execute `plan` over three buffers, with the contract of `backends.reference.run`.

    alignment: the buffers' addresses are multiples of this many bytes and of no more. multiprocessors: 0 lets threads walk
    in the smallest plans. specialise: False runs the general kernels.
    """
    launches = launches_for(plan, alignment, multiprocessors, specialise=specialise)
    source, target = _placed(data, alignment), _placed(out, alignment)
    looked_up = None if indices is None else _placed(indices, indices.itemsize)
    first_bad = ctypes.c_uint64(NOTHING_BAD)
    word = ctypes.addressof(first_bad) if plan.out_of_bounds is OutOfBounds.RAISE else 0
    for launch in launches:
        run_launch(launch, _address(source), 0 if looked_up is None else _address(looked_up), _address(target), word)
    out.view(np.uint8)[:] = target
    return None if first_bad.value == NOTHING_BAD else first_bad.value


def run_launch(launch: Launch, data: int, indices: int, out: int, first_bad: int) -> None:
    """One launch over addresses in this process."""
    table = _placed(np.frombuffer(launch.table, np.uint8), 16)
    block = ctypes.create_string_buffer(launch.arguments, len(launch.arguments))
    source = data if launch.input_in_table is None else _address(table) + launch.input_in_table
    POINTERS.pack_into(block, 0, source, indices, out, first_bad)
    CONSTANTS.pack_into(block, CONSTANTS_OFFSET, _address(table))
    kernel = ctypes.cast(library()[launch.variant.name], ctypes.c_void_p)
    start_kernel(has_barrier(launch.variant), kernel, launch.grid, block, launch.shared_bytes)


def start_kernel(barrier: bool, kernel: Any, grid: int, block: Any, shared_bytes: int) -> None:
    """Run a host-built kernel; where it has a barrier, every CUDA thread is a thread of this process."""
    if barrier:
        library().host_launch_with_barrier(kernel, ctypes.c_uint(grid), block, ctypes.c_uint(shared_bytes))
    else:
        library().host_launch(kernel, ctypes.c_uint(grid), block)


@functools.cache
def library() -> ctypes.CDLL:
    """The kernels as a shared library, built on first use."""
    loaded = ctypes.CDLL(str(build.library()))
    loaded.host_arguments_layout.restype = ctypes.POINTER(ctypes.c_size_t)
    loaded.host_divide.restype = ctypes.c_uint32
    loaded.host_divide.argtypes = [ctypes.c_uint32] * 3
    return loaded


def _placed(array: NDArray[Any], alignment: int) -> NDArray[Any]:
    """The array's bytes at an address that is a multiple of `alignment` and of no more, up to 16."""
    shift = alignment if alignment < 16 else 0
    room = np.empty(array.nbytes + 32, np.uint8)
    start = -_address(room) % 16 + shift
    placed = room[start : start + array.nbytes]
    placed[:] = np.frombuffer(array.tobytes(), np.uint8)
    return placed


def _address(array: NDArray[Any]) -> int:
    return int(array.ctypes.data)


def layout() -> list[int]:
    """Offsets of the fields of `Arguments`, then its size, as the C++ compiler sees them."""
    pointer = library().host_arguments_layout()
    return [int(pointer[number]) for number in range(len(LAYOUT) + 1)]
