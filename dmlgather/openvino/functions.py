"""OpenVINO's operations as functions on arrays, with their DirectML descriptors, and the differences from DirectML."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Generic, ParamSpec

from dmlgather.calls.arguments import Fill, host_bounds, host_values, type_of
from dmlgather.calls.eager import EagerFunction, Request
from dmlgather.dialects.exporter import Descriptors
from dmlgather.dialects.problem import whole
from dmlgather.directml import FeatureLevel, Finding, OperatorDesc, Report
from dmlgather.openvino.problems import export
from dmlgather.openvino.problems.gather import OpenVINOGather, OpenVINOGatherElements, OpenVINOGatherND
from dmlgather.openvino.problems.operation_versions import MASKS
from dmlgather.openvino.problems.slices import OpenVINOSlice, OpenVINOStridedSlice

P = ParamSpec("P")


class DescribedFunction(EagerFunction[P], Generic[P]):
    """An eager function that can also return its DirectML descriptors.

    It decorates a function that returns a Request. The field `problem_of` of this Request must be a `functools.partial` of a
    problem class.
    """

    def to_directml(self, *args: Any, level: str | FeatureLevel = "6_4", **kwargs: Any) -> OperatorDesc | Descriptors | Report:
        """Return the DirectML descriptor of a call, or a report of why it has none.

        Takes the arguments of the call, except `out`, `out_of_bounds` and `device`. Anything with `shape` and `dtype`, or a
        pair (shape, dtype), can replace an array. `level`: DirectML's feature level, such as "6_4".

        Returns one descriptor, or a tuple of descriptors in the order of execution. If the level cannot express the call,
        returns a Report: its findings name the limit of the level, or a broken rule of the operation. `docs/expressing.md`
        explains the findings, and how to bind arrays.

        Raises ValueError for an unknown level; TypeError for an array argument without shape and type, and for an axis, starts
        or ends in a GPU array.

        >>> desc = dg.openvino.gather_nd.to_directml(((5, 4), "float32"), ((3, 2), "int64"), level="3_0")
        >>> desc.operator.name, desc.output_tensor.sizes
        ('GATHER_ND1', (1, 3))
        """
        feature_level, maker = FeatureLevel.parse(level), self._problem_maker(args, kwargs)
        problem_class: Any = maker.func
        operation = f"{problem_class.name}-{maker.keywords.get('version', problem_class.version)}"
        return export.EXPORTER.to_directml(maker, feature_level, "OpenVINO", operation)

    def differences(self, *args: Any, **kwargs: Any) -> tuple[Finding, ...]:
        """Return warnings about indices for which the descriptors of `to_directml` give other results than OpenVINO.

        Takes the arguments of `to_directml`. Only Gather has warnings, EXP201 and EXP202. In the other operations, an index
        out of range is an error, or there are no indices.

        Raises TypeError and ValueError like a call of the function.

        >>> [finding.expected for finding in dg.openvino.gather.differences(((5, 2), "float32"), ((3,), "uint8"), axis=0)]
        ['indices from 0 to 4']
        """
        return export.EXPORTER.differences(self._problem_maker(args, kwargs)())

    def _problem_maker(self, args: Any, kwargs: Any) -> partial[Any]:
        """Return a function without arguments that makes the call's problem. It raises an error if a rule is broken."""
        request = self._request(*args, **kwargs)
        for name in ("out", "out_of_bounds", "device"):
            if getattr(request, name) is not None:
                raise TypeError(f"{name} is given, but a descriptor has none: leave it out")
        return partial(request.problem_of, *(type_of(name, item) for name, item in request.arrays.items()))


@DescribedFunction
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
    """Return OpenVINO's Gather: output[b…, lead…, i…, trail…] = data[b…, lead…, indices[b…, i…], trail…].

    An index out of range gives 0, or the empty string if data are strings.

    `data`: an array of shape [b…, lead…, n, trail…]. All types of at least 8 bits are allowed, and strings.
    `indices`: an array of shape [b…, i…] and any integer type.
    `axis`: the dimension of size n, as an integer or an array of one integer in host memory.
    `batch_dims`: the number of dimensions b…, at most `axis`. A negative `batch_dims` counts from the rank of `indices`.
    `version`: 1, 7 or 8. Version 1 has no batch_dims. In version 8, negative indices count from the end; in versions 1 and 7,
    they are out of range.

    The result has shape [b…, lead…, i…, trail…].

    Raises TypeError for an unsupported type, and for an axis or strings on a GPU; ValueError if `axis` or `batch_dims` is out
    of range, if data and indices have different sizes in the dimensions b…, if `data` is a scalar, and for an unknown version.

    >>> dg.openvino.gather(np.array([10, 20, 30]), np.array([2, -1, 5]), axis=0).tolist()
    [30, 30, 0]
    """
    problem = partial(OpenVINOGather, axis=host_values("axis", axis), batch_dims=batch_dims, version=version)
    return Request(problem, {"data": data, "indices": indices}, out_of_bounds, device, out, stream=stream)


