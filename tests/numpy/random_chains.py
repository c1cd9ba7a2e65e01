"""Random chains in NumPy's spelling: what NumPy and `dg.index` make of them, fused and step by step."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

import dmlgather as dg
from dmlgather.calls.arguments import Fill, resolve_policy
from dmlgather.calls.eager import execute
from dmlgather.dialects.planned import under
from dmlgather.dialects.problem import Problem
from dmlgather.numpy import IndexExpression
from tests.dialects.binding import DEVICES
from tests.dialects.expressions import numpys, some_data, some_expression
from tests.dialects.outcomes import tried
from tests.numpy.judged import told
from tests.peers.numpy import NUMPY, Indexed


def some_chain(rng: random.Random, data: NDArray[Any]) -> tuple[IndexExpression, NDArray[Any] | Exception]:
    """A chain of 2 to 8 steps, and what NumPy gives; few of them end in an error."""
    chain: Any = dg.index
    found: NDArray[Any] | Exception = data
    for number in range(rng.randint(2, 8)):
        assert isinstance(found, np.ndarray)
        kind = rng.random() if number else 0
        if kind < 0.6:
            key = some_expression(rng, found.shape, faults=0.02)
            chain, found = chain[key], numpys(found, key)
        elif kind < 0.7 and found.ndim:
            chain, found = _taken_along(rng, chain, found)
        elif kind < 0.85:
            axes = tuple(rng.sample(range(found.ndim), found.ndim))
            chain, found = chain.transpose(*axes), found.transpose(axes)
        else:
            shape = _some_shape(rng, found.size)
            chain, found = chain.reshape(shape), found.reshape(shape)
        if isinstance(found, Exception) or found.ndim > 6:
            break
    return chain, found


def _taken_along(rng: random.Random, chain: Any, found: NDArray[Any]) -> tuple[IndexExpression, NDArray[Any] | Exception]:
    axis = rng.randrange(found.ndim)
    size = found.shape[axis]
    shape = [own if rng.random() < 0.7 else rng.choice((1, 2)) if own == 1 else 1 for own in found.shape]
    shape[axis] = rng.randint(0, 3) if size else 0
    values = [rng.randrange(-size, size) for _ in range(int(np.prod(shape)))]
    ids = np.array(values, rng.choice(("int8", "int64"))).reshape(shape)
    return chain.take_along_axis(ids, axis), np.take_along_axis(found, ids, axis)


def _some_shape(rng: random.Random, size: int) -> tuple[int, ...]:
    if not size:
        return (0, rng.randint(1, 3))
    shape = []
    for factor in (2, 3, 2, 5):
        if size % factor == 0 and rng.random() < 0.6:
            shape.append(factor)
            size //= factor
    return (*shape, rng.choice((size, -1)))


def check_chain(seed: int) -> bool:
    """The chain of a seed gives NumPy's bits, fused and step by step, or raises as NumPy does. Returns whether it was fused."""
    rng = random.Random(seed)
    data = some_data(rng)
    chain, expected = some_chain(rng, data)
    case = f"{chain} of shape {data.shape}: NumPy {expected!r}"
    device = rng.choice(DEVICES)
    found = tried(lambda: np.asarray(chain(data, device=device)))
    same = told(found) == told(expected)
    assert same or NUMPY.known_fault(Indexed(data, chain, found)), f"{case}, here {found!r}"
    if isinstance(found, Exception):
        return False
    assert stepped(chain, data, device=device).tobytes() == found.tobytes()
    launches, problems = chain.fused(data).launches, chain.problems(data)
    assert len(launches) <= len(problems)
    return len(launches) < len(problems)


def steps(
    chain: IndexExpression, data: NDArray[Any], choice: str | Fill | None
) -> Sequence[tuple[Problem, Sequence[NDArray[Any]]]]:
    """Each step's problem with its indices."""
    found, indices = list[tuple[Problem, Sequence[NDArray[Any]]]](), iter(chain.indices)
    for problem in chain.problems(data):
        policy = resolve_policy(choice, problem.out_of_bounds, data.dtype)
        looked_up = [] if len(problem.inputs) == 1 else [np.array(next(indices), order="C")]
        found.append((under(problem, *policy), looked_up))
    assert next(indices, None) is None
    return found


def stepped(
    chain: IndexExpression, data: NDArray[Any], choice: str | Fill | None = None, device: str = "reference"
) -> NDArray[Any]:
    """What the steps of a chain give, one after the other."""
    found = np.array(data, order="C")
    for problem, indices in steps(chain, data, choice):
        found = np.array(execute(problem, [found, *indices], device=device), order="C")
    return found
