"""The interface of onnx.backend.base.Backend: models made of the operators of the family, node after node."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx.backend.base
from onnx import ModelProto, NodeProto, ValueInfoProto, defs, helper

from dmlgather.backends import arrays
from dmlgather.backends.cuda import DeviceError, require
from dmlgather.backends.devices import CPU, Device
from dmlgather.calls.eager import execute
from dmlgather.dialects.element_types import STRING_KINDS
from dmlgather.dialects.problem import TensorType
from dmlgather.onnx.auxiliary import initializer
from dmlgather.onnx.problems.data_types import type_name
from dmlgather.onnx.problems.node_reading import ARRAYS, FAMILY, in_family, parse_node, problem_of
from dmlgather.onnx.problems.operator_versions import DOMAINS, own_opset
from dmlgather.onnx.problems.partial_types import PartialType, type_of_value
from dmlgather.onnx.problems.subgraphs import label, naming, operator_name


class PreparedModel(onnx.backend.base.BackendRep):
    """A model on a device. Threads may share it."""

    def __init__(self, model: ModelProto, device: Device) -> None:
        self._model, self._device, self._opset = ModelProto(), device, own_opset(model.opset_import)
        self._model.CopyFrom(model)
        graph, memory = self._model.graph, device.memory
        self._inputs = {value.name: type_of_value(value) for value in graph.input}
        self._outputs = [value.name for value in graph.output]
        self._constants = {each.name: arrays.move(initializer(each), CPU, memory) for each in graph.initializer}
        known = {*self._inputs, *self._constants}
        for node in graph.node:
            with naming(node):
                parse_node(node, self._opset)
                if missing := {*filter(None, node.input)} - known:
                    raise ValueError(f"no input, dense initializer or node before it gives {sorted(missing)}")
                if again := known & {*node.output}:
                    raise ValueError(f"its output {again.pop()!r} is also an input, an initializer, or given by another node")
            known.update(filter(None, node.output))
        if missing := {*self._outputs} - known:
            raise ValueError(f"no node gives the outputs {sorted(missing)}")
        self._as_tuple = onnx.backend.base.namedtupledict("Outputs", self._outputs)

    def __reduce__(self) -> tuple[Any, ...]:
        return PreparedModel, (self._model, self._device)

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Any, ...]:
        """The outputs: a tuple, which can be indexed by name as well.

        inputs: arrays in the order of the model's inputs, with or without those that have a default; or arrays by name. They may
        be NumPy or CuPy arrays or anything with `__dlpack__`; outputs are the same kind of array as the first input and share no
        memory with any input. On a GPU, inputs are copied there, and bounds of Slice back to the host.

        Raises TypeError and ValueError for inputs that contradict the model; and, naming the node, IndexError for a bad index,
        TypeError and ValueError for inputs that break a rule of an operator.
        """
        _no_options("run", kwargs)
        named = self._named(inputs)
        memory, given, sizes = self._device.memory, dict(self._constants), dict[str, int]()
        like = next(iter(named.values()), np.empty(0))
        with self._device.current(), arrays.in_order([*named.values()]):
            for name, each in named.items():
                given[name] = arrays.move(*_adopted(name, each, self._inputs[name], sizes), memory)
            values = dict(given)
            for node in self._model.graph.node:
                with naming(node):
                    values[node.output[0]] = self._result(node, values)
            home = arrays.home_of(like)
            found = [values[name].copy() if name in given else values[name] for name in self._outputs]
            return self._as_tuple(*(arrays.hand_back(arrays.move(array, memory, home), like) for array in found))

    def _named(self, given: Any) -> dict[str, Any]:
        """The arrays by the inputs' names, in the model's order. TypeError and ValueError for what does not fit the names."""
        every = list(self._inputs)
        required = [name for name in every if name not in self._constants]
        if isinstance(given, list | tuple):
            names = every if len(given) == len(every) else required
            given = dict(zip(names, given, strict=True) if len(given) == len(names) else enumerate(given))
        elif not isinstance(given, Mapping):
            raise TypeError(f"inputs is of type {type(given).__name__}, expected a list of arrays, or a dict of arrays by name")
        if not {*required} <= {*given} <= {*every}:
            raise ValueError(f"the inputs are {every}, of which {required} have no default, and {[*given]} were given")
        return {name: given[name] for name in every if name in given}

    def _result(self, node: NodeProto, values: Mapping[str, Any]) -> Any:
        """The output of a node, in the memory of the device."""
        count, memory = len(ARRAYS[node.op_type]), self._device.memory
        data = [values[name] for name in node.input[:count]]
        bounds = [arrays.move(values[name], memory, CPU) if name else None for name in node.input[count:]]
        types = [*(TensorType(array.shape, array.dtype) for array in data), *(None for _ in bounds)]
        problem = problem_of(node, self._opset, types, [*(None for _ in data), *bounds])
        return execute(problem, data, device=str(self._device))


class Backend(onnx.backend.base.Backend):
    """Runs models of Gather, GatherElements, GatherND, Slice, DepthToSpace and SpaceToDepth of every opset, node after node.

    device: "CPU", "CUDA" (the first GPU), "CUDA:N", or "REFERENCE" (the reference in host memory). All give the same bits.
    """

    @classmethod
    def is_compatible(cls, model: ModelProto, device: str = "CPU", **kwargs: Any) -> bool:
        """Whether `prepare` would take the model and the device."""
        try:
            cls.prepare(model, device, **kwargs)
        except (DeviceError, NotImplementedError, TypeError, ValueError):
            return False
        return True

    @classmethod
    def prepare(cls, model: ModelProto, device: str = "CPU", **kwargs: Any) -> PreparedModel:
        """The model prepared for any number of runs.

        Raises NotImplementedError for other operators; ValueError for an invalid model, data that is not loaded and an unknown
        device; TypeError for constants that the device does not take; DeviceError for a GPU that cannot be used.
        """
        _no_options("prepare", kwargs)
        if not isinstance(model, ModelProto):
            raise TypeError(f"model is of type {type(model).__name__}, expected an onnx.ModelProto, as onnx.load(path) gives")
        if others := {operator_name(node): label(node) for node in model.graph.node if not in_family(node)}:
            named = ", ".join(f"{operator} ({node})" for operator, node in others.items())
            raise NotImplementedError(f"this backend runs ONNX's own {', '.join(FAMILY)}, but not {named}")
        return PreparedModel(model, _usable(device))

    @classmethod
    def run_node(
        cls,
        node: NodeProto,
        inputs: Any,
        device: str = "CPU",
        outputs_info: Any = None,  # noqa: ARG003 - the interface's
        **kwargs: Any,
    ) -> tuple[Any, ...]:
        """The outputs of one node.

        inputs: one array per input that the node names. outputs_info: not needed, since types and shapes follow from the inputs.
        opset_version, or opset_imports (versions by domain, or OperatorSetIdProtos): default the newest that onnx knows.

        Raises as `prepare` and `PreparedModel.run` do.
        """
        imports, default = kwargs.pop("opset_imports", {}), kwargs.pop("opset_version", defs.onnx_opset_version())
        pairs = imports.items() if isinstance(imports, Mapping) else [(each.domain, each.version) for each in imports]
        opset = next((version for domain, version in pairs if domain in DOMAINS), default)
        _no_options("run_node", kwargs)
        if not isinstance(node, NodeProto):
            raise TypeError(f"node is of type {type(node).__name__}, expected an onnx.NodeProto, as onnx.helper.make_node gives")
        given = [ValueInfoProto(name=name) for name in dict.fromkeys(filter(None, node.input))]
        graph = helper.make_graph([node], "node", given, [ValueInfoProto(name=name) for name in node.output])
        return cls.prepare(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)]), device).run(inputs)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Whether the device exists: "CPU" always, "CUDA" and "CUDA:N" where CuPy finds a usable GPU. Never raises."""
        try:
            return bool(_usable(device))
        except (DeviceError, ValueError):
            return False


