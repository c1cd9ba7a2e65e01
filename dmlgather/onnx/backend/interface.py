"""The interface of onnx.backend.base.Backend."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import onnx.backend.base
import onnx.defs
from onnx import ModelProto, NodeProto, helper

from dmlgather.backends.cuda import DeviceError, require
from dmlgather.backends.devices import Device
from dmlgather.onnx.backend.prepared_model import PreparedModel, adopt_inputs, name_inputs
from dmlgather.onnx.backend.supported_nodes import check_model, check_node, check_types
from dmlgather.onnx.model.partial_types import NOTHING
from dmlgather.onnx.problems.operator_versions import DOMAINS


class Backend(onnx.backend.base.Backend):
    """Runs models made of gathers, slices and views, of what joins, cuts and repeats tensors, of Cast, and of arithmetic on
    integers and bools; also inside model-local functions. `dg.onnx.index_graph` reads them, and `dg.fuse` runs them.

    device: "CPU", "CUDA" (the first GPU), "CUDA:N", or "REFERENCE" (the reference in host memory). Every device gives the
    same bits, except where Cast meets a value that does not fit, which ONNX leaves undefined.
    """

    @classmethod
    def is_compatible(cls, model: ModelProto, device: str = "CPU", **kwargs: Any) -> bool:
        """Whether `prepare` would take the model and the device."""
        _no_options("is_compatible", kwargs)
        try:
            where = _parse(device)
            check_model(model)
            if where.on_gpu:
                check_types(model, where)
        except (NotImplementedError, TypeError, ValueError):
            return False
        return cls.supports_device(device)

    @classmethod
    def prepare(cls, model: ModelProto, device: str = "CPU", **kwargs: Any) -> PreparedModel:
        """The model prepared for any number of runs.

        Raises NotImplementedError, naming all of them, for operators, types and tensors that the backend does not take;
        ValueError for an invalid model, data that is not loaded and an unknown device; TypeError for data types that a version or
        the device does not take, and for options, of which there are none; DeviceError for a GPU that cannot be used.
        """
        _no_options("prepare", kwargs)
        check_model(model)
        return PreparedModel(model, _parse(device))

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
        where = _parse(device)
        check_node(node, opset)
        names = dict.fromkeys(filter(None, node.input))
        adopted = adopt_inputs(name_inputs(inputs, names, ()), dict.fromkeys(names, NOTHING))
        values = [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
            for name, (array, _) in adopted.items()
        ]
        outputs = [onnx.ValueInfoProto(name=name) for name in node.output]
        graph = helper.make_graph([node], "node", values, outputs)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=onnx.IR_VERSION)
        return PreparedModel(model, where).run(inputs)

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


def _parse(device: str) -> Device:
    """The device of a name. TypeError for anything but a string, ValueError for another name."""
    if not isinstance(device, str):
        raise TypeError(f"device is of type {type(device).__name__}, expected a name: 'CPU', 'CUDA' or 'CUDA:N'")
    try:
        return Device.parse(device.lower().removesuffix(":0"))
    except ValueError:
        raise ValueError(
            f"device is {device!r}, expected 'CPU', 'CUDA', 'CUDA:N' (GPU number N, from 0) or 'REFERENCE'"
        ) from None


def _opset(options: dict[str, Any]) -> int:
    """The version of ONNX's own operators among the options, which are taken out of them."""
    imports = options.pop("opset_imports", {})
    pairs = imports.items() if isinstance(imports, Mapping) else [(entry.domain, entry.version) for entry in imports]
    opsets = [options.pop("opset_version", None), *(opset for domain, opset in pairs if domain in DOMAINS)]
    return next((int(opset) for opset in opsets if opset is not None), onnx.defs.onnx_opset_version())


def _no_options(method: str, options: Mapping[str, Any]) -> None:
    if options:
        raise TypeError(f"{method} has no option {', '.join(map(repr, options))}")
