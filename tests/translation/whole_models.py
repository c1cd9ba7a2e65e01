"""DxDispatch models as ONNX models, run in onnxruntime as they stand, against `dmlgather run`."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path

import onnx

import dmlgather as dg
from dmlgather.dialects.programs import program_of
from dmlgather.directml.dxdispatch.model_file import check_file
from tests.dialects.test_descriptor_graph import shown_by_running
from tests.dxdispatch.random_chains import random_model
from tests.peers.onnxruntime import CLAMPS, clamps

REFUSED = "reinterpret elements as a type of another size"
"""A dispatch reads what another wrote as elements of another size, which ONNX cannot say."""


NEWEST = min(26, onnx.defs.onnx_opset_version())
"""The opset of random models: the first one with BitCast, where the installed onnx knows it."""


def judge_model(source: int | Path, folder: Path, opset: int = NEWEST) -> str:
    """Translate a model, or a seed's random one, and run it: "equal", or why it was refused. AssertionError for other bits."""
    if isinstance(source, int):
        path = folder / "model.json"
        path.write_text(json.dumps(random_model(source)))
    else:
        path = source
    checked = check_file(path)
    file = program_of(checked)
    made = dg.translate(file.graph, "onnx", opset=opset, initial=file.initial)
    if made.form is None:
        assert REFUSED in made.reason or "no BitCast" in made.reason, (source, made.reason)
        return "elements of another size" if REFUSED in made.reason else "no BitCast"
    target = folder / "model.onnx"
    made.write(target)
    ort = import_module("onnxruntime")
    onnx.checker.check_model(str(target), full_check=True)
    assert made.check, (source, str(made.check))
    if clamps(onnx.load(target)) and any(
        array.dtype.kind in "iu" and CLAMPS.known_fault(array) for array in file.initial.values()
    ):
        return "not clamped by onnxruntime"
    got = ort.InferenceSession(target).run(None, {})
    assert [array.tobytes() for array in got] == shown_by_running(checked), (source, str(made))
    return "equal"
