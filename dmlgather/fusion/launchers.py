"""How the problems of a graph are launched, and which of them need no launch."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from dmlgather.backends import arrays
from dmlgather.backends.devices import Device
from dmlgather.backends.footprints import Signature, signature_on
from dmlgather.calls.prepared import Prepared, Ready
from dmlgather.dialects.index_graph import IndexGraph
from dmlgather.dialects.problem import Problem
from dmlgather.fusion.derivations import tidied


class Launcher:
    """A problem whose programs are prepared once for each device and signatures of arrays, and kept."""

    def __init__(self, problem: Problem) -> None:
        self._prepared = Prepared(problem)

    def ready(self, device: Device, *signatures: Signature) -> Ready | None:
        """The problem on arrays of these signatures, inputs first, on the host. None where `launch` has to copy them, or refuses
        them.
        """
        try:
            return self._prepared.ready(device, *signatures)
        except ValueError:
            return None

    def launch(self, device: Device, inputs: Sequence[Any], out: Any) -> None:
        """Write the result into `out`; all arrays lie in the memory of the device. IndexError for a bad index under RAISE."""
        memory = device.memory
        ready = self.ready(device, *(signature_on(memory, array) for array in (*inputs, out)))
        if ready is not None:
            ready.write(inputs, out)
            return
        # No plan can say how the problem walks over these strides.
        *packed, result = (arrays.allocate(memory, array.shape, array.dtype) for array in (*inputs, out))
        for copy, array in zip(packed, inputs, strict=True):
            arrays.fill_from(copy, memory, array)
        self._prepared.ready(device, *(signature_on(memory, array) for array in (*packed, result))).write(packed, result)
        arrays.fill_from(out, memory, result)


def unlaunched(graph: IndexGraph) -> frozenset[str]:
    """The names of the steps that move nothing: they give all elements of their data in their order, perhaps under another shape.

    Where such an output would be memory of an input, of a constant or of another output of the graph, it is a copy, and moved.
    """
    owner = {name: name for name in (*graph.inputs, *graph.constants)}
    found = {}
    for step in graph.steps:
        owner |= {name: name for name in step.outputs}
        if isinstance(step.work, Problem) and moves_nothing(step.work):
            (output,) = step.outputs
            owner[output], found[output] = owner[step.inputs[0]], step.name
    taken = {*graph.inputs, *graph.constants}
    for name in dict.fromkeys(graph.outputs):
        if owner[name] in taken:
            found.pop(name, None)
        taken.add(owner[name])
    return frozenset(found.values())


def moves_nothing(problem: Problem) -> bool:
    """Whether the output is all of the data, element by element, perhaps under another shape."""
    plan = tidied(problem.plan())
    straight = (plan.in_offset, plan.in_strides) in ((0, ()), (0, (1,))) and not plan.lookups
    return straight and plan.elements == prod(problem.data.shape) == prod(problem.output.shape)
