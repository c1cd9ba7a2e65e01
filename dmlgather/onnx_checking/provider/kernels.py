"""Kernels of onnxruntime's DirectML provider and of its CPU provider.

Source: the table of registrations in onnxruntime 1.30 (`SOURCES["ORT-REG"]`), and docs/OperatorKernels.md there.
"""

from __future__ import annotations

from typing import NamedTuple

from dmlgather.directml.types import FeatureLevel
from dmlgather.onnx_checking.checked_model import Provider

LEAST_LEVEL = FeatureLevel.LEVEL_5_0
"""The lowest feature level of adapters that the provider accepts."""

MOST_DIMENSIONS = 8
"""The provider fails for tensors with more dimensions."""

INTEGERS = ("int16", "int32", "int64", "int8", "uint16", "uint32", "uint64", "uint8")
DIRECTML_TYPES = ("bool", "double", "float", "float16", *INTEGERS)
"""Data types of the provider's kernels for gathers and slices."""

ADAPTERS_TYPES = ("double", "int64", "uint64")
"""Data types that not every adapter supports. The provider asks by DML_FEATURE_TENSOR_DATA_TYPE_SUPPORT."""

MANY = (*DIRECTML_TYPES, "string")
FEW = ("double", "float", "int8", "uint8")


class Kernel(NamedTuple):
    """The kernels of an operator in onnxruntime.
    `since`: the versions with a DirectML kernel.
    `host`: the inputs that this kernel reads on the CPU.
    `cpu_types`: data types of the CPU provider, by version. Where float16 is missing, onnxruntime casts it to float.
    """

    operator: str
    since: tuple[int, ...]
    host: tuple[int, ...]
    cpu_types: dict[int, tuple[str, ...]]


_ROWS = (
    Kernel("Gather", (1, 11, 13), (), {1: MANY, 11: MANY, 13: (*MANY, "bfloat16")}),
    Kernel("GatherElements", (11, 13), (), {11: MANY, 13: (*MANY, "bfloat16")}),
    Kernel("GatherND", (11, 12, 13), (), {11: MANY, 12: MANY, 13: (*MANY, "bfloat16")}),
    Kernel("Slice", (1, 10, 11, 13), (1, 2, 3, 4), {1: MANY, 10: MANY, 11: MANY, 13: (*MANY, "bfloat16")}),
    Kernel("DepthToSpace", (1, 11, 13), (), {1: ("double", "float"), 11: FEW, 13: FEW, 28: (*MANY, "bfloat16")}),
    Kernel("SpaceToDepth", (1, 13), (), {1: FEW, 13: FEW, 28: (*MANY, "bfloat16")}),
)

KERNELS = {row.operator: row for row in _ROWS}

NEWEST_SHAPE = 21
"""The newest version of Shape and Size with a DirectML kernel. It writes its output on the CPU."""

SMALL = 100
"""Initializers of up to so many elements count as being on the CPU when onnxruntime places nodes."""

STAYING = ("float16", "bfloat16", "float8e4m3fn", "float8e4m3fnuz", "float8e5m2", "float8e5m2fnuz", "float4e2m1")
"""onnxruntime never moves a node with an input of these data types to the CPU on purpose."""


def check_level(level: FeatureLevel) -> None:
    """Raise ValueError if the provider does not accept adapters of this feature level."""
    if level < LEAST_LEVEL:
        raise ValueError(f"level is {level}, but {Provider.ONNXRUNTIME_DIRECTML} needs {LEAST_LEVEL} or newer")
