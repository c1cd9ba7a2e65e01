"""Floating-point instructions. Judges: NumPy's arithmetic, and exact fractions for directed rounding."""

from __future__ import annotations

import random
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray

from tests.kernels.ptx.test_instructions import THREADS, program, results_of

DTYPES: dict[str, Any] = {
    "f16": np.float16,
    "f32": np.float32,
    "f64": np.float64,
    "bf16": ml_dtypes.bfloat16,
    **{f"{letter}{width}": f"{kind}{width // 8}" for letter, kind in (("s", "i"), ("u", "u")) for width in (8, 16, 32, 64)},
}
SPECIAL = (0.0, -0.0, 1.0, -1.5, 0.5, 1.5, 2.5, 1e-40, -1e-40, 3e38, 1e30, -7e9, 65504.0, 1e-7, np.inf, -np.inf, np.nan)


def drawn(rng: random.Random, kind: str) -> NDArray[Any]:
    """Return special values and random bits."""
    dtype = np.dtype(DTYPES[kind])
    found = np.frombuffer(rng.randbytes(THREADS * dtype.itemsize), dtype).copy()
    if kind[0] in "us":
        found[::3] = [rng.choice((0, 1, 2, 100, 127)) for _ in found[::3]]
        return found
    chosen = [rng.choice(SPECIAL) if rng.random() < 0.5 else rng.uniform(-300, 300) for _ in found[::2]]
    with np.errstate(over="ignore"):
        found[::2] = np.array(chosen).astype(dtype)
    return found


def executed(instruction: str, result: str, kinds: list[str], given: list[NDArray[Any]]) -> NDArray[Any]:
    """Return the result of an instruction for arrays, one element per thread."""
    names = {kind: "f16" if kind == "bf16" else kind for kind in (result, *kinds)}
    taken = np.zeros((THREADS, 4, 8), np.uint8)
    for number, array in enumerate(given):
        taken[:, number, : array.itemsize] = array.view(np.uint8).reshape(THREADS, array.itemsize)
    found = results_of(program(instruction, names[result], [names[kind] for kind in kinds]), taken)
    if result == "pred":
        return found[:, :4].copy().view(np.uint32).reshape(-1)
    dtype = np.dtype(DTYPES[result])
    return np.ascontiguousarray(found[:, : dtype.itemsize]).reshape(-1).view(dtype)


def small_is_zero(array: NDArray[Any]) -> NDArray[Any]:
    return np.where(np.abs(array) < np.finfo(np.float32).tiny, np.copysign(np.float32(0), array), array)


def clipped(kind: str) -> Callable[[NDArray[Any]], NDArray[Any]]:
    """Return floating-point numbers as integers: truncated, clipped to the type's range, and 0 for NaN."""
    info = np.iinfo(DTYPES[kind])

    def convert(array: NDArray[Any]) -> NDArray[Any]:
        exact = [
            0 if np.isnan(x) else min(max(int(np.clip(x, -1e30, 1e30)), info.min), info.max) for x in array.astype(np.float64)
        ]
        return np.array(exact, DTYPES[kind])

    return convert


Case = tuple[str, str, str, Callable[..., Any]]
CASES: list[Case] = []
for _kind in ("f32", "f64"):
    _two = f"{_kind} {_kind}"
    CASES += [
        (f"add.{_kind}", _kind, _two, np.add),
        (f"sub.rn.{_kind}", _kind, _two, np.subtract),
        (f"mul.{_kind}", _kind, _two, np.multiply),
        (f"div.rn.{_kind}", _kind, _two, np.divide),
        (f"sqrt.rn.{_kind}", _kind, _kind, np.sqrt),
        (f"rcp.rn.{_kind}", _kind, _kind, lambda a: (1 / a).astype(a.dtype)),
        (f"min.{_kind}", _kind, _two, lambda a, b: np.where(a == b, np.where(np.signbit(a), a, b), np.fmin(a, b))),
        (f"max.{_kind}", _kind, _two, lambda a, b: np.where(a == b, np.where(np.signbit(a), b, a), np.fmax(a, b))),
        (f"neg.{_kind}", _kind, _kind, np.negative),
        (f"abs.{_kind}", _kind, _kind, np.abs),
        (f"copysign.{_kind}", _kind, _two, lambda a, b: np.copysign(b, a)),
        (f"setp.lt.{_kind}", "pred", _two, np.less),
        (f"setp.ne.{_kind}", "pred", _two, lambda a, b: (a < b) | (a > b)),
        (f"setp.neu.{_kind}", "pred", _two, np.not_equal),
        (f"setp.equ.{_kind}", "pred", _two, lambda a, b: ~((a < b) | (a > b))),
        (f"setp.geu.{_kind}", "pred", _two, lambda a, b: ~(a < b)),
        (f"setp.num.{_kind}", "pred", _two, lambda a, b: ~np.isnan(a) & ~np.isnan(b)),
        (f"setp.nan.{_kind}", "pred", _two, lambda a, b: np.isnan(a) | np.isnan(b)),
        (f"cvt.rni.{_kind}.{_kind}", _kind, _kind, np.rint),
        (f"cvt.rzi.{_kind}.{_kind}", _kind, _kind, np.trunc),
        (f"cvt.rmi.{_kind}.{_kind}", _kind, _kind, np.floor),
        (f"cvt.rpi.{_kind}.{_kind}", _kind, _kind, np.ceil),
        (f"cvt.sat.{_kind}.{_kind}", _kind, _kind, lambda a: np.where(a >= 0, np.minimum(a, 1), 0).astype(a.dtype)),
    ]
    CASES += [(f"cvt.rzi.{to}.{_kind}", to, _kind, clipped(to)) for to in ("s16", "u16", "s32", "u32", "s64", "u64")]
    CASES += [
        (f"cvt.rn.{_kind}.{source}", _kind, source, lambda a, kind=_kind: a.astype(DTYPES[kind]))
        for source in ("s8", "u16", "s32", "u32", "s64", "u64")
    ]
