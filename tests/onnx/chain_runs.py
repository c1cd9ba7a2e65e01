"""One random chain, run by onnxruntime, by the graph's steps, and fused: all must give the same bits, or refuse an index."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

import onnxruntime
from numpy.typing import NDArray
from onnx import ModelProto, helper
from onnxruntime.capi.onnxruntime_pybind11_state import NotImplemented as NotSupported

from dmlgather.dialects.index_graph import Opaque, Step
from dmlgather.fusion import Fused, fuse
from dmlgather.onnx import Backend
from dmlgather.onnx.model.index_graph import index_graph
from tests.onnx.judge import REFUSALS, kind_of
from tests.onnx.random_chains import random_chain
from tests.onnx.tuple_models import random_tuples

Array = NDArray[Any]
Outcome = list[Array] | type[IndexError]
"""Outputs, or that an index is out of range."""


def check_chain(seed: int, devices: Sequence[str] = ("cpu",)) -> Fused | None:
    """Assert that a chain gives what onnxruntime does. Its fused graph; None where onnxruntime does not take one of its types."""
    return check_model(*random_chain(random.Random(seed)), devices)


def check_tuples(seed: int, devices: Sequence[str] = ("cpu",)) -> Fused | None:
    """As `check_chain`, for a model that looks up constant tuples."""
    return check_model(*random_tuples(random.Random(seed)), devices)


def check_model(model: ModelProto, feeds: Mapping[str, Array], devices: Sequence[str] = ("cpu",)) -> Fused | None:
    """As `check_chain`, for a model and arrays for its inputs."""
    try:
        expected = by_onnxruntime(model, feeds)
    except NotSupported:
        return None
    fused = fuse(index_graph(model, feeds))
    for device in devices:
        assert_same(by_steps(fused, feeds, device), expected)
        assert_same(by_fused(fused, feeds, device), expected)
    prepared = Backend.prepare(model)
    for _ in range(2):
        assert_same(_outcome(lambda: prepared.run(feeds)), expected)
    return fused


def by_onnxruntime(model: ModelProto, feeds: Mapping[str, Array]) -> Outcome:
    """What onnxruntime gives, without optimisations."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    try:
        found: list[Array] = session.run(None, dict(feeds))
    except REFUSALS as refusal:
        if kind_of(str(refusal)) is not IndexError:
            raise
        return IndexError
    return found


def by_steps(fused: Fused, feeds: Mapping[str, Array], device: str) -> Outcome:
    """What the steps give one by one."""
    return by_fused(Fused(fused.source, fused.source, ()), feeds, device)


def by_fused(fused: Fused, feeds: Mapping[str, Array], device: str) -> Outcome:
    """What the fused graph gives."""

    def found() -> list[Array]:
        values = fused.run(feeds, compute=cast, device=device)
        return [values[name] for name in fused.graph.outputs]

    return _outcome(found)


def cast(step: Step, inputs: Sequence[Any]) -> list[Any]:
    """The only opaque step of a chain: a conversion to or from floating point."""
    assert isinstance(step.work, Opaque)
    assert step.work.operator == "onnx.cast"
    attributes: Any = step.work.attributes
    return [inputs[0].astype(helper.tensor_dtype_to_np_dtype(dict(attributes)["to"]))]


def assert_same(ours: Outcome, theirs: Outcome) -> None:
    """Assert that two outcomes are one."""
    if isinstance(ours, type) or isinstance(theirs, type):
        assert ours is theirs
        return
    for one, other in zip(ours, theirs, strict=True):
        assert (one.shape, one.dtype, one.tobytes()) == (other.shape, other.dtype, other.tobytes())


def _outcome(compute: Any) -> Outcome:
    try:
        return list(compute())
    except IndexError:
        return IndexError
