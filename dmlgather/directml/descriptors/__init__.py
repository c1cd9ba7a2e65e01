"""The descriptors of all supported operators, with the fields of the structures in directml.h."""

from dmlgather.directml.descriptors.depth_space import DepthToSpace1OperatorDesc, SpaceToDepth1OperatorDesc
from dmlgather.directml.descriptors.gathers import (
    GatherElementsOperatorDesc,
    GatherND1OperatorDesc,
    GatherNDOperatorDesc,
    GatherOperatorDesc,
)
from dmlgather.directml.descriptors.operator_desc import OperatorDesc
from dmlgather.directml.descriptors.slices import Slice1OperatorDesc, SliceOperatorDesc

__all__ = [
    "DepthToSpace1OperatorDesc",
    "GatherElementsOperatorDesc",
    "GatherND1OperatorDesc",
    "GatherNDOperatorDesc",
    "GatherOperatorDesc",
    "OperatorDesc",
    "Slice1OperatorDesc",
    "SliceOperatorDesc",
    "SpaceToDepth1OperatorDesc",
]
