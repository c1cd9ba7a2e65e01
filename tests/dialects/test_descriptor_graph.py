"""Graphs of descriptors and DxDispatch models: they compute what running the model prints."""

from __future__ import annotations

import re
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dmlgather as dg
from dmlgather.dialects import buffer_contents
from dmlgather.dialects.descriptor_graph import descriptor_graph, model_graph
from dmlgather.dialects.index_graph import Bitcast, IndexGraph
from dmlgather.directml.dxdispatch.commands import Dispatch
from dmlgather.directml.dxdispatch.model_file import CheckedFile, check_file
from dmlgather.fusion import fuse
from dmlgather.model_runner import Printed, Runner
from tests.cli.command import EXAMPLES
from tests.dialects.graph_values import outputs_of
from tests.directml.buffers import documented
from tests.dxdispatch.models import GATHER, MODEL, changed, check, write
from tests.dxdispatch.random_chains import initial_array, random_model
from tests.strategies import problem as random_problem

SLICE: dict[str, Any] = {
    "type": "DML_OPERATOR_SLICE1",
    "desc": {
        "InputTensor": {"DataType": "FLOAT32", "Sizes": [8]},
        "OutputTensor": {"DataType": "FLOAT32", "Sizes": [8]},
        "InputWindowOffsets": [0],
        "InputWindowSizes": [8],
        "InputWindowStrides": [-1],
    },
}
"""Eight elements, backwards."""

LAST = {"initialValuesDataType": "FLOAT32", "initialValues": {"valueCount": 8, "valueStart": 10, "valueDelta": 1}}


def with_slice(bindings: dict[str, Any], *changes: tuple[tuple[str | int, ...], Any], sliced: dict[str, Any] = SLICE) -> Any:
    """The model of a gather with a slice behind it, which prints the resource 'last' that the slice writes."""
    return changed(
        (("resources", "last"), LAST),
        (("dispatchables", "flip"), sliced),
        (("commands", 1), {"type": "dispatch", "dispatchable": "flip", "bindings": {"OutputTensor": "last", **bindings}}),
        (("commands", 2), {"type": "print", "resource": "last"}),
        *changes,
    )


def shown_by_running(model: CheckedFile) -> list[bytes]:
    """What print commands show of resources that dispatches have written; then those whose last write nothing reads or shows."""
    runner = Runner(model, "reference")
    written, unread, found = set[str](), set[str](), []
    for command, event in zip(model.commands, runner.run(), strict=True):
        if isinstance(event, Printed):
            found += [event.values.tobytes()] if event.resource in written else []
            unread.discard(event.resource)
        else:
            at_execution, _ = model.buffer_bindings(command)  # type: ignore[arg-type] # the model has dispatches and prints alone
            written.add(at_execution["OutputTensor"].resource)
            unread -= {bound.resource for name, bound in at_execution.items() if name != "OutputTensor"}
            unread.add(at_execution["OutputTensor"].resource)
    return [*found, *(runner.values(name).tobytes() for name in model.resources if name in unread)]


def checked(model: CheckedFile) -> IndexGraph:
    """The model's graph, which computes what running the model shows."""
    assert model.ok, [*map(str, (*model.problems, *model.errors))]
    graph = model_graph(model)
    inputs = {}
    for name in graph.inputs:
        tensor = graph.types[name]
        inputs[name] = initial_array(model.resources[graph.label(name)], tensor.shape, tensor.dtype)
    assert [*map(shown_name, graph.outputs)] == [graph.label(name) for name in graph.outputs]
    assert {name.removesuffix(" (before)") for name in graph.inputs} <= {*model.resources}
    shown = shown_by_running(model)
    assert [array.tobytes() for array in outputs_of(graph, inputs)] == shown
    fused = fuse(graph).run(inputs)
    assert [fused[name].tobytes() for name in graph.outputs] == shown
    return graph


def shown_name(output: str) -> str:
    """An output's name without the number of those that have it."""
    return output.partition(" (")[0]


def works(graph: IndexGraph) -> list[str]:
    return [getattr(step.work, "name", None) or getattr(step.work, "operator", None) or "concatenation" for step in graph.steps]


@pytest.mark.parametrize("file", sorted(EXAMPLES.glob("*.json")), ids=lambda file: file.stem)
def test_examples(file: Path) -> None:
    model = check_file(file)
    if model.kind == "model" and model.ok:
        assert len(checked(model).steps) == sum(isinstance(command, Dispatch) for command in model.commands)


@pytest.mark.parametrize("first", range(0, 80, 20))
def test_random_models(tmp_path: Path, first: int) -> None:
    for seed in range(first, first + 20):
        checked(check_file(write(tmp_path, random_model(seed))))


