"""What onnxruntime's optimisations make of a model, as a model."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import onnx
from numpy.typing import NDArray
from onnx import ModelProto

from tests.onnx_checking.sessions import ALL, EXTENDED, session

Feeds = Mapping[str, NDArray[Any]]

LEVELS = {"extended": EXTENDED, "all": ALL}


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
        session(model, LEVELS[level], target=path)
        return onnx.load(path)
