"""The table of docs/translate.md, cell by cell: what is always equal, and what for valid indices alone, is proven so."""

from __future__ import annotations

from pathlib import Path

import pytest

import dmlgather as dg
from dmlgather.dialects.problem import Problem

ROOT = Path(__file__).parents[2]
DATA, IDS, VECTORS = ((5, 4), "float32"), ((3,), "int64"), ((3, 1), "int64")
ROWS = dg.lax.GatherDimensionNumbers(offset_dims=(1,), collapsed_slice_dims=(0,), start_index_map=(0,))

EXAMPLES: dict[str, list[Problem]] = {
    "is clamped, negative ones count from the end (DirectML from 3_0)": [
        dg.onnx.gather.problem(DATA, IDS, out_of_bounds="clamp"),
        dg.onnx.gather_nd.problem(DATA, ((3, 2), "int64"), out_of_bounds="clamp"),
        dg.openvino.gather_elements.problem(DATA, ((5, 2), "int32"), 1, out_of_bounds="clamp"),
    ],
    'is clamped, negative ones too (JAX "clip")': [dg.lax.gather.problem(DATA, VECTORS, ROWS, (1, 4), mode="clip")],
    "is clamped, unsigned indices": [dg.lax.gather.problem(DATA, ((3, 1), "uint32"), ROWS, (1, 4), mode="clip")],
    "gives zero (OpenVINO)": [dg.openvino.gather.problem(DATA, ((3,), dtype), 0) for dtype in ("int32", "int64")],
    'gives another value (JAX "fill")': [dg.lax.gather.problem(DATA, VECTORS, ROWS, (1, 4), mode="fill", fill_value=7)],
    "is an error (ONNX, NumPy, PyTorch)": [dg.onnx.gather.problem(DATA, IDS), dg.index[:, [0, 2]].problem(DATA)],
    "does not exist: slices, views, DepthToSpace": [
        dg.onnx.slice.problem(DATA, [4], [-6], [0], [-2]),
        dg.index[None, 1:, ::-1].problem(DATA),
        dg.onnx.depth_to_space.problem(((1, 8, 2, 3), "float32"), 2),
    ],
}
"""Problems of each row."""


def table() -> list[list[str]]:
    text = (ROOT / "docs" / "translate.md").read_text().split("## From, to, when")[1]
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    return [row for row in rows if row[0] in EXAMPLES or row[0].startswith(("from", "is", "gives", "does"))][: len(EXAMPLES) + 1]


def test_every_row_has_examples() -> None:
    head, *rows = table()
    assert head == ["from: an index out of range", "to ONNX", "to OpenVINO", "to JAX", "to DirectML"]
    assert [row[0] for row in rows] == list(EXAMPLES)


@pytest.mark.parametrize("row", table()[1:], ids=lambda row: row[0])
def test_a_row_is_proven(row: list[str]) -> None:
    for to, cell in zip(("onnx", "openvino", "jax", "directml"), row[1:], strict=True):
        for problem in EXAMPLES[row[0]]:
            made = dg.translate(problem, to)
            assert made.proof, (to, made.reason, str(made.proof))
            wanted = "any" if cell.startswith("always") else "valid"
            assert made.proof.given == wanted, (to, cell, str(made.proof))
