"""Builders of DirectML descriptors from views of tensors. They choose the operator and the dimension count for a feature level.

A builder first tries the natural form: all tensors get leading 1s up to the largest rank among them, and at least up to the
smallest dimension count of the level. If the level takes fewer dimensions, the builder merges neighbouring dimensions whose
strides allow it. The result is a chain of descriptors, usually one: the output of each is the InputTensor of the next. Callers
run `validate`, which decides about data types.

Arguments of every builder: `data`, `indices`, `output`: views with the dialect's dimensions and without sizes of 0. `level`: the
target feature level. Every builder raises InexpressibleError, with a finding, if there is no descriptor.
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
