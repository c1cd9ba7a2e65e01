"""DirectML: its types, operator descriptors, feature levels and rules, and the translation of descriptors to plans."""

from dmlgather.directml.codes import CODES, SOURCES, Code
from dmlgather.directml.descriptors import (
    DepthToSpace1OperatorDesc,
    GatherElementsOperatorDesc,
    GatherND1OperatorDesc,
    GatherNDOperatorDesc,
    GatherOperatorDesc,
    OperatorDesc,
    Slice1OperatorDesc,
    SliceOperatorDesc,
    SpaceToDepth1OperatorDesc,
)
from dmlgather.directml.findings import DescriptorError, Finding, Report, Severity
from dmlgather.directml.operators import OPERATORS, operator_named
from dmlgather.directml.operators.operator import Operator
from dmlgather.directml.tensor import BufferTensorDesc
from dmlgather.directml.types import DataType, DepthSpaceOrder, FeatureLevel, TensorFlags
from dmlgather.directml.validation import lower, minimum_level, parse_descriptor, support, validate

__all__ = [
    "CODES",
    "OPERATORS",
    "SOURCES",
    "BufferTensorDesc",
    "Code",
    "DataType",
    "DepthSpaceOrder",
    "DepthToSpace1OperatorDesc",
    "DescriptorError",
    "FeatureLevel",
    "Finding",
    "GatherElementsOperatorDesc",
    "GatherND1OperatorDesc",
    "GatherNDOperatorDesc",
    "GatherOperatorDesc",
    "Operator",
    "OperatorDesc",
    "Report",
    "Severity",
    "Slice1OperatorDesc",
    "SliceOperatorDesc",
    "SpaceToDepth1OperatorDesc",
    "TensorFlags",
    "lower",
    "minimum_level",
    "operator_named",
    "parse_descriptor",
    "support",
    "validate",
]
