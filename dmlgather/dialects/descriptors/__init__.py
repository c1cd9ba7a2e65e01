"""Functions that build DirectML descriptors from tensors with strides (`View`).

A builder merges dimensions if the level takes fewer, and adds leading 1s if it takes more. The result is a chain of
descriptors, usually one. Callers check data types with `validate`. No size may be 0. Builders raise InexpressibleError if no
descriptor expresses the call.
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
