"""ONNX's Gather, GatherElements, GatherND, Slice, DepthToSpace and SpaceToDepth as functions on arrays."""

from __future__ import annotations

from functools import partial
from typing import Any

from dmlgather.calls.arguments import Fill, slice_bounds
from dmlgather.calls.eager import EagerFunction, Request
from dmlgather.onnx.problems.depth_space import DepthToSpace, SpaceToDepth
from dmlgather.onnx.problems.gather import Gather, GatherElements, GatherND
from dmlgather.onnx.problems.operator_versions import version_of
from dmlgather.onnx.problems.slice import Slice, check_bound_types


@EagerFunction
def gather(
    data: Any,
    indices: Any,
    axis: int = 0,
    *,
    opset: int = 13,
    out: Any = None,
    out_of_bounds: str | Fill | None = None,
    device: str | None = None,
    stream: Any = None,
) -> Request:
    """Return ONNX's Gather: output[lead…, i…, trail…] = data[lead…, indices[i…], trail…].

    `data`: shape [lead…, n, trail…]. `axis`: the number of the dimension of size n. `indices`: int32 or int64, any shape [i…].
    Negative indices count from the end, but not before opset 11. The result has shape [lead…, i…, trail…].

    Raises IndexError for an index out of range, also if the result is empty; TypeError for a type that the version does not
    list; ValueError for an axis out of range and for a scalar `data`.

    >>> dg.onnx.gather(np.array([[10, 20], [30, 40]]), np.array([1, 0, -1])).tolist()
    [[30, 40], [10, 20], [30, 40]]
    """
    problem = partial(Gather, axis=axis, opset=opset)
    return Request(problem, {"data": data, "indices": indices}, out_of_bounds, device, out, stream=stream)


@EagerFunction
def gather_elements(
    data: Any,
    indices: Any,
    axis: int = 0,
    *,
    opset: int = 13,
    out: Any = None,
    out_of_bounds: str | Fill | None = None,
    device: str | None = None,
    stream: Any = None,
) -> Request:
    """Return ONNX's GatherElements: output[c] = data[c with c[axis] replaced by indices[c]].

    `data`: shape [n…]. `indices`: int32 or int64, with the rank of `data`. Except along `axis`, no dimension of `indices` is
    larger than in `data`. Negative indices count from the end. The result has the shape of `indices`.

    Raises IndexError for an index out of range; TypeError for a type that the version does not list; ValueError for different
    ranks, an axis out of range, or sizes of `indices` that are too large.

    >>> dg.onnx.gather_elements(np.array([[10, 20], [30, 40]]), np.array([[1, 0], [0, 0]]), axis=1).tolist()
    [[20, 10], [30, 30]]
    """
    problem = partial(GatherElements, axis=axis, opset=opset)
    return Request(problem, {"data": data, "indices": indices}, out_of_bounds, device, out, stream=stream)


@EagerFunction
def gather_nd(
    data: Any,
    indices: Any,
    batch_dims: int = 0,
    *,
    opset: int = 13,
    out: Any = None,
    out_of_bounds: str | Fill | None = None,
    device: str | None = None,
    stream: Any = None,
) -> Request:
    """Return ONNX's GatherND: output[b…, i…, trail…] = data[b…, *indices[b…, i…, :], trail…].

    `data`: shape [b…, n…, trail…]. `indices`: int64, shape [b…, i…, t]. Each tuple of t indices selects a position in the
    dimensions n…; if t is 0, it selects all of data[b…]. Negative indices count from the end. `batch_dims`: the number of
    dimensions b…; must be 0 before opset 12. The result has shape [b…, i…, trail…].

    Raises IndexError for an index out of range, also if the result is empty; TypeError for a type that the version does not
    list; ValueError if `data` or `indices` is a scalar, if there are too many batch dimensions or their sizes differ, and if t
    is larger than the number of dimensions n….

    >>> dg.onnx.gather_nd(np.array([[10, 20], [30, 40]]), np.array([[0, 1], [1, 0]])).tolist()
    [20, 30]
    """
    problem = partial(GatherND, batch_dims=batch_dims, opset=opset)
    return Request(problem, {"data": data, "indices": indices}, out_of_bounds, device, out, stream=stream)


