"""Operators similar to gathers and slices that get no verdict, with DirectML's support for them."""

from __future__ import annotations

from collections.abc import Mapping

from dmlgather.record import Record

_API = "https://learn.microsoft.com/windows/win32/api/directml/"

SOURCES = {
    "DQ": "DML_DEQUANTIZE_OPERATOR_DESC, https://learn.microsoft.com/windows/ai/directml/api/ns-directml-dml_dequantize_operator_desc",
    "NZ": f"DML_NONZERO_COORDINATES_OPERATOR_DESC, {_API}ns-directml-dml_nonzero_coordinates_operator_desc",
    "OH": f"DML_ONE_HOT_OPERATOR_DESC, {_API}ns-directml-dml_one_hot_operator_desc",
    "RA1": f"DML_ROI_ALIGN1_OPERATOR_DESC, {_API}ns-directml-dml_roi_align1_operator_desc",
    "SC": f"DML_SCATTER_OPERATOR_DESC, {_API}ns-directml-dml_scatter_operator_desc",
    "SCN": f"DML_SCATTER_ND_OPERATOR_DESC, {_API}ns-directml-dml_scatter_nd_operator_desc",
}
"""Names and addresses of documents. `dmlgather.directml.SOURCES` has more."""


class Relative(Record):
    """An operator in a model that is similar to a gather or slice. Its nodes get no verdict."""

    operator: str
    """The operator, with its domain if it is not ONNX's own: "com.microsoft.GatherND"."""

    count: int
    """The number of the operator's nodes. `others` counts them too."""

    directml: str
    """DirectML's support for the operator, or what DirectML lacks."""

    source: str
    """The documents for that statement, as keys in brackets: "[SC], [FLH]"."""


_NO_REDUCTION = "; it has no reduction (add, mul, max, min)"
_NO_KEYS = "DirectML looks up by position (GATHER), not by key"

RELATED_OPERATORS = {
    "ScatterElements": (f"DirectML has SCATTER from 2_0{_NO_REDUCTION}", "[SC], [FLH]"),
    "Scatter": ("DirectML has SCATTER from 2_0", "[SC], [FLH]"),
    "ScatterND": (f"DirectML has SCATTER_ND from 2_1{_NO_REDUCTION}", "[SCN], [FLH]"),
    "TensorScatter": ("DirectML has SCATTER_ND from 2_1, whose indices the caller computes from write_indices", "[SCN], [FLH]"),
    "Compress": (
        "DirectML has no output whose size follows from values; NONZERO_COORDINATES (from 3_0) gives positions for a GATHER, "
        "and their number",
        "[NZ], [FLH]",
    ),
    "OneHot": ("DirectML has ONE_HOT from 2_0", "[OH], [FLH]"),
    "CenterCropPad": ("DirectML has SLICE and PADDING from 1_0, for a shape that is constant", "[S], [HDR]"),
    "Crop": ("DirectML has SLICE from 1_0, with the border as offsets", "[S]"),
    "DynamicSlice": ("DirectML has SLICE from 1_0 and SLICE1 from 2_1, for bounds that are constants", "[S], [S1]"),
    "ai.onnx.ml.ArrayFeatureExtractor": ("DirectML has GATHER from 1_0, with the last dimension as Axis", "[G]"),
    "ai.onnx.ml.CategoryMapper": (_NO_KEYS, "[G]"),
    "ai.onnx.ml.LabelEncoder": (_NO_KEYS, "[G]"),
    "com.microsoft.GatherBlockQuantized": (
        "DirectML has no gather that dequantizes; for 8-bit data, a GATHER of data and of scales (from 2_1) and then DEQUANTIZE "
        "(from 6_3) do it; GATHER takes no 4-bit data at any level",
        "[G], [DQ], [FLH]",
    ),
    "com.microsoft.GatherND": (
        "DirectML has GATHER_ND from 2_1; written as ONNX's own GatherND, the node is judged",
        "[GN], [FLH]",
    ),
    "com.microsoft.TorchEmbedding": ("DirectML has GATHER from 1_0, with Axis 0", "[G]"),
    "com.microsoft.EmbedLayerNormalization": (
        "DirectML has no fused operator; a GATHER for each table, ELEMENT_WISE_ADD and MEAN_VARIANCE_NORMALIZATION1 (from 2_1) "
        "do it",
        "[G], [FLH]",
    ),
    "com.microsoft.QEmbedLayerNormalization": (
        "DirectML has no fused operator; a GATHER for each 8-bit table (from 2_1), ELEMENT_WISE_DEQUANTIZE_LINEAR, "
        "ELEMENT_WISE_ADD and MEAN_VARIANCE_NORMALIZATION1 do it",
        "[G], [FLH]",
    ),
    "com.microsoft.CropAndResize": ("DirectML has ROI_ALIGN1 from 4_0, with AlignRegionsToCorners and channels first", "[RA1]"),
}
"""DirectML's support for each operator, and keys of documents."""


def related_among(others: Mapping[str, int]) -> tuple[Relative, ...]:
    """Return the operators in `others` that are similar to gathers or slices. `others`: the number of nodes by operator."""
    return tuple(
        Relative(operator=operator, count=others[operator], directml=directml, source=source)
        for operator, (directml, source) in RELATED_OPERATORS.items()
        if operator in others
    )
