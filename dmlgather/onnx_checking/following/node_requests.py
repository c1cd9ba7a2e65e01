"""Questions to ONNX about the types and values of single nodes' outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from dmlgather.onnx.problems.partial_types import NOTHING, PartialType, type_of_value, value_of_type
from dmlgather.onnx_checking.following.operators import entry_of
from dmlgather.onnx_checking.reading.inference_process import InferenceFailedError, InferenceLimits
from dmlgather.onnx_checking.reading.shape_inference import right_type
from dmlgather.onnx_checking.sizes.values import KEPT_ELEMENTS, Array, Value, is_known

if TYPE_CHECKING:
    from onnx import NodeProto, TensorProto

NO_REDUCTION = "noop_with_empty_axes"
"""Some versions of ONNX's evaluator ignore this attribute, so nodes with it are not evaluated."""


@dataclass(frozen=True)
class NodeAnswer:
    """ONNX's answer about a node: the inferred types and computed values of its outputs, by name."""

    types: Mapping[str, PartialType] = field(default_factory=dict)
    values: Mapping[str, Array] = field(default_factory=dict)


@dataclass(frozen=True)
class NodeRequests:
    """Sends questions about the nodes of one model to ONNX."""

    limits: InferenceLimits
    ir_version: int

    def ask(
        self,
        node: NodeProto,
        opset: int,
        types: Sequence[PartialType],
        values: Sequence[Value | None],
        *,
        evaluates: bool = True,
    ) -> NodeAnswer:
        """Infer the outputs' types, and their values if all inputs are known.

        The answer is empty if ONNX refuses the node or exceeds a limit, or if an unknown input has no data type.
        """
        from onnx import GraphProto, ModelProto, numpy_helper

        if self.limits.used_up:
            return NodeAnswer()
        graph = GraphProto(node=[node])
        ignored = any(attribute.name == NO_REDUCTION and attribute.i for attribute in node.attribute)
        evaluated = evaluates and entry_of(node).evaluated and not ignored
        for name, type_, value in {
            name: (name, *rest) for name, *rest in zip(node.input, types, values, strict=True) if name
        }.values():
            if is_known(value):
                graph.initializer.append(numpy_helper.from_array(np.ascontiguousarray(value).reshape(value.shape), name))
            elif type_.dtype is None:
                return NodeAnswer()
            else:
                graph.input.append(value_of_type(name, type_))
        model = ModelProto(ir_version=self.ir_version, graph=graph)
        model.opset_import.add(domain="", version=opset)
        try:
            answer = ModelProto.FromString(self.limits.ask_node(model.SerializeToString(), KEPT_ELEMENTS if evaluated else 0))
        except InferenceFailedError:
            return NodeAnswer()
        first_type = types[0] if types else NOTHING
        infos, tensors = answer.graph.value_info, answer.graph.initializer
        return NodeAnswer(
            {info.name: right_type(node, opset, first_type, type_of_value(info)) for info in infos},
            {tensor.name: value for tensor in tensors if (value := _array(tensor)) is not None},
        )


def _array(tensor: TensorProto) -> Array | None:
    from onnx import numpy_helper

    value = numpy_helper.to_array(tensor)
    return None if value.dtype == object else value
