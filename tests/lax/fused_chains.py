"""Chains run fused and step by step, and compared with live JAX, compiled and not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import dmlgather as dg
from tests.chain_drawing import Chain
from tests.lax.judge import QUICKLY, jax
from tests.lax.stepping import stepped


def faults(chains: Sequence[Chain]) -> list[str]:
    """What is wrong with the fused runs of chains.

    The judge is JAX, which compiles all chains at once. Where it differs, JAX runs the chain's operators one by one: compiled, it
    makes one slice of two without the clamping between them (`test_jax_merges_slices_without_clamping`).
    """

    def all_of_them(arguments: Any) -> list[Any]:
        return [chain(*each) for chain, each in zip(chains, arguments, strict=True)]

    compiled = jax.jit(all_of_them, compiler_options=QUICKLY)
    found = []
    for chain, expected in zip(chains, compiled([chain.arguments for chain in chains]), strict=True):
        trace: Any = dg.lax.trace(chain, *chain.arguments)
        runs = {"fused": trace.run(*chain.arguments), "step by step": stepped(trace.program.read, chain.arguments)[0]}
        if all(_bits(run) == _bits(np.asarray(expected)) for run in runs.values()):
            continue
        one_by_one = np.asarray(chain(*map(jax.numpy.asarray, chain.arguments)))
        found += [f"{how} differs: {chain}" for how, run in runs.items() if _bits(run) != _bits(one_by_one)]
    return found


def _bits(array: Any) -> object:
    return array.shape, array.dtype, array.tobytes()
