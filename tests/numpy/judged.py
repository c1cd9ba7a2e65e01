"""Index expressions judged by NumPy: calls, plans and DirectML's descriptors."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
from numpy.typing import NDArray

import dmlgather as dg
from dmlgather.directml import FeatureLevel
from tests.dialects import binding
from tests.dialects.binding import DEVICES, LEVELS
from tests.dialects.expressions import numpys, some_data, some_expression
from tests.dialects.outcomes import content, tried
from tests.numpy.spelling import some_spelling
from tests.peers.numpy import NUMPY, Indexed


def run(key: Any, data: NDArray[Any], **options: Any) -> NDArray[Any] | Exception:
    """What `dg.index` gives, or the error that it raises."""
    return tried(lambda: np.asarray(dg.index[key](data, **options)))  # type: ignore[no-any-return] # of any function


def told(found: NDArray[Any] | Exception) -> object:
    """What two results are compared by: the bits of an array, and the type of an error."""
    return content(found if isinstance(found, np.ndarray) else type(found))


def check_call(seed: int) -> bool:
    """The expression of a seed gives NumPy's bits, or an error of NumPy's type. Returns whether NumPy takes it."""
    rng = random.Random(seed)
    data = some_data(rng)
    key = some_spelling(rng, data.shape)
    expected, found = numpys(data, key), run(key, data, device=rng.choice(DEVICES))
    case = f"x[{key}] of shape {data.shape}: NumPy {expected!r}, here {found!r}"
    if NUMPY.known_fault(Indexed(data, key, found)):
        return False
    assert told(found) == told(expected), case
    return not isinstance(expected, Exception)


def check_descriptors(seed: int) -> bool:
    """The descriptors of a seed's expression validate and give NumPy's bits. Returns whether there are any."""
    rng = random.Random(seed)
    level = rng.choice(LEVELS)
    data = some_data(rng).astype(
        rng.choice(("float32", "int32", "uint16", "bool") if level > LEVELS[2] else ("float32", "float16"))
    )
    key = some_expression(rng, data.shape)
    expected = numpys(data, key)
    found = dg.index[key].to_directml(data, level)
    if isinstance(found, dg.Report):
        codes = {finding.code for finding in found.findings}
        assert not codes - _reasons(key, data, expected, level), f"x[{key}] of shape {data.shape} at {level}: {found}"
        return False
    assert not isinstance(expected, Exception), found
    problem = dg.index[key].problem(data)
    # One for each component, which lie in the last dimension; of one index array there is one size for all indices.
    sizes = np.array([data.shape[axis] for axis in problem.lookup_axes])
    (indices,) = dg.index[key].indices or (None,)
    binding.check(found, level, expected, data=data, indices=indices, sizes=sizes)
    return True


def _reasons(key: tuple[Any, ...], data: NDArray[Any], expected: Any, level: FeatureLevel) -> set[str]:
    """The codes that a report may have."""
    if isinstance(expected, Exception):
        bounds = "is out of bounds" in str(expected)
        return {"EXP101", "EXP102", "EXP104", "EXP106", "EXP111"} if bounds else {"EXP101"}
    if 0 in expected.shape or 0 in data.shape:
        return {"EXP102", "EXP101"}  # EXP101: a mask of size 0 that does not fit
    masks = [entry for entry in key if isinstance(entry, np.ndarray) and entry.dtype == bool]
    arrays = [entry for entry in key if isinstance(entry, np.ndarray) and entry.dtype != bool]
    several = len(arrays) + sum(mask.ndim for mask in masks) > 1
    backward = any(isinstance(entry, slice) and (entry.step or 1) < 0 for entry in key)
    reasons = set[str]()
    if several or backward:
        reasons |= {"EXP106"} if level < FeatureLevel.LEVEL_2_1 else set()
    if level < FeatureLevel.LEVEL_3_0:
        reasons |= {"EXP104"}
    return reasons
