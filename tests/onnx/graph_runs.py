"""An `IndexGraph` run step by step, without the code that fuses graphs: problems by the reference, opaque steps by ONNX."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import ModelProto, NodeProto, helper
from onnx.reference import ReferenceEvaluator

from dmlgather.calls.eager import execute
from dmlgather.dialects.index_graph import Concatenation, Elementwise, IndexGraph, Step
from dmlgather.dialects.problem import Problem

Array = NDArray[Any]


def run_graph(graph: IndexGraph, feeds: Mapping[str, Array], model: ModelProto) -> list[Array]:
    """The outputs of a graph that was read from a model."""
    nodes = {name: node for node in model.graph.node for name in node.output}
    opset = model.opset_import[0].version
    values: dict[str, Array] = {name: feeds[name] for name in graph.inputs} | dict(graph.constants)
    for step in graph.steps:
        inputs = [values[name] for name in step.inputs]
        values |= zip(step.outputs, compute(step, inputs, nodes, opset), strict=True)
        for name in step.outputs:
            assert (values[name].shape, values[name].dtype) == (graph.types[name].shape, graph.types[name].dtype)
    return [values[name] for name in graph.outputs]


def compute(step: Step, inputs: list[Array], nodes: Mapping[str, NodeProto], opset: int) -> list[Array]:
    """What a step gives. nodes: those of the model, by what they give."""
    work = step.work
    if isinstance(work, Problem):
        return [execute(work, inputs, device="reference")]
    if isinstance(work, Elementwise):
        return [work.compute(inputs)]
    if isinstance(work, Concatenation):
        return [np.concatenate(inputs, work.axis)]
    node = nodes[step.outputs[0]]
    kind = helper.np_dtype_to_tensor_dtype
    names = list(dict.fromkeys(node.input))
    values = [helper.make_tensor_value_info(name, kind(each.dtype), each.shape) for name, each in zip(names, inputs, strict=True)]
    results = [helper.make_empty_tensor_value_info(name) for name in node.output]
    alone = helper.make_model(
        helper.make_graph([node], "one_node", values, results), opset_imports=[helper.make_opsetid("", opset)]
    )
    found: Any = ReferenceEvaluator(alone).run(None, dict(zip(names, inputs, strict=True)))
    return [np.asarray(each) for each in found]
