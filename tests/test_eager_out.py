"""`out=` of the eager functions. Judges: the specifications of ONNX's and OpenVINO's operators, and NumPy's indexing."""

from __future__ import annotations

import random
from typing import Any

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dmlgather as dg
from dmlgather.calls import prepared
from tests.dialects.drafting import seeds
from tests.dialects.outcomes import content
from tests.gpus import NUMBERS, host, nothing_new, placed
from tests.onnx import calling
from tests.onnx.specification import expected as expected_of_onnx
from tests.onnx.strategies import ROWS as VERSIONS
from tests.onnx.strategies import good_call as good_call_of_onnx
from tests.openvino.calling import FUNCTIONS
from tests.openvino.specification import expected as expected_of_openvino
from tests.openvino.strategies import ROWS as OPERATIONS
from tests.openvino.strategies import good_call as good_call_of_openvino
from tests.test_eager_streams import CALLS, DATA, ROWS

Array = np.ndarray[Any, Any]
FLOATS = np.arange(12, dtype=np.float32).reshape(4, 3)
IDS = np.array([3, -1, 0])


def poison(right: Array) -> Array:
    """Return a new array like `right` that differs in every element."""
    if right.dtype.kind in "OUST":
        return np.full(right.shape, "?", right.dtype)
    raw = np.frombuffer(right.tobytes(), np.uint8)
    return np.frombuffer((~raw).tobytes(), right.dtype).reshape(right.shape).copy()


def laid_out(rng: random.Random, right: Array) -> tuple[Array, Array]:
    """Return a poisoned array with a random layout in memory, and the memory between its elements."""
    bad, kind = poison(right), rng.choice(["packed", "apart", "backwards", "permuted"])
    if kind == "apart":
        room = np.stack([bad, bad], axis=-1)
        return room[..., 0], room[..., 1]
    if kind == "backwards":
        everything: Any = (..., *[slice(None, None, -1)] * bad.ndim)
        bad = bad[everything]
    return np.array(bad, order="F") if kind == "permuted" else bad, np.empty(0, bad.dtype)


def check(rng: random.Random, function: Any, arrays: Any, named: Any, right: Array) -> None:
    """Assert that all devices of the host write only the result, also in a repeated call."""
    for device in (None, None, "cpu", "reference"):
        out, between = laid_out(rng, right)
        before = content(between.copy())
        assert function(*arrays, **named, device=device, out=out) is out
        assert content(out) == content(right), (function, named, device, out.strides)
        assert content(between) == before


@pytest.mark.parametrize(("operator", "version"), VERSIONS)
@settings(max_examples=15, deadline=None)
@given(seeds)
def test_onnx_functions_write_the_specified_result_into_out(operator: str, version: int, seed: int) -> None:
    call = good_call_of_onnx(seed, operator, version)
    named = {**call.named, "opset": call.opset}
    check(random.Random(seed), calling.FUNCTIONS[operator], call.arrays, named, expected_of_onnx(call))


@pytest.mark.parametrize("operation", OPERATIONS)
@settings(max_examples=20, deadline=None)
@given(seeds)
def test_openvino_functions_write_the_specified_result_into_out(operation: str, seed: int) -> None:
    call = good_call_of_openvino(seed, operation)
    check(random.Random(seed), FUNCTIONS[call.operation], call.arrays, call.named, expected_of_openvino(call))


@pytest.mark.parametrize("function", CALLS, ids=repr)
def test_every_function_writes_and_returns_out(function: Any) -> None:
    given, others, right = CALLS[function]
    check(random.Random(str(function)), function, given, others, right)
    assert function(*given, **others, out=None).tobytes() == right.tobytes()


def read_only(array: Array) -> Array:
    array.flags.writeable = False
    return array


