"""The registry of finding codes. Codes are stable and never reused. `docs/findings.md` has a section for each.

A title is printed when its rule is broken. So it states a requirement: "must" for errors and notes, "should" for warnings.
"""

from __future__ import annotations

from typing import NamedTuple

from dmlgather.directml.findings import Finding, Severity
from dmlgather.directml.types import FeatureLevel
from dmlgather.wording import shortened

_API = "https://learn.microsoft.com/windows/win32/api/directml/"
_GUIDE = "https://learn.microsoft.com/windows/ai/directml/"

SOURCES = {
    "BTD": f"DML_BUFFER_TENSOR_DESC, {_API}ns-directml-dml_buffer_tensor_desc",
    "TDT": f"DML_TENSOR_DATA_TYPE, {_API}ne-directml-dml_tensor_data_type",
    "TF": f"DML_TENSOR_FLAGS, {_API}ne-directml-dml_tensor_flags",
    "G": f"DML_GATHER_OPERATOR_DESC, {_API}ns-directml-dml_gather_operator_desc",
    "GE": f"DML_GATHER_ELEMENTS_OPERATOR_DESC, {_API}ns-directml-dml_gather_elements_operator_desc",
    "GN": f"DML_GATHER_ND_OPERATOR_DESC, {_API}ns-directml-dml_gather_nd_operator_desc",
    "GN1": f"DML_GATHER_ND1_OPERATOR_DESC, {_API}ns-directml-dml_gather_nd1_operator_desc",
    "S": f"DML_SLICE_OPERATOR_DESC, {_API}ns-directml-dml_slice_operator_desc",
    "S1": f"DML_SLICE1_OPERATOR_DESC, {_API}ns-directml-dml_slice1_operator_desc",
    "DS1": f"DML_DEPTH_TO_SPACE1_OPERATOR_DESC, {_API}ns-directml-dml_depth_to_space1_operator_desc",
    "SD1": f"DML_SPACE_TO_DEPTH1_OPERATOR_DESC, {_API}ns-directml-dml_space_to_depth1_operator_desc",
    "DSO": f"DML_DEPTH_SPACE_ORDER, {_API}ne-directml-dml_depth_space_order",
    "HDR": "DirectML.h, redistributable edition, https://www.nuget.org/packages/Microsoft.AI.DirectML",
    "HELP": f"DMLCalcBufferTensorSize, {_GUIDE}dml-helper-functions",
    "STR": f"Using strides to express padding and memory layout, {_GUIDE}dml-strides",
    "BIND": f"Binding in DirectML, {_GUIDE}dml-binding",
    "CONST": f"DirectML constants, {_GUIDE}directml-constants",
    "FLH": f"DirectML feature level history, {_GUIDE}dml-feature-level-history",
    "VER": f"DirectML version history, {_GUIDE}dml-version-history",
    "REL": "microsoft/DirectML, Releases.md, https://github.com/microsoft/DirectML/blob/master/Releases.md",
    "DMLX": "microsoft/DirectML, Libraries/DirectMLX.h, https://github.com/microsoft/DirectML",
    "DXD": "DxDispatch, doc/Guide.md and models/_schema.json, https://github.com/microsoft/DirectML/tree/master/DxDispatch",
    "ISSUE-685": "https://github.com/microsoft/DirectML/issues/685",
}
"""The documents that rules cite: "[G]" for the key "G"."""


class Code(NamedTuple):
    """A code of findings, such as DML302, with its rule."""

    code: str
    title: str
    severity: Severity
    source: str

    def finding(
        self, path: str, *, expected: str, got: str, remedy: str, level: FeatureLevel | None = None, source: str | None = None
    ) -> Finding:
        """Return a finding with this code. Long texts are shortened.

        `level`: lowest feature level that accepts the value, if the rule depends on levels.
        `source`: the document to cite; None for the document of this code.
        """
        return Finding(
            code=self.code,
            severity=self.severity,
            path=shortened(path),
            message=self.title,
            expected=shortened(expected),
            got=shortened(got),
            remedy=shortened(remedy),
            level=level,
            source=source or self.source,
        )


_ERROR, _WARNING, _NOTE = Severity.ERROR, Severity.WARNING, Severity.NOTE