def _usable(name: Any) -> Device:
    """The device of a name. ValueError for anything else, DeviceError for a GPU that cannot be used."""
    try:
        device = Device.parse(name.lower().removesuffix(":0") if isinstance(name, str) else "")
    except ValueError:
        raise ValueError(f"device is {name!r}, expected 'CPU', 'CUDA', 'CUDA:N' (GPU N, from 0) or 'REFERENCE'") from None
    if device.on_gpu:
        require(device.index)
    return device


def _no_options(method: str, options: Mapping[str, Any]) -> None:
    if options:
        raise TypeError(f"{method} has no option {', '.join(map(repr, options))}")


def _adopted(name: str, given: Any, declared: PartialType, sizes: dict[str, int]) -> tuple[Any, Device]:
    """The NumPy or CuPy array of an input, and where it lies. sizes: of the model's symbols, which are added.

    Raises TypeError for what is no array and for another type than the model's, ValueError for another shape.
    """
    try:
        array, home = arrays.adopt(given)
    except TypeError as error:
        raise TypeError(f"input {name!r}: {error}") from None
    array = array.astype(object, copy=False) if array.dtype.kind in STRING_KINDS else array
    if declared.dtype not in (None, array.dtype):
        raise TypeError(f"input {name!r} has type {type_name(array.dtype)}, but the model declares {declared}")
    stated = array.shape if declared.shape is None else declared.shape
    expected = [
        sizes.setdefault(one, found) if isinstance(one, str) else one for one, found in zip(stated, array.shape, strict=False)
    ]
    if len(stated) != array.ndim or any(one not in (None, found) for one, found in zip(expected, array.shape, strict=True)):
        known = "".join(f", {symbol} = {size}" for symbol, size in sizes.items())
        raise ValueError(f"input {name!r} has shape {list(array.shape)}, but the model declares {declared}{known}")
    return array, home
