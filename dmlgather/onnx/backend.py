"""ONNX's backend interface (onnx.backend.base.Backend) for models of gathers and slices. Nodes run one by one."""

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
from dmlgather.wording import counted


class PreparedModel(onnx.backend.base.BackendRep):
    """A checked model, ready to run on one device. Threads may share an instance. `Backend.prepare` returns it."""

    def __init__(self, model: ModelProto, device: Device) -> None:
        self._model, self._device, self._opset = ModelProto(), device, own_opset(model.opset_import)
        self._model.CopyFrom(model)
        graph, memory = self._model.graph, device.memory
        self._inputs = {value.name: type_of_value(value) for value in graph.input}
        self._outputs = [value.name for value in graph.output]
        self._constants = {proto.name: arrays.move(initializer(proto), CPU, memory) for proto in graph.initializer}
        defined = {*self._inputs, *self._constants}
        for node in graph.node:
            with naming(node):
                parse_node(node, self._opset)
                if missing := {*filter(None, node.input)} - defined:
                    raise ValueError(f"no input, dense initializer or earlier node gives its inputs {sorted(missing)}")
                if redefined := defined & {*node.output}:
                    raise ValueError(f"its output {redefined.pop()!r} is also an input, an initializer, or given by another node")
            defined.update(filter(None, node.output))
        if missing := {*self._outputs} - defined:
            raise ValueError(f"no node gives the outputs {sorted(missing)}")
        self._as_tuple = onnx.backend.base.namedtupledict("Outputs", self._outputs)

    def __reduce__(self) -> tuple[Any, ...]:
        return PreparedModel, (self._model, self._device)

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Run the model. Return a named tuple of its outputs.

        `inputs`: a list of arrays in the order of the model's inputs, or a dict of arrays by name. Inputs that are also
        initializers have a default value. A dict may leave out any of these inputs; a list must have all of them or none.
        Arrays are NumPy's or CuPy's, or have `__dlpack__`. The outputs have the array type of the first input, and share no
        memory with the inputs. If the device is a GPU, inputs are copied to the GPU. The starts, ends, axes and steps of Slice
        are then copied back to the host.

        Raises TypeError and ValueError for inputs that contradict the model or break a rule of an operator. Raises IndexError
        for an index out of range. Errors of an operator name its node.
        """
        _no_options("run", kwargs)
        named = self._named(inputs)
        memory, not_computed, sizes = self._device.memory, dict(self._constants), dict[str, int]()
        like = next(iter(named.values()), np.empty(0))
        with self._device.current(), arrays.in_order([*named.values()]):
            for name, array in named.items():
                not_computed[name] = arrays.move(*_adopted(name, array, self._inputs[name], sizes), memory)
            values = dict(not_computed)
            for node in self._model.graph.node:
                with naming(node):
                    values[node.output[0]] = self._result(node, values)
            home = arrays.home_of(like)
            outputs = [values[name].copy() if name in not_computed else values[name] for name in self._outputs]
            return self._as_tuple(*(arrays.hand_back(arrays.move(array, memory, home), like) for array in outputs))

    def _named(self, inputs: Any) -> dict[str, Any]:
        """Return the inputs by name, in the order of the model's inputs."""
        names = list(self._inputs)
        required = [name for name in names if name not in self._constants]
        if isinstance(inputs, list | tuple):
            matching = names if len(inputs) == len(names) else required
            if len(inputs) != len(matching):
                counts = f"{counted(len(inputs), 'array')}, but the model has the inputs {names} and requires {required}"
                raise ValueError(f"inputs has {counts}")
            inputs = dict(zip(matching, inputs, strict=True))
        elif not isinstance(inputs, Mapping):
            raise TypeError(f"inputs is of type {type(inputs).__name__}, expected a list of arrays, or a dict of arrays by name")
        if not {*required} <= {*inputs} <= {*names}:
            raise ValueError(f"the given inputs are {[*inputs]}, but the model has {names} and requires {required}")
        return {name: inputs[name] for name in names if name in inputs}

    def _result(self, node: NodeProto, values: Mapping[str, Any]) -> Any:
        """Run one node. `values`: the arrays computed so far, by name."""
        count, memory = len(ARRAYS[node.op_type]), self._device.memory
        data = [values[name] for name in node.input[:count]]
        bounds = [arrays.move(values[name], memory, CPU) if name else None for name in node.input[count:]]
        types = [*(TensorType(array.shape, array.dtype) for array in data), *(None for _ in bounds)]
        problem = problem_of(node, self._opset, types, [*(None for _ in data), *bounds])
        return execute(problem, data, device=str(self._device))


