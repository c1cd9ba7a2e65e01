"""Small changes to descriptors, for tests that break or bend them."""

from __future__ import annotations

import random
from typing import Any, TypeVar

from dmlgather.directml import BufferTensorDesc, FeatureLevel, OperatorDesc
from tests.directml.making import Described, make
from tests.directml.pages import PAGES

D = TypeVar("D", bound=OperatorDesc)


def legal(rng: random.Random, *operators: str, at_least: FeatureLevel = FeatureLevel.LEVEL_1_0) -> Described:
    """A random legal descriptor of one of `operators` (all by default), at `at_least` or a newer level."""
    operator = rng.choice(operators or tuple(PAGES))
    floor = max(at_least, PAGES[operator].introduced)
    return make(rng, operator, rng.choice([level for level in FeatureLevel if level >= floor]))


def with_tensor(desc: D, field: str, **changes: Any) -> D:
    """`desc` with fields of one tensor changed; a changed size drops the strides and the stated count and total."""
    tensor = desc.tensor(field)
    fields = {name: getattr(tensor, name) for name in BufferTensorDesc.model_fields}
    if "sizes" in changes:
        fields |= {"strides": None, "dimension_count": None, "total_tensor_size_in_bytes": None}
    return desc.model_copy(update={field: BufferTensorDesc(**{**fields, **changes})})


def resized(desc: D, field: str, axis: int, size: int) -> D:
    """`desc` with one size of one tensor changed."""
    found = desc.tensor(field).sizes
    return with_tensor(desc, field, sizes=(*found[:axis], size, *found[axis + 1 :]))


def prepended(desc: OperatorDesc, count: int) -> OperatorDesc:
    """`desc` with `count` leading 1s in every tensor: the same problem in more dimensions."""
    for field in desc.operator.tensors:
        desc = with_tensor(desc, field, sizes=(1,) * count + desc.tensor(field).sizes)
    update: dict[str, Any] = {}
    for name in type(desc).model_fields:
        value = getattr(desc, name)
        if name in ("axis", "dimension_count"):
            update[name] = value + count
        elif isinstance(value, tuple):
            update[name] = (0 if "offsets" in name else 1,) * count + value
    return desc.model_copy(update=update)


def array_fields(desc: OperatorDesc) -> list[str]:
    """The array fields of a slice, in order."""
    return [name for name in type(desc).model_fields if isinstance(getattr(desc, name), tuple)]


def with_entry(desc: D, field: str, axis: int, value: int) -> D:
    """`desc` with one entry of an array field changed."""
    found = getattr(desc, field)
    return desc.model_copy(update={field: (*found[:axis], value, *found[axis + 1 :])})
