"""A program run by PyTorch, and the results of its nodes compared with those of their plans, byte for byte."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dmlgather.torch.tracing.fused_program import FusedTorchProgram
from dmlgather.torch.tracing.nodes import library
from dmlgather.torch.tracing.tensors import host_array
from dmlgather.tracing.entries import Runs


def compare(program: FusedTorchProgram, example: Sequence[Any], compared: Sequence[Any]) -> dict[Any, Runs]:
    """Of each node, whether every value that its plans make of PyTorch's own values is PyTorch's.

    example: the arguments; those that the program holds where there are none. What is random is drawn twice from one seed.
    """
    torch = library()
    args = example or program.program.program.example_inputs[0]
    wanted = [name for node in compared for name in program.read.results[node]]
    with torch.random.fork_rng():
        torch.manual_seed(0)
        expected = program.program.run(args)
        torch.manual_seed(0)
        found = program.values(args, wanted)
    return {node: _compared(expected[node], [found[name] for name in program.read.results[node]]) for node in compared}


def _compared(expected: Sequence[Any], found: Sequence[Any]) -> Runs:
    for number, (tensor, array) in enumerate(zip(expected, found, strict=True)):
        own, other = _bytes(host_array(tensor)), _bytes(np.asarray(array))
        unequal = (own != other).any(axis=1) if own.shape == other.shape else np.array([True])
        if unequal.any():
            first = int(unequal.argmax())
            position = [int(place) for place in np.unravel_index(first, tuple(tensor.shape))]
            by_plan, by_torch = (f"0x{each[first][::-1].tobytes().hex()}" for each in (other, own))
            result = f"result {number}" if len(expected) > 1 else "result"
            return Runs(1, False, f"{result}{position} is {by_plan} by the plan and {by_torch} in PyTorch")
    return Runs(1, True)


def _bytes(array: NDArray[Any]) -> NDArray[np.uint8]:
    """The bytes of each element, shape [elements, bytes]."""
    packed = np.ascontiguousarray(array)
    return packed.reshape(-1).view(np.uint8).reshape(array.size, array.dtype.itemsize)
