"""Chains run fused and step by step, and compared with PyTorch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dmlgather.torch.tracing.trace import trace
from tests.chain_drawing import Chain


def faults(chains: Sequence[Chain]) -> list[str]:
    """What is wrong with the fused runs of chains, all of which are exported at once."""

    def all_of_them(arguments: Any) -> list[Any]:
        return [chain(*each) for chain, each in zip(chains, arguments, strict=True)]

    arguments = [chain.arguments for chain in chains]
    expected = all_of_them(arguments)
    traced: Any = trace(all_of_them, arguments, execute=True)
    found = [f"{entry.equation}: {entry.runs}" for entry in traced if not entry.runs.equal]
    for chain, one, other in zip(chains, traced.run(arguments), expected, strict=True):
        if content(one) != content(other):
            found.append(f"fused differs: {chain}")
    return found


def content(tensor: Any) -> object:
    """Type, shape and every bit of a tensor."""
    return tensor.dtype, tensor.shape, bytes(tensor.detach().flatten().clone().untyped_storage())
