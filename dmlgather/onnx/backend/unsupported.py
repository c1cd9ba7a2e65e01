"""Refuse models that the backend does not run, with everything that it does not run in one message."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from onnx import GraphProto, ModelProto, NodeProto, ValueInfoProto

from dmlgather.onnx.auxiliary import AUXILIARY, is_auxiliary
from dmlgather.onnx.auxiliary.value_operators import EXTERNAL, location
from dmlgather.onnx.model.local_functions import MOST_NODES, Functions
from dmlgather.onnx.model.subgraphs import all_tensors
from dmlgather.onnx.problems.node_reading import FAMILY, in_family
from dmlgather.onnx.problems.operator_versions import DOMAINS

NAMED = 20
"""Nodes of one operator that a message names; the others are counted."""


def check_supported(model: ModelProto, functions: Functions) -> None:
    """Refuse a model that the backend does not run. functions: those of the model.

    NotImplementedError lists the operators with their domains and nodes, and the inputs, outputs and initializers that are no
    tensors; ValueError lists inputs and outputs without a shape, and tensors whose data is not loaded.
    """
    if functions.inlined_size(model.graph.node) > MOST_NODES:
        raise ValueError(f"the model has more than {MOST_NODES} nodes when the functions that it calls are inlined")
    bodies = [node for function in functions.reachable(model.graph.node) for node in function.node]
    operators = _operators(node for node in (*model.graph.node, *bodies) if functions.called(node) is None)
    _refuse([*operators, *_values(model.graph)])
    _check_shapes({"input": model.graph.input, "output": model.graph.output})
    external = [tensor for tensor in all_tensors(model.graph) if tensor.data_location == EXTERNAL]
    if external:
        shown = ", ".join(f"{tensor.name!r} ({location(tensor)})" for tensor in external)
        raise ValueError(f"data outside the model is not loaded: {shown}; onnx.load(path) loads it")


def check_operators(nodes: Iterable[NodeProto]) -> None:
    """NotImplementedError, listing all of them, for nodes of operators that the backend does not run."""
    _refuse(list(_operators(nodes)))


def _refuse(unsupported: list[str]) -> None:
    if unsupported:
        supported = ", ".join((*FAMILY, *AUXILIARY))
        raise NotImplementedError(
            f"this backend does not run: {'; '.join(unsupported)}. It runs ONNX's own {supported} on tensors"
        )


def _operators(nodes: Iterable[NodeProto]) -> Iterator[str]:
    unsupported: dict[tuple[str, str], list[str]] = {}
    for node in nodes:
        if not in_family(node) and not is_auxiliary(node):
            domain = "ai.onnx" if node.domain in DOMAINS else node.domain
            name = repr(node.name) if node.name else f"that of {', '.join(node.output)!r}"
            unsupported.setdefault((node.op_type, domain), []).append(name)
    for (operator, domain), names in unsupported.items():
        more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
        yield f"{operator} of {domain} ({'nodes' if len(names) > 1 else 'node'} {', '.join(names[:NAMED])}{more})"


def _values(graph: GraphProto) -> Iterator[str]:
    kinds: Mapping[str, Iterable[tuple[str, str]]] = {
        "input": [(value.name, value.type.WhichOneof("value") or "") for value in graph.input],
        "output": [(value.name, value.type.WhichOneof("value") or "") for value in graph.output],
        "initializer": [(sparse.values.name, "sparse_tensor_type") for sparse in graph.sparse_initializer],
    }
    for role, values in kinds.items():
        for name, kind in values:
            if kind not in ("tensor_type", ""):
                yield f"{role} {name!r} ({kind.removesuffix('_type').replace('_', ' ')})"


def _check_shapes(values: Mapping[str, Iterable[ValueInfoProto]]) -> None:
    """ValueError, listing all of them, for inputs and outputs without a rank, which ONNX requires."""
    shapeless = [
        f"{role} {value.name!r}"
        for role, entries in values.items()
        for value in entries
        if value.type.HasField("tensor_type") and not value.type.tensor_type.HasField("shape")
    ]
    if shapeless:
        raise ValueError(
            f"{', '.join(shapeless)} states no shape, not even a rank: onnx.shape_inference.infer_shapes(model) may know it"
        )
