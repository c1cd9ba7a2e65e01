"""A traced program whose gathers, slices and views run fused by dmlgather, and whose opaque nodes run by PyTorch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dmlgather.backends import arrays
from dmlgather.backends.devices import CPU, Device
from dmlgather.dialects.index_graph import Step
from dmlgather.fusion import Fused, fuse
from dmlgather.torch.tracing import nodes
from dmlgather.torch.tracing.exported import ExportedGraph
from dmlgather.torch.tracing.index_graph import TorchGraph
from dmlgather.torch.tracing.tensors import tensor_of, with_tensors


@dataclass(frozen=True, slots=True)
class FusedTorchProgram:
    """read: the program's graph at the sizes that were traced. fused: that graph, fused."""

    program: ExportedGraph
    read: TorchGraph
    fused: Fused

    @classmethod
    def of(cls, program: ExportedGraph, read: TorchGraph) -> FusedTorchProgram:
        """Fused. Checks are kept; and random nodes, needed or not, so that each draws the numbers of its turn."""
        drawn = [name for step in read.graph.steps if _is_random(read, step) for name in step.outputs]
        return cls(program, read, fuse(read.graph, keep=[*drawn, *read.checks]))

    def launches(self) -> Mapping[str, tuple[int, ...]]:
        """The numbers of the launches that do a step, by the step's name."""
        done: dict[str, list[int]] = {}
        for number, launch in enumerate(self.fused.launches):
            for step in launch.holds:
                done.setdefault(step, []).append(number)
        return {step: tuple(numbers) for step, numbers in done.items()}

    def run(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """What the program returns; see `Trace.run`."""
        leaves = self.program.leaves(args, kwargs)
        of_torch = any(nodes.is_tensor(leaf) for leaf in leaves)
        with arrays.in_order(leaves):
            values, home = self._inputs(leaves)
            found = self.fused.run(values, compute=self._computing(home))
            results = iter(self.read.graph.outputs)
            returned = []
            for node in self.program.outputs[: self.program.results]:
                if nodes.gives_tensor(node):
                    array = found[next(results)]
                    returned.append(tensor_of(array) if of_torch or not leaves else array)
                else:
                    returned.append(self.program.number_of(node, leaves))
        return self.program.returned(returned)

    def _inputs(self, leaves: Sequence[Any]) -> tuple[dict[str, Any], Device]:
        """The arrays of the graph's inputs, and the device on which they lie. TypeError and ValueError as the fused run."""
        taken = [
            arrays.adopt(leaf.detach() if nodes.is_tensor(leaf) else leaf) for leaf in (leaves[each] for each in self.read.inputs)
        ]
        if self.read.reads_memory:
            self._check_memory(leaves, [array for array, _ in taken])
        for number, (node, leaf) in enumerate(zip(self.program.inputs, leaves, strict=True)):
            constant = node.meta.get("val")
            if number not in self.read.inputs and isinstance(constant, bool | int | float | str) and leaf != constant:
                raise ValueError(f"{node.name} is {leaf!r}, but the program was exported for {constant!r}")
        values = {name: array for name, (array, _) in zip(self.read.graph.inputs, taken, strict=True)}
        return values, taken[0][1] if taken else CPU

    def _check_memory(self, leaves: Sequence[Any], held: Sequence[Any]) -> None:
        """ValueError unless the inputs lie in memory as those of the example, because as_strided reads it."""
        values = self.program.solved(leaves)
        for place, array in zip(self.read.inputs, held, strict=True):
            node, leaf = self.program.inputs[place], leaves[place]
            expected = nodes.strides(node.meta["val"], values), nodes.offset(node.meta["val"], values)
            found = (nodes.strides(leaf, values), leaf.storage_offset()) if nodes.is_tensor(leaf) else (_strides(array), 0)
            if found != expected:
                given, wanted = (
                    f"from element {start} on, {f'with strides {step}' if step else 'packed'}"
                    for step, start in (found, expected)
                )
                text = f"{node.name} lies in memory {given}, but the example {wanted}, and as_strided reads memory"
                raise ValueError(f"{text}: lay it out as the example")

    def _computing(self, home: Device) -> Any:
        """What runs an opaque step on the device `home`."""

        def compute(step: Step, inputs: Sequence[Any]) -> list[Any]:
            node, given = self.read.opaque[step.name]
            by_name = dict(zip(step.inputs, inputs, strict=True))
            results = nodes.run(node, with_tensors(given, by_name))
            moved = [arrays.move(*arrays.adopt(result.detach()), home) for result in results]
            happened = step.outputs[len(moved) :]  # what a check gives in the graph
            return [*moved, *(arrays.move(np.ones((), bool), CPU, home) for _ in happened)]

        return compute


def _strides(array: Any) -> tuple[int, ...] | None:
    """The strides of NumPy's or CuPy's array in elements; None where it is packed."""
    return None if array.flags.c_contiguous else tuple(step // array.itemsize for step in array.strides)


def _is_random(read: TorchGraph, step: Step) -> bool:
    return step.name in read.opaque and nodes.is_random(read.opaque[step.name][0].target)
