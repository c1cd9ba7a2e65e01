"""From views of tensors to DirectML descriptors: the operator and the dimension count that a feature level takes for them.

Each builder first tries the natural form: all tensors with as many dimensions as the one of most, and leading 1s up to the
fewest that the level takes. Where the level takes no more, neighbours that move together become one dimension. The result is
the descriptors in the order in which they run, one as a rule; of several, the output of each is the InputTensor of the next.
Whether the level takes the data type is left to `validate`. For every builder:

data, indices, output: views with the dimensions that the dialect gives them, every size at least 1; output is what is written,
and has the sizes that follow from the others. level: the feature level to write for. InexpressibleError, with the finding that
says why, where no descriptor says what is asked for.
"""

from dmlgather.dialects.descriptors.gather_descriptors import gather, gather_elements, gather_nd
from dmlgather.dialects.descriptors.level_limits import InexpressibleError
from dmlgather.dialects.descriptors.slice_descriptors import slices
from dmlgather.dialects.descriptors.tensor_views import Dim, Dims, View, merge, storage_type

__all__ = [
    "Dim",
    "Dims",
    "InexpressibleError",
    "View",
    "gather",
    "gather_elements",
    "gather_nd",
    "merge",
    "slices",
    "storage_type",
]
