"""The libraries that are translated to: their versions, targets and forms."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from dmlgather.dialects.graph_building import GraphBuilder
from dmlgather.dialects.index_graph import IndexGraph
from dmlgather.dialects.problem import whole
from dmlgather.directml import FeatureLevel
from dmlgather.onnx.problems.operator_versions import NEWEST_OPSET
from dmlgather.openvino.problems.operation_versions import NEWEST_OPSET as NEWEST_OPERATION_SET
from dmlgather.translation.directml_form import DispatchSequence
from dmlgather.translation.directml_target import DirectMLTarget
from dmlgather.translation.jax_form import jax_function
from dmlgather.translation.jax_target import JaxTarget
from dmlgather.translation.onnx_form import OnnxForm
from dmlgather.translation.onnx_target import OnnxTarget
from dmlgather.translation.openvino_form import openvino_model
from dmlgather.translation.openvino_target import OpenVINOTarget
from dmlgather.translation.targets import Target


class TargetRow(NamedTuple):
    """A library that problems are translated to.

    package: what must be installed. option: the argument of `translate` that says which version; empty where there is
    none. default: its value. check: the version that an argument means; ValueError or TypeError for none. target: of a graph and
    the version. form: what runs, of the translated graph, the version and what the outputs are called.
    """

    package: str
    option: str
    default: Any
    check: Callable[[Any], Any]
    target: Callable[[GraphBuilder, Any], Target]
    form: Callable[[IndexGraph, Any, Sequence[str]], Any]


def _opset(value: Any) -> int:
    import onnx

    opset, known = _between("opset", value, 1, NEWEST_OPSET), onnx.defs.onnx_opset_version()
    if opset > known:
        raise ValueError(
            f"opset is {opset}, but onnx {onnx.__version__}, which is installed, knows opsets up to {known}: use one of these, "
            "or a newer onnx (pip install --upgrade onnx)"
        )
    return opset


def _operation_set(value: Any) -> int:
    return _between("version", value, 1, NEWEST_OPERATION_SET)


def _between(name: str, value: Any, first: int, last: int) -> int:
    number = whole(name, value)
    if not first <= number <= last:
        raise ValueError(f"{name} is {number}, expected {first} … {last}")
    return number


def _onnx(graph: IndexGraph, opset: int, outputs: Sequence[str]) -> Any:
    return OnnxForm(graph, opset).model({}, outputs)


def _openvino(graph: IndexGraph, _: int, outputs: Sequence[str]) -> Any:
    return openvino_model(graph, outputs)


def _jax(graph: IndexGraph, *_: Any) -> Any:
    return jax_function(graph)


def _directml(graph: IndexGraph, level: FeatureLevel, outputs: Sequence[str]) -> Any:
    return DispatchSequence(graph, level).form(outputs)


TARGETS: Mapping[str, TargetRow] = {
    "onnx": TargetRow("onnx", "opset", 13, _opset, OnnxTarget, _onnx),
    "openvino": TargetRow("openvino", "version", 16, _operation_set, OpenVINOTarget, _openvino),
    "jax": TargetRow("jax", "", None, lambda _: None, lambda graph, _: JaxTarget(graph), _jax),
    "directml": TargetRow("numpy", "level", "6_4", FeatureLevel.parse, DirectMLTarget, _directml),
}
"""By name."""
