"""From the dispatches of a DxDispatch model to launches: which of them can run as one.

A dispatch whose result only later dispatches read need not write it: they read what it reads. What is printed, written to a file
or read in other ways has to lie in its resource, and a launch runs at the place of its last dispatch, so what it reads must still
be there, and outside of what it writes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from dmlgather.dialects.buffer_contents import byte_span, place_in
from dmlgather.dialects.descriptor_problem import tensor_type
from dmlgather.dialects.graph_building import GraphBuilder
from dmlgather.dialects.index_graph import IndexGraph
from dmlgather.dialects.planned import Planned
from dmlgather.directml import OperatorDesc, lower
from dmlgather.directml.dxdispatch.bindings import BufferBinding
from dmlgather.directml.dxdispatch.commands import Dispatch
from dmlgather.directml.dxdispatch.model_file import CheckedFile
from dmlgather.directml.fields import wire_name
from dmlgather.fusion import Cut, Fused, fuse
from dmlgather.model_fusion.launches import FusedModel, ModelLaunch, Region
from dmlgather.plan import Layout


def fuse_model(model: CheckedFile) -> FusedModel:
    """The launches of a model that has no errors. All that it prints and writes to files is bit for bit as without fusing.

    A resource that only dispatches read is not written where these are in one launch with the dispatch that writes it.
    """
    return _Reading(model).fused()


class _Write(NamedTuple):
    """What a dispatch, command number `command`, has written. dense: whether it leaves no gaps."""

    command: int
    value: str
    region: Region
    layout: Layout
    dense: bool


class _Reading:
    """A model while its dispatches become a graph, whose values are regions of resources."""

    def __init__(self, model: CheckedFile) -> None:
        self.model, self.builder = model, GraphBuilder()
        self.writes: dict[str, list[_Write]] = {name: [] for name in model.resources}
        """In order, by resource."""
        self.inputs: dict[tuple[Region, int], str] = {}
        """The values that no dispatch of the graph writes, by what `regions` has for them."""
        self.regions: dict[str, tuple[Region, int]] = {}
        """Each value's region, and the number of the last command that wrote there before the value is read; -1 for none."""
        self.numbers: dict[str, int] = {}
        """The command of each step."""
        self.kept: dict[str, str] = {}
        """The values that have to lie in their resources, and why."""
        self.apart: dict[str, str] = {}
        """Likewise, values that dispatches behind them have to read there."""

    def fused(self) -> FusedModel:
        """See `fuse_model`."""
        for number, command in enumerate(self.model.commands):
            if isinstance(command, Dispatch):
                self._dispatch(number, command)
            else:
                resource = self.model.resources[command.resource]
                whole = Region(command.resource, 0, resource.size, np.dtype(np.uint8))
                self._keep(whole, f"{command.resource!r} is printed or written to a file behind it")
        read = {name for step in self.builder.steps for name in step.inputs}
        for write in (write for writes in self.writes.values() for write in writes):
            if write.value not in read and not self._hidden(write):
                self.kept.setdefault(write.value, "no dispatch reads it, so it is a result")
        fused = fuse(self._graph(), join=False)
        while moved := dict(self._moved_too_far(fused)):
            self.apart |= moved
            fused = fuse(self._graph(), join=False)
        launches = dict(self._launches(fused.graph))
        held = {number for launch in launches.values() for number in launch.commands}
        unneeded = tuple(number for number in self.numbers.values() if number not in held)
        return FusedModel(self.model, replace(fused, cuts=tuple(self._explained(fused))), launches, unneeded)

    def _graph(self) -> IndexGraph:
        """The dispatches, of which none reads through a value that is `apart`: it reads the resource in which the value lies."""
        graph = self.builder.build([])
        lying = {name: f"{name} as it lies in its resource" for name in self.apart}
        self.regions |= {alias: self.regions[name] for name, alias in lying.items()}
        steps = tuple(replace(step, inputs=tuple(lying.get(name, name) for name in step.inputs)) for step in graph.steps)
        types = {**graph.types, **{alias: graph.types[name] for name, alias in lying.items()}}
        outputs = tuple(dict.fromkeys((*self.kept, *self.apart)))
        return replace(graph, inputs=(*graph.inputs, *lying.values()), steps=steps, types=types, outputs=outputs)

    def _dispatch(self, number: int, command: Dispatch) -> None:
        """Add the step of a dispatch."""
        desc = self.model.dispatchables[command.dispatchable].desc
        at_execution, owned = self.model.buffer_bindings(command)
        inputs, layouts = [], []
        for field in desc.operator.inputs:
            name = wire_name(field)
            if name in owned:
                value, start = self._owned(command.dispatchable, desc, field, owned[name])
            else:
                value, start = self._read(command.dispatchable, desc, field, at_execution[name])
            inputs.append(value)
            layouts.append(_placed(desc, field, at_execution.get(name), start))
        bound = at_execution[wire_name(desc.operator.output)]
        region = _region(desc, desc.operator.output, bound)
        layouts.append(_placed(desc, desc.operator.output, bound, region.start))
        types = [self.builder.types[value] for value in inputs]
        extents = [*(tensor.shape[0] for tensor in types), region.elements]
        layouts = [replace(layout, extent=extent) for layout, extent in zip(layouts, extents, strict=True)]
        plan = lower(desc, dict(zip(desc.operator.tensors, layouts, strict=True)))
        problem = Planned(types[0], types[1] if len(types) > 1 else None, region.tensor, plan)
        value = self.builder.problem(f"dispatch '{command.dispatchable}'", problem, *inputs, output=bound.resource)
        self.numbers[self.builder.steps[-1].name] = number
        self.regions[value] = region, number
        dense = desc.tensor(desc.operator.output).elements == region.elements
        self.writes[bound.resource].append(_Write(number, value, region, layouts[-1], dense))

    def _owned(self, dispatchable: str, desc: OperatorDesc, field: str, bound: BufferBinding) -> tuple[str, int]:
        """The value of an input that DirectML owns, and the byte at which it begins in its copy."""
        owner = dispatchable, wire_name(field)
        region = _region(desc, field, bound._replace(offset=0))._replace(owner=owner)
        return self._input(f"{owner[1]} that '{dispatchable}' owns", region, -1), region.start

    def _read(self, dispatchable: str, desc: OperatorDesc, field: str, bound: BufferBinding) -> tuple[str, int]:
        """The value that an input reads, and the byte of its resource at which the value begins.

        It is what one dispatch wrote, or else the resource as it is, in which what was written has to lie.
        """
        region = _region(desc, field, bound)
        over = [write for write in self.writes[bound.resource] if write.region.meets(region)]
        if over and self._is_of(over[-1], region, desc, field, bound):
            return over[-1].value, over[-1].region.start
        reason = f"'{dispatchable}' reads {bound.resource!r} as another type, or more of it than this wrote"
        self._keep(region, reason)
        made = over[-1].command if over else -1
        return self._input(f"'{bound.resource}' from byte {region.start} on", region, made), region.start

    @staticmethod
    def _is_of(write: _Write, region: Region, desc: OperatorDesc, field: str, bound: BufferBinding) -> bool:
        """Whether a write wrote all elements that an input reads."""
        own, itemsize = write.region, region.dtype.itemsize
        alike = own.dtype == region.dtype if field == "indices_tensor" else own.dtype.itemsize == itemsize
        if not alike or not own.covers(region):
            return False
        return write.dense or place_in(write.layout, _placed(desc, field, bound, own.start), itemsize) is not None

    def _input(self, name: str, region: Region, made: int) -> str:
        """The value of a region as it is behind command number `made`."""
        if (region, made) not in self.inputs:
            value = self.builder.input(name, region.tensor)
            self.inputs[region, made] = value
            self.regions[value] = region, made
        return self.inputs[region, made]

    def _keep(self, region: Region, reason: str) -> None:
        """What was written to a region so far has to lie there."""
        for write in self.writes[region.resource]:
            if write.region.meets(region) and not self._hidden(write):
                self.kept.setdefault(write.value, reason)

    def _hidden(self, write: _Write) -> bool:
        """Whether all that a dispatch wrote is overwritten by another one's write."""
        later = (each for each in self.writes[write.region.resource] if each.command > write.command and each.dense)
        return any(each.region.covers(write.region) for each in later)

    def _moved_too_far(self, fused: Fused) -> Iterator[tuple[str, str]]:
        """Values that have to exist because a launch would read something that is overwritten by then, with the reason."""
        launches = dict(self._launches(fused.graph))
        names = {self.numbers[step.name]: step.inputs for step in fused.graph.steps}
        members = {self.numbers[step.name]: step for step in fused.source.steps}
        for number, launch in launches.items():
            earlier = [members[each] for each in launch.commands if each != number]
            for name, region in zip(names[number], launch.inputs, strict=False):
                made = self.regions[name][1]
                over = next((each for each in launches if made < each <= number and launches[each].output.meets(region)), None)
                reader = next((step for step in earlier if name in step.inputs), None)
                if over is not None and reader is not None:
                    yield reader.outputs[0], f"{region.resource!r}, which it is made of, is overwritten by {self._name(over)}"

    def _name(self, number: int) -> str:
        command = self.model.commands[number]
        assert isinstance(command, Dispatch)
        return f"dispatch '{command.dispatchable}'"

    def _launches(self, graph: IndexGraph) -> Iterator[tuple[int, ModelLaunch]]:
        """The launches by their places, each with no more of its regions than it reads."""
        for step in graph.steps:
            assert isinstance(step.work, Planned)
            commands = tuple(sorted(self.numbers[name] for name in step.work.holds or (step.name,)))
            *inputs, output = (self.regions[name][0] for name in (*step.inputs, *step.outputs))
            plan = step.work.packed
            reaches = [reach for reach in (plan.in_reach, plan.index_reach) if reach is not None]
            inputs = [region.part(*reach) for region, reach in zip(inputs, reaches, strict=False)]  # indices may be left over
            starts = [start for start, _ in reaches]
            plan = replace(
                plan,
                in_offset=plan.in_offset - starts[0],
                in_extent=inputs[0].elements,
                lookups=tuple(replace(lookup, index_offset=lookup.index_offset - starts[1]) for lookup in plan.lookups),
                index_extent=inputs[1].elements if plan.lookups else 0,
            )
            types = [region.tensor for region in inputs]
            problem = Planned(types[0], types[1] if plan.lookups else None, output.tensor, plan)
            yield self.numbers[step.name], ModelLaunch(commands, step.work, problem, tuple(inputs), output)

    def _explained(self, fused: Fused) -> Iterator[Cut]:
        """The cuts; for a value that has to exist, with the reason why."""
        makers = self.builder.build([]).makers
        outputs = {step.name: step.outputs[0] for step in self.builder.steps}
        for cut in fused.cuts:
            reason = self.kept.get(outputs[cut.maker])
            yield replace(cut, reason=reason) if cut.code == "output" and reason is not None else cut
        for step in self.builder.steps:
            for name in step.inputs:
                if name in self.apart:
                    yield Cut(makers[name].name, step.name, "output", self.apart[name])


def _region(desc: OperatorDesc, field: str, bound: BufferBinding) -> Region:
    """The bytes from the first to the last element of a tensor."""
    tensor = desc.tensor(field)
    dtype = tensor_type(tensor).dtype
    start, stop = byte_span(tensor.layout(), dtype.itemsize)
    return Region(bound.resource, bound.offset + start, bound.offset + stop, dtype)


def _placed(desc: OperatorDesc, field: str, bound: BufferBinding | None, start: int) -> Layout:
    """Where a tensor's elements lie, counted from byte `start` of its resource; bound: None for one that DirectML owns."""
    tensor = desc.tensor(field)
    return replace(tensor.layout(), offset=((bound.offset if bound else 0) - start) // tensor.data_type.bytes)