def test_random_models_with_large_gaps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(buffer_contents, "MOST_WITH_GAPS", 3)
    refused = list[str]()
    for seed in range(20):
        try:
            checked(check_file(write(tmp_path, random_model(seed))))
        except ValueError as error:
            refused.append(str(error))
    assert 5 < len(refused) < 20
    assert refused[0] == (
        "a dispatch writes 576 of 1079 elements of 'r1', with gaps between them, and a later command reads 'r1': a graph "
        "supports this for at most 3 elements; bind an OutputTensor without gaps, or split the model before the command that "
        "reads the buffer"
    )


def test_values_have_the_sizes_of_tensors(tmp_path: Path) -> None:
    graph = checked(check(tmp_path, MODEL))
    assert (graph.inputs, graph.outputs, works(graph)) == (("table", "rows"), ("output",), ["GATHER"])
    assert [graph.types[name].shape for name in (*graph.inputs, *graph.outputs)] == [(3, 2), (1, 4), (4, 2)]


def test_a_written_buffer_is_read_whole(tmp_path: Path) -> None:
    graph = checked(check(tmp_path, with_slice({"InputTensor": "output"})))
    assert works(graph) == ["GATHER", "reshape", "SLICE1"]
    assert graph.outputs == ("last",)


def test_a_part_that_was_not_written_keeps_the_initial_values(tmp_path: Path) -> None:
    longer = (("resources", "output", "initialValues", "valueCount"), 12)
    binding = {"name": "output", "elementOffset": 4}
    graph = checked(check(tmp_path, with_slice({"InputTensor": binding}, longer)))
    assert works(graph) == ["GATHER", "strided view", "strided view", "concatenation", "SLICE1"]
    assert [graph.label(name) for name in (*graph.inputs, *graph.outputs)] == ["table", "rows", "output", "last"]


def test_gaps_between_rows_keep_the_initial_values(tmp_path: Path) -> None:
    """The slice reads the rows with what lies between them: three rows of two elements, 3 apart."""
    padded = (("dispatchables", "gather", "desc", "OutputTensor", "Strides"), [3, 1])
    longer = (("resources", "output", "initialValues", "valueCount"), 12)
    graph = checked(check(tmp_path, with_slice({"InputTensor": "output"}, padded, longer)))
    assert works(graph) == ["GATHER", "strided view", "reshape", "concatenation", "GATHER", "strided view", "SLICE1"]


def test_rows_alone_are_read_from_what_was_written(tmp_path: Path) -> None:
    padded = (("dispatchables", "gather", "desc", "OutputTensor", "Strides"), [3, 1])
    longer = (("resources", "output", "initialValues", "valueCount"), 12)
    narrow = changed(
        (("desc", "InputTensor"), {"DataType": "FLOAT32", "Sizes": [4, 2], "Strides": [3, 1]}),
        (("desc", "OutputTensor", "Sizes"), [4, 2]),
        (("desc", "InputWindowOffsets"), [0, 0]),
        (("desc", "InputWindowSizes"), [4, 2]),
        (("desc", "InputWindowStrides"), [-1, 1]),
        start=SLICE,
    )
    graph = checked(check(tmp_path, with_slice({"InputTensor": "output"}, padded, longer, sliced=narrow)))
    assert works(graph) == ["GATHER", "SLICE1"]
    assert graph.inputs == ("table", "rows")


def test_a_resource_that_is_overwritten_was_another_value_before(tmp_path: Path) -> None:
    """The table is read, then overwritten, then read again."""
    back = {**MODEL["commands"][0], "bindings": {"InputTensor": "last", "IndicesTensor": "rows", "OutputTensor": "output"}}
    model = with_slice(
        {"InputTensor": "output"},
        (("commands", 2), back),
        (("commands", 3), {"type": "print", "resource": "output"}),
        (("commands", 4), {"type": "print", "resource": "last"}),
    )
    graph = checked(check(tmp_path, model))
    assert works(graph) == ["GATHER", "reshape", "SLICE1", "strided view", "GATHER"]
    assert [graph.label(name) for name in graph.outputs] == ["output", "last"]


def test_an_owned_input_holds_what_it_was_initialised_with(tmp_path: Path) -> None:
    model = with_slice(
        {"InputTensor": "output", "OutputTensor": "table"},
        (("resources", "table", "sizeInBytes"), 32),
        (("dispatchables", "owning"), changed((("desc", "InputTensor", "Flags"), "OWNED_BY_DML"), start=GATHER)),
        (("dispatchables", "owning", "bindings"), {"InputTensor": "table"}),
        (("commands", 2), {"type": "dispatch", "dispatchable": "owning",
                           "bindings": {"IndicesTensor": "rows", "OutputTensor": "output"}}),
        (("commands", 3), {"type": "print", "resource": "output"}),
        (("commands", 4), {"type": "print", "resource": "table"}),
    )  # fmt: skip
    graph = checked(check(tmp_path, model))
    owning = next(step for step in graph.steps if step.name == "dispatch 'owning'")
    assert owning.inputs == ("table (before)", "rows")


