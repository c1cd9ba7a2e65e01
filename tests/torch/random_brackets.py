"""Random functions of brackets of every kind, as a user of PyTorch writes them: index tensors are constants or arguments."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np
import torch

from dmlgather.torch.tracing.trace import trace
from tests.chain_drawing import MOST_DIMENSIONS, MOST_ELEMENTS, Chain, Step
from tests.dialects.brackets import Key, Spelling, is_array, random_bits, some_key
from tests.torch.fused_chains import content
from tests.torch.judge import TorchCall, live, ours

TYPES = ("float32", "int32", "uint8", "float16", "bool", "complex64", "int64")
SPELLING = Spelling(types=("int64", "int64", "int32"), backwards=False)
TRACED = replace(SPELLING, scalars=False, masks=False)
"""What a trace takes. PyTorch's exporter does not know what a mask, or a tensor without dimensions, holds, be it a constant."""


def random_brackets(rng: np.random.Generator, length: int) -> Chain:
    """One to three brackets, with positions in range. length: of chains of other kinds."""
    return _drawn(random.Random(int(rng.integers(2**62))), 1 + length % 3, 0.0)


def check_far(rng: random.Random) -> bool:
    """The trace of brackets, some with a position out of range, gives PyTorch's bits, or an IndexError where PyTorch raises one.
    Returns whether it raises.
    """
    chain = _drawn(rng, rng.randint(1, 2), 0.5)
    traced: Any = trace(chain.__call__, *chain.arguments)
    expected, found = (_outcome(run, chain.arguments) for run in (chain, traced.run))
    assert expected == found, f"{chain}: PyTorch {expected}, here {found}"
    return expected is IndexError


def check_call(rng: random.Random) -> bool:
    """`dg.torch.index` gives PyTorch's bits or its error. Returns whether PyTorch raises."""
    bits = random_bits(rng, rng.choice(TYPES))
    call = TorchCall("index", (torch.from_numpy(bits.copy()), _tensors(some_key(rng, bits.shape, SPELLING, far=0.2))))
    theirs, found = live(call), ours(call)
    assert (theirs.error, theirs.same_bits(found)) == (found.error, True), f"{call}: PyTorch {theirs}, here {found}"
    return theirs.error is not None


def _drawn(rng: random.Random, length: int, far: float) -> Chain:
    bits = random_bits(rng, rng.choice(TYPES))
    # PyTorch makes quiet NaNs of signalling ones in types of 16 bits.
    x = torch.from_numpy(np.nan_to_num(bits) if bits.dtype == np.float16 else bits.copy())
    steps, texts, indices, shape = list[Step](), list[str](), list[Any](), tuple(x.shape)
    for _ in range(length):
        key = some_key(rng, shape, TRACED, far=far)
        inside = tuple(np.zeros_like(entry) if is_array(entry) else entry for entry in key)
        following = tuple(torch.zeros(shape, dtype=torch.uint8)[_tensors(inside)].shape)
        if prod(following) > MOST_ELEMENTS or len(following) > MOST_DIMENSIONS:
            break
        entries = _tensors(key)
        if rng.random() < 0.5:
            entries = tuple(_Argument.of(each, indices) if isinstance(each, torch.Tensor) else each for each in entries)
        steps.append(_step(entries))
        texts.append(f"x[{key}]")
        shape = following
    return Chain(tuple(steps), tuple(texts), x, tuple(indices))


class _Argument(int):
    """The number of an index tensor among the arguments."""

    @classmethod
    def of(cls, tensor: torch.Tensor, indices: list[Any]) -> _Argument:
        """That of a tensor, which is added to them."""
        indices.append(tensor)
        return cls(len(indices) - 1)


def _tensors(key: Key) -> Key:
    return tuple(torch.from_numpy(entry) if isinstance(entry, np.ndarray) else entry for entry in key)


def _step(key: Key) -> Step:
    return lambda x, i: x[tuple(i[entry] if isinstance(entry, _Argument) else entry for entry in key)]


def _outcome(run: Callable[..., Any], arguments: Sequence[Any]) -> object:
    try:
        return content(run(*arguments))
    except IndexError as error:
        return type(error)
