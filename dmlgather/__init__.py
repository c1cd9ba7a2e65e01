"""The gather and slice operators of DirectML, ONNX, OpenVINO and JAX on any OS, with the same bits on CPU and NVIDIA GPU.

Importing this package loads NumPy and Pydantic; CuPy, ONNX, JAX, Dask, Typer and Rich are loaded by what needs them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dmlgather.directml import (
    BufferTensorDesc,
    DataType,
    DepthSpaceOrder,
    DepthToSpace1OperatorDesc,
    DescriptorError,
    FeatureLevel,
    Finding,
    GatherElementsOperatorDesc,
    GatherND1OperatorDesc,
    GatherNDOperatorDesc,
    GatherOperatorDesc,
    OperatorDesc,
    Report,
    Severity,
    Slice1OperatorDesc,
    SliceOperatorDesc,
    SpaceToDepth1OperatorDesc,
    TensorFlags,
    minimum_level,
    parse_descriptor,
    support,
    validate,
)
from dmlgather.lazy import lazy_names
from dmlgather.plan import CompositionError, IndexPlan, IndexType, Lookup, OutOfBounds, canonicalise, compose
from dmlgather.policy import Fill

if TYPE_CHECKING:
    from dmlgather import distributed, lax, onnx, openvino
    from dmlgather.backends.cuda.driver import DeviceError
    from dmlgather.comparing.comparison import Comparison, compare
    from dmlgather.explain import Explanation
    from dmlgather.operator import BoundOperator, CompiledOperator, compile  # noqa: A004 - the word users know

__version__ = "0.1.0"

__all__ = [
    "BoundOperator",
    "BufferTensorDesc",
    "Comparison",
    "CompiledOperator",
    "CompositionError",
    "DataType",
    "DepthSpaceOrder",
    "DepthToSpace1OperatorDesc",
    "DescriptorError",
    "DeviceError",
    "Explanation",
    "FeatureLevel",
    "Fill",
    "Finding",
    "GatherElementsOperatorDesc",
    "GatherND1OperatorDesc",
    "GatherNDOperatorDesc",
    "GatherOperatorDesc",
    "IndexPlan",
    "IndexType",
    "Lookup",
    "OperatorDesc",
    "OutOfBounds",
    "Report",
    "Severity",
    "Slice1OperatorDesc",
    "SliceOperatorDesc",
    "SpaceToDepth1OperatorDesc",
    "TensorFlags",
    "canonicalise",
    "compare",
    "compile",
    "compose",
    "distributed",
    "lax",
    "minimum_level",
    "onnx",
    "openvino",
    "parse_descriptor",
    "support",
    "validate",
]


__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "BoundOperator": "operator",
        "Comparison": "comparing.comparison",
        "CompiledOperator": "operator",
        "DeviceError": "backends.cuda.driver",
        "Explanation": "explain",
        "compare": "comparing.comparison",
        "compile": "operator",
        "distributed": "",
        "lax": "",
        "onnx": "",
        "openvino": "",
    },
)
