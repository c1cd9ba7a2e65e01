"""Strategies of hypothesis for descriptors: legal ones, ones with input buffers, and ones that break exactly one rule.

Each strategy draws only a seed, which hypothesis prints and shrinks. The descriptor follows from the seed, so thousands are made
in seconds. Tensors have at most a few hundred elements.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from dmlgather.directml import FeatureLevel, OperatorDesc
from tests.directml import breaking_operators, breaking_tensors
from tests.directml.buffers import input_buffers
from tests.directml.making import Described, make

BREAKERS = {**breaking_tensors.BREAKERS, **breaking_operators.BREAKERS}
"""For each ERROR code, a function that makes a descriptor that breaks only that rule."""


class Broken(NamedTuple):
    """A descriptor that breaks one rule, a level, and the expected code."""

    desc: OperatorDesc
    level: FeatureLevel
    code: str


@dataclass(frozen=True)
class Problem:
    """A legal descriptor, a level that accepts it, and the contents of its input tensors.

    `inputs`: byte buffers in binding order, each of exactly TotalTensorSizeInBytes bytes.
    """

    seed: int
    desc: OperatorDesc
    level: FeatureLevel
    inputs: tuple[NDArray[np.uint8], ...] = field(repr=False)


def described(seed: int) -> Described:
    return make(random.Random(seed))


def problem(seed: int) -> Problem:
    rng = random.Random(seed)
    desc, level = make(rng)
    return Problem(seed, desc, level, input_buffers(rng, desc))


def broken(seed: int) -> Broken:
    """Return the broken descriptor of a seed. Consecutive seeds give the codes in turn."""
    rng = random.Random(seed)
    code = list(BREAKERS)[seed % len(BREAKERS)]
    return Broken(*BREAKERS[code](rng), code)


_seeds = st.integers(0, 2**63 - 1)


def legal_descriptors() -> st.SearchStrategy[Described]:
    """Draw legal descriptors of all operators, types, strides and levels, each with a level that accepts it."""
    return _seeds.map(described)


def problems() -> st.SearchStrategy[Problem]:
    """Draw legal descriptors with input buffers. Indices are in range, negative, just outside and extreme."""
    return _seeds.map(problem)


def broken_descriptors() -> st.SearchStrategy[Broken]:
    """Draw descriptors that break exactly one rule, each with the expected code."""
    return _seeds.map(broken)
