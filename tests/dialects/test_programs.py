"""What is read as a program, and what is said of anything else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dmlgather as dg
from dmlgather.dialects.index_graph import IndexGraph, chain
from dmlgather.dialects.problem import TensorType
from dmlgather.dialects.programs import read_program
from dmlgather.dialects.views import ReshapeView, TransposeView
from dmlgather.files import FileError
from tests.dxdispatch.models import GATHER, MODEL, changed

TURN = TransposeView(TensorType((2, 3), np.dtype("float32")), (1, 0))
FLAT = ReshapeView(TURN.output, (6,))
ROW = dg.BufferTensorDesc(data_type="FLOAT32", sizes=[8])
EVERY = dg.SliceOperatorDesc(input_tensor=ROW, output_tensor=ROW, offsets=[0], sizes=[8], strides=[1])


def file(folder: Path, name: str, content: Any) -> Path:
    path = folder / name
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def shape(graph: IndexGraph) -> tuple[Any, ...]:
    return graph.inputs, graph.outputs, [step.work.name for step in graph.steps]  # type: ignore[union-attr] # problems alone


def test_problems() -> None:
    gather = dg.onnx.gather.problem(((5, 2), "float32"), ((3,), "int64"))
    assert shape(read_program(gather).graph) == (("data", "indices"), ("output",), ["Gather"])
    assert shape(read_program([TURN, FLAT]).graph) == shape(read_program(iter((TURN, FLAT))).graph) == shape(chain([TURN, FLAT]))
    assert read_program(graph := chain([TURN])).graph is graph


def test_descriptors(tmp_path: Path) -> None:
    gather = dg.parse_descriptor(GATHER)
    own = (("InputTensor", "IndicesTensor"), ("OutputTensor",), ["GATHER"])
    assert shape(read_program(gather).graph) == shape(read_program([gather]).graph) == own
    assert shape(read_program(file(tmp_path, "one.json", GATHER)).graph) == own
    assert shape(read_program((EVERY, EVERY)).graph)[2] == ["SLICE", "SLICE"]
    lines = f"{json.dumps(GATHER)}\n{json.dumps(EVERY.document())}\n"
    assert read_program(str(file(tmp_path, "dump.jsonl", lines))).graph.outputs == ("OutputTensor 1", "OutputTensor 2")
    assert read_program(file(tmp_path, "model.json", MODEL)).graph.inputs == ("table", "rows")


@pytest.mark.parametrize(
    ("source", "kind", "message"),
    [
        (
            7,
            TypeError,
            "what is of type int, not a program: expected a problem, a descriptor, a list of problems or descriptors, or",
        ),
        ([TURN, EVERY], TypeError, "what is of type list and holds TransposeView, SliceOperatorDesc, not a program"),
        ({"a": TURN}, TypeError, "what is of type dict, not a program"),
        ([], ValueError, "what is empty: expected at least one problem or descriptor"),
        ([TURN, TURN], ValueError, r"problem 1 \(transpose\) takes data of float32 \[2, 3\], but the problem before it gives"),
        (EVERY.model_copy(update={"offsets": (9,)}), dg.DescriptorError, "SLICE at feature level 6_4 has 1 error"),
    ],
)
def test_other_things_are_no_program(source: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        read_program(source, "what")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (
            "model.onnx",
            "",
            r"model.onnx: its name does not say what it is: expected a DxDispatch model or a descriptor \(.json\), desc",
        ),
        ("other.json", {"a": 1}, r"other.json.*: expected a model \{resources, dispatchables, commands\} or a descriptor"),
        ("bad.json", changed((("dispatchables", "gather", "desc", "Axis"), 7)), r"bad.json.*Axis"),
        ("bad.ndjson", json.dumps(GATHER) + "\n{\n", r"bad.ndjson:2"),
    ],
)
def test_files_that_cannot_be_used(tmp_path: Path, name: str, content: Any, message: str) -> None:
    with pytest.raises(FileError, match=message):
        read_program(file(tmp_path, name, content))
    with pytest.raises(FileError, match=r"none\.json: does not exist"):
        read_program(tmp_path / "none.json")