for _to, _from in (
    ("f16", "f32"),
    ("f16", "f64"),
    ("f32", "f16"),
    ("f64", "f32"),
    ("f32", "f64"),
    ("bf16", "f32"),
    ("f32", "bf16"),
):
    CASES.append(
        (
            f"cvt{'.rn' if _to in ('f16', 'bf16') or _from == 'f64' else ''}.{_to}.{_from}",
            _to,
            _from,
            lambda a, to=_to: a.astype(DTYPES[to]),
        )
    )
CASES += [
    ("add.ftz.f32", "f32", "f32 f32", lambda a, b: small_is_zero(small_is_zero(a) + small_is_zero(b))),
    ("mul.ftz.f32", "f32", "f32 f32", lambda a, b: small_is_zero(small_is_zero(a) * small_is_zero(b))),
    ("setp.gt.ftz.f32", "pred", "f32 f32", lambda a, b: small_is_zero(a) > small_is_zero(b)),
    ("cvt.ftz.f64.f32", "f64", "f32", lambda a: small_is_zero(a).astype(np.float64)),
    ("cvt.sat.u8.s32", "u8", "s32", lambda a: np.clip(a, 0, 255).astype(np.uint8)),
    ("cvt.sat.s16.u64", "s16", "u64", lambda a: np.minimum(a, 32767).astype(np.int16)),
]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # NumPy warns about results of NaN and infinite numbers
@pytest.mark.parametrize(("instruction", "result", "sources", "meaning"), CASES, ids=[case[0] for case in CASES])
def test_a_float_instruction_equals_numpys_arithmetic(
    instruction: str, result: str, sources: str, meaning: Any, rng: random.Random
) -> None:
    kinds = sources.split()
    given = [drawn(rng, kind) for kind in kinds]
    found, expected = executed(instruction, result, kinds, given), np.asarray(meaning(*given))
    if result == "pred" or result[0] in "us":
        assert found.tolist() == expected.tolist()
        return
    nan = np.isnan(expected.astype(np.float64))
    assert (np.isnan(found.astype(np.float64)) == nan).all()
    assert found[~nan].view(f"u{found.itemsize}").tolist() == expected[~nan].view(f"u{found.itemsize}").tolist()


def directed(value: Fraction, dtype: Any, direction: str) -> Any:
    """Return the nearest number of the type that is not beyond `value` in a direction."""
    down = direction == "rm" or (direction == "rz" and value >= 0)
    found = dtype(float(value))
    while Fraction(float(found)) > value if down else Fraction(float(found)) < value:
        found = np.nextafter(found, dtype(-np.inf if down else np.inf))
    while True:
        step = np.nextafter(found, dtype(np.inf if down else -np.inf))
        if Fraction(float(step)) > value if down else Fraction(float(step)) < value:
            return found
        found = step


@pytest.mark.parametrize("direction", ["rz", "rm", "rp"])
@pytest.mark.parametrize("kind", ["f32", "f64"])
@pytest.mark.parametrize("name", ["add", "mul", "fma"])
def test_directed_rounding_is_exact(name: str, kind: str, direction: str, rng: random.Random) -> None:
    dtype, count = DTYPES[kind], 3 if name == "fma" else 2
    given = [np.array([rng.uniform(-2, 2) for _ in range(THREADS)], dtype) for _ in range(count)]
    found = executed(f"{name}.{direction}.{kind}", kind, [kind] * count, given)
    exact = [[Fraction(float(x)) for x in row] for row in zip(*given, strict=True)]
    meaning: dict[str, Callable[..., Fraction]] = {
        "add": lambda a, b: a + b,
        "mul": lambda a, b: a * b,
        "fma": lambda a, b, c: a * b + c,
    }
    assert found.tolist() == [directed(meaning[name](*row), dtype, direction) for row in exact]
