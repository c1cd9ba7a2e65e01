"""What is known of the sizes of a layer: its shapes, the axes that it slices, and what its operation requires of sizes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from typing import Any

from dmlgather.dialects.checked_model import CheckedTensor, Unknown
from dmlgather.dialects.element_types import OF_ML_DTYPES
from dmlgather.dialects.problem import TensorType
from dmlgather.dialects.size_arrays import has_names, known_sizes, with_numbers
from dmlgather.dialects.sizes import KnownSize, Sizes
from dmlgather.dialects.sliced_axes import SlicedAxis
from dmlgather.dialects.unknown_sizes import NodeSizes
from dmlgather.openvino.model.constants import Value
from dmlgather.openvino.model.layer_sites import LayerSite
from dmlgather.openvino.problems.data_types import TYPES, integer_type
from dmlgather.openvino.problems.layer_problems import problem_of
from dmlgather.openvino.problems.operation_versions import OpenVINOProblem
from dmlgather.openvino.problems.slices import entries

END = 2**63 - 1
"""A bound behind the end of every axis."""

NAMED_BOUNDS = ("start", "stop", "begin", "end")
"""The inputs that may depend on sizes that are not known; of the others, a descriptor needs the numbers."""


class LongSizeError(Exception):
    """A bound is an expression that is too long to compute with."""


def missing_bound(site: LayerSite, role: str) -> Unknown | None:
    """Why a bound is not known well enough; None where it is."""
    value = site.values[role]
    if isinstance(value, Unknown):
        return value
    if role in NAMED_BOUNDS or not has_names(value):
        return None
    return Unknown(f"which depends on {', '.join(each for each in value.reshape(-1) if isinstance(each, str))}")


def site_sizes(site: LayerSite, sizes: Sizes) -> NodeSizes:
    """What is known of the sizes of a layer whose arrays have known ranks and whose bounds are known. sizes: of its model.

    LongSizeError for a bound that is too long.
    """
    axes = _AXES[site.layer.type](site, sizes) if site.layer.type in _AXES else ()
    return NodeSizes(sizes, site.shapes, tuple(axes), tuple(_orders(site)))


def problem_with(site: LayerSite, node: NodeSizes, values: Mapping[str, int]) -> OpenVINOProblem:
    """The layer's problem with those sizes. TypeError and ValueError as the problem's; ModuleNotFoundError without ml_dtypes."""
    types = {each.role: _tensor_type(site, each, node.concrete(site.shapes[each.role], values)) for each in site.arrays}

    def number(size: KnownSize) -> int:
        # A bound for no dimension of data has symbols without values; the problem's own rules refuse it.
        return node.sizes.at(size, {symbol: values.get(symbol, 1) for symbol in node.sizes.symbols(size)})

    bounds = {role: _numbers(site, role, number) for role in site.version.bounds if role in site.values}
    return problem_of(site.version, types, bounds, site.attributes)


def _numbers(site: LayerSite, role: str, number: Callable[[KnownSize], int]) -> Any:
    """The elements of a bound, with numbers for their names."""
    value = site.values[role]
    assert not isinstance(value, Unknown), "it would be missing"
    if not has_names(value):
        return value
    return with_numbers(value, number, integer_type(site.inputs[role].type))


def _tensor_type(site: LayerSite, tensor: CheckedTensor, shape: tuple[int, ...]) -> TensorType:
    if tensor.type not in TYPES.names:
        raise TypeError(f"{tensor.role} has type {tensor.type}, but {site.version} takes {', '.join(TYPES.names)}")
    assert tensor.type is not None, "it would be missing"
    if TYPES.names[tensor.type].startswith(OF_ML_DTYPES):
        import_module("ml_dtypes")  # whose absence is not the layer's fault, as a TypeError would say
    return TensorType(shape, TYPES.dtype_of(tensor.type))


def _elements(value: Value) -> list[KnownSize]:
    assert not isinstance(value, Unknown), "it would be missing"
    if value.dtype.kind not in "iuO":  # which the problem's own rules refuse
        return []
    return known_sizes(value)


def _bounds(site: LayerSite, role: str, count: int, default: int) -> list[KnownSize]:
    """A bound with one entry for each of `count`; the problem's own rules judge another number."""
    found = _elements(site.values[role]) if role in site.values else []
    return [*found, *[default] * count][:count]


