"""Codes of findings about onnxruntime's DirectML provider, with rule, severity and source.

Codes are stable and never reused. ORT1xx: creating the session or the run fails. ORT2xx: results differ from the CPU
provider's. ORT3xx: the sources contradict each other. `docs/onnxruntime-findings.md` has a section for each code.
"""

from __future__ import annotations

from dmlgather.directml import Code, Severity

_TREE = "https://github.com/microsoft/onnxruntime/blob/89b01b406ca7/onnxruntime/"
_DML = "core/providers/dml/"
_OPERATORS = f"{_DML}DmlExecutionProvider/src/Operators/"

SOURCES = {
    "ORT-ABI": f"how kernels are created, {_TREE}{_DML}DmlExecutionProvider/src/MLOperatorAuthorImpl.cpp",
    "ORT-EP": f"which nodes the provider takes, {_TREE}{_DML}DmlExecutionProvider/src/ExecutionProvider.cpp",
    "ORT-FALLBACK": f"which nodes stay on the CPU, {_TREE}core/framework/fallback_cpu_capability.cc",
    "ORT-FOLD": f"what is computed beforehand, {_TREE}core/optimizer/constant_folding.cc",
    "ORT-GATHER": f"the descriptors of gathers, {_TREE}{_OPERATORS}DmlOperatorGather.cpp",
    "ORT-GRAPH": f"which models are loaded, {_TREE}core/graph/graph.cc",
    "ORT-HELPER": f"sizes and bounds, {_TREE}{_DML}OperatorAuthorHelper/OperatorHelper.cpp",
    "ORT-PARTITION": f"what is fused, {_TREE}{_DML}DmlExecutionProvider/src/GraphPartitioner.cpp",
    "ORT-REG": f"the table of kernels, {_TREE}{_OPERATORS}OperatorRegistration.cpp",
    "ORT-TENSOR": f"how tensors are described, {_TREE}{_DML}DmlExecutionProvider/src/TensorDesc.cpp",
    "ORT-TESTS": f"the tests of the operators, and which the provider skips, {_TREE}test/providers/cpu/tensor/",
    "ORT-WHEEL": "runs of the CPU provider in the wheel of the same version, https://pypi.org/project/onnxruntime/1.24.4/",
    "ORT-11107": "https://github.com/microsoft/onnxruntime/issues/11107",
    "ORT-25251": "https://github.com/microsoft/onnxruntime/issues/25251",
}
"""Names and addresses of documents. `dmlgather.directml.SOURCES` has more."""

_ERROR, _WARNING = Severity.ERROR, Severity.WARNING

_ROWS = (
    Code(
        "ORT101",
        "a size that the model states must be the one that the provider computes",
        _ERROR,
        "[ORT-ABI] InferAndVerifyOutputSizes",
    ),
    Code(
        "ORT102",
        "a size that the model states should be the one that the provider computes, in every run",
        _WARNING,
        "[ORT-ABI] InferAndVerifyOutputSizes",
    ),
    Code("ORT103", "a tensor must have at most 8 dimensions", _ERROR, "[ORT-TENSOR]"),
    Code("ORT104", "the result of GatherND must not be a scalar", _ERROR, "[ORT-HELPER] GatherNdHelper"),
    Code("ORT105", "a Slice that has steps must have axes", _ERROR, "[ORT-HELPER] SliceHelper; [ORT-TESTS] slice_op.test.cc"),
    Code(
        "ORT106",
        "the indices of GatherElements must have the sizes of data except along the axis",
        _ERROR,
        "[ORT-GATHER]; [ORT-TESTS] gather_elements_op_test.cc; [GE] IndicesTensor",
    ),
    Code("ORT107", "the descriptor that the provider builds must be one that DirectML takes", _ERROR, "[ORT-GATHER]; [HDR]"),
    Code("ORT108", "a provider must have a kernel for the data type", _ERROR, "[ORT-REG]"),
    Code(
        "ORT109",
        "the CPU provider should have a kernel for a data type that not every adapter has",
        _WARNING,
        "[ORT-REG]; [ORT-EP] DoesNodeContainSupportedDataTypes",
    ),
    Code(
        "ORT110",
        "the indices of GatherElements should have the sizes of data except along the axis, in every run",
        _WARNING,
        "[ORT-GATHER]; [ORT-TESTS] gather_elements_op_test.cc; [GE] IndicesTensor",
    ),
    Code("ORT111", "the versions of a model should be those that the provider's last wheel loads", _WARNING, "[ORT-WHEEL]"),
    # Other results
    Code("ORT201", "indices should be in range: the provider takes the nearest element", _WARNING, "[ORT-25251]; [G]"),
    Code("ORT202", "an axis should occur once: the provider takes its last bounds", _WARNING, "[ORT-HELPER] SliceHelper"),
    Code(
        "ORT203",
        "a reversed slice should not end at INT_MAX: the CPU reverses the axis, and the provider takes no element",
        _WARNING,
        "[ORT-HELPER] SliceHelper; [ORT-11107]; [ORT-TESTS] slice_op.test.cc",
    ),
    Code(
        "ORT204",
        "a slice should not start before its axis: the provider gives another size than ONNX",
        _WARNING,
        "[ORT-HELPER] SliceHelper",
    ),
    # Not clear
    Code(
        "ORT301",
        "a reversed slice should not end at INT64_MIN: the provider's result is not clear",
        _WARNING,
        "[ORT-HELPER] SliceHelper; [ORT-TESTS] slice_op.test.cc",
    ),
    Code(
        "ORT302",
        "the batches of GatherND should have equal sizes: for unequal sizes, the provider's result is not clear",
        _WARNING,
        "[ORT-GATHER]; [GN1] BatchDimensionCount",
    ),
)

CODES = {row.code: row for row in _ROWS}
