"""The operators as ONNX's pages state them, position by position in Python integers. Knows no plan and no backend.

Where the pages are silent: an empty tuple in GatherND copies all of the data, axes may be negative in every version of Slice,
repeated axes are an error, and a scalar sliced by nothing is itself.

Each function returns the result, with the dtype of `data`, and raises IndexError for a bad index, TypeError for a type that
the version does not list, ValueError for anything else. Types and versions are those of the installed onnx package.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import AttributeProto, NodeProto, helper

from tests.dialects.outcomes import Array
from tests.dialects.positions import counted, elements, position, taken, tuples, walk

VERSIONS = {
    "Gather": (1, 11, 13),
    "GatherElements": (11, 13),
    "GatherND": (11, 12, 13),
    "Slice": (1, 10, 11, 13),
    "DepthToSpace": (1, 11, 13, 28),
    "SpaceToDepth": (1, 13, 28),
}
"""Every version of each operator."""

BOUNDS = ("starts", "ends", "axes", "steps")
"""Of Slice, in order: attributes before version 10, inputs since."""

LOOKS_UP = ("Gather", "GatherElements", "GatherND")
"""The operators that read indices."""


@dataclass(frozen=True)
class Call:
    """One call of one operator.

    arrays: data, and indices where the operator has them. named: attributes, and the bounds of Slice in every version.
    fault: the one thing that is wrong with it, "" for nothing. seed: what it was made from.
    """

    operator: str
    opset: int
    arrays: tuple[Array, ...] = field(repr=False)
    named: Mapping[str, Any]
    fault: str = ""
    seed: int | None = None

    @property
    def data(self) -> Array:
        return self.arrays[0]

    @property
    def indices(self) -> Array:
        return self.arrays[1]

    @property
    def version(self) -> int:
        return version_of(self.operator, self.opset)

    @property
    def right(self) -> Array:
        """What the specification says about it."""
        return expected(self)

    @property
    def bounds(self) -> Mapping[str, Any]:
        """The bounds that are inputs."""
        return dict(self.named) if self.operator == "Slice" and self.version >= 10 else {}

    @property
    def node(self) -> NodeProto:
        """The call as a node, whose inputs have the names of the arrays and bounds."""
        bounds = [name if name in self.bounds else "" for name in BOUNDS] if self.bounds else []
        node = helper.make_node(self.operator, [*("data", "indices")[: len(self.arrays)], *bounds], ["output"])
        for name in self.named.keys() - self.bounds.keys():
            kind = AttributeProto.INTS if name in BOUNDS else AttributeProto.STRING if name == "mode" else AttributeProto.INT
            node.attribute.append(helper.make_attribute(name, self.named[name], attr_type=kind))
        return node

    def __str__(self) -> str:
        shown = ", ".join(f"{array.dtype}{list(array.shape)} strides {array.strides}" for array in self.arrays)
        return f"{self.operator} at opset {self.opset} of {shown}, {dict(self.named)}, fault {self.fault!r}, seed {self.seed}"


def expected(call: Call) -> Array:
    """What the specification says about a call."""
    return FUNCTIONS[call.operator](*call.arrays, **call.named, opset=call.opset)


def version_of(operator: str, opset: int) -> int:
    """The version in force. ValueError where the operator does not exist yet."""
    try:
        return int(onnx.defs.get_schema(operator, opset).since_version)
    except onnx.defs.SchemaError as error:
        raise ValueError(f"{operator} does not exist at opset {opset}") from error


def listed(operator: str, opset: int, tensor: str) -> frozenset[str]:
    """The types a version lists for one input, as ONNX writes them: "tensor(float)"."""
    schema = onnx.defs.get_schema(operator, opset)
    name = schema.inputs[0].name if tensor == "data" else tensor  # some pages call it input
    return frozenset(next(item for item in schema.inputs if item.name == name).types)


def type_name(dtype: np.dtype[Any]) -> str | None:
    """The ONNX type of a NumPy dtype, None when there is none."""
    if dtype.kind in "OUST":
        return "tensor(string)"
    try:
        number = onnx.helper.np_dtype_to_tensor_dtype(dtype.newbyteorder("="))
    except (ValueError, KeyError):
        return None
    return f"tensor({onnx.TensorProto.DataType.Name(number).lower()})"


def gather(data: Array, indices: Array, axis: int = 0, *, opset: int = 13) -> Array:
    """output[i…, q…, j…] = data[i…, indices[q…], j…], the q in the place of `axis`."""
    version = version_of("Gather", opset)
    _check_types("Gather", opset, data=data, indices=indices)
    axis = counted(axis, data.ndim)
    positions = {q: position(indices[q], data.shape[axis], wraps=version > 1) for q in np.ndindex(indices.shape)}
    sources = [
        (*i, positions[q], *j)
        for i in np.ndindex(data.shape[:axis])
        for q in np.ndindex(indices.shape)
        for j in np.ndindex(data.shape[axis + 1 :])
    ]
    return taken(data, sources, (*data.shape[:axis], *indices.shape, *data.shape[axis + 1 :]))


def gather_elements(data: Array, indices: Array, axis: int = 0, *, opset: int = 13) -> Array:
    """output[o] = data[o with o[axis] replaced by indices[o]]."""
    version_of("GatherElements", opset)
    _check_types("GatherElements", opset, data=data, indices=indices)
    axis = counted(axis, data.ndim)
    if indices.ndim != data.ndim:
        raise ValueError(f"ranks {data.ndim} and {indices.ndim} differ")
    if any(indices.shape[dim] > data.shape[dim] for dim in range(data.ndim) if dim != axis):
        raise ValueError(f"indices {indices.shape} reach beyond data {data.shape} off axis {axis}")
    return elements(data, indices, axis)


def gather_nd(data: Array, indices: Array, batch_dims: int = 0, *, opset: int = 13) -> Array:
    """output[b…, q…, j…] = data[b…, *indices[b…, q…, :], j…]."""
    if version_of("GatherND", opset) < 12 and batch_dims != 0:
        raise ValueError("batch_dims came with version 12")
    _check_types("GatherND", opset, data=data, indices=indices)
    if not data.ndim or not indices.ndim:
        raise ValueError("data and indices need rank >= 1")
    if not 0 <= batch_dims < min(data.ndim, indices.ndim):
        raise ValueError(f"batch_dims {batch_dims} is not below both ranks {data.ndim} and {indices.ndim}")
    if data.shape[:batch_dims] != indices.shape[:batch_dims]:
        raise ValueError(f"batches {data.shape[:batch_dims]} and {indices.shape[:batch_dims]} differ")
    components = indices.shape[-1]
    if components > data.ndim - batch_dims:
        raise ValueError(f"a tuple of {components} for {data.ndim - batch_dims} dimensions")
    return tuples(data, indices, batch_dims)


def slice(  # noqa: A001 - the operator's name
    data: Array,
    starts: Sequence[int] | Array,
    ends: Sequence[int] | Array,
    axes: Sequence[int] | Array | None = None,
    steps: Sequence[int] | Array | None = None,
    *,
    opset: int = 13,
) -> Array:
    """Every axes[i] walked from starts[i] to ends[i], exclusive, by steps[i]."""
    if version_of("Slice", opset) < 10 and steps is not None:
        raise ValueError("steps came with version 10")
    given = {"starts": starts, "ends": ends, "axes": axes, "steps": steps}
    bounds = {name: np.asarray(values) for name, values in given.items() if values is not None}
    typed = {name: array for name, array in bounds.items() if isinstance(given[name], np.ndarray)}
    _check_types("Slice", opset, data=data)
    if version_of("Slice", opset) >= 10:  # before, bounds are attributes, which are lists of integers
        _check_types("Slice", opset, **typed)
    if len({array.dtype for array in typed.values()}) > 1:
        raise TypeError("bounds of several types")
    if any(array.ndim != 1 for array in bounds.values()) or len({array.size for array in bounds.values()}) > 1:
        raise ValueError("bounds are not one-dimensional and equally long")
    numbers = {name: [int(value) for value in array] for name, array in bounds.items()}
    count = len(numbers["starts"])
    if count > data.ndim:
        raise ValueError(f"{count} bounds for {data.ndim} dimensions")
    where = [counted(axis, data.ndim) for axis in numbers.get("axes", range(count))]
    if len(set(where)) < count:
        raise ValueError(f"repeated axes {where}")
    walks: list[Sequence[int]] = [range(size) for size in data.shape]
    for axis, start, end, step in zip(where, numbers["starts"], numbers["ends"], numbers.get("steps", [1] * count), strict=True):
        walks[axis] = walk(data.shape[axis], start, end, step)
    return taken(data, itertools.product(*walks), tuple(map(len, walks)))


def depth_to_space(data: Array, blocksize: int, mode: str = "DCR", *, opset: int = 13) -> Array:
    """The page's own formulas."""
    _check_blocks("DepthToSpace", opset, data, mode)
    if blocksize < 1 or data.shape[1] % blocksize**2:
        raise ValueError(f"blocks of {blocksize} in {data.shape}")
    b, c, h, w = data.shape
    if mode == "DCR":
        parts = data.reshape([b, blocksize, blocksize, c // (blocksize**2), h, w]).transpose([0, 3, 4, 1, 5, 2])
    else:
        parts = data.reshape([b, c // (blocksize**2), blocksize, blocksize, h, w]).transpose([0, 1, 4, 2, 5, 3])
    return parts.reshape([b, c // (blocksize**2), h * blocksize, w * blocksize]).copy()


def space_to_depth(data: Array, blocksize: int, mode: str = "DCR", *, opset: int = 13) -> Array:
    """The reverse transformation of `depth_to_space`: where that puts the element of each position."""
    _check_blocks("SpaceToDepth", opset, data, mode)
    if blocksize < 1 or data.shape[2] % blocksize or data.shape[3] % blocksize:
        raise ValueError(f"blocks of {blocksize} in {data.shape}")
    b, c, h, w = data.shape
    shape = (b, c * blocksize**2, h // blocksize, w // blocksize)
    numbers = np.arange(data.size).reshape(shape)
    flat: Array = np.empty(data.size, data.dtype)
    flat[depth_to_space(numbers, blocksize, mode, opset=max(opset, 11)).reshape(-1)] = data.reshape(-1)
    return flat.reshape(shape)


def _check_blocks(operator: str, opset: int, data: Array, mode: str) -> None:
    has_mode = version_of(operator, opset) >= {"DepthToSpace": 11, "SpaceToDepth": 28}[operator]
    if mode not in (("DCR", "CRD") if has_mode else ("DCR",)):
        raise ValueError(f"mode {mode!r}")
    _check_types(operator, opset, data=data)
    if data.ndim != 4:
        raise ValueError(f"rank {data.ndim}")


FUNCTIONS: dict[str, Callable[..., Array]] = {
    "Gather": gather,
    "GatherElements": gather_elements,
    "GatherND": gather_nd,
    "Slice": slice,
    "DepthToSpace": depth_to_space,
    "SpaceToDepth": space_to_depth,
}


def _check_types(operator: str, opset: int, **tensors: Array) -> None:
    for name, array in tensors.items():
        if type_name(array.dtype) not in listed(operator, opset, name):
            raise TypeError(f"{operator} at opset {opset}: {name} of {array.dtype}")
