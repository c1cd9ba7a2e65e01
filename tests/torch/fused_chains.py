"""Functions and chains run fused and step by step, and compared with PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from dmlgather.fusion.traces import Trace
from tests.chain_drawing import Chain
from tests.torch.executing import executed


def faults(chains: Sequence[Chain]) -> list[str]:
    """What is wrong with the fused runs of chains, all of which are exported at once."""

    def all_of_them(arguments: Any) -> list[Any]:
        return [chain(*each) for chain, each in zip(chains, arguments, strict=True)]

    arguments = [chain.arguments for chain in chains]
    expected = all_of_them(arguments)
    traced = executed(all_of_them, arguments)
    found = [f"{entry.equation}: {entry.runs}" for entry in traced if not entry.runs.equal]
    for chain, one, other in zip(chains, traced.trace.run(arguments), expected, strict=True):
        if content(one) != content(other):
            found.append(f"fused differs: {chain}")
    return found


def leaves(tree: Any) -> list[Any]:
    """What a tree of PyTorch's holds."""
    return list(torch.utils._pytree.tree_leaves(tree))


def agrees(fn: Callable[..., Any], *args: Any) -> Trace:
    """The trace of a function whose entries and fused run give PyTorch's bits."""
    found = executed(fn, *args)
    assert [str(entry.runs) for entry in found] == ["1, equal"] * len(found)
    same_run(found.trace, fn, *args)
    return found.trace


def same_run(traced: Trace, fn: Callable[..., Any], *args: Any) -> None:
    """The trace's run gives the function's bits."""
    with torch.no_grad():
        expected = fn(*args)
    assert [content(each) for each in leaves(traced.run(*args))] == [content(each) for each in leaves(expected)]


def content(tensor: Any) -> object:
    """Type, shape and every bit of a tensor."""
    return tensor.dtype, tensor.shape, bytes(tensor.detach().flatten().clone().untyped_storage())
