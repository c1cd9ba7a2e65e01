"""Functions that build DirectML descriptors from tensors with strides (`View`).

They choose an operator and a dimension count that a feature level takes. A builder first tries to keep all dimensions. Leading
1s give all tensors a common rank that the level takes. If the level takes fewer dimensions, the builder merges adjacent
dimensions whose strides allow it. The result is a sequence of descriptors, usually one. The output of each descriptor is the
InputTensor of the next one. Builders do not check data types: callers run `validate`.

Every builder has these arguments. `data`, `indices`, `output`: tensors with the dimensions of the dialect's call; no size may
be 0. `level`: the target feature level. Every builder raises InexpressibleError, with a finding, if no descriptor expresses the
call.
"""

from dmlgather.dialects.descriptors.gather_descriptors import gather, gather_elements, gather_nd
from dmlgather.dialects.descriptors.level_limits import InexpressibleError
from dmlgather.dialects.descriptors.slice_descriptors import depth_to_space, separate_windows, slices, space_to_depth, whole_copy
from dmlgather.dialects.descriptors.tensor_views import Dim, Dims, View, merge, storage_type

__all__ = [
    "Dim",
    "Dims",
    "InexpressibleError",
    "View",
    "depth_to_space",
    "gather",
    "gather_elements",
    "gather_nd",
    "merge",
    "separate_windows",
    "slices",
    "space_to_depth",
    "storage_type",
    "whole_copy",
]
