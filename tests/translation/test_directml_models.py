"""DxDispatch models in DirectML's own terms, at other levels: what they print stays, and what is not kept is said."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dmlgather as dg
from dmlgather.directml.dxdispatch.model_file import check_file
from dmlgather.translation.directml_sources import of_checked
from dmlgather.translation.writing import write
from tests.cli.command import EXAMPLES, Command
from tests.dialects.test_descriptor_graph import shown_by_running
from tests.dxdispatch.models import MODEL, changed
from tests.dxdispatch.models import write as saved
from tests.dxdispatch.random_chains import random_model

MODELS = sorted(path for path in EXAMPLES.glob("*.json") if path.stem not in ("gather_3_as_printed", "gather_nd_sizes"))


def judged(path: Path, folder: Path, level: str) -> str:
    """Translate a model file, and run both: "equal", or why it was refused. AssertionError for other bits."""
    checked = check_file(path)
    file = of_checked(checked)
    made = dg.translate(file.graph, "directml", level=level)
    if made.form is None:
        return made.reason
    if not made.ok:
        return "not proven"
    target = folder / "translated.json"
    write(made, file.initial, target, ())
    again = check_file(target)
    assert again.ok, again
    if file.model is not None:
        assert shown_by_running(again) == shown_by_running(checked), str(made)
    return "equal"


@pytest.mark.parametrize("level", ["6_4", "2_1"])
def test_examples_print_what_they_printed(level: str, tmp_path: Path) -> None:
    """Their values are numbers, NaNs and infinities, in lists, sequences and files."""
    found = Counter(judged(path, tmp_path, level) for path in MODELS)
    assert found["equal"] >= (len(MODELS) - 2 if level == "6_4" else 8), found
    assert "not proven" not in found


def test_random_models_print_what_they_printed(tmp_path: Path) -> None:
    found = Counter[str]()
    for seed in range(60):
        path = tmp_path / "model.json"
        path.write_text(json.dumps(random_model(seed)))
        found[judged(path, tmp_path, "6_4")] += 1
    assert found["equal"] >= 5, found


@pytest.mark.parametrize("data_type", ["FLOAT16", "FLOAT32", "FLOAT64", "INT8", "UINT64", "INT64"])
def test_initial_values_keep_their_bits(data_type: str, tmp_path: Path) -> None:
    """NaNs with payloads, infinities, zeros of both signs, subnormals; the least and the greatest integer."""
    dtype = np.dtype(data_type.lower())
    bits = f"u{dtype.itemsize}"
    values = np.array([0, 1, 2, 3, 4, 5], bits).view(dtype)
    if dtype.kind == "f":
        special = np.array([np.nan, np.inf, -np.inf, -0.0, 1, 2], dtype).view(bits)
        special[0] += 5
        values = (special | np.array([0, 0, 0, 0, 0, 1], bits)).view(dtype)
    else:
        values[:2] = np.iinfo(dtype).min, np.iinfo(dtype).max
    np.save(tmp_path / "values.npy", values)
    tensors = [(("dispatchables", "gather", "desc", name, "DataType"), data_type) for name in ("InputTensor", "OutputTensor")]
    stated = {"initialValuesDataType": data_type, "initialValues": {"sourcePath": "values.npy"}}
    output = {"initialValuesDataType": data_type, "initialValues": {"valueCount": 8, "value": 1}}
    path = saved(tmp_path, changed(*tensors, (("resources", "table"), stated), (("resources", "output"), output)), "model.json")
    assert judged(path, tmp_path, "6_4") == "equal"
    written = of_checked(check_file(tmp_path / "translated.json")).initial["table"]
    assert written.tobytes() == values.tobytes()


NAMED: dict[str, Any] = changed(
    (("dispatchables", "/* no comment */ twice"), MODEL["dispatchables"]["gather"]),
    (("commands", 0, "dispatchable"), "/* no comment */ twice"),
)

LOST: dict[str, tuple[str, list[str]]] = {
    "nothing": (json.dumps(MODEL), []),
    "nothing but what looks like a comment": (json.dumps(NAMED), ["the name of dispatchables: 'gather'"]),
    "a comment": (f"// http\n{json.dumps(MODEL)}", ["its comments"]),
    "a comment at the end": (f"{json.dumps(NAMED)} /* why */", ["its comments", "the name of dispatchables: 'gather'"]),
    "a file": (
        json.dumps(changed((("commands", 2), {"type": "writeFile", "resource": "output", "targetPath": "a.npy"}))),
        ["1 writeFile command: the outputs are printed"],
    ),
    "a resource": (
        json.dumps(changed((("resources", "spare"), MODEL["resources"]["rows"]))),
        ["the name of resources: 'spare'"],
    ),
    "bits that are printed": (json.dumps(changed((("commands", 1, "verbose"), True))), ["what 'verbose' says of print commands"]),
}


@pytest.mark.parametrize("name", LOST)
def test_what_is_not_kept_is_said(name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (text, lost), command = LOST[name], Command(capfd)
    path, target = tmp_path / "model.json", tmp_path / "made.json"
    path.write_text(text)
    ended = command("translate", path, "--to", "directml", "-o", target)
    assert ended.code == 0, ended
    assert ended.err.splitlines() == [f"Written to '{target}'", *(f"Not kept of '{path}': {part}" for part in lost)]
    assert command("run", "--device", "cpu", target).out == "Resource 'output': 1, 2, 3, 4, 3, 4, 5, 6\n"
    made = json.loads(target.read_text())
    assert set(made["resources"]) == {"table", "rows", "output"}
    assert set(made["dispatchables"]) <= {"gather", "/* no comment */ twice"}
