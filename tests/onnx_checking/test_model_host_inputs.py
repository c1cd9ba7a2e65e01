"""Which inputs DirectML's caller has to know: the table, compared with the names of inputs in ONNX's own schemas."""

from __future__ import annotations

import re
from pathlib import Path

from onnx import defs

from dmlgather.onnx_checking.following.operators import OPERATORS

REDUCTIONS = ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare")

NAMES = {
    "AffineGrid": {"size"},
    "BlackmanWindow": {"size"},
    "CenterCropPad": {"shape"},
    "Clip": {"min", "max"},
    "Col2Im": {"image_shape", "block_shape"},
    "ConstantOfShape": {"input"},
    "CumProd": {"axis"},
    "CumSum": {"axis"},
    "DFT": {"dft_length", "axis"},
    "Dropout": {"training_mode"},
    "Expand": {"shape"},
    "HammingWindow": {"size"},
    "HannWindow": {"size"},
    "If": {"cond"},
    "Loop": {"M", "cond"},
    "MaxUnpool": {"output_shape"},
    "MelWeightMatrix": {"num_mel_bins", "dft_length"},
    "NonMaxSuppression": {"max_output_boxes_per_class", "iou_threshold", "score_threshold"},
    "OneHot": {"depth"},
    "Pad": {"pads", "constant_value", "axes"},
    "Range": {"start", "limit", "delta"},
    **{f"Reduce{kind}": {"axes"} for kind in REDUCTIONS},
    "Reshape": {"shape"},
    "Resize": {"roi", "scales", "sizes"},
    "STFT": {"frame_step", "frame_length"},
    "SequenceAt": {"position"},
    "SequenceErase": {"position"},
    "SequenceInsert": {"position"},
    "Slice": {"starts", "ends", "axes", "steps"},
    "Split": {"split"},
    "SplitToSequence": {"split"},
    "Squeeze": {"axes"},
    "Tile": {"repeats", "tiles", "axis"},
    "TopK": {"K"},
    "Trilu": {"k"},
    "Unsqueeze": {"axes"},
    "Upsample": {"scales"},
}
"""The inputs that decide shapes, bounds, axes, repeats, counts or conditions, by their names in the schemas."""

UNREAD = {
    "CastLike": {"target_type"},
    "OptionalHasElement": {"input"},
    "SequenceLength": {"input_sequence"},
    "Shape": {"data"},
    "Size": {"data"},
}

TELLING = {name for names in NAMES.values() for name in names} - {"input"}
"""Names that mean the same wherever an operator has them, but for the keys of Attention."""

HOST_INPUTS = {name: row.host for name, row in OPERATORS.items() if row.host}
UNREAD_INPUTS = {name: row.unread for name, row in OPERATORS.items() if row.unread}

SCHEMAS = [schema for schema in defs.get_all_schemas_with_history() if schema.domain == ""]


def test_the_table_has_these_inputs_in_every_version() -> None:
    for schema in SCHEMAS:
        inputs = [value.name for value in schema.inputs]
        for table, names in ((HOST_INPUTS, NAMES), (UNREAD_INPUTS, UNREAD)):
            listed = {name for at, name in enumerate(inputs) if at in table.get(schema.name, ())}
            assert listed == {*inputs} & names.get(schema.name, set()), schema.name


def test_no_operator_is_left_out() -> None:
    """An operator of a later ONNX with an input of such a name is missing in the table."""
    found = {(schema.name, value.name) for schema in SCHEMAS for value in schema.inputs if value.name in TELLING}
    assert {(name, value) for name, value in found if value not in NAMES.get(name, ())} == {("Attention", "K")}
    assert {name for name in HOST_INPUTS if "." not in name} == {*NAMES}
    assert {*UNREAD_INPUTS} == {*UNREAD}


def test_the_page_names_every_operator() -> None:
    page = (Path(__file__).parents[2] / "docs" / "onnx-known.md").read_text(encoding="utf-8")
    table = page.split("| operator | inputs that the host must know |")[1].split("\n\n")[0]
    names = {operator.rpartition(".")[2] for operator in HOST_INPUTS if not operator.startswith("Reduce")}
    assert {name for name in names if not re.search(rf"\b{name}\b", table)} == set()
    assert "all Reduce operators" in table
