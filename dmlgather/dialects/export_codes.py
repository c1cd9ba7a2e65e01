"""The codes of what keeps a dialect's call out of DirectML: each code's rule in one sentence, its severity and its source.

Codes are stable and never reused. EXP1xx: a call cannot be said with DirectML's descriptors; EXP2xx: it can, but some indices
mean something else there; EXP3xx: a model does not say enough to tell, or is invalid. `docs/expressing.md` has a section for
each.
"""

from __future__ import annotations

from dmlgather.directml import Code, Severity

SOURCES = {
    "IR": "ONNX intermediate representation, https://onnx.ai/onnx/repo-docs/IR.html",
    "JAX": "jax.lax.gather, https://docs.jax.dev/en/latest/_autosummary/jax.lax.gather.html",
    "ONNX": "ONNX operators, https://onnx.ai/onnx/operators/",
    "OPENVINO": "OpenVINO operations, https://docs.openvino.ai/2025/documentation/openvino-ir-format/operation-sets.html",
    "SHAPES": "ONNX shape inference, https://onnx.ai/onnx/repo-docs/ShapeInference.html",
}
"""What the keys in brackets of sources stand for, besides those of `dmlgather.directml.SOURCES`."""

_ERROR, _WARNING = Severity.ERROR, Severity.WARNING

_ROWS = (
    Code("EXP101", "the node obeys its operator's specification", _ERROR, "[ONNX] the operator's version in force"),
    Code("EXP102", "every tensor has elements", _ERROR, "[BTD] Sizes"),
    Code("EXP103", "every element is a number of whole bytes", _ERROR, "[HDR] DML_TENSOR_DATA_TYPE"),
    Code("EXP104", "the tensors fit into the operator's dimension counts", _ERROR, "the operator's tensor support table"),
    Code("EXP105", "attributes and the bounds of a slice are known when a node is described", _ERROR, "[S], [S1]"),
    Code("EXP106", "the feature level has an operator that does this", _ERROR, "[HDR]; [FLH]"),
    Code("EXP107", "a tensor spans at most 2^32 - 1 elements", _ERROR, "[BTD] Remarks"),
    Code("EXP108", "every shape and type is known when a node is described", _ERROR, "[BTD] DataType, Sizes"),
    Code("EXP109", "the node is of the gather and slice family", _ERROR, "[ONNX]"),
    Code("EXP110", "a window that starts where an index says is one element or whole", _ERROR, "[G], [GN1]; [S1]"),
    Code("EXP111", "constant indices lie inside", _ERROR, "[ONNX] Gather, GatherElements, GatherND"),
    # What means something else
    Code("EXP201", "an index out of range means the same in DirectML", _WARNING, "[OPENVINO] Gather; [JAX]; [G]"),
    Code("EXP202", "a negative index means the same in DirectML", _WARNING, "[OPENVINO] Gather-1, Gather-7; [JAX]; [G]"),
    # What a model does not say
    Code("EXP301", "type and rank of every array follow from the model", _WARNING, "[BTD] DataType, DimensionCount"),
    Code("EXP302", "what decides the shape of the result is known before the model runs", _WARNING, "[BTD] Sizes; [S], [S1]"),
    Code("EXP303", "shapes can be inferred", _WARNING, "[SHAPES]"),
    Code("EXP304", "every name is defined before it is read", _ERROR, "[IR] Graphs"),
)

CODES = {row.code: row for row in _ROWS}
"""Every code, in order."""
