"""OpenVINO's operations that are close to the family and not judged: what DirectML has or lacks for each."""

from __future__ import annotations

from dmlgather.dialects.relatives import RelativeRow

_NO_SEGMENTS = "DirectML has no operator that reduces segments of different lengths"
_BAGS = "DirectML has no such operator; GATHER, ELEMENT_WISE_MULTIPLY and REDUCE (from 1_0) do it"
_NO_REDUCTION = "; it has no reduction (sum, prod, min, max, mean)"

RELATIVES = (
    RelativeRow("", "EmbeddingBagOffsets", _NO_SEGMENTS, "[HDR]"),
    RelativeRow("", "EmbeddingBagOffsetsSum", _NO_SEGMENTS, "[HDR]"),
    RelativeRow("", "EmbeddingSegmentsSum", _NO_SEGMENTS, "[HDR]"),
    RelativeRow("", "EmbeddingBagPacked", _BAGS, "[G], [HDR]"),
    RelativeRow("", "EmbeddingBagPackedSum", _BAGS, "[G], [HDR]"),
    RelativeRow(
        "",
        "GatherTree",
        "DirectML has no such operator; a GATHER_ELEMENTS for each step (from 2_1), from the last one on, does it",
        "[GE]",
    ),
    RelativeRow("", "OneHot", "DirectML has ONE_HOT from 2_0", "[OH], [FLH]"),
    RelativeRow(
        "", "ScatterUpdate", "DirectML has SCATTER from 2_0, with the indices repeated along the other dimensions", "[SC], [FLH]"
    ),
    RelativeRow("", "ScatterElementsUpdate", f"DirectML has SCATTER from 2_0{_NO_REDUCTION}", "[SC], [FLH]"),
    RelativeRow("", "ScatterNDUpdate", f"DirectML has SCATTER_ND from 2_1{_NO_REDUCTION}", "[SCN], [FLH]"),
    RelativeRow(
        "",
        "SliceScatter",
        "DirectML has no operator that writes a slice; SCATTER_ND (from 2_1) takes its positions as indices",
        "[SCN], [FLH]",
    ),
)
"""A row per operation."""
