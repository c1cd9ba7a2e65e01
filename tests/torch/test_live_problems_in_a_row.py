"""Problems of dg.torch in a row, fused: PyTorch's bits and errors, function by function."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
import torch

import dmlgather as dg
from dmlgather.calls.arguments import type_of
from dmlgather.dialects.views import ReshapeView
from tests.chain_count import CHAINS, each_seed
from tests.torch.judge import LIVE

pytestmark = pytest.mark.torch


def index(rng: random.Random, shape: tuple[int, ...], low: int, high: int) -> torch.Tensor:
    """Positions, one of which is at times out of range."""
    found = [rng.randrange(low, high) for _ in range(int(np.prod(shape)))]
    if rng.random() < 0.05:
        found[0] = rng.choice((high, low - 1, 2**40))
    return torch.tensor(found).reshape(shape)


def drawn(rng: random.Random, x: torch.Tensor) -> tuple[str, tuple[Any, ...], torch.Tensor | None]:
    """A function, its arguments with x in front, and its index."""
    shape, dim = tuple(x.shape), rng.randrange(x.dim())
    size = shape[dim]
    start, part = rng.randrange(size), rng.randint(1, size)
    other = rng.randrange(x.dim())
    ids = index(rng, (3,), 0, size)
    grown = (*shape[:dim], 2, *shape[dim + 1 :])
    rows = index(rng, grown, 0, size)
    flat = index(rng, (2, 3), -x.numel(), x.numel())
    signed = index(rng, (2, 2), -size, size)
    key = (*(slice(None),) * dim, signed, ...)
    found: tuple[tuple[str, tuple[Any, ...], torch.Tensor | None], ...] = (
        ("index_select", (x, dim, ids), ids),
        ("gather", (x, dim, rows), rows),
        ("take", (x, flat), flat),
        ("index", (x, key), signed),
        ("index", (x, (slice(None, None, 2), None)), None),
        ("select", (x, dim, -1), None),
        ("narrow", (x, dim, start, min(part, size - start)), None),
        ("slice", (x, dim, start, None, 2), None),
        ("flip", (x, (dim,)), None),
        ("roll", (x, part, dim), None),
        ("transpose", (x, dim, other), None),
        ("expand", (x, (2, *shape)), None),
        ("unfold", (x, dim, part, rng.randint(1, 2)), None),
    )
    return rng.choice([each for each in found if each[0] != "select" or x.dim() > 1])


def run(seed: int) -> bool:
    """Whether PyTorch raises for a chain that the seed draws."""
    rng = random.Random(seed)
    x = torch.arange(24, dtype=rng.choice((torch.int32, torch.uint8, torch.float64)))
    x = x.reshape(rng.choice(((24,), (4, 6), (2, 3, 4))))
    expected: torch.Tensor | None = x
    problems, indices, now = list[Any](), list[torch.Tensor](), x
    for _ in range(rng.randint(2, 5)):
        name, args, ids = drawn(rng, now)
        found = getattr(dg.torch, name).problem(*args)
        if name == "take":  # whose problem reads data of one dimension
            found = (ReshapeView(type_of("x", now), (now.numel(),)), found)
        problems += found if isinstance(found, tuple) else [found]
        if ids is not None:
            indices.append(ids)
        try:
            expected = None if expected is None else LIVE[name](expected, *args[1:])
        except (IndexError, RuntimeError):
            expected = None
        now = torch.zeros(problems[-1].output.shape, dtype=x.dtype) if expected is None else expected.contiguous()
        if now.numel() > 2000 or not now.numel() or now.dim() > 6 or not now.dim():
            break
    fused = dg.fuse(problems)
    if expected is None:
        with pytest.raises(IndexError):
            fused(x, *indices)
        return True
    found = fused(x, *indices)
    assert torch.equal(found, expected), [problem.name for problem in problems]
    return False


def test_fused_problems_give_pytorchs_bits() -> None:
    raised = sum(each_seed(run, 300))
    assert 0 < raised < 300


@pytest.mark.heavy
def test_many_fused_problems_give_pytorchs_bits() -> None:
    each_seed(run, CHAINS)
