"""Which input of one program is which of the other, and in what the programs differ before anything is computed."""

from __future__ import annotations

from dataclasses import dataclass

from dmlgather.dialects.index_graph import IndexGraph
from dmlgather.dialects.problem import TensorType
from dmlgather.wording import counted


@dataclass(frozen=True, slots=True)
class Matched:
    """The inputs of both programs. names, types: as the first program has them, where it has them.

    first, second: for each input of the program, its number among these.
    """

    names: tuple[str, ...]
    types: tuple[TensorType, ...]
    first: tuple[int, ...]
    second: tuple[int, ...]


def matched(first: IndexGraph, second: IndexGraph, *, flat: bool) -> Matched | str:
    """The inputs, or in what the programs differ. flat: elements are compared in row-major order, whatever the shapes are.

    Inputs are matched by name where the names of one program are among those of the other, else by position.
    """
    ones, others = first.inputs, second.inputs
    names = [*ones, *(name for name in others if name not in ones)]
    if not (set(ones) <= set(others) or set(others) <= set(ones)):
        if len(ones) != len(others):
            return f"the first program has {counted(len(ones), 'input')}, the second {len(others)}, and their names differ"
        names = [*ones]
        others = ones
    for one, other in zip(ones, second.inputs, strict=True) if others is ones else ((n, n) for n in ones if n in others):
        difference = _types_differ(first.types[one], second.types[other], flat)
        if difference:
            return f"input {first.label(one)!r} is {difference}"
    if len(first.outputs) != len(second.outputs):
        return f"the first program has {counted(len(first.outputs), 'output')}, the second {len(second.outputs)}"
    for one, other in zip(first.outputs, second.outputs, strict=True):
        difference = _types_differ(first.types[one], second.types[other], flat)
        if difference:
            return f"output {first.label(one)!r} is {difference}"
    types = [first.types[name] if name in ones else second.types[name] for name in names]
    labels = tuple(first.label(name) if name in ones else second.label(name) for name in names)
    return Matched(labels, tuple(types), tuple(map(names.index, ones)), tuple(map(names.index, others)))


def _types_differ(one: TensorType, other: TensorType, flat: bool) -> str:
    """In what the types differ, in words; empty where they do not."""
    same = one.layout.extent == other.layout.extent if flat else one.shape == other.shape
    return "" if same and one.dtype == other.dtype else f"{one} in the first program and {other} in the second"