REFUSALS: list[tuple[Any, type[Exception], str]] = [
    (lambda: np.empty((3, 3), np.float64), TypeError, r"^out is float64 \[3, 3\], expected float32 \[3, 3\]$"),
    (lambda: np.empty((3, 3), ">f4"), TypeError, r"^out is >f4 \[3, 3\], expected float32 \[3, 3\]$"),
    (lambda: np.empty((4, 3), np.float32), ValueError, r"^out is float32 \[4, 3\], expected float32 \[3, 3\]$"),
    (lambda: np.empty((9,), np.float32), ValueError, r"^out is float32 \[9\], expected float32 \[3, 3\]$"),
    (lambda: read_only(np.empty((3, 3), np.float32)), ValueError, "^out is read-only; pass a writeable array$"),
    (
        lambda: np.lib.stride_tricks.as_strided(np.empty(3, np.float32), (3, 3), (0, 4)),
        ValueError,
        r"^out has strides \(0, 1\) .* elements share an address",
    ),
    (
        lambda: np.empty((3, 3, 5), np.uint8)[..., :4].view(np.float32)[..., 0],
        ValueError,
        "^out: strides .* not multiples of the element size",
    ),
    (lambda: FLOATS[:3], ValueError, "^out overlaps data, but a call cannot run in place: pass another array$"),
    (lambda: FLOATS[:0:-1], ValueError, "^out overlaps data, "),
    (lambda: [[0.0] * 3] * 3, TypeError, "^out: expected an array .*, got list"),
    (lambda: np.float32(1), TypeError, "^out: expected an array, got a scalar of type float32, which cannot be written$"),
    (lambda: np.ma.zeros((3, 3), np.float32), TypeError, "^out: expected a plain array, got a masked array"),
    (lambda: jax.numpy.zeros((3, 3), "float32"), ValueError, "^out is read-only; pass a writeable array$"),
]


@pytest.mark.parametrize(("out", "error", "words"), REFUSALS)
def test_a_wrong_out_is_refused_as_by_a_compiled_operator(out: Any, error: type[Exception], words: str) -> None:
    right = FLOATS[IDS].tobytes()
    compiled = dg.compile(dg.GatherOperatorDesc.of(FLOATS, IDS, axis=0), out_of_bounds="raise")
    for _ in range(2):  # the function knows the second call
        with pytest.raises(error, match=words):
            dg.onnx.gather(FLOATS, IDS, out=out())
        with pytest.raises(error, match=words):
            dg.openvino.gather(FLOATS, IDS, axis=0, out=out())
        assert dg.onnx.gather(FLOATS, IDS, out=np.empty((3, 3), np.float32)).tobytes() == right
    if getattr(out(), "shape", None) != (9,):  # the index is a buffer in that module
        with pytest.raises((TypeError, ValueError)) as theirs:
            compiled(FLOATS, IDS, out=out())
        assert theirs.type is error


def test_out_that_overlaps_the_indices_is_refused() -> None:
    data, indices = np.array([5, 6, 7]), np.array([2, 1, 0])
    for _ in range(2):
        with pytest.raises(ValueError, match=r"^out overlaps indices, "):
            dg.onnx.gather(data, indices, out=indices)
        assert indices.tolist() == [2, 1, 0]


def test_out_made_read_only_after_a_call_is_refused() -> None:
    out = np.empty((3, 3), np.float32)
    for _ in range(3):
        dg.onnx.gather(FLOATS, IDS, out=out)
    out[...] = -1
    with pytest.raises(ValueError, match=r"^out is read-only"):
        dg.onnx.gather(FLOATS, IDS, out=read_only(out))
    assert (out == -1).all()


def test_strings_are_written_with_their_type() -> None:
    words = np.array(["a", "bcd", "e"])
    for kind in ("U3", object):
        out = np.full(2, "?", kind)
        assert dg.openvino.gather(words.astype(kind), np.array([1, 9]), axis=0, out=out) is out
        assert out.tolist() == ["bcd", ""]
    for kind, shown in (("U2", "<U2"), ("S3", r"\|S3"), (object, "object")):
        with pytest.raises(TypeError, match=rf"^out is {shown} \[2\], expected <U3 \[2\]$"):
            dg.onnx.gather(words, np.array([1, 0]), out=np.empty(2, kind))
    with pytest.raises(ValueError, match=r"^out is read-only"):
        dg.onnx.gather(words, np.array([1, 0]), out=read_only(np.empty(2, "U3")))


def test_jax_arrays_are_read_into_a_numpy_out() -> None:
    data, ids = jax.numpy.asarray(FLOATS), jax.numpy.asarray(IDS.astype(np.int32))
    for _ in range(3):
        out = np.full((3, 3), -1, np.float32)
        assert dg.onnx.gather(data, ids, out=out) is out
        assert out.tobytes() == FLOATS[IDS].tobytes()