def test_a_resource_that_is_read_as_another_type(tmp_path: Path) -> None:
    as_integers = changed(
        (("desc", "InputTensor", "DataType"), "UINT32"), (("desc", "OutputTensor", "DataType"), "UINT32"), start=SLICE
    )
    graph = checked(check(tmp_path, with_slice({"InputTensor": "output"}, sliced=as_integers)))
    casts = [step.work for step in graph.steps if isinstance(step.work, Bitcast)]
    assert casts == [Bitcast(np.dtype(np.uint32), (4, 2)), Bitcast(np.dtype(np.float32), (8,))]  # as read, and as printed


def test_a_dispatch_that_nothing_shows_or_reads_is_a_result(tmp_path: Path) -> None:
    model = with_slice({"InputTensor": "output"}, (("commands", 2), {"type": "print", "resource": "rows"}))
    graph = checked(check(tmp_path, model))
    assert graph.outputs == ("last",)


def test_a_result_that_is_overwritten_unread_is_none(tmp_path: Path) -> None:
    model = with_slice({"InputTensor": "table", "OutputTensor": "output"}, (("resources", "table", "sizeInBytes"), 32))
    graph = checked(check(tmp_path, changed((("commands", 2, "resource"), "output"), start=model)))
    assert "GATHER" not in works(graph)


def test_a_model_with_errors_is_refused(tmp_path: Path) -> None:
    model = check(tmp_path, changed((("dispatchables", "gather", "desc", "Axis"), 7)))
    with pytest.raises(ValueError, match="has problems, errors or parts that cannot be executed; check_file lists them"):
        model_graph(model)


@pytest.mark.parametrize("seed", range(40))
def test_random_descriptors(seed: int) -> None:
    """A tensor with strides is an array of one dimension, the buffer that it lies in."""
    case = random_problem(seed)
    graph = descriptor_graph([case.desc])
    inputs = {}
    for name, buffer in zip(graph.inputs, case.inputs, strict=True):
        tensor = graph.types[name]
        whole = np.append(buffer, np.zeros(tensor.dtype.itemsize, np.uint8))  # a buffer need not end with a whole element
        inputs[name] = whole[: prod(tensor.shape) * tensor.dtype.itemsize].view(tensor.dtype).reshape(tensor.shape)
    (found,) = outputs_of(graph, inputs)
    assert found.tobytes() == documented(case.desc, case.inputs).tobytes()
    assert found.shape == case.desc.tensor("output_tensor").sizes


def test_descriptors_in_order() -> None:
    """Each further one reads the output of the one before, as the export of a slice of many dimensions needs it."""
    bounds = (((2,) * 10, "float32"), [0] * 10, [2] * 10, [1, 2] * 5)
    descriptors = dg.openvino.slice.to_directml(*bounds, level="6_4")
    assert isinstance(descriptors, tuple)
    graph = descriptor_graph(descriptors)
    data = np.arange(2**10, dtype=np.float32)
    (found,) = outputs_of(graph, {"InputTensor": data.reshape(graph.types["InputTensor"].shape)})
    assert found.ravel().tolist() == data.reshape((2,) * 10)[(slice(None), slice(None, None, 2)) * 5].ravel().tolist()


def test_descriptors_that_read_what_none_wrote() -> None:
    row = dg.BufferTensorDesc(data_type="FLOAT32", sizes=[8])
    half = dg.BufferTensorDesc(data_type="FLOAT32", sizes=[4])
    first = dg.SliceOperatorDesc(input_tensor=row, output_tensor=half, offsets=[0], sizes=[4], strides=[2])
    words = (
        "descriptor 2 (SLICE) writes OutputTensor FLOAT32 {4}, but descriptor 3 (SLICE) reads InputTensor FLOAT32 {8}, which is "
        "larger: state equal sizes in both"
    )
    whole = dg.SliceOperatorDesc(input_tensor=row, output_tensor=row, offsets=[0], sizes=[8], strides=[1])
    with pytest.raises(ValueError, match=re.escape(words)):
        descriptor_graph([whole, first, first])
    apart = dg.BufferTensorDesc(data_type="FLOAT32", sizes=[4], strides=[2])
    gaps = dg.SliceOperatorDesc(input_tensor=row, output_tensor=apart, offsets=[0], sizes=[4], strides=[2])
    packed = dg.BufferTensorDesc(data_type="FLOAT32", sizes=[7])
    read = dg.SliceOperatorDesc(input_tensor=packed, output_tensor=half, offsets=[0], sizes=[4], strides=[1])
    with pytest.raises(ValueError, match="bytes 0 … 27 of 'OutputTensor' are read, but not all of them were ever written"):
        descriptor_graph([gaps, read])
    with pytest.raises(ValueError, match="expected at least one descriptor, got none"):
        descriptor_graph([])
    with pytest.raises(dg.DescriptorError):
        descriptor_graph([first.model_copy(update={"offsets": (7,)})])
