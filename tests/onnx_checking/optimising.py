"""What onnxruntime's optimisations make of a model, as a model."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray
from onnx import ModelProto

Feeds = Mapping[str, NDArray[Any]]

LEVELS = {
    "extended": onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED,
    "all": onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL,
}


def at_sizes(model: ModelProto, feeds: Feeds) -> ModelProto:
    """The model for inputs of these shapes."""
    fixed = ModelProto()
    fixed.CopyFrom(model)
    for value in fixed.graph.input:
        for dimension, size in zip(
            value.type.tensor_type.shape.dim, feeds[value.name].shape if value.name in feeds else (), strict=False
        ):
            dimension.dim_value = size
    return fixed


def optimised(model: ModelProto, level: str) -> ModelProto:
    """The model as onnxruntime optimises it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "optimised.onnx")
        options = _options(LEVELS[level])
        options.optimized_model_filepath = str(path)
        onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        return onnx.load(path)


def ran_as_it_is(model: ModelProto, feeds: Feeds) -> dict[str, NDArray[Any]]:
    """The outputs of a model by their names, without optimisations."""
    options = _options(onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL)
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    names = [value.name for value in model.graph.output]
    return {name: np.asarray(array) for name, array in zip(names, session.run(names, dict(feeds)), strict=True)}


def _options(level: Any) -> Any:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = level
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return options
