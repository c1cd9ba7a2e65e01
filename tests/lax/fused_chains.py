"""Chains run fused and step by step, and compared with live JAX, compiled and not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import dmlgather as dg
from tests.chain_drawing import Chain
from tests.lax.judge import compiled, jax
from tests.lax.stepping import stepped
from tests.peers.jax import COMPILED


def faults(chains: Sequence[Chain]) -> list[str]:
    """What is wrong with the fused runs of chains.

    The judge is JAX, which compiles all chains at once, and runs those one by one that may meet a fault of its compiler.
    """
    found = []
    for chain, expected in zip(chains, compiled(chains), strict=True):
        trace: Any = dg.lax.trace(chain, *chain.arguments)
        runs = {"fused": trace.run(*chain.arguments), "step by step": stepped(trace.program.read, chain.arguments)[0]}
        if all(_bits(run) == _bits(np.asarray(expected)) for run in runs.values()):
            continue
        one_by_one = np.asarray(chain(*map(jax.numpy.asarray, chain.arguments)) if COMPILED.known_fault(chain) else expected)
        found += [f"{how} differs: {chain}" for how, run in runs.items() if _bits(run) != _bits(one_by_one)]
    return found


def _bits(array: Any) -> object:
    return array.shape, array.dtype, array.tobytes()
