"""What JAX gets wrong on the CPU: gathers that XLA compiles."""

from __future__ import annotations

import ml_dtypes
import numpy as np

from tests.dialects.outcomes import content
from tests.lax.judge import ONE_NAN, judge
from tests.lax.specification import Call, expected
from tests.peers.faults import Peer, PeerFault


def _answers(call: Call) -> tuple[object, object]:
    return content(judge([call])[0]), content(expected(call))


def _is_wide_under_fill(call: Call) -> bool:
    starts = call.start_indices.ravel().tolist()  # NumPy 2.2.0 crashes where it compares uint32 with a negative number
    return call.mode in ("fill", "drop") and any(not -(2**31) <= start < 2**31 for start in starts)


def _has_nans(call: Call, itemsize: int) -> bool:
    with np.errstate(invalid="ignore"):  # some are signalling ones
        return call.operand.dtype in ONE_NAN and call.operand.itemsize == itemsize and bool(np.isnan(expected(call)).any())


def _has_subnormal_numbers(call: Call) -> bool:
    bits = expected(call).view(np.uint16) if call.operand.dtype == ml_dtypes.bfloat16 else np.zeros(0, np.uint16)
    return bool(((bits & 0x7F80 == 0) & (bits & 0x7F != 0)).any())


def _copied_twice(bits: int) -> Call:
    """Two windows of an array of one bfloat16."""
    element = np.array([bits], np.uint16).view(ml_dtypes.bfloat16)
    return Call(element, np.zeros((2, 0), np.int16), ((1,), (), (), (), ()), (1,), "clip")


_ROW = ((), (0,), (0,), (), ())

LAX = Peer(
    "lax.gather",
    "jaxlib",
    _answers,
    (
        PeerFault(
            "starts of more than 32 bits under fill",
            "makes them 32 bits first: 2^32 + 1 is 1",
            "fill",
            _is_wide_under_fill,
            Call(np.arange(5.0), np.array([[2**32 + 1]]), _ROW, (1,), "fill", -1.0),
        ),
    ),
)

BITS = Peer(
    "bits that lax.gather moves",
    "jaxlib",
    _answers,
    (
        PeerFault(
            "NaNs of bfloat16",
            "makes them one",
            "move bits",
            lambda call: _has_nans(call, 2),
            Call(np.array([0x7F81], np.uint16).view(ml_dtypes.bfloat16), np.array([[0]]), _ROW, (1,), "fill"),
            versions="<0.11",
        ),
        PeerFault(
            "signalling NaNs of bfloat16",
            "makes them quiet in some programs",
            "move bits",
            lambda call: _has_nans(call, 2),
            _copied_twice(0x7F81),
            processors=("avx512_bf16", "avx_ne_convert"),  # whose instruction makes them quiet
        ),
        PeerFault(
            "NaNs of 8 bits",
            "makes them one",
            "move bits",
            lambda call: _has_nans(call, 1),
            Call(np.array([0x7D], np.uint8).view(ml_dtypes.float8_e5m2), np.array([[0]]), _ROW, (1,), "fill"),
        ),
        PeerFault(
            "subnormal bfloat16 numbers",
            "makes zeros of them in some programs",
            "move bits",
            _has_subnormal_numbers,
            _copied_twice(1),
            processors=("avx512_bf16", "avx_ne_convert"),  # whose instruction makes them zeros
        ),
    ),
)
"""Where a row covers a call, `tests.lax.judge.judged_content` compares what is left."""
