"""Programs of one operator and a gather, in every library that the table of shared operators names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import ModelProto, TensorProto, helper

from dmlgather.dialects.shared_operators import NAMES
from tests.openvino.random_chains import op
from tests.openvino.runtime import openvino

AXIS = 1

ONNX: Mapping[str, str] = {
    "abs": "Abs",
    "add": "Add",
    "cast": "Cast",
    "ceil": "Ceil",
    "cos": "Cos",
    "divide": "Div",
    "equal": "Equal",
    "erf": "Erf",
    "exp": "Exp",
    "floor": "Floor",
    "gelu": "Gelu",
    "greater": "Greater",
    "greater_equal": "GreaterOrEqual",
    "less": "Less",
    "less_equal": "LessOrEqual",
    "log": "Log",
    "log_softmax": "LogSoftmax",
    "matmul": "MatMul",
    "maximum": "Max",
    "minimum": "Min",
    "multiply": "Mul",
    "negative": "Neg",
    "power": "Pow",
    "relu": "Relu",
    "sigmoid": "Sigmoid",
    "sin": "Sin",
    "softmax": "Softmax",
    "sqrt": "Sqrt",
    "subtract": "Sub",
    "tanh": "Tanh",
}
"""The operator that the documents of ONNX define as the function of that name."""

TWO = ("add", "divide", "matmul", "maximum", "minimum", "multiply", "power", "subtract")
COMPARISONS = ("equal", "greater", "greater_equal", "less", "less_equal")
BINARY = (*TWO, *COMPARISONS)


def arrays(name: str, chance: np.random.Generator) -> tuple[NDArray[np.float32], ...]:
    """Inputs: [4, 4], twice for an operator of two; positive, so that every function is defined."""
    return tuple((chance.integers(1, 9, (4, 4)) / 4).astype(np.float32) for _ in range(2 if name in BINARY else 1))


def in_onnx(name: str, dtype: int = TensorProto.FLOAT, opset: int = 20, **more: Any) -> ModelProto:
    """The operator, then rows [2, 0] of its result."""
    attributes = {"to": TensorProto.DOUBLE} if name == "cast" else {"axis": AXIS} if "softmax" in name else {}
    inputs = ["x", "z"] if name in BINARY else ["x"]
    nodes = [
        helper.make_node(ONNX[name], inputs, ["t"], **{**attributes, **more}),
        helper.make_node("Gather", ["t", "rows"], ["y"], axis=0),
    ]
    result = TensorProto.BOOL if name in COMPARISONS else TensorProto.DOUBLE if name == "cast" else dtype
    graph = helper.make_graph(
        nodes,
        "one",
        [helper.make_tensor_value_info(each, dtype, [4, 4]) for each in inputs],
        [helper.make_tensor_value_info("y", result, [2, 4])],
        [onnx.numpy_helper.from_array(np.array([2, 0]), "rows")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)


def in_openvino(name: str, folder: Path) -> tuple[Path, Any]:
    """The same as an IR, and as a model."""
    inputs = [op.parameter([4, 4], np.float32, name=each) for each in ("x", "z")[: 2 if name in BINARY else 1]]
    for each in inputs:
        each.output(0).set_names({each.get_friendly_name()})
    own = {"ceil": "ceiling", "matmul": "matmul"}.get(name, name)
    more: tuple[Any, ...] = ("f64",) if name == "cast" else (AXIS,) if "softmax" in name else ()
    made = getattr(op, {"cast": "convert"}.get(name, own))(*inputs, *((False, False) if name == "matmul" else more))
    result = op.gather(made, op.constant(np.array([2, 0])), op.constant(0))
    model = openvino.Model([result], inputs, name)
    path = folder / f"{name}.xml"
    openvino.serialize(model, path)
    return path, model


def in_jax() -> Mapping[str, Callable[..., Any]]:
    """The same as functions of JAX."""
    from jax import lax

    functions: Mapping[str, Any] = {
        "abs": lax.abs,
        "add": lax.add,
        "cast": lambda x: lax.convert_element_type(x, "float64"),
        "ceil": lax.ceil,
        "cos": lax.cos,
        "divide": lax.div,
        "equal": lax.eq,
        "erf": lax.erf,
        "exp": lax.exp,
        "floor": lax.floor,
        "greater": lax.gt,
        "greater_equal": lax.ge,
        "less": lax.lt,
        "less_equal": lax.le,
        "log": lax.log,
        "matmul": lambda x, z: x @ z,
        "maximum": lax.max,
        "minimum": lax.min,
        "multiply": lax.mul,
        "negative": lax.neg,
        "power": lax.pow,
        "sigmoid": lax.logistic,
        "sin": lax.sin,
        "sqrt": lax.sqrt,
        "subtract": lax.sub,
        "tanh": lax.tanh,
    }
    rows = np.array([2, 0])
    return {name: lambda *given, each=each: each(*given)[rows] for name, each in functions.items()}


def in_torch() -> Mapping[str, Callable[..., Any]]:
    """The same as functions of PyTorch."""
    import torch

    functions: Mapping[str, Any] = {
        "abs": torch.abs,
        "add": torch.add,
        "cast": lambda x: x.to(torch.float64),
        "ceil": torch.ceil,
        "cos": torch.cos,
        "divide": torch.div,
        "equal": torch.eq,
        "erf": torch.erf,
        "exp": torch.exp,
        "floor": torch.floor,
        "gelu": torch.nn.functional.gelu,
        "greater": torch.gt,
        "greater_equal": torch.ge,
        "less": torch.lt,
        "less_equal": torch.le,
        "log": torch.log,
        "matmul": torch.matmul,
        "maximum": torch.maximum,
        "minimum": torch.minimum,
        "multiply": torch.mul,
        "negative": torch.neg,
        "power": torch.pow,
        "relu": torch.relu,
        "sigmoid": torch.sigmoid,
        "sin": torch.sin,
        "sqrt": torch.sqrt,
        "subtract": torch.sub,
        "tanh": torch.tanh,
        "softmax": lambda x: torch.softmax(x, AXIS),
        "log_softmax": lambda x: torch.log_softmax(x, AXIS),
    }
    return {name: lambda *given, each=each: each(*given)[torch.tensor([2, 0])] for name, each in functions.items()}


assert ONNX.keys() == NAMES, "a row has no program"
