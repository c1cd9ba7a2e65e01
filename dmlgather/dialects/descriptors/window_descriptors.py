"""Windows of a view at every start, read from a copy of the data in which they lie apart."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from dmlgather.dialects.descriptors.level_limits import refuse
from dmlgather.dialects.descriptors.slice_descriptors import slices
from dmlgather.dialects.descriptors.tensor_views import Dim, View
from dmlgather.dialects.windows import Window
from dmlgather.directml import FeatureLevel, OperatorDesc
from dmlgather.directml.rules.tensors import ELEMENT_LIMIT
from dmlgather.wording import braces


def windows_apart(
    data: View, sizes: Mapping[int, int], level: FeatureLevel
) -> tuple[tuple[OperatorDesc, ...], View, Mapping[int, Dim]]:
    """The descriptors that copy data; the copy, with possible starts as dimensions; and the dimensions of offsets beside these.

    sizes: the elements of a window, by dimension of data. The copy's view has data's dimensions, and those with windows have a
    size of starts. Offset j behind start p is data's element p + j. Without windows there is no copy.

    Neighbouring windows share elements, and DirectML's documents know no strides by which elements are shared but 0. So the copy
    is data repeated by strides of 0. Offset j lies in repetition j, so that its stride is one repetition and one element. Where
    there are fewer starts than offsets, start p lies in repetition p instead.
    """
    counts = [min(size, data.sizes[axis] - size + 1) for axis, size in sizes.items()]
    repeated = replace(data, dims=(*(Dim(count, 0) for count in counts), *data.dims))
    copy = View.packed(data.name, data.data_type, repeated.sizes)
    if data.span <= ELEMENT_LIMIT < copy.span:
        refuse(
            "EXP110",
            "slice_sizes",
            expected=f"at most {ELEMENT_LIMIT} elements to read windows from",
            got=f"{copy.span}: {braces(data.sizes)}, repeated {braces(counts)} times for windows of {braces([*sizes.values()])}",
            remedy="give each element of a window its own index vector, the window's start plus the element's offset",
        )
    if not sizes:
        return (), data, {}
    dims, offsets = list(copy.dims[len(counts) :]), {}
    for (axis, size), repetition in zip(sizes.items(), copy.dims, strict=False):
        starts, along = dims[axis].size - size + 1, dims[axis].stride
        across = repetition.stride + along
        dims[axis] = Dim(starts, along if size <= starts else across)
        offsets[axis] = Dim(size, across if size <= starts else along)
    descs = slices(repeated, copy, [Window.whole(size) for size in copy.sizes], level)
    return descs, replace(copy, dims=tuple(dims)), offsets
