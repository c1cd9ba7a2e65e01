"""Types of a model's values as its user states them: shapes and data types by name, checked against what the model declares."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dmlgather.dialects.problem import TensorType, whole
from dmlgather.onnx.model.partial_types import PartialType
from dmlgather.onnx.model.size_names import UNNAMED
from dmlgather.onnx.problems.data_types import type_name

Stated = TensorType | Sequence[int] | int | Any
"""Of a value: its type, its shape, or anything that has both, such as an array. Of a size: the number of elements."""

_Symbols = dict[str, tuple[int, str]]
"""The size of each symbol, and where it has it."""


@dataclass(frozen=True)
class StatedTypes:
    """inputs: the type of each input, in the model's order. sizes: of the model's symbols. others: of other values."""

    inputs: Mapping[str, TensorType]
    sizes: Mapping[str, int]
    others: Mapping[str, PartialType]

    def sized(self, declared: PartialType) -> PartialType:
        """A type with the sizes of its symbols, as far as they are known."""
        if declared.shape is None:
            return declared
        return declared.sized([self.sizes.get(size) if isinstance(size, str) else size for size in declared.shape])


def read_stated(inputs: Mapping[str, PartialType], values: Collection[str], stated: Mapping[str, Stated]) -> StatedTypes:
    """What a user states of a model, as far as it follows for all inputs.

    inputs: what the model declares. values: the names of its other values. Raises TypeError for another data type than the
    model's; ValueError for names that the model does not have, for sizes that contradict it or each other, and for inputs whose
    sizes are not all known, naming every one.
    """
    for name, declared in inputs.items():
        if declared.dtype is None:
            what = f"a {declared.kind}" if declared.kind else "of no type that is known"
            raise TypeError(f"input {name!r} is {what}, but a graph of indices has tensors only")
    named = {name: _with_names(name, declared) for name, declared in inputs.items()}
    names = sorted({size for declared in named.values() for size in declared.shape or () if isinstance(size, str)})
    symbols: _Symbols = {}
    given: dict[str, PartialType] = {}
    for name, item in stated.items():
        if name in named or name in values:
            given[name] = _given(name, item)
        elif name in names:
            symbols[name] = _size(f"inputs[{name!r}]", item), f"inputs[{name!r}]"
        else:
            raise ValueError(
                f"inputs names {name!r}, which the model does not have: its inputs are {_listed(inputs)} and its sizes "
                f"{_listed(names)}"
            )
    for name in named.keys() & given.keys():
        check_fits(name, _tensor(given[name].merged(PartialType(named[name].dtype), lambda size, _: size)), named[name], symbols)
    sizes = {name: size for name, (size, _) in symbols.items()}
    found = StatedTypes({}, sizes, {name: given[name] for name in given.keys() - named.keys()})
    known = {
        name: found.sized(given.get(name, declared).merged(declared, lambda size, _: size)) for name, declared in named.items()
    }
    unknown = {name: named[name] for name, one in known.items() if one.shape is None or None in one.shape}
    if unknown:
        raise ValueError(_unknown(unknown, sizes))
    return replace(found, inputs={name: _tensor(one) for name, one in known.items()})


def _unknown(inputs: Mapping[str, PartialType], sizes: Mapping[str, int]) -> str:
    """What is said of inputs whose sizes are not known."""
    shown = ", ".join(f"{name!r} is {declared}" for name, declared in inputs.items())
    first, declared = next(iter(inputs.items()))
    open_sizes = [size for size in declared.shape or () if isinstance(size, str) and size not in sizes]
    by_name = f"{{{open_sizes[0]!r}: 1}} or " if open_sizes else ""
    return (
        f"sizes of inputs are not known ({shown}), but a graph of indices has numbers only: state them by their names or as "
        f"shapes, such as inputs={by_name}{{{first!r}: (1, 2)}}"
    )


def check_fits(name: str, given: Any, declared: PartialType, symbols: _Symbols) -> None:
    """Refuse a type or an array that contradicts what the model declares for an input.

    symbols: those of the inputs before, to which this one's are added. TypeError for another data type, ValueError for another
    rank or size.
    """
    if declared.dtype is not None and given.dtype != declared.dtype:
        raise TypeError(
            f"input {name!r} has type {type_name(given.dtype)}, but the model declares {declared}; "
            f"convert with .astype('{declared.dtype.name}')"
        )
    if declared.shape is None:
        return
    shape, fault = tuple(given.shape), ""
    if len(shape) != len(declared.shape):
        fault = f"rank {len(shape)}, not {len(declared.shape)}"
    for dimension, (size, expected) in enumerate(zip(shape, declared.shape, strict=False)):
        if isinstance(expected, int) and size != expected:
            fault = fault or f"dimension {dimension} is {size}, not {expected}"
        if isinstance(expected, str):
            first, where = symbols.setdefault(expected, (size, f"dimension {dimension} of {name!r}"))
            if size != first:
                fault = fault or f"{expected} is {first} in {where}, but {size} in dimension {dimension}"
    if fault:
        raise ValueError(f"input {name!r} has shape {list(shape)}, but the model declares {declared}: {fault}")


def _size(what: str, item: Any) -> int:
    size = whole(what, item)
    if size < 0:
        raise ValueError(f"{what} is {size}, expected a size of 0 or more")
    return size


def _given(name: str, item: Stated) -> PartialType:
    """What is stated of a value. TypeError for what is neither a type nor a shape, ValueError for a size below 0."""
    shape, dtype = (item.shape, np.dtype(item.dtype)) if hasattr(item, "shape") and hasattr(item, "dtype") else (item, None)
    if not isinstance(shape, Sequence) or isinstance(shape, str | bytes):
        raise TypeError(f"inputs[{name!r}] is {item!r}, expected a shape, such as (1, 128), or a TensorType")
    sizes = tuple(whole(f"inputs[{name!r}][{axis}]", size) for axis, size in enumerate(shape))
    if any(size < 0 for size in sizes):
        raise ValueError(f"inputs[{name!r}] is {list(sizes)}, expected sizes of 0 or more")
    return PartialType(dtype, sizes)


def _with_names(name: str, declared: PartialType) -> PartialType:
    """A type in which every size is a number or has a name: "x[1]" where the model has none."""
    if declared.shape is None:
        return declared
    return declared.sized([f"{name}[{axis}]" if size in (None, UNNAMED) else size for axis, size in enumerate(declared.shape)])


def _tensor(known: PartialType) -> TensorType:
    """A type of which all is known."""
    assert known.dtype is not None
    return TensorType(tuple(size for size in known.shape or () if isinstance(size, int)), known.dtype)


def _listed(names: Iterable[str]) -> str:
    return ", ".join(map(repr, names)) or "none"
