"""An onnx.backend.base.Backend that runs models of the gather and slice family on the CPU and on NVIDIA GPUs."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import numpy as np
import onnx.backend.base
import onnx.defs
from onnx import ModelProto, NodeProto

from dmlgather.backends import arrays
from dmlgather.backends.cuda import DeviceError, require
from dmlgather.backends.devices import CPU, Device
from dmlgather.eager import execute
from dmlgather.onnx import auxiliary
from dmlgather.onnx.backend.device_tensors import DeviceTensor, check_type_on
from dmlgather.onnx.backend.fused_runs import FusedRuns
from dmlgather.onnx.backend.graph import NodeGraph, PreparedNode, read_model, read_node
from dmlgather.onnx.backend.model_inputs import adopt_inputs, name_inputs
from dmlgather.onnx.model.node_labels import naming
from dmlgather.onnx.problems.data_types import type_name
from dmlgather.onnx.problems.node_reading import problem_of
from dmlgather.onnx.problems.operator_versions import DOMAINS


class Backend(onnx.backend.base.Backend):
    """Runs models made of Gather, GatherElements, GatherND, Slice, DepthToSpace and SpaceToDepth, and of Identity, Constant,
    Shape, Squeeze, Unsqueeze, Reshape, Transpose and Cast; also inside model-local functions.

    device: "CPU", "CUDA" (the first GPU), "CUDA:N", or "REFERENCE" (the reference in host memory). Every device gives the
    same bits, except where Cast meets a value that does not fit, which ONNX leaves undefined.
    """

    @classmethod
    def is_compatible(cls, model: ModelProto, device: str = "CPU", **kwargs: Any) -> bool:
        """Whether `prepare` would take the model and the device."""
        _no_options("is_compatible", kwargs)
        try:
            graph, where = read_model(model), _parse(device)
            if where.on_gpu:
                _check_types(graph, where)
        except (NotImplementedError, TypeError, ValueError):
            return False
        return cls.supports_device(device)

    @classmethod
    def prepare(cls, model: ModelProto, device: str = "CPU", **kwargs: Any) -> PreparedModel:
        """The model prepared for any number of runs, with its constants on the device.

        Raises NotImplementedError, naming all of them, for operators, types and tensors that the backend does not take;
        ValueError for an invalid model, data that is not loaded and an unknown device; TypeError for data types that a version or
        the device does not take, and for options, of which there are none; DeviceError for a GPU that cannot be used.
        """
        _no_options("prepare", kwargs)
        return PreparedModel(read_model(model), _parse(device))

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
        opset = _opset(kwargs)
        _no_options("run_node", kwargs)
        return PreparedModel(read_node(node, opset), _parse(device)).run(inputs)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Whether the device exists: "CPU" always, "CUDA" and "CUDA:N" where CuPy finds a usable GPU. Never raises."""
        try:
            where = _parse(device)
            if where.on_gpu:
                require(where.index)
        except (DeviceError, TypeError, ValueError):
            return False
        return True


