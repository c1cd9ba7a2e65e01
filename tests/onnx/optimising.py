"""What onnxruntime's optimisations make of a model, as a model."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.defs
import onnxruntime
from numpy.typing import NDArray
from onnx import ModelProto

from dmlgather.dialects.index_graph import IndexGraph
from dmlgather.onnx.model.index_graph import index_graph
from dmlgather.onnx.problems.operator_versions import DOMAINS, own_opset

Feeds = Mapping[str, NDArray[Any]]

LEVELS = {
    "basic": onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC,
    "extended": onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED,
    "all": onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL,
}

REWRITING = (
    *(
        "ConvAddFusion",
        "ConvAffineFusion",
        "ConvBNFusion",
        "ConvMulFusion",
        "DivMulFusion",
        "GemmActivationFusion",
        "GemmSumFusion",
    ),
    *("MatMulAddFusion", "MatMulScaleFusion", "MatMulTransposeFusion", "MatMul_BatchNormalization_Fusion", "NotWhereFusion"),
)
"""The optimisers of level basic that compute floating-point results in another way."""


def optimised(model: ModelProto, feeds: Feeds, level: str, without: tuple[str, ...] = ()) -> ModelProto:
    """The model as onnxruntime optimises it for inputs of these shapes. without: optimisers that it leaves out."""
    fixed = ModelProto()
    fixed.CopyFrom(model)
    for value in fixed.graph.input:
        for dimension, size in zip(
            value.type.tensor_type.shape.dim, feeds[value.name].shape if value.name in feeds else (), strict=False
        ):
            dimension.dim_value = size
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "optimised.onnx")
        options = _options(LEVELS[level])
        options.optimized_model_filepath = str(path)
        onnxruntime.InferenceSession(
            fixed.SerializeToString(), options, providers=["CPUExecutionProvider"], disabled_optimizers=list(without)
        )
        return onnx.load(path)


def run_in_onnxruntime(model: ModelProto, feeds: Feeds) -> NDArray[Any]:
    """The first output, without optimisations."""
    return ran_as_it_is(model, feeds)[model.graph.output[0].name]


def ran_as_it_is(model: ModelProto, feeds: Feeds) -> dict[str, NDArray[Any]]:
    """The outputs of a model by their names, without optimisations."""
    options = _options(onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL)
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    names = [value.name for value in model.graph.output]
    return {name: np.asarray(array) for name, array in zip(names, session.run(names, dict(feeds)), strict=True)}


def graph_of(model: ModelProto, feeds: Feeds) -> IndexGraph:
    """The graph of a model, in which onnxruntime's own operators give what a run of them gives."""
    graph = index_graph(model, dict(feeds))
    opset = own_opset(model.opset_import)
    unknown = [each for each in model.graph.node if each.domain not in DOMAINS or not onnx.defs.has(each.op_type, opset, "")]
    own = [name for node in unknown for name in node.output if name in graph.types]
    if own:
        shown = ModelProto()
        shown.CopyFrom(model)
        del shown.graph.output[:]
        shown.graph.output.extend(onnx.ValueInfoProto(name=name) for name in own)
        for name, array in ran_as_it_is(shown, feeds).items():
            found = graph.types[name]
            assert (found.shape, found.dtype) == (array.shape, array.dtype), f"{name} is {found}, but a run gives {array.shape}"
    return graph


def _options(level: Any) -> Any:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = level
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return options
