"""Random models of several dispatches: each reads what others wrote, whole or in part, through strides and at offsets."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

from conformance.random_descriptors import MAKERS, random_sizes
from dmlgather.directml import BufferTensorDesc, FeatureLevel, OperatorDesc
from dmlgather.directml.fields import wire_name
from tests.directml.making import tensor
from tests.directml.pages import PAGES

INDEX_TYPES = ("UINT32", "INT32", "UINT64", "INT64")
DATA_TYPES = ("FLOAT32", "INT32", "UINT32", "INT64", "FLOAT16", "UINT8")


@dataclass
class _Buffer:
    """A resource: its JSON, the bytes that it has, and the elements of what was written to it last."""

    part: dict[str, Any]
    size: int
    elements: int


@dataclass
class _Tensors:
    """The tensors of one descriptor. elements: what the product of sizes is likely to be. packed: whether all are."""

    rng: random.Random
    data_type: str
    index_type: str
    elements: int
    packed: bool
    documented: bool = False

    def sizes(self, count: int, room: int = 24) -> list[int]:
        if room > 8 and self.rng.random() < 0.7:
            return factors(self.rng, self.elements, count)
        return random_sizes(self.rng, count, room)

    def data(self, of: Sequence[int]) -> BufferTensorDesc:
        return self._tensor(self.data_type, of)

    def indices(self, of: Sequence[int]) -> BufferTensorDesc:
        return self._tensor(self.index_type, of)

    def output(self, of: Sequence[int]) -> BufferTensorDesc:
        return self._tensor(self.data_type, of, is_output=True)

    def _tensor(self, data_type: str, of: Sequence[int], is_output: bool = False) -> BufferTensorDesc:
        if self.packed:
            return BufferTensorDesc(data_type=data_type, sizes=of)
        return tensor(self.rng, data_type, of, is_output)


def factors(rng: random.Random, number: int, count: int) -> list[int]:
    """`count` sizes whose product is `number`."""
    found = [1] * count
    divisor = 2
    while number > 1:
        if number % divisor == 0:
            found[rng.randrange(count)] *= divisor
            number //= divisor
        else:
            divisor += 1
    return found


@dataclass
class _Model:
    """A model while it is made."""

    rng: random.Random
    packed: bool
    resources: dict[str, _Buffer] = field(default_factory=dict)
    dispatchables: dict[str, Any] = field(default_factory=dict)
    commands: list[dict[str, Any]] = field(default_factory=list)
    shown: set[str] = field(default_factory=set)

    def dispatch(self, name: str, data_type: str) -> None:
        """Add a dispatch that most likely reads the resource that was written last."""
        rng = self.rng
        last = next(reversed(self.resources), None) if rng.random() < 0.8 else self._any_resource()
        elements = self.resources[last].elements if last else rng.choice((12, 16, 24, 36, 64))
        operator = rng.choice(list(MAKERS))
        tensors = _Tensors(rng, data_type, rng.choice(INDEX_TYPES), min(elements, 64), self.packed or rng.random() < 0.3)
        rank = rng.choice(PAGES[operator].at(FeatureLevel.LEVEL_6_4).counts)
        for _ in range(20):
            desc = MAKERS[operator](rng, tensors, rank)
            if last is None or desc.tensor("input_tensor").elements <= elements:
                break
        self.bind(name, desc, last)

    def bind(self, name: str, desc: OperatorDesc, data: str | None) -> None:
        """Add the dispatch of a descriptor. data: the resource that it reads, if it is large enough."""
        rng, bindings, taken = self.rng, dict[str, Any](), dict[str, list[tuple[int, int]]]()
        initial = dict[str, Any]()
        for part in desc.operator.tensors:
            described, is_output = desc.tensor(part), part == desc.operator.output
            size, step = described.total_bytes, max(16, described.guaranteed_base_offset_alignment)
            again = rng.random() < (0.6 if is_output else 0.3)
            resource = data if part == "input_tensor" else self._any_resource() if again else None
            offset = step * rng.randrange(3) if rng.random() < 0.3 and step < 1000 else 0
            if resource is not None and self.resources[resource].size < offset + size:
                offset = 0
            if (
                resource is None
                or self.resources[resource].size < size
                or (is_output and self._meets(taken, resource, offset, size))
            ):
                resource, offset = self._new(described, part, desc), 0
            if described.flags and not is_output:
                initial[wire_name(part)] = self._binding(resource, offset)
            else:
                bindings[wire_name(part)] = self._binding(resource, offset)
                taken.setdefault(resource, []).append((offset, offset + size))
            if is_output:
                self.resources[resource].elements = prod(described.sizes)
                self.resources[resource] = self.resources.pop(resource)  # the last one written is the last
                self.shown.discard(resource)
        document = desc.document()
        if initial:
            document["bindings"] = initial
        self.dispatchables[name] = document
        self.commands.append({"type": "dispatch", "dispatchable": name, "bindings": bindings})

    def show(self, resource: str) -> None:
        """Print a resource, unless it was printed since it was last written."""
        if resource not in self.shown:
            self.shown.add(resource)
            self.commands.append({"type": "print", "resource": resource})

    def _binding(self, resource: str, offset: int) -> Any:
        return {"name": resource, "elementOffset": offset, "elementSizeInBytes": 1} if offset else resource

    def _any_resource(self) -> str | None:
        return self.rng.choice(list(self.resources)) if self.resources else None

    @staticmethod
    def _meets(taken: dict[str, list[tuple[int, int]]], resource: str, offset: int, size: int) -> bool:
        return any(start < offset + size and offset < stop for start, stop in taken.get(resource, ()))

    def _new(self, described: BufferTensorDesc, part: str, desc: OperatorDesc) -> str:
        rng, kind = self.rng, described.data_type
        count = -(-described.total_bytes // kind.bytes) + rng.choice((0, 0, 0, 4))
        if part == "indices_tensor":
            data = desc.tensor("input_tensor").sizes
            most = max([data[axis] for axis in desc.operator.lookup_axes(desc)], default=1)
            low = -most - 1 if kind.name.startswith("INT") else 0
            values = [rng.randint(low, most + 1) for _ in range(count)]
        else:
            values = [rng.randrange(100) for _ in range(count)]
        name, stored = f"r{len(self.resources)}", {"initialValuesDataType": kind.name, "initialValues": values}
        size = max(count * kind.bytes, described.total_bytes)
        self.resources[name] = _Buffer({**stored, "sizeInBytes": (size + 3) // 4 * 4}, size, prod(described.sizes))
        return name


def random_model(seed: int) -> dict[str, Any]:
    """The model of a seed: 2 to 8 dispatches, of which later ones read what earlier ones wrote. Every second one is of packed
    tensors of one type.
    """
    rng, packed = random.Random(seed), bool(seed % 2)
    model, data_type = _Model(rng, packed), rng.choice(DATA_TYPES)
    for number in range(rng.randint(2, 8)):
        other = rng.random() < 0.1 and not packed
        model.dispatch(f"d{number}", rng.choice(DATA_TYPES) if other else data_type)
        if rng.random() < 0.2:
            model.show(rng.choice(list(model.resources)))
    if rng.random() < 0.8:
        model.show(next(reversed(model.resources)))
    resources = {name: buffer.part for name, buffer in sorted(model.resources.items())}
    return {"resources": resources, "dispatchables": model.dispatchables, "commands": model.commands}


def initial_array(resource: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    """The initial values of a checked model's resource, as an array."""
    return resource.buffer()[resource.offset : resource.offset + resource.values.bytes].view(dtype).reshape(shape)
