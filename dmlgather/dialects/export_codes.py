"""The codes of findings about exports to DirectML. Codes are stable and never reused.

EXP1xx: a call has no descriptor. EXP2xx: DirectML treats some indices differently. EXP3xx: a model is incomplete or invalid.
"""

from __future__ import annotations

from dmlgather.directml import Code, Severity

SOURCES = {
    "IR": "ONNX intermediate representation, https://onnx.ai/onnx/repo-docs/IR.html",
    "JAX": "jax.lax.gather, https://docs.jax.dev/en/latest/_autosummary/jax.lax.gather.html",
    "NUMPY": "Indexing on ndarrays, https://numpy.org/doc/stable/user/basics.indexing.html",
    "ONNX": "ONNX operators, https://onnx.ai/onnx/operators/",
    "OPENVINO": "OpenVINO operations, https://docs.openvino.ai/2025/documentation/openvino-ir-format/operation-sets.html",
    "SHAPES": "ONNX shape inference, https://onnx.ai/onnx/repo-docs/ShapeInference.html",
}
"""Documents by key, in addition to `dmlgather.directml.SOURCES`."""

_ERROR, _WARNING = Severity.ERROR, Severity.WARNING

_ROWS = (
    Code("EXP101", "the node must obey its operator's specification", _ERROR, "[ONNX] the operator's version in force"),
    Code("EXP102", "every tensor must have elements", _ERROR, "[BTD] Sizes"),
    Code("EXP103", "the data type must be numeric and fill whole bytes", _ERROR, "[HDR] DML_TENSOR_DATA_TYPE"),
    Code(
        "EXP104",
        "the tensors must not have more dimensions than the operator takes",
        _ERROR,
        "the operator's tensor support table",
    ),
    Code("EXP105", "attributes and the bounds of a slice must be known when a node is described", _ERROR, "[S], [S1]"),
    Code("EXP106", "the feature level must have an operator that does this", _ERROR, "[HDR]; [FLH]"),
    Code("EXP107", "a tensor must span at most 2^32 - 1 elements", _ERROR, "[BTD] Remarks"),
    Code("EXP108", "every shape and type must be known when a node is described", _ERROR, "[BTD] DataType, Sizes"),
    Code("EXP109", "the node must be a gather or a slice", _ERROR, "[ONNX]"),
    Code("EXP110", "the copy of data for partial windows must fit into a tensor", _ERROR, "[BTD] Strides, Remarks"),
    Code("EXP111", "constant indices must be in range", _ERROR, "[ONNX] Gather, GatherElements, GatherND; [NUMPY]"),
    # Different results
    Code(
        "EXP201",
        "indices should be in range, because DirectML reads the nearest element instead",
        _WARNING,
        "[OPENVINO] Gather; [JAX]; [NUMPY]; [G]",
    ),
    Code(
        "EXP202",
        "indices should not be negative, because DirectML counts them from the end",
        _WARNING,
        "[OPENVINO] Gather-1, Gather-7; [JAX]; [G]",
    ),
    # Models
    Code("EXP301", "the model should give the type and rank of every input", _WARNING, "[BTD] DataType, DimensionCount"),
    Code("EXP302", "the values that determine the output's shape should be known", _WARNING, "[BTD] Sizes; [S], [S1]"),
    Code("EXP303", "shape inference should find no error", _WARNING, "[SHAPES]"),
    Code("EXP304", "every name must be defined before it is read", _ERROR, "[IR] Graphs"),
    Code("EXP305", "the conditions of all nodes of a model should hold for some sizes", _WARNING, "[BTD] Sizes"),
    Code("EXP306", "the stated type and sizes of a tensor should be the inferred ones", _WARNING, "[SHAPES]"),
    Code(
        "EXP307",
        "the stated type and sizes of a tensor must be the inferred ones if runtimes refuse a contradiction",
        _ERROR,
        "[SHAPES]; [IR] Graphs",
    ),
    Code("EXP308", "a size that depends on sizes of inputs should not be stated as a number", _WARNING, "[SHAPES]"),
    Code("EXP309", "the operator set should have a version that ONNX has released", _WARNING, "[ONNX]; [IR] Operator sets"),
    Code("EXP310", "ir_version must be a version that ONNX has released", _ERROR, "[IR] Versioning"),
    Code("EXP311", "the nodes of a graph must have different names", _ERROR, "[IR] Names Within a Graph"),
    Code("EXP312", "every name must be defined once in a graph", _ERROR, "[IR] Graphs"),
)

CODES = {row.code: row for row in _ROWS}
