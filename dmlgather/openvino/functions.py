"""OpenVINO's operations as functions: run them, describe them for DirectML, tell where the two differ."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Generic, ParamSpec

from dmlgather.calls.arguments import Fill, host_bounds, host_values, type_of
from dmlgather.calls.eager import EagerFunction, Request
from dmlgather.dialects.exporter import Descriptors
from dmlgather.dialects.problem import Problem, whole
from dmlgather.directml import FeatureLevel, Finding, OperatorDesc, Report
from dmlgather.openvino.problems import export
from dmlgather.openvino.problems.gather import OpenVINOGather, OpenVINOGatherElements, OpenVINOGatherND
from dmlgather.openvino.problems.operation_versions import VERSIONS, OpenVINOProblem
from dmlgather.openvino.problems.slices import OpenVINOSlice, OpenVINOStridedSlice

# Functions that also describe their calls for DirectML.

P = ParamSpec("P")


class DescribedFunction(EagerFunction[P], Generic[P]):
    """A function on arrays. Like `plan`, its methods `to_directml` and `differences` need only the arrays' shapes and types."""

    def __init__(self, problem: type[OpenVINOProblem], request: Callable[P, Request]) -> None:
        super().__init__(request)
        self._operation = problem.name

    def to_directml(self, *args: Any, level: str | FeatureLevel = "6_4", **kwargs: Any) -> OperatorDesc | Descriptors | Report:
        """The DirectML descriptor for a call, or a report of why there is none.

        Arguments as for the call, without `out`, `out_of_bounds` and `device`. An array may be replaced by anything with `shape`
        and `dtype`, or by a pair (shape, dtype). level: the feature level to write for.

        Returns one descriptor; a tuple, in the order in which they run, where one cannot do it; or a Report whose findings say
        which rule of the operation the call breaks, or what the level does not take (`docs/expressing.md`, which also says how to
        bind arrays). Raises ValueError for an unknown level, TypeError for what has no shape and type, and for an axis or bounds
        on a GPU.

        >>> desc = dg.openvino.gather_nd.to_directml(((5, 4), "float32"), ((3, 2), "int64"), level="3_0")
        >>> desc.operator.name, desc.output_tensor.sizes
        ('GATHER_ND1', (1, 3))
        """
        at = FeatureLevel.parse(level)
        version = kwargs.get("version", max(VERSIONS[self._operation]))
        return export.EXPORTER.to_directml(self._call(args, kwargs), at, "OpenVINO", f"{self._operation}-{version}")

    def differences(self, *args: Any, **kwargs: Any) -> tuple[Finding, ...]:
        """The indices for which the descriptors of `to_directml` give other elements than OpenVINO, and how to mask them.

        Arguments as for `to_directml`. Returns findings of severity warning, EXP201 and EXP202 of Gather. The other operations
        have none: an index out of range is an error there, and slices have no indices. Raises TypeError and ValueError as the
        function itself.

        >>> [finding.expected for finding in dg.openvino.gather.differences(((5, 2), "float32"), ((3,), "uint8"), axis=0)]
        ['indices from 0 to 4']
        """
        return export.EXPORTER.differences(self._call(args, kwargs)())

    def _call(self, args: Any, kwargs: Any) -> Callable[[], Problem]:
        """What makes the problem. Arguments of the wrong kind raise here; those that break the operation's rules raise there."""
        request = self._request(*args, **kwargs)
        for name in ("out", "out_of_bounds", "device"):
            if getattr(request, name) is not None:
                raise TypeError(f"{name} is given, but a descriptor has none: leave it out")
        types = [type_of(name, item) for name, item in request.arrays.items()]
        return lambda: request.problem_of(*types)


def described(problem: type[OpenVINOProblem]) -> Callable[[Callable[P, Request]], DescribedFunction[P]]:
    """Decorator that makes a `DescribedFunction` of what turns the arguments of a call into a request for such a problem."""
    return lambda request: DescribedFunction(problem, request)


@described(OpenVINOGather)
def gather(
    data: Any,
    indices: Any,
    axis: Any,
    batch_dims: int = 0,
    *,
    version: int = 8,
    out: Any = None,
    out_of_bounds: str | Fill | None = None,
    device: str | None = None,
    stream: Any = None,
) -> Request:
    """Gather: output[b…, lead…, i…, trail…] = data[b…, lead…, indices[b…, i…], trail…], 0 where the index is out of range.

    data: shape [b…, lead…, axis, trail…], any type of whole bytes, or strings, whose 0 is the empty string. indices: shape
    [b…, i…], any integer type. axis: an integer, or an array of one integer in host memory. batch_dims: the number of b…, at
    most `axis`; a negative one counts from the rank of indices; 0 in version 1. version: 1, 7 or 8; in 8 a negative index counts
    from the end, in 1 and 7 it is out of range. Returns shape [b…, lead…, i…, trail…].

    Raises TypeError for another type, for an axis on a GPU and for strings there; ValueError for an axis or batch_dims out of
    range, unequal batch dimensions, a scalar `data`, or another version.

    >>> dg.openvino.gather(np.array([10, 20, 30]), np.array([2, -1, 5]), axis=0).tolist()
    [30, 30, 0]
    """
    problem = partial(OpenVINOGather, axis=host_values("axis", axis), batch_dims=batch_dims, version=version)
    return Request(problem, {"data": data, "indices": indices}, out_of_bounds, device, out, stream=stream)


