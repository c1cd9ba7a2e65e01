"""Drafts as ONNX models. onnxruntime runs them, and ONNX's reference evaluator where onnxruntime has no code for a type."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import NodeProto, TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from tests.equivalence.adversary import names
from tests.equivalence.adversary.drafts import Array, Draft, Step, Type, numpy_dtype
from tests.equivalence.adversary.drawing import aligned
from tests.equivalence.adversary.libraries import RAISED, NotCoveredError, Outcome
from tests.equivalence.adversary.stand_ins import FUNCTIONS, cast, fits, stand_in
from tests.peers.onnxruntime import SELECTS

OPSET = 23
TYPES = {
    "float16": TensorProto.FLOAT16,
    "bfloat16": TensorProto.BFLOAT16,
    "float32": TensorProto.FLOAT,
    "float64": TensorProto.DOUBLE,
    "int8": TensorProto.INT8,
    "uint8": TensorProto.UINT8,
    "int32": TensorProto.INT32,
    "int64": TensorProto.INT64,
    "bool": TensorProto.BOOL,
}


def _tensor(name: str, array: Array) -> TensorProto:
    return helper.make_tensor(name, TYPES[array.dtype.name], array.shape, array.tobytes(), raw=True)


class _Writer:
    """Writes one step as nodes."""

    def __init__(self, step: Step, types: Mapping[str, Type]) -> None:
        self.step, self.types = step, types
        self.nodes: list[NodeProto] = []
        self.held: list[TensorProto] = []

    def held_array(self, array: Array) -> str:
        name = f"{self.step.output}_{len(self.held)}"
        self.held.append(_tensor(name, array))
        return name

    def number(self, value: float) -> str:
        with np.errstate(all="ignore"):
            return self.held_array(np.array(value).astype(numpy_dtype(self.types[self.step.inputs[0]].dtype)))

    def integers(self, *values: int) -> str:
        return self.held_array(np.array(values, np.int64))

    def node(self, operator: str, *inputs: str, **attributes: Any) -> None:
        self.nodes.append(helper.make_node(operator, [*inputs], [self.step.output], **attributes))


def _plain(operator: str, **own: str) -> Callable[[_Writer], None]:
    """A node whose attributes are the step's. own: what ONNX calls them."""

    def write(writer: _Writer) -> None:
        given = {own.get(name, name): value for name, value in writer.step.attributes.items()}
        writer.node(operator, *writer.step.inputs, **given)

    return write


def _reduced(operator: str) -> Callable[[_Writer], None]:
    def write(writer: _Writer) -> None:
        given = writer.step.attributes
        keeps = {"keepdims": int(given["keepdims"])} if "keepdims" in given else {}
        writer.node(operator, *writer.step.inputs, writer.integers(given.get("axis", -1)), **keeps)

    return write


def _norm(operator: str) -> Callable[[_Writer], None]:
    def write(writer: _Writer) -> None:
        given = writer.step.attributes
        kind = writer.types[writer.step.inputs[0]]
        ones = writer.held_array(np.ones(kind.shape[-1:], numpy_dtype(kind.dtype)))
        writer.node(operator, *writer.step.inputs, ones, **({"epsilon": given["eps"]} if "eps" in given else {}))

    return write


def _sliced(writer: _Writer) -> None:
    given = writer.step.attributes
    start, stop, step = (given["start"], given["stop"], 1) if "start" in given else (-1, -(2**31), -1)
    writer.node("Slice", *writer.step.inputs, *map(writer.integers, (start, stop, given["axis"], step)))


_WITH_ATTRIBUTES = {
    "gather": "Gather",
    "concat": "Concat",
    "softmax": "Softmax",
    "log_softmax": "LogSoftmax",
    "gelu": "Gelu",
    "elu": "Elu",
    **{"leaky_relu": "LeakyRelu", "linear": "Gemm"},  # noqa: PIE800 - short
}

WRITERS: Mapping[str, Callable[[_Writer], None]] = {
    **{name: _plain(own) for name, own in {**names.ONNX, **_WITH_ATTRIBUTES}.items()},
    "transpose": _plain("Transpose", order="perm"),
    "cast": lambda writer: writer.node("Cast", *writer.step.inputs, to=TYPES[writer.step.attributes["to"]]),
    "scale": lambda writer: writer.node("Mul", *writer.step.inputs, writer.number(writer.step.attributes["number"])),
    "shift": lambda writer: writer.node("Add", *writer.step.inputs, writer.number(writer.step.attributes["number"])),
    "clip": lambda writer: writer.node(
        "Clip", *writer.step.inputs, writer.number(writer.step.attributes["low"]), writer.number(writer.step.attributes["high"])
    ),
    "cumsum": lambda writer: writer.node("CumSum", *writer.step.inputs, writer.integers(writer.step.attributes.get("axis", -1))),
    "layer_norm": _norm("LayerNormalization"),
    "rms_norm": _norm("RMSNormalization"),
    "reduce_sum": _reduced("ReduceSum"),
    "reduce_mean": _reduced("ReduceMean"),
    "reduce_max": _reduced("ReduceMax"),
    "reshape": lambda writer: writer.node("Reshape", *writer.step.inputs, writer.integers(*writer.step.attributes["shape"])),
    "slice": _sliced,
    "reverse": _sliced,
}
"""How each operator is written."""


_STAND_INS = {
    **{own: name for name, own in names.ONNX.items() if name in FUNCTIONS},
    **{"Softmax": "softmax", "LogSoftmax": "log_softmax", "CumSum": "cumsum", "Gelu": "gelu"},  # noqa: PIE800 - short
    **{"ReduceSum": "reduce_sum", "ReduceMean": "reduce_mean", "ReduceMax": "reduce_max"},  # noqa: PIE800 - likewise
}
"""What stands for a node."""


