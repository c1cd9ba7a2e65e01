"""docs/dialects.md: what stands beside each other in NumPy's, PyTorch's and dmlgather's notation does the same."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dmlgather as dg

TEXT = (Path(__file__).parents[2] / "docs" / "dialects.md").read_text(encoding="utf-8")
SECTION = TEXT.split("### In NumPy's and PyTorch's notation\n")[1].split("\n## ")[0]
ROWS = [tuple(cell.strip("` ") for cell in row.split(" | ")) for row in re.findall(r"^\| (`.*) \|$", SECTION, re.MULTILINE)]

VALUES: dict[str, Any] = {
    "x": np.arange(4 * 10 * 6, dtype=np.float32).reshape(4, 10, 6),
    "idx": np.array([3, 0, 3]),  # index_select counts no index from the end
    "idx1": np.array([3, 0, -1]),
    "idx2": np.array([[1], [-2]]),
    "mask": np.arange(40).reshape(4, 10) % 3 == 0,
    "rows": np.array([3, 9, 0, 1] * 12).reshape(4, 2, 6),
}


def test_the_table_has_rows() -> None:
    assert [row[0] for row in ROWS][:2] == ["x[:, idx]", "np.take(x, idx, axis=1)"]
    assert len(ROWS) == 10


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_a_row_does_the_same_as_numpy(row: tuple[str, ...]) -> None:
    numpy, _, here, operators = row
    expected = eval(numpy, {"np": np, **VALUES})
    expression = eval(here, {"dg": dg, **VALUES})
    found = expression(VALUES["x"])
    assert (found.shape, found.tobytes()) == (expected.shape, expected.tobytes())
    descs = expression.to_directml(VALUES["x"], "6_4")
    assert not isinstance(descs, dg.Report), str(descs)
    named = [
        desc.operator.name + (f" with Axis {desc.axis}" if hasattr(desc, "axis") else "")
        for desc in (descs if isinstance(descs, tuple) else (descs,))
    ]
    assert ", ".join(named) == operators