@described(OpenVINOGatherElements)
def gather_elements(
    data: Any,
    indices: Any,
    axis: int,
    *,
    out: Any = None,
    out_of_bounds: str | Fill | None = None,
    device: str | None = None,
    stream: Any = None,
) -> Request:
    """GatherElements-6: output[c…] = data[c…, where the coordinate along `axis` is indices[c…]].

    data: shape [n…], any type of whole bytes, or strings. indices: int32 or int64, with data's sizes off the axis; negative ones
    count from the end. axis: an integer, a negative one counts from the end. Returns the shape of indices.

    Raises IndexError for an index out of range; TypeError for another type, and for strings on a GPU; ValueError for different
    ranks, other sizes off the axis, an axis out of range or a scalar `data`.

    >>> dg.openvino.gather_elements(np.array([[10, 20], [30, 40]]), np.array([[1, 0, -1], [0, 0, 1]]), axis=1).tolist()
    [[20, 10, 20], [30, 30, 40]]
    """
    return Request(
        partial(OpenVINOGatherElements, axis=axis), {"data": data, "indices": indices}, out_of_bounds, device, out, stream=stream
    )


@described(OpenVINOGatherND)
def gather_nd(
    data: Any,
    indices: Any,
    batch_dims: int = 0,
    *,
    version: int = 8,
    out: Any = None,
    out_of_bounds: str | Fill | None = None,
    device: str | None = None,
    stream: Any = None,
) -> Request:
    """GatherND: output[b…, i…, trail…] = data[b…, tuple indices[b…, i…, :], trail…].

    data: shape [b…, n…, trail…], any type of whole bytes, or strings. indices: shape [b…, i…, t], any integer type, tuples of t
    positions in the dimensions n…; negative ones count from the end; t = 0 copies all of data[b…] for each tuple. batch_dims:
    the number of b…. version: 5 or 8. Returns shape [b…, i…, trail…]; in version 5 with one dimension in the place of b….

    Raises IndexError for an index out of range, also where the result is empty; TypeError for another type, and for strings on a
    GPU; ValueError for scalars, unequal batch dimensions, too many of them, tuples longer than data has dimensions, or another
    version.

    >>> data, tuples = np.arange(8).reshape(2, 2, 2), np.array([[[1], [0]], [[0], [-1]]])
    >>> dg.openvino.gather_nd(data, tuples, batch_dims=2).tolist()
    [[1, 2], [4, 7]]
    >>> dg.openvino.gather_nd(data, tuples, batch_dims=2, version=5).tolist()
    [1, 2, 4, 7]
    """
    problem = partial(OpenVINOGatherND, batch_dims=batch_dims, version=version)
    return Request(problem, {"data": data, "indices": indices}, out_of_bounds, device, out, stream=stream)


@described(OpenVINOSlice)
def slice(  # noqa: A001 - the operation's name
    data: Any,
    start: Any,
    stop: Any,
    step: Any,
    axes: Any = None,
    *,
    out: Any = None,
    out_of_bounds: str | Fill | None = None,
    device: str | None = None,
    stream: Any = None,
) -> Request:
    """Slice-8: output[c…] = data[start + step · c…], per dimension, with start and stop clamped.

    data: shape [n…], any type of whole bytes, or strings. start, stop, step, axes: sequences of integers, or one-dimensional
    arrays of any integer types in host memory. axes: default 0, 1, …; negative ones count from the end. step: negative to walk
    backwards. `out_of_bounds` changes nothing: there are no indices.

    Raises TypeError for another type, for bounds on a GPU and for strings there; ValueError for different lengths, axes out of
    range or named twice, a step of 0, or a scalar `data`.

    >>> dg.openvino.slice(np.arange(10), start=[8], stop=[2], step=[-3]).tolist()
    [8, 5]
    """
    bounds = host_bounds(("axes",), start=start, stop=stop, step=step, axes=axes)
    return Request(partial(OpenVINOSlice, **bounds), {"data": data}, out_of_bounds, device, out, stream=stream)


