"""Arrays of JAX in and out of `dg.lax.gather`: over the same memory, of the same type, on the same device."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import dmlgather as dg
from dmlgather.backends import arrays, jax_arrays
from dmlgather.backends.jax_arrays import ALIGNMENT
from tests import seeds
from tests.dialects.outcomes import content
from tests.lax.judge import jax
from tests.lax.specification import INTEGERS, TYPES, Call, expected

PARTS_OF_BYTES = ("int2", "uint2", "int4", "uint4", "float4_e2m1fn")
"""Types that JAX packs, and that NumPy has in bytes: they are copied in and out."""

NUMBERS = dg.lax.GatherDimensionNumbers((1,), (0,), (0,))
STARTS = np.array([[2], [9], [0]])
WHOLE = tuple(dtype for dtype in TYPES if dtype.name not in PARTS_OF_BYTES)


def operand(dtype: Any) -> Any:
    """[3, 40] ones and zeros."""
    return seeds.numpy_rng().integers(0, 2, (3, 40)).astype(dtype)


@pytest.mark.parametrize("dtype", TYPES, ids=lambda dtype: dtype.name)
def test_a_jax_array_goes_in_and_comes_out(dtype: Any) -> None:
    given = operand(dtype)
    with jax.enable_x64(True):
        data, starts = jax.numpy.array(given), jax.numpy.array(STARTS)
        found = dg.lax.gather(data, starts, NUMBERS, (1, 40), mode="fill")
    assert isinstance(found, jax.Array)
    assert (found.dtype, found.device) == (dtype, data.device)
    call = Call(given, STARTS, ((1,), (0,), (0,), (), ()), (1, 40), "fill")
    assert content(np.asarray(found)) == content(expected(call))


@pytest.mark.parametrize("dtype", WHOLE, ids=lambda dtype: dtype.name)
def test_operands_are_read_where_they_lie(dtype: Any) -> None:
    with jax.enable_x64(True):
        data = jax.numpy.array(operand(dtype))
    array, device = arrays.adopt(data)
    assert str(device) == "cpu"
    assert array.dtype == dtype
    assert array.ctypes.data == data.unsafe_buffer_pointer()
    assert not array.flags.writeable


@pytest.mark.parametrize("dtype", INTEGERS, ids=lambda dtype: dtype.name)
def test_indices_are_read_where_they_lie(dtype: Any) -> None:
    with jax.enable_x64(True):
        starts = jax.numpy.array(STARTS.astype(dtype))
    assert arrays.adopt(starts)[0].ctypes.data == starts.unsafe_buffer_pointer()
    assert dg.lax.gather(operand("f4"), starts, NUMBERS, (1, 40)).shape == (3, 40)


@pytest.mark.parametrize("dtype", WHOLE, ids=lambda dtype: dtype.name)
def test_results_are_written_where_jax_finds_them(dtype: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    allocated = []

    def allocate(*given: Any, **named: Any) -> Any:
        allocated.append(original(*given, **named))
        return allocated[-1]

    original = jax_arrays.aligned
    monkeypatch.setattr(jax_arrays, "aligned", allocate)
    with jax.enable_x64(True):
        data = jax.numpy.array(operand(dtype))
    found = dg.lax.gather(data, STARTS, NUMBERS, (1, 40))
    (fresh,) = allocated
    assert fresh.ctypes.data % ALIGNMENT == 0
    assert found.unsafe_buffer_pointer() == fresh.ctypes.data


def test_numpy_arrays_are_read_and_returned_as_they_are() -> None:
    data = operand("f4")
    assert arrays.adopt(data)[0] is data
    found = dg.lax.gather(data, jax.numpy.array(STARTS), NUMBERS, (1, 40))
    assert type(found) is np.ndarray


@pytest.mark.parametrize("shape", [(), (0, 3), (3, 0)])
def test_empty_results_and_scalars_come_back_as_well(shape: tuple[int, ...]) -> None:
    data = jax.numpy.ones(shape, jax.numpy.bfloat16)
    numbers = dg.lax.GatherDimensionNumbers(tuple(range(len(shape))), (), ())
    found = dg.lax.gather(data, jax.numpy.zeros((0,), jax.numpy.int32), numbers, shape)
    assert isinstance(found, jax.Array)
    assert (found.shape, found.dtype) == (shape, data.dtype)


def test_sixty_four_bits_stay_so_when_the_mode_has_changed() -> None:
    with jax.enable_x64(True):
        data = jax.numpy.arange(6.0).reshape(3, 2) + 2.0**-50
    found = dg.lax.gather(data, STARTS, NUMBERS, (1, 2))
    assert found.dtype == np.float64
    assert np.asarray(found).tobytes() == np.asarray(data)[[2, 2, 0]].tobytes()


ON_FOUR_DEVICES = """
import jax, numpy as np
import dmlgather as dg
from jax.sharding import Mesh, NamedSharding, PartitionSpec
devices = jax.devices()
numbers, starts = dg.lax.GatherDimensionNumbers((), (0,), (0,)), np.array([[1]])
placed = jax.device_put(np.arange(8.0, dtype=np.float32), devices[2])
found = dg.lax.gather(placed, starts, numbers, (1,))
assert found.device == devices[2] and found.tolist() == [1], found.device
spread = jax.device_put(np.arange(8.0), NamedSharding(Mesh(np.array(devices), ("a",)), PartitionSpec("a")))
try:
    dg.lax.gather(spread, starts, numbers, (1,))
except TypeError as error:
    print(error)
"""


@pytest.mark.slow
def test_arrays_on_several_devices() -> None:
    environment = {
        "JAX_PLATFORMS": "cpu",
        "XLA_FLAGS": "--xla_force_host_platform_device_count=4",
        "PYTHONPATH": ":".join(sys.path),
    }
    done = subprocess.run([sys.executable, "-c", ON_FOUR_DEVICES], env=environment, text=True, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    devices = "4 devices (cpu:0, cpu:1, cpu:2, cpu:3)"
    assert done.stdout.startswith(f"operand: expected an array on one device, got an array on {devices}")


def test_jax_is_not_imported_for_other_arrays() -> None:
    code = (
        "import sys, numpy as np, dmlgather as dg\n"
        "dg.lax.gather(np.arange(3), np.array([[1]]), dg.lax.GatherDimensionNumbers((), (0,), (0,)), (1,), mode='fill')\n"
        "assert not {'jax', 'jaxlib', 'ml_dtypes'} & set(sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], text=True, capture_output=True, check=False, env={"PYTHONPATH": ":".join(sys.path)}
    )
    assert (done.returncode, done.stderr) == (0, "")
