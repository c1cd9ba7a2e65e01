"""Run what `translate` makes in the libraries that it is for."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any

import numpy as np

from dmlgather.dialects.problem import Problem
from dmlgather.directml import FeatureLevel
from dmlgather.translation import Translation
from tests.dialects import binding
from tests.translation.random_problems import Array

os.environ.setdefault("JAX_PLATFORMS", "cpu")  # before JAX looks for other devices

RAISED = "raised"
"""In the place of the outputs, where an index out of range was refused."""


class NotCoveredError(Exception):
    """The library has no code for an operator of these types."""


Outcome = list[Array] | str


def in_onnxruntime(made: Translation, inputs: Sequence[Array]) -> Outcome:
    """onnxruntime, without its own changes of the graph; the model is checked before."""
    onnx, ort = import_module("onnx"), import_module("onnxruntime")
    onnx.checker.check_model(made.form, full_check=True)
    ort.set_default_logger_severity(4)  # it logs the errors that it raises
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    try:
        session = ort.InferenceSession(made.form.SerializeToString(), options)
    except Exception as error:
        if "NOT_IMPLEMENTED" in str(error):
            raise NotCoveredError(str(error)) from None
        raise
    names = [value.name for value in made.form.graph.input]
    try:
        return [np.asarray(array) for array in session.run(None, dict(zip(names, inputs, strict=True)))]
    except Exception as error:
        if "ndex" in str(error) or "indices" in str(error):
            return RAISED
        raise


def in_openvino(made: Translation, inputs: Sequence[Array]) -> Outcome:
    """`Model.evaluate`, which is a better judge than the CPU plugin, but cannot tell a bad index from a type that it lacks."""
    openvino: Any = import_module("openvino")
    outputs = [openvino.Tensor(port.get_element_type(), openvino.Shape(list(port.shape))) for port in made.form.outputs]
    given = []
    for array in inputs:
        given.append(openvino.Tensor(openvino.Type(array.dtype), openvino.Shape(list(array.shape))))
        given[-1].data[...] = array
    try:
        made.form.evaluate(outputs, given)
    except RuntimeError as error:
        raise NotCoveredError(str(error)) from None
    return [np.array(tensor.data) for tensor in outputs]


def in_jax(made: Translation, inputs: Sequence[Array]) -> Outcome:
    """JAX with 64-bit types, step by step."""
    jax: Any = import_module("jax")
    with jax.enable_x64(True):
        found = made.form(*inputs)
    return [np.asarray(array) for array in (found if isinstance(found, tuple) else (found,))]


def in_directml(made: Translation, inputs: Sequence[Array]) -> Outcome:
    """The descriptors on the reference backend, their indices in the types that they describe."""
    assert made.graph is not None
    sizes = np.zeros(1, np.int64)
    for step in made.graph.steps:
        if isinstance(step.work, Problem) and step.work.lookup_axes:
            lookups = sorted(step.work.plan().lookups, key=lambda lookup: lookup.index_offset)
            sizes = np.array([lookup.limit for lookup in lookups], np.int64)
    indices = inputs[1] if len(inputs) > 1 else None
    level = FeatureLevel.parse(made.to.rpartition(" ")[2])
    buffer = binding.run(made.form, data=inputs[0], indices=indices, sizes=sizes, level=level, device="reference")
    tensor = made.graph.types[made.graph.outputs[0]]
    return [buffer[: tensor.layout.extent * tensor.dtype.itemsize].view(tensor.dtype).reshape(tensor.shape)]


RUNS: Mapping[str, Callable[[Translation, Sequence[Array]], Outcome]] = {
    "onnx": in_onnxruntime,
    "openvino": in_openvino,
    "jax": in_jax,
    "directml": in_directml,
}


def content(outcome: Outcome) -> object:
    """What of an outcome must be equal: types, shapes and every bit."""
    return outcome if isinstance(outcome, str) else [(array.dtype, array.shape, array.tobytes()) for array in outcome]