@EagerFunction
def slice(  # noqa: A001 - the operator's name
    data: Any,
    starts: Any,
    ends: Any,
    axes: Any = None,
    steps: Any = None,
    *,
    opset: int = 13,
    out: Any = None,
    out_of_bounds: str | Fill | None = None,
    device: str | None = None,
    stream: Any = None,
) -> Request:
    """Return ONNX's Slice: output[c] = data[start + step · c] in each dimension. Starts and ends are clamped to the dimension.

    `data`: shape [n…]. `starts`, `ends`, `axes`, `steps`: sequences of integers, or one-dimensional int32 or int64 arrays in
    host memory. Arrays must have the same type. `axes`: the dimensions to slice; default 0, 1, …. Negative axes count from the
    end. `steps`: default 1. Steps may be negative. Before opset 10, `steps` must be None. `out_of_bounds` has no effect,
    because there are no indices.

    Raises TypeError for a type that the version does not list, and if starts, ends, axes or steps are on a GPU; ValueError if
    their lengths differ, if an axis is out of range or repeated, and for a step of 0.

    >>> dg.onnx.slice(np.arange(10), starts=[8], ends=[2], steps=[-3]).tolist()
    [8, 5]
    """
    version = version_of("Slice", opset)
    bounds = slice_bounds(starts, ends, axes, steps)
    if version.since >= 10:
        check_bound_types(version, bounds)
    return Request(partial(Slice, **bounds, opset=opset), {"data": data}, out_of_bounds, device, out, stream=stream)


@EagerFunction
def depth_to_space(
    data: Any,
    blocksize: int,
    mode: str = "DCR",
    *,
    opset: int = 13,
    out: Any = None,
    out_of_bounds: str | Fill | None = None,
    device: str | None = None,
    stream: Any = None,
) -> Request:
    """Return ONNX's DepthToSpace: output[n, c, h · blocksize + i, w · blocksize + j] = data[n, (i, j, c), h, w].

    `data`: shape [n, c · blocksize², h, w]. `blocksize`: the height and width of a block, at least 1. `mode`: how the channel
    dimension of `data` is split into c and the block's row i and column j. "DCR" means the order (i, j, c); "CRD" means (c, i,
    j), and needs opset 11. The result has shape [n, c, h · blocksize, w · blocksize]. `out_of_bounds` has no effect, because
    there are no indices.

    Raises TypeError for a type that the version does not list; ValueError for another rank, for a number of channels that is
    not a multiple of blocksize², and for a mode that the version does not have.

    >>> dg.onnx.depth_to_space(np.arange(8).reshape(1, 4, 1, 2), 2).tolist()
    [[[[0, 2, 1, 3], [4, 6, 5, 7]]]]
    """
    problem = partial(DepthToSpace, blocksize=blocksize, mode=mode, opset=opset)
    return Request(problem, {"data": data}, out_of_bounds, device, out, stream=stream)


@EagerFunction
def space_to_depth(
    data: Any,
    blocksize: int,
    mode: str = "DCR",
    *,
    opset: int = 13,
    out: Any = None,
    out_of_bounds: str | Fill | None = None,
    device: str | None = None,
    stream: Any = None,
) -> Request:
    """Return ONNX's SpaceToDepth: output[n, (i, j, c), h, w] = data[n, c, h · blocksize + i, w · blocksize + j].

    `data`: shape [n, c, h · blocksize, w · blocksize]. `blocksize`: the height and width of a block, at least 1. `mode`: how
    the output's channel dimension is made of c and the block's row i and column j. "DCR" means the order (i, j, c); "CRD" means
    (c, i, j), and needs opset 28. The result has shape [n, c · blocksize², h, w]. `out_of_bounds` has no effect, because there
    are no indices.

    Raises TypeError for a type that the version does not list; ValueError for another rank, for a number of rows or columns
    that is not a multiple of blocksize, and for a mode that the version does not have.

    >>> dg.onnx.space_to_depth(np.arange(8).reshape(1, 1, 2, 4), 2).tolist()
    [[[[0, 2]], [[1, 3]], [[4, 6]], [[5, 7]]]]
    """
    problem = partial(SpaceToDepth, blocksize=blocksize, mode=mode, opset=opset)
    return Request(problem, {"data": data}, out_of_bounds, device, out, stream=stream)
