"""Operators of ONNX models that are close to the family and not judged: what DirectML has or lacks for each."""

from __future__ import annotations

from dmlgather.dialects.relatives import RelativeRow

_ML, _MICROSOFT = "ai.onnx.ml", "com.microsoft"
_NO_REDUCTION = "; it has no reduction (add, mul, max, min)"
_NO_KEYS = "DirectML looks up by position (GATHER), not by key"

RELATIVES = (
    RelativeRow("", "ScatterElements", f"DirectML has SCATTER from 2_0{_NO_REDUCTION}", "[SC], [FLH]"),
    RelativeRow("", "Scatter", "DirectML has SCATTER from 2_0", "[SC], [FLH]"),
    RelativeRow("", "ScatterND", f"DirectML has SCATTER_ND from 2_1{_NO_REDUCTION}", "[SCN], [FLH]"),
    RelativeRow(
        "",
        "TensorScatter",
        "DirectML has SCATTER_ND from 2_1, whose indices the caller computes from write_indices",
        "[SCN], [FLH]",
    ),
    RelativeRow(
        "",
        "Compress",
        "DirectML has no output whose size follows from values; NONZERO_COORDINATES (from 3_0) gives positions for a GATHER, "
        "and their number",
        "[NZ], [FLH]",
    ),
    RelativeRow("", "OneHot", "DirectML has ONE_HOT from 2_0", "[OH], [FLH]"),
    RelativeRow("", "CenterCropPad", "DirectML has SLICE and PADDING from 1_0, for a shape that is constant", "[S], [HDR]"),
    RelativeRow("", "Crop", "DirectML has SLICE from 1_0, with the border as offsets", "[S]"),
    RelativeRow(
        "", "DynamicSlice", "DirectML has SLICE from 1_0 and SLICE1 from 2_1, for bounds that are constants", "[S], [S1]"
    ),
    RelativeRow(_ML, "ArrayFeatureExtractor", "DirectML has GATHER from 1_0, with the last dimension as Axis", "[G]"),
    RelativeRow(_ML, "CategoryMapper", _NO_KEYS, "[G]"),
    RelativeRow(_ML, "LabelEncoder", _NO_KEYS, "[G]"),
    RelativeRow(
        _MICROSOFT,
        "GatherBlockQuantized",
        "DirectML has no gather that dequantizes; for 8-bit data, a GATHER of data and of scales (from 2_1) and then DEQUANTIZE "
        "(from 6_3) do it; GATHER takes no 4-bit data at any level",
        "[G], [DQ], [FLH]",
    ),
    RelativeRow(
        _MICROSOFT,
        "GatherND",
        "DirectML has GATHER_ND from 2_1; written as ONNX's own GatherND, the node is judged",
        "[GN], [FLH]",
    ),
    RelativeRow(_MICROSOFT, "TorchEmbedding", "DirectML has GATHER from 1_0, with Axis 0", "[G]"),
    RelativeRow(
        _MICROSOFT,
        "EmbedLayerNormalization",
        "DirectML has no fused operator; a GATHER for each table, ELEMENT_WISE_ADD and MEAN_VARIANCE_NORMALIZATION1 (from 2_1) "
        "do it",
        "[G], [FLH]",
    ),
    RelativeRow(
        _MICROSOFT,
        "QEmbedLayerNormalization",
        "DirectML has no fused operator; a GATHER for each 8-bit table (from 2_1), ELEMENT_WISE_DEQUANTIZE_LINEAR, "
        "ELEMENT_WISE_ADD and MEAN_VARIANCE_NORMALIZATION1 do it",
        "[G], [FLH]",
    ),
    RelativeRow(
        _MICROSOFT, "CropAndResize", "DirectML has ROI_ALIGN1 from 4_0, with AlignRegionsToCorners and channels first", "[RA1]"
    ),
)
"""A row per operator."""