@described(OpenVINOStridedSlice)
def strided_slice(  # noqa: PLR0917 - OpenVINO's own signature
    data: Any,
    begin: Any,
    end: Any,
    strides: Any = None,
    begin_mask: Sequence[int] | None = None,
    end_mask: Sequence[int] | None = None,
    new_axis_mask: Sequence[int] | None = None,
    shrink_axis_mask: Sequence[int] | None = None,
    ellipsis_mask: Sequence[int] | None = None,
    *,
    out: Any = None,
    out_of_bounds: str | Fill | None = None,
    device: str | None = None,
    stream: Any = None,
) -> Request:
    """StridedSlice-1: data[begin[0] : end[0] : strides[0], begin[1] : end[1] : strides[1], …], with begin and end clamped.

    data: of any shape, of any type of whole bytes, or strings. begin, end, strides: sequences of integers, or one-dimensional
    arrays of any integer types in host memory, all of one length; strides: default 1, …; negative to walk backwards. Entry k is
    for the next dimension of data, unless a mask has a 1 at k. Of several, the first of these counts:

    - ellipsis_mask: the entry stands for all dimensions that no other entry is for, which are taken whole. At most one entry.
    - new_axis_mask: for a new dimension of size 1.
    - shrink_axis_mask: for the element begin[k], which must exist; the dimension is dropped.
    - begin_mask, end_mask: from the first element on, up to the last element, in the direction of the stride.

    Masks are sequences of 0 and 1, of any lengths; None stands for zeros. What one lacks is zeros, and what it has more than
    begin is ignored. `out_of_bounds` changes nothing: there are no indices.

    Raises TypeError for another type, for bounds on a GPU and for strings there; ValueError for different lengths, more entries
    than data has dimensions, a stride of 0, an element that does not exist, two ellipses, or a mask of other numbers.

    >>> x = np.arange(12).reshape(3, 4)
    >>> dg.openvino.strided_slice(x, begin=[1, 0], end=[2, 4], strides=[1, -2], begin_mask=[0, 1], end_mask=[1, 1]).tolist()
    [[7, 5], [11, 9]]
    >>> dg.openvino.strided_slice(x, begin=[0, -1], end=[0, 0], ellipsis_mask=[1], shrink_axis_mask=[0, 1]).tolist()
    [3, 7, 11]
    """
    bounds = host_bounds(("strides",), begin=begin, end=end, strides=strides)
    masks = {
        "begin_mask": begin_mask,
        "end_mask": end_mask,
        "new_axis_mask": new_axis_mask,
        "shrink_axis_mask": shrink_axis_mask,
        "ellipsis_mask": ellipsis_mask,
    }
    given = host_bounds((), **{name: () if mask is None else mask for name, mask in masks.items()})
    return Request(partial(OpenVINOStridedSlice, **bounds, **given), {"data": data}, out_of_bounds, device, out, stream=stream)


def to_directml(
    data: Any,
    indices: Any,
    axis: Any,
    batch_dims: int = 0,
    level: str | FeatureLevel = "6_4",
    *,
    version: int = 8,
) -> OperatorDesc | Descriptors | Report:
    """The DirectML descriptor for a Gather, or a report of why there is none: `gather.to_directml`.

    data, indices: arrays, anything with `shape` and `dtype`, or pairs (shape, dtype). axis, batch_dims, version: as for `gather`.
    level: the feature level to write for.

    Returns one descriptor; a tuple, in the order in which they run, where one cannot do it; or a Report whose findings say which
    rule of the operator the call breaks, or what the level does not take (`docs/expressing.md`). Without batches the descriptor
    is GATHER; with batches GATHER_ND1 where the axis follows the batch dimensions, else GATHER_ELEMENTS on
    {batch, lead, axis, trail}, with indices that strides of 0 repeat along lead and trail.

    To run it, bind data to InputTensor, indices to IndicesTensor and a fresh buffer to OutputTensor, as for
    `dmlgather.onnx.to_directml`: packed and padded to TotalTensorSizeInBytes, indices converted to the described type, boolean
    as UINT8, bf16 as UINT16 and the 8-bit floats as UINT8. Indices in range then give OpenVINO's elements; `differences` says
    which other indices do not.

    Raises ValueError for an unknown level, TypeError for what has no shape and type, and for an axis on a GPU.

    >>> desc = dg.openvino.to_directml(((5, 2), "float32"), ((3,), "int64"), axis=0)
    >>> desc.operator.name, desc.output_tensor.sizes
    ('GATHER', (3, 2))
    """
    version = whole("version", version)
    return gather.to_directml(data, indices, axis, batch_dims, level=level, version=version)


def differences(data: Any, indices: Any, axis: Any, batch_dims: int = 0, *, version: int = 8) -> tuple[Finding, ...]:
    """The indices for which the descriptors of `to_directml` give other elements than OpenVINO: `gather.differences`.

    Arguments as for `to_directml`. Returns findings of severity warning: EXP201 for indices out of range, where OpenVINO gives 0
    and DirectML the nearest element; EXP202 for negative indices of a signed type in versions 1 and 7, which DirectML counts from
    the end from level 3_0 on. To mask them, compare the indices with the first and the last valid one, and select 0 in the output
    (ELEMENT_WISE_IF).

    Raises TypeError and ValueError as `gather` does.

    >>> [finding.expected for finding in dg.openvino.differences(((5, 2), "float32"), ((3,), "int64"), axis=0)]
    ['indices from -5 to 4']
    """
    return gather.differences(data, indices, axis, batch_dims, version=whole("version", version))
