"""Which input of one program is which of the other, and in what the programs differ before anything is computed."""

from __future__ import annotations

from dataclasses import dataclass, replace

from dmlgather.dialects.index_arithmetic import whole_range
from dmlgather.dialects.index_graph import IndexGraph
from dmlgather.dialects.problem import TensorType
from dmlgather.wording import counted


@dataclass(frozen=True, slots=True)
class Matched:
    """The inputs of both programs.

    names, types: as the first program has them, where it has them; of integers of different types, the type whose values both
    hold. first, second: for each input of the program, its number among these. remarks: what is not equal and compared still.
    """

    names: tuple[str, ...]
    types: tuple[TensorType, ...]
    first: tuple[int, ...]
    second: tuple[int, ...]
    remarks: tuple[str, ...]


def matched(first: IndexGraph, second: IndexGraph, *, flat: bool) -> Matched | str:
    """The inputs, or in what the programs differ. flat: elements are compared in row-major order, whatever the shapes are.

    Inputs are matched by name where the names of one program are among those of the other, else by position.
    """
    ones, others = first.inputs, second.inputs
    by_name = set(ones) <= set(others) or set(others) <= set(ones)
    if not by_name and len(ones) != len(others):
        return f"the first program has {counted(len(ones), 'input')}, the second {len(others)}, and their names differ"
    if len(first.outputs) != len(second.outputs):
        return f"the first program has {counted(len(first.outputs), 'output')}, the second {len(second.outputs)}"
    names = [*ones, *(name for name in others if name not in ones)] if by_name else [*ones]
    positions = tuple(names.index(name) for name in others) if by_name else tuple(range(len(others)))
    types = [first.types[name] for name in ones] + [second.types[name] for name in names[len(ones) :]]
    remarks = []
    for number, other in zip(positions, (second.types[name] for name in others), strict=True):
        both = _common(types[number], other, flat)
        what = f"input {names[number]!r} is {types[number]} in the first program and {other} in the second"
        if both is None:
            return what
        if both.dtype != other.dtype or both.dtype != types[number].dtype:
            remarks.append(f"{what}: compared for the values of {both.dtype}")
        types[number] = both
    for one, two in zip(first.outputs, second.outputs, strict=True):
        own, other = first.types[one], second.types[two]
        if own.dtype != other.dtype or _common(own, other, flat) is None:
            return f"output {first.label(one)!r} is {own} in the first program and {other} in the second"
    labels = [first.label(name) for name in ones] + [second.label(name) for name in names[len(ones) :]]
    return Matched(tuple(labels), tuple(types), tuple(range(len(ones))), positions, tuple(remarks))


def _common(one: TensorType, other: TensorType, flat: bool) -> TensorType | None:
    """The type whose elements both types hold; None where they do not fit."""
    if one.shape != other.shape and not (flat and one.layout.extent == other.layout.extent):
        return None
    if one.dtype == other.dtype:
        return one
    if one.dtype.kind not in "iu" or other.dtype.kind not in "iu":
        return None
    (low, high), (least, most) = whole_range(one.dtype), whole_range(other.dtype)
    if least <= low and high <= most:
        return one
    return replace(one, dtype=other.dtype) if low <= least and most <= high else None