class PreparedModel(onnx.backend.base.BackendRep):
    """A model on a device. Threads may share it.

    It runs as a fused graph, made for the types of a run's inputs and kept; where one of its nodes raises, one by one.
    """

    def __init__(self, graph: NodeGraph, device: Device) -> None:
        if device.on_gpu:
            require(device.index)
            _check_types(graph, device)
        self._graph, self._device = graph, device
        self._computed_with = {name for each in graph.nodes for name in each.node.input[: each.arrays]}
        self._constants = {name: self._tensor(name, array, CPU) for name, array in graph.constants.items()}
        self._fused = FusedRuns(graph, self._constants, device)
        required = [name for name in graph.inputs if name not in graph.constants]
        self._names = {len(required): required, len(graph.inputs): list(graph.inputs)}
        self._outputs = onnx.backend.base.namedtupledict("Outputs", [name for name, _ in graph.outputs])

    def __reduce__(self) -> tuple[Any, ...]:
        return PreparedModel, (self._graph, self._device)  # fused graphs are made again

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Any, ...]:
        """The outputs: a tuple, which can be indexed by name as well.

        inputs: arrays in the order of the model's inputs, with or without those that have a default; or arrays by name. They may
        be NumPy or CuPy arrays or anything with `__dlpack__`; outputs are the same kind of array as the first input and share no
        memory with any input. On a GPU, inputs are copied there once, and tensors whose values decide a shape (bounds of Slice,
        axes, shapes) are copied back to the host.

        Raises TypeError and ValueError for inputs that contradict the model; and, naming the node, IndexError for a bad index,
        TypeError and ValueError for inputs that break a rule of an operator.
        """
        _no_options("run", kwargs)
        named = None if self._device.on_gpu else self._plain(inputs)
        nodes = None if named is None else self._fused.made_for(self._fused.key_of(named))
        if named is not None and nodes is not None:
            with suppress(IndexError):  # the node alone says which index it is
                return self._outputs(*nodes.results(named, self._device))
        given = inputs.values() if isinstance(inputs, Mapping) else inputs if isinstance(inputs, list | tuple) else ()
        with self._device.current(), arrays.in_order([*given]):
            return self._outputs(*self._run(inputs))

    def _plain(self, inputs: Any) -> dict[str, Any] | None:
        """The inputs by name, in the model's order. None unless all are arrays of NumPy's own class without objects, and for what
        `name_inputs` refuses.
        """
        names = self._names.get(len(inputs)) if type(inputs) in {list, tuple, dict} else None
        if names is None:
            return None
        if type(inputs) is dict:
            if inputs.keys() != {*names}:
                return None
            inputs = [inputs[name] for name in names]
        for array in inputs:
            if type(array) is not np.ndarray or array.dtype.hasobject:
                return None
        return dict(zip(names, inputs, strict=True))

    def _run(self, inputs: Any) -> list[Any]:
        named = name_inputs(inputs, self._graph.inputs, self._graph.constants)
        adopted = adopt_inputs(named, self._graph.inputs)
        values = dict(self._constants)
        values |= {name: self._tensor(name, array, device) for name, (array, device) in adopted.items()}
        like, home = next(((named[name], device) for name, (_, device) in adopted.items()), (None, CPU))
        nodes, outputs = self._fused.nodes_for({name: values[name] for name in adopted}), None
        if nodes is not None:
            with suppress(IndexError):
                outputs = nodes.run(values, self._device)
        outputs = outputs or self._one_by_one(values)
        returned: set[object] = set()
        results = []
        for (name, declared), output in zip(self._graph.outputs, outputs, strict=True):
            dtype = output.type.dtype
            if declared.dtype is not None and declared.dtype != dtype:
                raise TypeError(f"output {name!r} has type {type_name(dtype)}, but the model declares {declared}")
            result = output.as_output(home, self._device.memory, returned)
            plain = like is None or isinstance(like, np.generic) or result.dtype.hasobject
            results.append(result if plain else arrays.hand_back(result, like))
        return results

    def _one_by_one(self, values: dict[str, DeviceTensor]) -> list[DeviceTensor]:
        """The outputs, node by node."""
        for each in self._graph.nodes:
            with naming(each.node):
                values[each.node.output[0]] = self._result(each, values)
            for name in each.last:
                del values[name]
        return [values[name] for name, _ in self._graph.outputs]

    def _tensor(self, name: str, array: Any, device: Device) -> DeviceTensor:
        """The tensor of an input or a constant, on the model's device unless only its values are needed."""
        target = self._device.memory if name in self._computed_with else device
        check_type_on(target, f"{name!r}", array.dtype)
        return DeviceTensor(arrays.move(array, device, target), target)

    def _result(self, prepared: PreparedNode, values: Mapping[str, DeviceTensor]) -> DeviceTensor:
        node, opset, count, memory = prepared.node, prepared.opset, prepared.arrays, self._device.memory
        inputs = [values[name] if name else None for name in node.input]
        host = [tensor.on(CPU) if tensor else None for tensor in inputs[count:]]
        if not auxiliary.is_auxiliary(node):
            types = [tensor.type if tensor else None for tensor in inputs]
            problem = problem_of(node, opset, types, [None] * count + host)
            result = execute(problem, [tensor.on(memory) for tensor in inputs[:count] if tensor], device=str(self._device))
            return DeviceTensor(result, memory, object())
        data = inputs[0]
        assert data is not None
        array, device = data.nearest(memory)
        result = auxiliary.compute(node, opset, [array, *host])
        if node.op_type == "Shape":
            return DeviceTensor(result, CPU, object())
        return DeviceTensor(result, device, data.memory if result.dtype == array.dtype else object())


def _check_types(graph: NodeGraph, device: Device) -> None:
    """TypeError for inputs and constants that a GPU does not take."""
    for name, declared in graph.inputs.items():
        if declared.dtype is not None:
            check_type_on(device, f"input {name!r}", declared.dtype)
    for name, array in graph.constants.items():
        check_type_on(device, f"constant {name!r}", array.dtype)


def _parse(device: str) -> Device:
    """The device of a name. TypeError for anything but a string, ValueError for another name."""
    if not isinstance(device, str):
        raise TypeError(f"device is of type {type(device).__name__}, expected a name: 'CPU', 'CUDA' or 'CUDA:N'")
    try:
        return Device.parse(device.lower().removesuffix(":0"))
    except ValueError:
        raise ValueError(f"device is {device!r}, expected 'CPU', 'CUDA', 'CUDA:N' (the N-th GPU) or 'REFERENCE'") from None


def _opset(options: dict[str, Any]) -> int:
    """The version of ONNX's own operators among the options, which are taken out of them."""
    imports = options.pop("opset_imports", {})
    pairs = imports.items() if isinstance(imports, Mapping) else [(entry.domain, entry.version) for entry in imports]
    opsets = [options.pop("opset_version", None), *(opset for domain, opset in pairs if domain in DOMAINS)]
    return next((int(opset) for opset in opsets if opset is not None), onnx.defs.onnx_opset_version())


def _no_options(method: str, options: Mapping[str, Any]) -> None:
    if options:
        raise TypeError(f"{method} has no option {', '.join(map(repr, options))}")