def _slice_axes(site: LayerSite, _: Sizes) -> Iterator[SlicedAxis]:
    data, count = site.shapes["data"], len(_elements(site.values["start"]))
    starts, stops = (_bounds(site, role, count, 0) for role in ("start", "stop"))
    steps = _bounds(site, "step", count, 1)
    axes = _bounds(site, "axes", count, 0) if "axes" in site.values else list(range(count))
    for axis, start, stop, step in zip(axes, starts, stops, steps, strict=True):
        assert isinstance(step, int)
        assert isinstance(axis, int)
        if -len(data) <= axis < len(data) and step:
            yield SlicedAxis(data[axis], start, stop, step)


def _strided_axes(site: LayerSite, sizes: Sizes) -> Iterator[SlicedAxis]:
    data, count = site.shapes["data"], len(_elements(site.values["begin"]))
    begins, ends = (_bounds(site, role, count, 0) for role in ("begin", "end"))
    strides = _bounds(site, "strides", count, 1)
    masks = {name: (*_mask(site, name), *(0,) * count)[:count] for name in site.version.attributes}
    try:
        found = list(entries(len(data), masks["new_axis_mask"], masks["shrink_axis_mask"], masks["ellipsis_mask"]))
    except ValueError:  # which the problem will raise too
        return
    for axis, number, shrinks in found:
        if axis is None or number is None:
            continue
        begin, stride = begins[number], strides[number]
        assert isinstance(stride, int)
        if shrinks:
            yield SlicedAxis(data[axis], begin, _end_of_one(begin, sizes), 1)
        elif stride:
            first, behind = (0, END) if stride > 0 else (END, -END - 1)
            yield SlicedAxis(
                data[axis],
                first if masks["begin_mask"][number] else begin,
                behind if masks["end_mask"][number] else ends[number],
                stride,
            )


def _end_of_one(begin: KnownSize, sizes: Sizes) -> KnownSize:
    """The end of the one element at `begin`. That of an expression never ends the axis from behind: -1 is left out."""
    end = sizes.compute("add", begin, 1)
    if end is None:
        raise LongSizeError
    return END if begin == -1 else end


def _mask(site: LayerSite, name: str) -> tuple[int, ...]:
    mask = site.attributes.get(name, ())
    return mask if isinstance(mask, tuple) else (mask,)


_AXES: Mapping[str, Callable[[LayerSite, Sizes], Iterator[SlicedAxis]]] = {"Slice": _slice_axes, "StridedSlice": _strided_axes}


def _orders(site: LayerSite) -> Iterator[tuple[KnownSize, KnownSize]]:
    """Pairs of sizes of which the operation requires that the first is at most the second; two pairs for equal sizes."""
    if "indices" not in site.shapes:
        return
    pairs = list(zip(site.shapes["data"], site.shapes["indices"], strict=False))
    if site.layer.type == "GatherElements":
        axis = site.attributes.get("axis", 0)
        equal = [pair for at, pair in enumerate(pairs) if at not in (axis, _number(axis) + len(site.shapes["data"]))]
    else:
        batch = _number(site.attributes.get("batch_dims", 0))
        equal = pairs[: max(batch + (len(site.shapes["indices"]) if batch < 0 else 0), 0)]
    for pair in equal:
        yield from (pair, pair[::-1])


def _number(attribute: int | tuple[int, ...]) -> int:
    assert isinstance(attribute, int)
    return attribute
