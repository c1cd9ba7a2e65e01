"""IRs as graphs: they compute what OpenVINO computes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dmlgather.dialects.index_graph import Concatenation, Elementwise, IndexGraph, Opaque
from dmlgather.files import FileError
from dmlgather.openvino.model.index_graph import index_graph
from tests.dialects.graph_values import outputs_of
from tests.openvino.ir import DATA, EDGES, GATHER, INDICES, PAGE, edge, layer, net, parameter, parameter_layer, save, write
from tests.openvino.random_chains import op, random_ir
from tests.openvino.runtime import openvino

CORE = openvino.Core()


def live(path: Path, feeds: Mapping[str, Any]) -> list[Any]:
    """What OpenVINO's CPU plugin computes."""
    compiled = CORE.compile_model(str(path), "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    found = compiled(feeds)
    return [np.array(found[output]) for output in compiled.outputs]


def bits(arrays: list[Any]) -> list[Any]:
    return [(each.shape, each.dtype, each.tobytes()) for each in arrays]


def same(path: Path, feeds: Mapping[str, Any]) -> IndexGraph:
    """The graph of an IR, which computes what OpenVINO computes."""
    graph = index_graph(path, feeds)
    assert bits(outputs_of(graph, {name: feeds[name] for name in graph.inputs})) == bits(live(path, feeds))
    return graph


def works(graph: IndexGraph) -> list[str]:
    """The operators of a graph, in order."""
    names = []
    for step in graph.steps:
        match step.work:
            case Elementwise(operator) | Opaque(operator):
                names.append(operator)
            case Concatenation():
                names.append("concatenation")
            case _:
                names.append(step.work.name)
    return names


def constant(values: Any, dtype: Any = np.int64) -> Any:
    return op.constant(np.array(values, dtype))


def rows() -> Any:
    return parameter("rows", [6, 4], np.float32)


TABLE = np.arange(24, dtype=np.float32).reshape(6, 4)


@pytest.mark.parametrize("seed", range(6))
def test_random_chains(tmp_path: Path, seed: int) -> None:
    same(*random_ir(seed, tmp_path))


def test_blocks(tmp_path: Path) -> None:
    image = parameter("image", [1, 8, 2, 3], np.int32)
    feeds = {"image": np.arange(48, dtype=np.int32).reshape(1, 8, 2, 3)}
    for mode in ("blocks_first", "depth_first"):
        spread = op.depth_to_space(image, mode, 2)
        assert set(works(same(save(tmp_path, [spread], [image]), feeds))) == {"reshape", "transpose"}
        together = op.space_to_depth(op.transpose(image, constant([2, 3, 0, 1])), mode, 1)
        back = op.space_to_depth(op.reshape(image, constant([1, 2, 4, 6]), False), mode, 2)
        same(save(tmp_path, [together, back], [image]), feeds)


def test_what_follows_from_shapes_is_a_constant(tmp_path: Path) -> None:
    """The first size, and the product of the others, through a conversion to float and back."""
    table = parameter("rows", [-1, 4], np.float32)
    sizes = op.convert(op.convert(op.shape_of(table), "f32"), "i64")
    half = op.divide(op.gather(sizes, constant([0]), constant(0)), constant([2]))
    target = op.concat([half, constant([-1])], 0)
    graph = same(save(tmp_path, [op.reshape(table, target, False)], [table]), {"rows": TABLE})
    assert works(graph) == ["reshape"]
    assert graph.types[graph.outputs[0]].shape == (3, 8)


def test_arithmetic_on_indices(tmp_path: Path) -> None:
    ids = parameter("ids", [3], np.int32)
    wrapped = op.select(op.less(ids, constant(0, np.int32)), op.add(ids, constant(6, np.int32)), ids)
    clipped = op.maximum(op.minimum(wrapped, constant(5, np.int32)), constant(0, np.int32))
    table = rows()
    path = save(tmp_path, [op.gather(table, clipped, constant(0))], [table, ids])
    graph = same(path, {"rows": TABLE, "ids": np.array([-1, 9, 2], np.int32)})
    assert works(graph) == ["less", "add", "where", "minimum", "maximum", "Gather"]


def test_values_have_the_names_of_tensors(tmp_path: Path) -> None:
    table = rows()
    taken = op.gather(table, constant([1, 2]), constant(0))
    taken.output(0).set_names({"taken"})
    graph = index_graph(save(tmp_path, [op.transpose(taken, constant([1, 0])), table], [table]))
    assert graph.inputs == ("rows",)
    assert graph.steps[0].outputs == ("taken",)
    assert graph.outputs[1] == "rows"


def test_other_layers_are_opaque(tmp_path: Path) -> None:
    table = rows()
    (clamp,) = index_graph(save(tmp_path, [op.clamp(table, 0.0, 1.0)], [table])).steps
    assert clamp.work == Opaque("openvino.clamp", (("opset", "opset1"), ("max", "1"), ("min", "0")))


def test_random_numbers_are_never_the_same(tmp_path: Path) -> None:
    made = op.random_uniform(constant([2, 3]), constant(0, np.float32), constant(1, np.float32), "f32")
    path = save(tmp_path, [made], [rows()])
    first, second = (index_graph(path).steps[0].work for _ in range(2))
    assert first != second


def test_sizes_that_the_model_leaves_open(tmp_path: Path) -> None:
    table = parameter("rows", [-1, 4], np.float32)
    reduced = op.roll(table, constant([1]), constant([1]))
    path = save(tmp_path, [op.slice(reduced, constant([0]), constant([2]), constant([1]))], [table])
    message = (
        "the shape of input 'rows' is \\[\\?, 4\\], but a graph of indices has numbers only: state it, such as inputs={'rows': "
    )
    with pytest.raises(ValueError, match=message):
        index_graph(path)
    with pytest.raises(ValueError, match="inputs states \\[3, 5\\] for 'rows', but the model says \\[\\?, 4\\]"):
        index_graph(path, {"rows": (3, 5)})
    with pytest.raises(ValueError, match="inputs names 'row', which the model does not have: its inputs are 'rows'"):
        index_graph(path, {"row": (3, 5)})
    with pytest.raises(TypeError, match="inputs states 'x' for 'rows', expected a shape, or an array"):
        index_graph(path, {"rows": "x"})
    with pytest.raises(ValueError, match="inputs states \\[-1, 4\\] for 'rows', expected sizes of 0 or more"):
        index_graph(path, {"rows": (-1, 4)})
    with pytest.raises(ValueError, match="does not follow from the file, which says \\[\\?, 4\\]: state it, such as inputs="):
        index_graph(path, {"rows": TABLE})
    name = reduced.get_friendly_name()
    graph = index_graph(path, {"rows": TABLE, name: (6, 4)})
    assert graph.steps[0].outputs == (name,)
    assert graph.types[name].shape == (6, 4)


@pytest.mark.parametrize("kind", ["bf16", "f8e4m3", "f16", "boolean"])
def test_constants_of_any_whole_bytes(tmp_path: Path, kind: str) -> None:
    made = op.constant([1.0, 0.0, 1.0], getattr(openvino.Type, kind))
    ids = parameter("ids", [2], np.int64)
    graph = index_graph(save(tmp_path, [op.gather(made, ids, constant(0))], [ids]))
    (found,) = outputs_of(graph, {"ids": np.array([1, 2])})
    assert found.astype(np.float32).tolist() == [0, 1]


def test_types_of_less_than_a_byte(tmp_path: Path) -> None:
    made = op.constant([1, 2, 3], openvino.Type.u4)
    ids = parameter("ids", [2], np.int64)
    path = save(tmp_path, [op.gather(made, ids, constant(0))], [ids])
    with pytest.raises(ValueError, match="a constant of type u4 is not read: a graph of indices has numbers of whole bytes"):
        index_graph(path)


RESULT = layer(9, "Result", {0: "FP32 3,2"}, version="opset1")
AXIS = layer(2, "Const", None, {0: "I64 "}, 'element_type="i64" shape="" offset="0" size="8"')


def test_a_layer_that_breaks_a_rule_is_named(tmp_path: Path) -> None:
    text = net(DATA + INDICES + AXIS + GATHER + RESULT, EDGES + edge(3, 3, 9, 0))
    assert works(index_graph(write(tmp_path, text))) == ["Gather"]
    with pytest.raises(ValueError, match="Gather layer 'Gather_3': axis is 7, but data has rank 2: expected -2 … 1"):
        index_graph(write(tmp_path, text, (7).to_bytes(8, "little")))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (PAGE, "is a single layer: a graph needs the whole model"),
        (net(DATA), "has no Result, so nothing is computed"),
        (
            net(DATA + INDICES + AXIS + GATHER + RESULT, EDGES),
            "input port 0 of layer 9 'Result_9' \\(Result\\) is connected to no layer",
        ),
        (
            net(
                layer(1, "Relu", {0: "FP32 2"}, {1: "FP32 2"}) + layer(2, "Relu", {0: "FP32 2"}, {1: "FP32 2"}) + RESULT,
                edge(1, 1, 2, 0) + edge(2, 1, 1, 0) + edge(2, 1, 9, 0),
            ),
            "layer 2 'Relu_2' \\(Relu\\) needs its own result",
        ),
    ],
)
def test_files_without_a_graph(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(FileError, match=message):
        index_graph(write(tmp_path, text))


ARITHMETIC = (
    "Add",
    "Equal",
    "FloorMod",
    "GreaterEqual",
    "Less",
    "Maximum",
    "Minimum",
    "Multiply",
    "Negative",
    "NotEqual",
    "Subtract",
)
LOGIC = ("LogicalAnd", "LogicalNot", "LogicalOr", "LogicalXor")
OTHERS = ("Broadcast", "Concat", "Convert", "ConvertLike", "Reshape", "Select", "Split", "Squeeze", "Transpose", "VariadicSplit")


@pytest.mark.parametrize("kind", [*ARITHMETIC, *LOGIC, *OTHERS])
@pytest.mark.parametrize("count", range(5))
def test_layers_with_too_few_and_too_many_inputs(tmp_path: Path, kind: str, count: int) -> None:
    """Arithmetic takes one input or two, as its pages say; no other layer ends in an error that says nothing of it."""
    element = "BOOL 3" if kind in LOGIC else "I64 3"
    given = "BOOL 3" if kind in (*LOGIC, "Equal", "GreaterEqual", "Less", "NotEqual") else "I64 3"
    inputs = dict.fromkeys(range(count), element)
    layers = "".join(parameter_layer(number, element) for number in range(count))
    layers += layer(count, kind, inputs, {count: given}, version="opset1") + layer(count + 1, "Result", {0: given}, None)
    edges = "".join(edge(number, 0, count, number) for number in range(count)) + edge(count, count, count + 1, 0)
    path = write(tmp_path, net(layers, edges))
    try:
        index_graph(path)
        said = ""
    except (FileError, ValueError) as error:
        said = str(error)
    assert not said or kind in said
    if kind not in OTHERS:
        assert (said == "") == (count == (1 if kind in ("Negative", "LogicalNot") else 2))