@DescribedFunction
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
    """Return OpenVINO's GatherElements-6: output[c] = data[c with c[axis] replaced by indices[c]].

    `data`: an array of shape [n…]. All types of at least 8 bits are allowed, and strings.
    `indices`: an array of type int32 or int64. It has the sizes of `data`, except along `axis`.

    Negative indices and axes count from the end. The result has the shape of `indices`.

    Raises IndexError for an index out of range; TypeError for an unsupported type, and for strings on a GPU; ValueError for
    different ranks or sizes, an axis out of range or a scalar `data`.

    >>> dg.openvino.gather_elements(np.array([[10, 20], [30, 40]]), np.array([[1, 0, -1], [0, 0, 1]]), axis=1).tolist()
    [[20, 10, 20], [30, 30, 40]]
    """
    problem = partial(OpenVINOGatherElements, axis=axis)
    return Request(problem, {"data": data, "indices": indices}, out_of_bounds, device, out, stream=stream)


@DescribedFunction
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
    """Return OpenVINO's GatherND: output[b…, i…, trail…] = data[b…, *indices[b…, i…, :], trail…].

    `data`: an array of shape [b…, n…, trail…]. All types of at least 8 bits are allowed, and strings.
    `indices`: an array of shape [b…, i…, t] and any integer type. Each tuple of t indices selects a position in the dimensions
    n…. If t is 0, it selects all of data[b…]. Negative indices count from the end.
    `batch_dims`: the number of dimensions b….
    `version`: 5 or 8. The result has shape [b…, i…, trail…]; version 5 merges b… into one dimension.

    Raises IndexError for an index out of range, also if the result is empty; TypeError for an unsupported type, and for strings
    on a GPU; ValueError if `data` or `indices` is a scalar, if there are too many batch dimensions or their sizes differ, if t
    is larger than the number of dimensions n…, and for an unknown version.

    >>> data, tuples = np.arange(8).reshape(2, 2, 2), np.array([[[1], [0]], [[0], [-1]]])
    >>> dg.openvino.gather_nd(data, tuples, batch_dims=2).tolist()
    [[1, 2], [4, 7]]
    >>> dg.openvino.gather_nd(data, tuples, batch_dims=2, version=5).tolist()
    [1, 2, 4, 7]
    """
    problem = partial(OpenVINOGatherND, batch_dims=batch_dims, version=version)
    return Request(problem, {"data": data, "indices": indices}, out_of_bounds, device, out, stream=stream)


@DescribedFunction
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
    """Return OpenVINO's Slice-8: output[c] = data[start + step · c] in each dimension.

    Starts and stops are clamped to the dimension.

    `data`: an array of shape [n…]. All types of at least 8 bits are allowed, and strings.
    `start`, `stop`, `step`, `axes`: sequences of integers, or one-dimensional arrays of any integer types in host memory. Steps
    may be negative. Negative axes count from the end. `axes` lists the dimensions to slice; default 0, 1, ….
    `out_of_bounds`: has no effect, because there are no indices.

    Raises TypeError for an unsupported type, and if start, stop, step, axes or strings are on a GPU; ValueError if start, stop,
    step and axes have different lengths, if an axis is out of range or repeated, for a step of 0, and if `data` is a scalar.

    >>> dg.openvino.slice(np.arange(10), start=[8], stop=[2], step=[-3]).tolist()
    [8, 5]
    """
    bounds = host_bounds(("axes",), start=start, stop=stop, step=step, axes=axes)
    return Request(partial(OpenVINOSlice, **bounds), {"data": data}, out_of_bounds, device, out, stream=stream)


