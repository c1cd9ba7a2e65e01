"""From views of tensors to DirectML descriptors, with the operator and the dimension count that a feature level takes.

Each builder first tries the natural form: every tensor gets as many dimensions as the tensor with the most, and leading 1s up to
the fewest that the level takes. Where the level does not take so many, neighbouring dimensions that move together become one.
The result is the descriptors in the order in which they run, usually one; of several, the output of each is the InputTensor of
the next. `validate` decides whether the level takes the data type. For every builder:

data, indices, output: views with the dialect's dimensions, every size at least 1; the sizes of output follow from the others.
level: the feature level to write for. Raises InexpressibleError, with a finding that says why, where there is no descriptor.
"""

from dmlgather.dialects.descriptors.gather_descriptors import gather, gather_elements, gather_nd
from dmlgather.dialects.descriptors.level_limits import InexpressibleError
from dmlgather.dialects.descriptors.slice_descriptors import depth_to_space, slices, space_to_depth, windows_apart
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
    "slices",
    "space_to_depth",
    "storage_type",
    "windows_apart",
]
