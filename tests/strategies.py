"""hypothesis strategies for descriptors: legal ones, ones with input buffers, and ones that break exactly one rule.

Each draws one seed, which is all that hypothesis prints and shrinks; everything else follows from it, so that thousands are
made in seconds. Tensors have at most a few hundred elements.
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
"""For each ERROR code of a descriptor: how to make one that breaks that rule and no other."""


class Broken(NamedTuple):
    """A descriptor, the level it is checked at, and the one code it is to be found under."""

    desc: OperatorDesc
    level: FeatureLevel
    code: str


@dataclass(frozen=True)
class Problem:
    """A legal descriptor, a level that takes it, and what its input tensors hold.

    inputs: byte buffers in binding order (InputTensor, then IndicesTensor where there is one), each of exactly
    TotalTensorSizeInBytes bytes.
    """

    seed: int
    desc: OperatorDesc
    level: FeatureLevel
    inputs: tuple[NDArray[np.uint8], ...] = field(repr=False)


def described(seed: int) -> Described:
    """The legal descriptor of a seed."""
    return make(random.Random(seed))


def problem(seed: int) -> Problem:
    """The problem of a seed."""
    rng = random.Random(seed)
    desc, level = make(rng)
    return Problem(seed, desc, level, input_buffers(rng, desc))


def broken(seed: int) -> Broken:
    """The broken descriptor of a seed; the codes come in turn."""
    rng = random.Random(seed)
    code = list(BREAKERS)[seed % len(BREAKERS)]
    return Broken(*BREAKERS[code](rng), code)


_seeds = st.integers(0, 2**63 - 1)


def legal_descriptors() -> st.SearchStrategy[Described]:
    """Random legal descriptors over all operators, data and index types, strides, levels; each with such a level."""
    return _seeds.map(described)


def problems() -> st.SearchStrategy[Problem]:
    """Random legal descriptors with input buffers; index values in range, negative, just outside and extreme."""
    return _seeds.map(problem)


def broken_descriptors() -> st.SearchStrategy[Broken]:
    """Random descriptors that break exactly one rule, with the code it is to be found under."""
    return _seeds.map(broken)
