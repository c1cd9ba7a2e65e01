"""The gather and slice operators of DirectML, ONNX, OpenVINO, JAX and PyTorch on any OS, for CPUs and NVIDIA GPUs.

Importing this package imports no other. NumPy, Pydantic, CuPy, ONNX, JAX, Dask, Typer and Rich are imported on first use.
"""

from __future__ import annotations

from dmlgather.package import __version__ as __version__
from dmlgather.package import lazy_names

TYPE_CHECKING = False  # importing typing takes 10 ms, in which the command does not handle Ctrl-C yet
if TYPE_CHECKING:
    from dmlgather import distributed, lax, numpy, onnx, openvino, torch
    from dmlgather.backends.cuda.driver import DeviceError
    from dmlgather.calls.arguments import Fill
    from dmlgather.calls.operator import BoundOperator, CompiledOperator, compile  # noqa: A004 - the word users know
    from dmlgather.comparing.comparison import Comparison, compare
    from dmlgather.diagram.explanation import Explanation
    from dmlgather.differential.agreement import Agreement
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
    from dmlgather.fusion import Fused, fuse
    from dmlgather.numpy.index_expression import index
    from dmlgather.plan import IndexPlan, IndexType, Lookup, OutOfBounds, canonicalise
    from dmlgather.plan.compose import compose
    from dmlgather.plan.walk import CompositionError
    from dmlgather.translation import Translation, translate

__all__ = [
    "Agreement",
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
    "Fused",
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
    "Translation",
    "canonicalise",
    "compare",
    "compile",
    "compose",
    "distributed",
    "fuse",
    "index",
    "lax",
    "minimum_level",
    "numpy",
    "onnx",
    "openvino",
    "parse_descriptor",
    "support",
    "torch",
    "translate",
    "validate",
]


__getattr__, __dir__ = lazy_names(
    __name__,
    {
        **dict.fromkeys(__all__, "directml"),  # all names that have no entry of their own
        "Agreement": "differential.agreement",
        "BoundOperator": "calls.operator",
        "Comparison": "comparing.comparison",
        "CompiledOperator": "calls.operator",
        "CompositionError": "plan.walk",
        "DeviceError": "backends.cuda.driver",
        "Explanation": "diagram.explanation",
        "Fill": "calls.arguments",
        "Fused": "fusion",
        "IndexPlan": "plan",
        "IndexType": "plan",
        "Lookup": "plan",
        "OutOfBounds": "plan",
        "Translation": "translation",
        "canonicalise": "plan",
        "compare": "comparing.comparison",
        "compile": "calls.operator",
        "compose": "plan.compose",
        "distributed": "",
        "fuse": "fusion",
        "index": "numpy.index_expression",
        "lax": "",
        "numpy": "",
        "onnx": "",
        "openvino": "",
        "torch": "",
        "translate": "translation",
    },
)
