"""The gather and slice operators of DirectML, ONNX, OpenVINO and JAX on any OS, with the same bits on CPU and NVIDIA GPU.

Importing this package loads NumPy and Pydantic; CuPy, ONNX, JAX, Typer and Rich are loaded by what needs them.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from dmlgather.backends.cuda.errors import DeviceError
from dmlgather.compare import Comparison, compare
from dmlgather.directml import (
    BufferTensorDesc,
    DataType,
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
    TensorFlags,
    minimum_level,
    parse_descriptor,
    support,
    validate,
)
from dmlgather.explain import Explanation
from dmlgather.operator import BoundOperator, CompiledOperator, compile  # noqa: A004 - the word users know
from dmlgather.plan import CompositionError, IndexPlan, IndexType, Lookup, OutOfBounds, canonicalise, compose
from dmlgather.policy import Fill

if TYPE_CHECKING:
    from dmlgather import lax, onnx, openvino

__version__ = "0.1.0"

__all__ = [
    "BoundOperator",
    "BufferTensorDesc",
    "Comparison",
    "CompiledOperator",
    "CompositionError",
    "DataType",
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
    "TensorFlags",
    "canonicalise",
    "compare",
    "compile",
    "compose",
    "lax",
    "minimum_level",
    "onnx",
    "openvino",
    "parse_descriptor",
    "support",
    "validate",
]


def __getattr__(name: str) -> Any:
    """The dialects, imported when they are asked for."""
    if name in ("lax", "onnx", "openvino"):
        return importlib.import_module(f"dmlgather.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