@DescribedFunction
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
    """Return OpenVINO's StridedSlice-1: data[begin[0]:end[0]:strides[0], begin[1]:end[1]:strides[1], …]. Bounds are clamped.

    `data`: an array of any shape. All types of at least 8 bits are allowed, and strings.
    `begin`, `end`, `strides`: sequences of integers, or one-dimensional arrays of any integer types in host memory. They have
    the same length. Strides may be negative; the default is 1 for each entry.

    Entry k slices the next dimension of data, unless a mask has a 1 at position k. If several masks have a 1 at k, the first
    mask in this list applies:

    - ellipsis_mask: the entry keeps all dimensions that have no entry of their own. Only one entry may have a 1.
    - new_axis_mask: the entry adds a dimension of size 1.
    - shrink_axis_mask: the entry takes the element begin[k], which must exist, and removes the dimension.
    - begin_mask: the slice starts at the dimension's first element, or at the last element if the stride is negative.
    - end_mask: the slice ends after the last element, or before the first element if the stride is negative.

    Masks are sequences of 0 and 1; None means zeros. Missing entries are 0; entries beyond the length of `begin` are ignored.
    `out_of_bounds` has no effect, because there are no indices.

    Raises TypeError for an unsupported type, and if begin, end, strides or strings are on a GPU; ValueError if begin, end and
    strides have different lengths or more entries than data has dimensions, for a stride of 0, for an element begin[k] that
    does not exist, for two ellipses, and for a mask with other numbers than 0 and 1.

    >>> x = np.arange(12).reshape(3, 4)
    >>> dg.openvino.strided_slice(x, begin=[1, 0], end=[2, 4], strides=[1, -2], begin_mask=[0, 1], end_mask=[1, 1]).tolist()
    [[7, 5], [11, 9]]
    >>> dg.openvino.strided_slice(x, begin=[0, -1], end=[0, 0], ellipsis_mask=[1], shrink_axis_mask=[0, 1]).tolist()
    [3, 7, 11]
    """
    bounds = host_bounds(
        ("strides", *MASKS),
        begin=begin,
        end=end,
        strides=strides,
        begin_mask=begin_mask,
        end_mask=end_mask,
        new_axis_mask=new_axis_mask,
        shrink_axis_mask=shrink_axis_mask,
        ellipsis_mask=ellipsis_mask,
    )
    problem = partial(OpenVINOStridedSlice, **{name: values for name, values in bounds.items() if values is not None})
    return Request(problem, {"data": data}, out_of_bounds, device, out, stream=stream)


def to_directml(
    data: Any,
    indices: Any,
    axis: Any,
    batch_dims: int = 0,
    level: str | FeatureLevel = "6_4",
    *,
    version: int = 8,
) -> OperatorDesc | Descriptors | Report:
    """Return the DirectML descriptor of a Gather, or a report of why it has none: `gather.to_directml`.

    `data`, `indices`: arrays, anything with `shape` and `dtype`, or pairs (shape, dtype). `axis`, `batch_dims`, `version`: the
    arguments of `gather`. `level`: DirectML's feature level, such as "6_4".

    Returns one descriptor, or a tuple of descriptors in the order of execution. If the level cannot express the call, returns a
    Report: its findings name the limit of the level, or a broken rule of the operation (`docs/expressing.md`).

    Without batches, the descriptor is GATHER. With batches, it is GATHER_ND1 if the axis follows the batch dimensions.
    Otherwise it is GATHER_ELEMENTS on tensors with the dimensions {batch, lead, axis, trail}; strides of 0 repeat the indices
    along lead and trail.

    To run the descriptor, bind data to InputTensor, indices to IndicesTensor and a new buffer to OutputTensor. The buffers are
    contiguous and padded to TotalTensorSizeInBytes. Convert the indices to the described type. Bind boolean and 8-bit floats as
    UINT8, and bf16 as UINT16. For indices in range, DirectML then gives OpenVINO's result. `differences` describes the other
    indices.

    Raises ValueError for an unknown level; TypeError for an argument without shape and type, and for an axis on a GPU.

    >>> desc = dg.openvino.to_directml(((5, 2), "float32"), ((3,), "int64"), axis=0)
    >>> desc.operator.name, desc.output_tensor.sizes
    ('GATHER', (3, 2))
    """
    version = whole("version", version)
    return gather.to_directml(data, indices, axis, batch_dims, level=level, version=version)


def differences(data: Any, indices: Any, axis: Any, batch_dims: int = 0, *, version: int = 8) -> tuple[Finding, ...]:
    """Return warnings about indices for which DirectML gives other results than OpenVINO: `gather.differences`.

    Takes the arguments of `to_directml`. EXP201: for an index out of range, OpenVINO gives 0, and DirectML gives the
    nearest element. EXP202: in versions 1 and 7 of OpenVINO's Gather, a negative index of a signed type is out of range. From
    level 3_0 on, DirectML counts it from the end. To get 0 for these indices, compare them with the first and the last valid
    index, and select 0 in the output (ELEMENT_WISE_IF).

    Raises the TypeErrors and ValueErrors of `gather`.

    >>> [finding.expected for finding in dg.openvino.differences(((5, 2), "float32"), ((3,), "int64"), axis=0)]
    ['indices from -5 to 4']
    """
    return gather.differences(data, indices, axis, batch_dims, version=whole("version", version))