def test_a_repeated_call_with_out_skips_reading_its_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    prepared.forget()
    out = np.empty((3, 3), np.float32)
    for _ in range(2):
        dg.onnx.gather(FLOATS, IDS, out=out)
    monkeypatch.setattr("dmlgather.calls.eager.take", lambda *_: pytest.fail("the arguments are read anew"))
    out[...] = -1
    assert dg.onnx.gather(FLOATS, IDS, out=out) is out
    assert out.tobytes() == FLOATS[IDS].tobytes()


def test_plan_ignores_out_and_stream() -> None:
    assert dg.onnx.gather.plan(DATA, ROWS, out=np.empty(1), stream=55) == dg.onnx.gather.plan(DATA, ROWS)


@pytest.mark.gpu
@pytest.mark.parametrize("function", CALLS, ids=repr)
def test_every_function_writes_out_on_a_gpu(cupy: Any, function: Any) -> None:
    given, others, right = CALLS[function]
    arrays = [placed(each) if isinstance(each, np.ndarray) else each for each in given]
    for number in range(3):
        room = cupy.asarray(np.stack([poison(right), poison(right)], axis=-1))
        out = room[..., 0] if number else cupy.asarray(poison(right))
        assert function(*arrays, **others, out=out) is out
        assert host(out).tobytes() == right.tobytes()
        assert host(room[..., 1]).tobytes() == poison(right).tobytes()
    on_host = poison(right)
    with pytest.raises(TypeError, match=r"arrays lie on different devices \(\w+ on cuda:0, out on cpu\); move them"):
        function(*arrays, **others, out=on_host)
    assert on_host.tobytes() == poison(right).tobytes()
    for _ in range(2):
        assert function(*arrays, **others, device="cuda", out=on_host) is on_host
        assert on_host.tobytes() == right.tobytes()
        assert function(*given, **others, device="cuda", out=out) is out
        assert host(out).tobytes() == right.tobytes()
        out[...] = 0
        on_host[...] = 0
    with pytest.raises(ValueError, match=r"^out is read-only"):
        function(*arrays, **others, device="cuda", out=read_only(on_host))
    with pytest.raises(TypeError, match="different devices"):
        function(*given, **others, out=out)


@pytest.mark.gpu
def test_a_gpu_refuses_the_same_wrong_out_arrays(cupy: Any) -> None:
    data, ids = cupy.asarray(FLOATS), cupy.asarray(IDS)
    for _ in range(2):
        with pytest.raises(TypeError, match=r"^out is float64 \[3, 3\], expected float32"):
            dg.onnx.gather(data, ids, out=cupy.empty((3, 3)))
        with pytest.raises(ValueError, match=r"^out is float32 \[4, 3\], expected float32 \[3, 3\]"):
            dg.onnx.gather(data, ids, out=cupy.empty((4, 3), np.float32))
        with pytest.raises(ValueError, match=r"^out overlaps data, "):
            dg.onnx.gather(data, ids, out=data[:3])
        with pytest.raises(ValueError, match="elements share an address"):
            dg.onnx.gather(data, ids, out=cupy.broadcast_to(data[0], (3, 3)))
        dg.onnx.gather(data, ids, out=cupy.empty((3, 3), np.float32))
    assert host(data).tobytes() == FLOATS.tobytes()


@pytest.mark.gpu
def test_a_repeated_call_with_out_allocates_nothing_on_a_gpu(cupy: Any) -> None:
    data, ids, out = cupy.asarray(FLOATS), cupy.asarray(IDS), cupy.zeros((3, 3), np.float32)
    for policy in (None, "clamp"):
        for _ in range(2):
            dg.onnx.gather(data, ids, out_of_bounds=policy, out=out)
        out.fill(0)
        with nothing_new():
            assert dg.onnx.gather(data, ids, out_of_bounds=policy, out=out) is out
        assert host(out).tobytes() == FLOATS[IDS].tobytes()


@pytest.mark.gpu
@settings(max_examples=60, deadline=None)
@given(seeds, st.sampled_from(VERSIONS))
def test_onnx_functions_write_the_specified_result_on_a_gpu(seed: int, version: tuple[str, int]) -> None:
    call = good_call_of_onnx(seed, *version)
    if not all(array.dtype in NUMBERS for array in call.arrays):
        return
    right = expected_of_onnx(call)
    out, _ = laid_out(random.Random(seed), right)
    out = placed(out)
    assert calling.run(type(call)(call.operator, call.opset, tuple(map(placed, call.arrays)), call.named), out=out) is out
    assert content(host(out)) == content(right)