_ROWS = (
    # One tensor
    Code("DML101", "DimensionCount must be the number of Sizes", _ERROR, "[BTD] DimensionCount"),
    Code(
        "DML102", "a tensor must have 1 to 8 dimensions", _ERROR, "[BTD] DimensionCount; [CONST] DML_TENSOR_DIMENSION_COUNT_MAX1"
    ),
    Code("DML103", "every size must be at least 1", _ERROR, "[BTD] Sizes"),
    Code("DML104", "Strides must have one entry per dimension", _ERROR, "[BTD] Strides"),
    Code("DML105", "an element must have a whole number of bytes", _ERROR, "[TDT]; [HDR] DML_TENSOR_DATA_TYPE"),
    Code("DML106", "TotalTensorSizeInBytes must be large enough for the tensor", _ERROR, "[BTD] TotalTensorSizeInBytes; [HELP]"),
    Code("DML107", "TotalTensorSizeInBytes should be a multiple of 4", _WARNING, "[HELP]"),
    Code("DML108", "a tensor must address at most 2^32 - 1 elements", _ERROR, "[BTD] Remarks"),
    Code("DML109", "the product of an input's Sizes should be at most 2^32 - 1", _WARNING, "[BTD] Remarks"),
    Code(
        "DML110",
        "GuaranteedBaseOffsetAlignment must be 0 or a power of two no smaller than the element",
        _ERROR,
        "[BTD] GuaranteedBaseOffsetAlignment",
    ),
    Code(
        "DML111",
        "GuaranteedBaseOffsetAlignment should be 0 or at least 16, the alignment of every binding",
        _WARNING,
        "[BTD] GuaranteedBaseOffsetAlignment; [CONST] DML_MINIMUM_BUFFER_TENSOR_ALIGNMENT",
    ),
    Code("DML112", "an output must not be OWNED_BY_DML", _ERROR, "[TF] DML_TENSOR_FLAG_OWNED_BY_DML"),
    Code("DML113", "an OWNED_BY_DML input must be bound at initialisation, not at execution", _NOTE, "[TF]; [BIND]"),
    Code(
        "DML114", "two elements of an output must not share an address", _ERROR, "[BTD] Strides; for outputs a rule of dmlgather"
    ),
    Code(
        "DML115",
        "the strides of a large output must show that no two elements share an address",
        _ERROR,
        "[BTD] Strides; for outputs a rule of dmlgather",
    ),
    # Operator, feature level, relations between tensors
    Code(
        "DML201", "the tensor's data type must be one that the feature level takes", _ERROR, "the operator's tensor support table"
    ),
    Code(
        "DML202",
        "the tensor's dimension count must be one that the feature level takes",
        _ERROR,
        "the operator's tensor support table",
    ),
    Code("DML203", "the operator must be one that the feature level has", _ERROR, "[HDR]; [FLH]"),
    Code("DML204", "all tensors of an operator must have the same DimensionCount", _ERROR, "the operator's tensor constraints"),
    Code("DML205", "OutputTensor must have InputTensor's data type", _ERROR, "the operator's tensor constraints"),
    Code("DML206", "Axis must be a dimension of InputTensor", _ERROR, "[G] Axis; [GE] Axis"),
    # GATHER
    Code(
        "DML301",
        "IndexDimensions must be at most DimensionCount",
        _ERROR,
        "[G] IndexDimensions, with its upper bound as in example 1; [DMLX]",
    ),
    Code("DML302", "OutputTensor must have the sizes of the result", _ERROR, "[G] OutputTensor"),
    Code("DML303", "the result must have at most DimensionCount dimensions", _ERROR, "[G] OutputTensor"),
    Code(
        "DML304",
        "leading dimensions of IndicesTensor must be 1 or match dimensions of InputTensor before Axis",
        _ERROR,
        "[G] IndexDimensions; [ISSUE-685]",
    ),
    Code(
        "DML305",
        "leading dimensions of IndicesTensor should be 1: devices read others differently, see microsoft/DirectML#685",
        _WARNING,
        "[G] IndexDimensions; [ISSUE-685]",
    ),
    # GATHER_ELEMENTS
    Code("DML401", "IndicesTensor must have InputTensor's sizes except on Axis", _ERROR, "[GE] IndicesTensor"),
    Code("DML402", "OutputTensor must have IndicesTensor's sizes", _ERROR, "[GE] OutputTensor"),
    # GATHER_ND, GATHER_ND1
    Code("DML501", "InputDimensionCount must be 1 to DimensionCount", _ERROR, "[GN], [GN1] InputDimensionCount"),
    Code("DML502", "IndicesDimensionCount must be 1 to DimensionCount", _ERROR, "[GN], [GN1] IndicesDimensionCount"),
    Code(
        "DML503",
        "BatchDimensionCount must be less than InputDimensionCount and IndicesDimensionCount",
        _ERROR,
        "[GN1] BatchDimensionCount; [DMLX]",
    ),
    Code(
        "DML504",
        "an index tuple must have 1 to InputDimensionCount - BatchDimensionCount components",
        _ERROR,
        "[GN], [GN1] IndicesTensor; [DMLX]",
    ),
    Code(
        "DML505",
        "batch dimensions of InputTensor and IndicesTensor must have the same sizes",
        _ERROR,
        "[GN1] BatchDimensionCount",
    ),
    Code(
        "DML506",
        "dimensions that InputDimensionCount and IndicesDimensionCount leave out must be 1",
        _ERROR,
        "[GN], [GN1] InputDimensionCount",
    ),
    Code("DML507", "OutputTensor must have the sizes of the result", _ERROR, "[GN], [GN1] OutputTensor, by the examples; [DMLX]"),
    Code("DML508", "the result must have at most DimensionCount dimensions", _ERROR, "[GN], [GN1] OutputTensor; [DMLX]"),
    # SLICE, SLICE1
    Code("DML601", "each array of the slice must have DimensionCount entries", _ERROR, "[S], [S1] DimensionCount"),
    Code("DML602", "the slice and its tensors must have the same DimensionCount", _ERROR, "[S], [S1] DimensionCount"),
    Code("DML603", "a stride of a slice must not be 0", _ERROR, "[S1] InputWindowStrides; for [S] Strides a rule of dmlgather"),
    Code("DML604", "Sizes must equal the Sizes of OutputTensor", _ERROR, "[S] Sizes"),
    Code("DML605", "every element that is read must lie inside InputTensor", _ERROR, "[S] Offsets, Strides"),
    Code("DML606", "the window must have at least one element in each dimension", _ERROR, "[S1] InputWindowSizes"),
    Code("DML607", "the window must lie inside InputTensor", _ERROR, "[S1] InputWindowSizes"),
    Code(
        "DML608",
        "OutputTensor must not be larger than what the strides select from the window",
        _ERROR,
        "[S1] OutputTensor, with |stride|; [DMLX]",
    ),
    # Bindings of model files
    Code("DML701", "every tensor of the operator must be bound", _ERROR, "[DXD] Dispatch"),
    Code("DML702", "a binding must name a tensor of the operator", _ERROR, "[DXD] Dispatch"),
    Code("DML703", "a tensor must be bound to exactly one resource", _ERROR, "[DXD] Dispatch"),
    Code("DML704", "a command must name a resource of the model", _ERROR, "[DXD] Commands"),
    Code(
        "DML705",
        "the resource must be large enough for the tensor at the binding's offset",
        _ERROR,
        "[BTD] TotalTensorSizeInBytes; [BIND]",
    ),
    Code(
        "DML706",
        "a binding's offset must be a multiple of 16 bytes and of GuaranteedBaseOffsetAlignment",
        _ERROR,
        "[BTD] GuaranteedBaseOffsetAlignment; [CONST] DML_MINIMUM_BUFFER_TENSOR_ALIGNMENT",
    ),
    Code(
        "DML707", "the output must not share bytes with an input", _ERROR, "[BIND]; for parts of a resource a rule of dmlgather"
    ),
    Code(
        "DML708", "an OWNED_BY_DML input must be bound at initialisation, any other tensor at execution", _ERROR, "[TF]; [BIND]"
    ),
    Code("DML709", "a dispatch must name a dispatchable of the model", _ERROR, "[DXD] Commands"),
    Code("DML710", "the dimensions of a written .npy must have as many elements as the resource", _ERROR, "[DXD] Write File"),
    # Model files
    Code("DML801", "a key of a model file should be a known one", _WARNING, "[DXD] models/_schema.json"),
    Code("DML802", "a .npy file should have the stated data type", _WARNING, "[DXD] Buffer: File Data Initializer"),
    Code("DML803", "sizeInBytes should be a multiple of 4", _WARNING, "[DXD] Buffers"),
    Code(
        "DML804",
        "an operator must be one that dmlgather has, to be checked",
        _NOTE,
        "[HDR] DML_OPERATOR_TYPE; [DXD] Dispatchables",
    ),
    # DEPTH_TO_SPACE1, SPACE_TO_DEPTH1
    Code("DML901", "BlockSize must be at least 1", _ERROR, "[DS1], [SD1] BlockSize; for 0 a rule of dmlgather"),
    Code(
        "DML902", "InputTensor must consist of whole blocks", _ERROR, "[DS1], [SD1] OutputTensor; for a rest a rule of dmlgather"
    ),
    Code("DML903", "OutputTensor must have the rearranged sizes", _ERROR, "[DS1] OutputTensor; [SD1] Examples; [DMLX]"),
)

CODES = {row.code: row for row in _ROWS}