class Backend(onnx.backend.base.Backend):
    """ONNX backend for models of Gather, GatherElements, GatherND, Slice, DepthToSpace and SpaceToDepth of every opset.

    Devices are "CPU", "CUDA" (the first GPU), "CUDA:N", and "REFERENCE" (the reference backend, on the host). All devices
    return the same bits.
    """

    @classmethod
    def is_compatible(cls, model: ModelProto, device: str = "CPU", **kwargs: Any) -> bool:
        """Return True if `prepare` accepts the model and the device."""
        try:
            cls.prepare(model, device, **kwargs)
        except (DeviceError, NotImplementedError, TypeError, ValueError):
            return False
        return True

    @classmethod
    def prepare(cls, model: ModelProto, device: str = "CPU", **kwargs: Any) -> PreparedModel:
        """Check a model, and return an object that runs it any number of times.

        Raises NotImplementedError if the model has an operator that this backend does not run; ValueError for an invalid model,
        external data that is not loaded, or an unknown device; TypeError for constants of a type that the device does not
        support; DeviceError for an unusable GPU.
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
        """Run one node. Return a tuple of its outputs.

        `inputs`: one array per input name of the node. `outputs_info`: ignored, because the inputs determine types and shapes.
        Two keywords select the opset. `opset_version`: a number; default: the newest opset that the installed package onnx
        knows. `opset_imports`: the opset of each domain, as a dict or a list of OperatorSetIdProtos. If it has ONNX's
        domain, opset_version has no effect.

        Raises the errors of `prepare` and `PreparedModel.run`.
        """
        imports, default = kwargs.pop("opset_imports", {}), kwargs.pop("opset_version", defs.onnx_opset_version())
        pairs = imports.items() if isinstance(imports, Mapping) else [(entry.domain, entry.version) for entry in imports]
        opset = next((version for domain, version in pairs if domain in DOMAINS), default)
        _no_options("run_node", kwargs)
        if not isinstance(node, NodeProto):
            raise TypeError(f"node is of type {type(node).__name__}, expected an onnx.NodeProto, as onnx.helper.make_node gives")
        declared = [ValueInfoProto(name=name) for name in dict.fromkeys(filter(None, node.input))]
        graph = helper.make_graph([node], "node", declared, [ValueInfoProto(name=name) for name in node.output])
        return cls.prepare(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)]), device).run(inputs)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Return True for "CPU" and "REFERENCE", and for "CUDA" and "CUDA:N" if CuPy finds a usable GPU. Never raises."""
        try:
            return bool(_usable(device))
        except (DeviceError, ValueError):
            return False


def _usable(name: Any) -> Device:
    """Return the Device for a name of ONNX's interface, such as "CUDA:1". Raise DeviceError if the GPU cannot be used."""
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


def _adopted(name: str, source: Any, declared: PartialType, sizes: dict[str, int]) -> tuple[Any, Device]:
    """Check an input against the model. Return it as a NumPy or CuPy array, and its device.

    `sizes`: the sizes of symbolic dimensions in earlier inputs. New symbols are added.
    """
    try:
        array, home = arrays.adopt(source)
    except TypeError as error:
        raise TypeError(f"input {name!r}: {error}") from None
    array = array.astype(object, copy=False) if array.dtype.kind in STRING_KINDS else array
    if declared.dtype not in (None, array.dtype):
        raise TypeError(f"input {name!r} has type {type_name(array.dtype)}, but the model declares {declared}")
    shape = array.shape if declared.shape is None else declared.shape
    expected = [
        sizes.setdefault(size, actual) if isinstance(size, str) else size
        for size, actual in zip(shape, array.shape, strict=False)
    ]
    if len(shape) != array.ndim or any(size not in (None, actual) for size, actual in zip(expected, array.shape, strict=True)):
        symbols = "".join(f", {symbol} = {size}" for symbol, size in sizes.items())
        raise ValueError(f"input {name!r} has shape {list(array.shape)}, but the model declares {declared}{symbols}")
    return array, home