def program(draft: Draft) -> onnx.ModelProto:
    """The model of a draft. It states the types of all outputs."""
    types = draft.types()
    nodes: list[NodeProto] = []
    held = [_tensor(name, array) for name, array in draft.constants.items()]
    for step in draft.steps:
        writer = _Writer(step, types)
        WRITERS[step.operator](writer)
        nodes += writer.nodes
        held += writer.held
    graph = helper.make_graph(
        nodes,
        "draft",
        [helper.make_tensor_value_info(name, TYPES[kind.dtype], kind.shape) for name, kind in draft.inputs.items()],
        [helper.make_tensor_value_info(name, TYPES[types[name].dtype], types[name].shape) for name in draft.outputs],
        held,
    )
    return _model(graph)


def runner(model: onnx.ModelProto, *, reference: bool, standing_in: bool = False) -> Callable[[Mapping[str, Array]], Outcome]:
    """Runs a model node by node. NotCoveredError where there is no code for a node.

    reference: by ONNX's reference evaluator, which also runs a Where that onnxruntime is known to get wrong. standing_in:
    stand-ins do what proofs may assume of nodes.

    onnxruntime, given the whole model, leaves out the rounding between two nodes of float16 that it computes in float32.
    """
    held = {each.name: numpy_helper.to_array(each) for each in model.graph.initializer}

    def run(arrays: Mapping[str, Array]) -> Outcome:
        values = {**held, **arrays}
        for node in model.graph.node:
            given = [values[name] for name in node.input]
            stood = _stood_in(node, given) if standing_in else None
            if stood is not None:
                values[node.output[0]] = stood
                continue
            alone = NodeProto(op_type=node.op_type, attribute=node.attribute)
            kinds = tuple(Type(array.shape, array.dtype.name) for array in given)
            faulty = not reference and node.op_type == "Where" and SELECTS.known_fault(given[1]) is not None
            try:
                values[node.output[0]] = _session(alone.SerializeToString(), kinds, reference=reference or faulty)(given)
            except IndexError:
                return RAISED
        return [values[value.name] for value in model.graph.output]

    return run


def _stood_in(node: NodeProto, given: list[Array]) -> Array | None:
    """What a stand-in gives for a node; None where there is none."""
    if node.op_type == "Cast":
        return cast(given[0], next(name for name, number in TYPES.items() if number == node.attribute[0].i))
    name = _STAND_INS.get(node.op_type)
    axes = given[1:] if node.op_type.startswith("Reduce") or node.op_type == "CumSum" else []
    operands = given[: len(given) - len(axes)]
    if name is None or not fits(name, *operands):
        return None
    attributes = {each.name: helper.get_attribute_value(each) for each in node.attribute}
    if axes:
        attributes["axis"] = int(axes[0].reshape(-1)[0])
    if name.startswith("reduce"):
        attributes["keepdims"] = bool(attributes.get("keepdims", 1))
    if name == "gelu" and attributes.pop("approximate", b"none") != b"none":
        return None
    if name in ("softmax", "log_softmax"):
        attributes.setdefault("axis", -1)
    return stand_in(name, *operands, **attributes)


@lru_cache(maxsize=2000)
def _session(node: bytes, kinds: tuple[Type, ...], *, reference: bool) -> Callable[[list[Array]], Array]:
    """Runs a node on arrays of these types. IndexError for an index out of range."""
    own = [f"x{k}" for k in range(len(kinds))]
    alone = NodeProto.FromString(node)
    alone.input.extend(own)
    alone.output.append("y")
    inputs = [helper.make_tensor_value_info(name, TYPES[kind.dtype], kind.shape) for name, kind in zip(own, kinds, strict=True)]
    graph = helper.make_graph([alone], "node", inputs, [helper.make_empty_tensor_value_info("y")])
    return (_in_reference if reference else _in_onnxruntime)(_model(graph), own)


def _model(graph: onnx.GraphProto) -> onnx.ModelProto:
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=10)


def _in_onnxruntime(model: onnx.ModelProto, inputs: list[str]) -> Callable[[list[Array]], Array]:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    onnxruntime.set_default_logger_severity(4)  # it logs the errors that it raises
    if any(value.type.tensor_type.elem_type == TensorProto.BFLOAT16 for value in model.graph.input):
        raise NotCoveredError("onnxruntime takes no arrays of bfloat16")
    try:
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    except Exception as error:
        if "NOT_IMPLEMENTED" in str(error) or "INVALID_GRAPH" in str(error):
            raise NotCoveredError(str(error)) from None
        raise

    def run(arrays: list[Array]) -> Array:
        try:
            return np.asarray(session.run(None, dict(zip(inputs, map(aligned, arrays), strict=True)))[0])
        except Exception as error:
            if "indices element out of data bounds" in str(error):
                raise IndexError(str(error)) from None
            if "No corresponding Numpy type" in str(error):
                raise NotCoveredError(str(error)) from None
            raise

    return run


def _in_reference(model: onnx.ModelProto, inputs: list[str]) -> Callable[[list[Array]], Array]:
    evaluator = ReferenceEvaluator(model)

    def run(arrays: list[Array]) -> Array:
        with np.errstate(all="ignore"):
            try:
                (found,) = evaluator.run(None, dict(zip(inputs, arrays, strict=True)))
            except (TypeError, ValueError, RuntimeError) as error:
                raise NotCoveredError(str(error)) from None
        return np.asarray(found)

    return run
