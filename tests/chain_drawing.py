"""Random chains of steps on an array, as the user of a library writes them: what the libraries' chains share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from tests import seeds

MOST_ELEMENTS = 2000
MOST_DIMENSIONS = 6

AT_ONCE = 50
"""Chains that a heavy test runs as one program."""

Step = Callable[[Any, Sequence[Any]], Any]
"""From the array and all index arrays to the next array."""

Drawn = tuple[Step, str, tuple[int, ...]]
"""A step, what people call it, and the shape of what it gives."""


@dataclass(frozen=True, eq=False)
class Chain:
    """A function and its arguments. texts: its steps, for people."""

    steps: tuple[Step, ...]
    texts: tuple[str, ...]
    x: Any
    indices: tuple[Any, ...]

    def __call__(self, x: Any, *indices: Any) -> Any:
        for step in self.steps:
            x = step(x, indices)
        return x

    @property
    def arguments(self) -> tuple[Any, ...]:
        return self.x, *self.indices

    def __str__(self) -> str:
        return f"x {self.x.dtype}{list(self.x.shape)}: {', '.join(self.texts)}"


class ChainDrawing(ABC):
    """A chain that grows."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.x = self.data([int(size) for size in rng.integers(1, 7, rng.integers(1, 5))])
        self.indices: list[Any] = []
        self.steps: list[Step] = []
        self.texts: list[str] = []

    @abstractmethod
    def data(self, shape: list[int]) -> Any:
        """What the chain starts from: an array of random type and bits."""

    @abstractmethod
    def draw(self) -> Drawn | None:
        """A random step; None where the array does not fit."""

    def add_step(self, drawn: Drawn) -> None:
        """Take a step that was drawn."""
        step, text, _ = drawn
        self.steps.append(step)
        self.texts.append(text)

    def chain(self, length: int) -> Chain:
        """The chain, with that many further steps, none of whose results is too large."""
        until = len(self.steps) + length
        while len(self.steps) < until:
            count, drawn = len(self.indices), self.draw()
            if drawn is not None and prod(drawn[2]) <= MOST_ELEMENTS and len(drawn[2]) <= MOST_DIMENSIONS:
                self.add_step(drawn)
            else:
                del self.indices[count:]
        return Chain(tuple(self.steps), tuple(self.texts), self.x, tuple(self.indices))


def check_fresh_chains(
    random_chain: Callable[[np.random.Generator, int], Chain], faults: Callable[..., list[str]], count: int = AT_ONCE
) -> None:
    """AssertionError unless so many chains of the test's own seed have no faults."""
    rng = seeds.numpy_rng()
    found = faults([random_chain(rng, int(rng.integers(2, 9))) for _ in range(count)])
    assert found == [], found  # pytest tells no values of this module
