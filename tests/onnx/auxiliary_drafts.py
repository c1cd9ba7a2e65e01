"""Random calls of the auxiliary operators that their versions take, and what onnx's reference and onnxruntime make of them."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from onnx import AttributeProto, ModelProto, NodeProto, TensorProto, helper
from onnx.reference import ReferenceEvaluator

from dmlgather.onnx.problems.data_types import type_name
from dmlgather.onnx.problems.operator_versions import VERSIONS, OperatorVersion
from dmlgather.onnx_checking.following.operators import compute
from tests.onnx.judge import session

FLOATS = ("float16", "bfloat16", "float", "double")
INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
NEWEST_RUN_BY_ONNXRUNTIME = 22
"""The newest opset in which onnxruntime has every auxiliary operator."""


@dataclass
class Draft:
    """A node of an auxiliary operator: the attributes it states, and its inputs."""

    version: OperatorVersion
    inputs: list[np.ndarray[Any, Any]]
    attributes: dict[str, Any] = field(default_factory=dict)

    @property
    def node(self) -> NodeProto:
        names = [f"input{number}" for number in range(len(self.inputs))]
        found = helper.make_node(self.version.operator, names, ["output"])
        for name, value in self.attributes.items():
            kind = AttributeProto.INTS if isinstance(value, list) else None  # an empty list does not tell
            found.attribute.append(helper.make_attribute(name, value, attr_type=kind))
        return found

    @property
    def model(self) -> ModelProto:
        types = [helper.np_dtype_to_tensor_dtype(array.dtype) for array in self.inputs]
        values = [helper.make_tensor_value_info(name, kind, None) for name, kind in zip(self.node.input, types, strict=True)]
        output = helper.make_tensor_value_info("output", self.output_type, None)
        graph = helper.make_graph([self.node], "graph", values, [output])
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.version.since)], ir_version=8)

    @property
    def output_type(self) -> int:
        if self.version.operator == "Shape":
            return TensorProto.INT64
        to = self.attributes.get("to", helper.np_dtype_to_tensor_dtype(self.inputs[0].dtype))
        return TensorProto.DataType.Value(to) if isinstance(to, str) else int(to)

    def run(self) -> Any:
        return compute(self.node, self.version.since, self.inputs)


def versions(*operators: str) -> list[OperatorVersion]:
    return [version for operator in operators for version in VERSIONS[operator]]


def dtype_of(name: str) -> np.dtype[Any]:
    return np.dtype(helper.tensor_dtype_to_np_dtype(TensorProto.DataType.Value(name.upper())))


def some_shape(rng: random.Random) -> tuple[int, ...]:
    return tuple(rng.choices((0, 1, 2, 3, 4), (1, 9, 3, 3, 3), k=rng.randrange(5)))


def some_data(rng: random.Random, name: str, shape: Sequence[int]) -> np.ndarray[Any, Any]:
    """Random bits, NaNs of all kinds among them, sometimes behind strides of their own."""
    count, dtype = math.prod(shape), dtype_of(name)
    if name == "string":
        flat = np.array([rng.choice(("", "a", "gather", "é", "日本")) for _ in range(count)], object)
    elif name == "bool":
        flat = np.array([rng.random() < 0.5 for _ in range(count)], bool)
    elif dtype.itemsize == 1 and name not in ("int8", "uint8"):
        flat = np.frombuffer(rng.randbytes(count), np.uint8).astype(dtype)  # 2, 4 and 6 bits have no more values
    else:
        flat = np.frombuffer(rng.randbytes(count * dtype.itemsize), dtype)
    data = flat.reshape(shape)
    return data.copy(order="F") if rng.random() < 0.3 else data


def draft(rng: random.Random, version: OperatorVersion) -> Draft:
    """A call that the version takes."""
    found = Draft(version, [some_data(rng, rng.choice(version.types), some_shape(rng))])
    if version.operator in DRAWN:
        DRAWN[version.operator](rng, found)
    return found


def _state(found: Draft, name: str, values: Sequence[int]) -> None:
    """Axes or a shape, as an input or as an attribute, whichever the version has."""
    if name in found.version.inputs:
        found.inputs.append(np.array(values, np.int64))
    else:
        found.attributes[name] = list(values)


def _from_an_end(rng: random.Random, found: Draft, axes: Sequence[int], rank: int) -> list[int]:
    negative = found.version.since >= 11
    return [axis - rank if negative and rng.random() < 0.5 else axis for axis in axes]


def _shape(rng: random.Random, found: Draft) -> None:
    for name in ("start", "end"):
        if name in found.version.attributes and rng.random() < 0.7:
            found.attributes[name] = rng.randint(-6, 6)


def _squeeze(rng: random.Random, found: Draft) -> None:
    shape = found.inputs[0].shape
    ones = [axis for axis, size in enumerate(shape) if size == 1]
    chosen = rng.sample(ones, rng.randint(0, len(ones)))
    if chosen and rng.random() < 0.8:  # without axes, all of size 1; onnxruntime takes empty ones for none
        _state(found, "axes", _from_an_end(rng, found, chosen, len(shape)))


def _unsqueeze(rng: random.Random, found: Draft) -> None:
    more = rng.randint(1, 3)
    rank = found.inputs[0].ndim + more
    _state(found, "axes", _from_an_end(rng, found, rng.sample(range(rank), more), rank))


def _reshape(rng: random.Random, found: Draft) -> None:
    data = found.inputs[0]
    wanted = _factors(rng, data.size)
    allow_zero = "allowzero" in found.version.attributes and rng.random() < 0.5
    if allow_zero:
        found.attributes["allowzero"] = 1
    elif 0 in wanted:  # only data's own sizes of 0 can be had
        wanted = list(data.shape)
    if not allow_zero:
        same = [axis for axis, size in enumerate(wanted) if axis < data.ndim and data.shape[axis] == size]
        for axis in same:
            if wanted[axis] == 0 or rng.random() < 0.5:
                wanted[axis] = 0
    if wanted and data.size and rng.random() < 0.5:
        wanted[rng.randrange(len(wanted))] = -1
    _state(found, "shape", wanted)


def _factors(rng: random.Random, size: int) -> list[int]:
    """Sizes of `size` elements in all."""
    found, left = [], size
    while left > 1:
        factor = rng.choice([number for number in range(2, left + 1) if left % number == 0])
        found.append(factor)
        left //= factor
    if size == 0:
        found += [0, rng.randint(1, 3)]
    found += [1] * rng.randrange(3)
    rng.shuffle(found)
    return found


def _transpose(rng: random.Random, found: Draft) -> None:
    if rng.random() < 0.8:
        rank = found.inputs[0].ndim
        found.attributes["perm"] = rng.sample(range(rank), rank)


DRAWN: Mapping[str, Callable[[random.Random, Draft], None]] = {
    "Shape": _shape,
    "Squeeze": _squeeze,
    "Unsqueeze": _unsqueeze,
    "Reshape": _reshape,
    "Transpose": _transpose,
}


def by_onnxruntime(found: Draft) -> Any:
    feeds = {name: np.array(array, order="C") for name, array in zip(found.node.input, found.inputs, strict=True)}
    return session(found.model.SerializeToString()).run(None, feeds)[0]


def onnxruntime_runs(found: Draft) -> bool:
    kinds = {type_name(found.inputs[0].dtype), TensorProto.DataType.Name(found.output_type).lower()}
    runnable = {*INTEGERS, *FLOATS, "bool", "string"} - {"bfloat16"}  # bfloat16 cannot be passed in from Python
    return kinds <= runnable and found.version.since <= NEWEST_RUN_BY_ONNXRUNTIME


def by_reference(found: Draft) -> Any:
    with np.errstate(all="ignore"):  # it warns of values that become infinite
        outputs: Any = ReferenceEvaluator(found.model).run(None, dict(zip(found.node.input, found.inputs, strict=True)))
    return outputs[0]
