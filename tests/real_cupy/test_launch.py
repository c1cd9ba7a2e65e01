"""A launch through CuPy's real `launchKernel` into a driver library that writes down what arrives (libcuda.cpp)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dmlgather.backends.cuda.arguments import CONSTANTS, CONSTANTS_OFFSET, POINTERS
from dmlgather.backends.cuda.families import launches_for
from dmlgather.backends.cuda.launch import Launch
from dmlgather.plan import IndexPlan, IndexType, Lookup, OutOfBounds
from tests import built

pytestmark = pytest.mark.cupy


ROOT = Path(__file__).parents[2]
SOURCE = Path(__file__).with_name("libcuda.cpp")

FUNCTION, TABLE, STREAM = 0x7F00_0000_1040, 0x7F00_0000_2000, 0x7F00_0000_3000
ADDRESSES = (0x7F12_3456_7000, 0x7F12_3456_8000, 0x7F12_3456_9000, 0x7F12_3456_A000)
"""Of the input, the indices, the output and the word: above 2^32, as real ones."""

LAUNCH = """
import ctypes, json
from cupy.cuda import driver
from dmlgather.backends.cuda.program import _Block
from tests.real_cupy.test_launch import ADDRESSES, FUNCTION, STREAM, TABLE, launch
planned = launch()
block = _Block(planned, FUNCTION, TABLE, driver)
block.write(*ADDRESSES)
block.launch(STREAM)
library = ctypes.CDLL("libcuda.so.1")
arguments = list((ctypes.c_uint64 * 11).in_dll(library, "launched"))
(pointer,) = (ctypes.c_uint64 * 1).from_address(arguments[9])
print(json.dumps({
    "launches": ctypes.c_uint64.in_dll(library, "launches").value,
    "arguments": arguments,
    "block": ctypes.string_at(pointer, len(planned.arguments)).hex(),
}))
"""


def launch() -> Launch:
    """Rows of 13 bytes, gathered under RAISE."""
    plan = IndexPlan(
        (900, 13), (13, 1), (0, 1), 1, 6500, 900 * 13, lookups=(Lookup((1, 0), 0, 500, 0, 13),), index_type=IndexType.INT64,
        index_extent=900, out_of_bounds=OutOfBounds.RAISE,
    )  # fmt: skip
    (found,) = launches_for(plan, 1, 132)
    return found


@pytest.fixture(scope="module")
def arrived() -> dict[str, Any]:
    """What the driver library was asked."""

    def build(folder: Path) -> None:
        built.run([*command, str(SOURCE), "-o", str(folder / "libcuda.so.1")])

    command = (os.environ.get("CXX", "g++"), "-shared", "-fPIC", "-Wall", "-Werror")
    library = built.once("libcuda", command, [SOURCE], "libcuda.so.1", build)
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", LAUNCH],
        env={**os.environ, "PYTHONPATH": str(ROOT), "LD_LIBRARY_PATH": str(library.parent)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_every_argument_arrives_in_its_place(arrived: dict[str, Any]) -> None:
    planned = launch()
    function, *grid, x, y, z, shared, stream, parameters, extra = arrived["arguments"]
    assert arrived["launches"] == 1
    assert function == FUNCTION
    assert grid == [planned.grid, 1, 1]
    assert (x, y, z, shared) == (planned.block, 1, 1, planned.shared_bytes)
    assert (stream, extra) == (STREAM, 0)
    assert parameters > 2**32


def test_the_parameter_is_the_argument_block_with_this_calls_addresses(arrived: dict[str, Any]) -> None:
    expected = bytearray(launch().arguments)
    CONSTANTS.pack_into(expected, CONSTANTS_OFFSET, TABLE)
    POINTERS.pack_into(expected, 0, *ADDRESSES)
    block = bytes.fromhex(arrived["block"])
    assert block == bytes(expected)
    assert [int.from_bytes(block[8 * place : 8 * place + 8], "little") for place in range(4)] == list(ADDRESSES)
