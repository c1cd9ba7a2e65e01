"""What onnxruntime makes of a model: whether it loads it, and what it gives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from onnx import ModelProto, NodeProto, ValueInfoProto, helper
from onnxruntime.capi import onnxruntime_pybind11_state as errors

Array = np.ndarray[Any, Any]

OFF = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
EXTENDED = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
ALL = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL

REFUSALS = (errors.Fail, errors.InvalidArgument, errors.InvalidGraph, errors.NotImplemented, errors.RuntimeException)
"""What it raises if it does not load a model, or does not run it."""


def session(model: ModelProto, level: Any = ALL, *, severity: int = 4, strict: bool = False, target: Path | None = None) -> Any:
    """Return a session on the CPU, with one thread, after the optimisations of a level. strict: about stated shapes. target: a
    file for the optimised model.
    """
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level, options.log_severity_level = level, severity
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.add_session_config_entry("session.strict_shape_type_inference", str(int(strict)))
    if target is not None:
        options.optimized_model_filepath = str(target)
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def loads(model: ModelProto, level: Any = ALL, *, severity: int = 4) -> bool:
    """Return True if onnxruntime makes a session of a model."""
    try:
        session(model, level, severity=severity)
    except REFUSALS:
        return False
    return True


def run(model: ModelProto, feeds: Mapping[str, Array], level: Any = ALL) -> dict[str, Array]:
    """Return the outputs of a model by their names."""
    names = [value.name for value in model.graph.output]
    given = session(model, level).run(names, dict(feeds))
    return {name: np.asarray(array) for name, array in zip(names, given, strict=True)}


def run_node(node: NodeProto, inputs: Sequence[Array], opset: int) -> list[Array]:
    """Return the outputs of a node."""
    given = dict(zip(node.input, inputs, strict=True))
    kind = helper.np_dtype_to_tensor_dtype
    values = [helper.make_tensor_value_info(name, kind(array.dtype), array.shape) for name, array in given.items()]
    graph = helper.make_graph([node], "one", values, [ValueInfoProto(name=name) for name in node.output])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    return [*run(model, given).values()]
