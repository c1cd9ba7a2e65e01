"""What OpenVINO's runs of an IR show of its layers: types, sizes and values, and whether dmlgather computes the same bits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import dmlgather as dg
from dmlgather.dialects.checked_model import CheckedNode
from dmlgather.directml import FeatureLevel
from tests.dialects import binding
from tests.onnx import described
from tests.openvino.runtime import openvino
from tests.real_models.observing import FEW, Array, NodeRun, SeenCall, SeenTensor
from tests.real_models.stepping import Activation

ROLES: Mapping[str, tuple[str, ...]] = {
    "Gather": ("data", "indices", "axis"),
    "GatherElements": ("data", "indices"),
    "GatherND": ("data", "indices"),
    "Slice": ("data", "start", "stop", "step", "axes"),
    "StridedSlice": ("data", "begin", "end", "strides"),
}
"""The inputs of each operation."""

FUNCTIONS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "Gather": ("gather", ("batch_dims",)),
    "GatherElements": ("gather_elements", ("axis",)),
    "GatherND": ("gather_nd", ("batch_dims",)),
    "Slice": ("slice", ()),
    "StridedSlice": ("strided_slice", ("begin_mask", "end_mask", "new_axis_mask", "shrink_axis_mask", "ellipsis_mask")),
}
"""The function of each operation, and the attributes that it takes."""

VERSIONED = ("Gather", "GatherND")
"""Functions that are told the version."""


class NotConvertedError(Exception):
    """OpenVINO does not convert the model."""


def convert(path: Path, folder: Path) -> Path:
    """The IR of an ONNX model. NotConvertedError where OpenVINO cannot convert an operator in it."""
    target = folder / f"{path.stem}.xml"
    try:
        model = openvino.convert_model(str(path))
    except openvino.frontend.OpConversionFailure as error:
        raise NotConvertedError(str(error)) from None
    openvino.save_model(model, str(target), compress_to_fp16=False)
    return target


class LayerRuns:
    """All that runs of an IR show of the layers of its main graph that `nodes` names. Attributes as of `ModelRuns`."""

    def __init__(self, path: Path, nodes: Iterable[CheckedNode], levels: Sequence[FeatureLevel]) -> None:
        self.levels = levels
        self.nodes: list[NodeRun] = []
        self.sizes: dict[Activation, dict[str, int]] = {}
        self.executions = 0
        model = openvino.Core().read_model(str(path))
        operations = {each.get_friendly_name(): each for each in model.get_ops()}
        self._watched = [(node, operations[node.name]) for node in nodes if not node.graph and node.name in operations]
        self._inputs = [each.get_names() for each in model.inputs]
        self._places: dict[tuple[str, int], int] = {}
        results: list[Any] = []
        for _, operation in self._watched:
            for output in (*(each.get_source_output() for each in operation.inputs()), operation.output(0)):
                place = (output.get_node().get_friendly_name(), output.get_index())
                if output.get_node().get_type_name() != "Constant" and place not in self._places:
                    self._places[place] = len(model.outputs) + len(results)
                    results.append(openvino.opset13.result(output))
        model.add_results(results)
        self._run = openvino.Core().compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": 1})

    def run(self, feeds: Mapping[str, Array], sizes: Mapping[str, int] | None = None) -> None:
        """Run the model once more. sizes: of further tensors of the run, as "x[1]"."""
        activation = Activation()
        given = [next(feeds[name] for name in names if name in feeds) for names in self._inputs]
        own = {
            f"{name}[{axis}]": size
            for names, each in zip(self._inputs, given, strict=True)
            for name in names
            for axis, size in enumerate(each.shape)
        }
        self.sizes[activation] = {**(sizes or {}), **own}
        outputs = [np.array(each) for each in self._run(given).to_tuple()]
        for node, operation in self._watched:
            self.nodes.append(self._observed(node, operation, outputs, activation))

    def _observed(self, node: CheckedNode, operation: Any, outputs: Sequence[Array], activation: Activation) -> NodeRun:
        arrays: dict[str, Array] = {}
        types: dict[str, str] = {}
        sources = [each.get_source_output() for each in operation.inputs()]
        for role, source in (*zip(ROLES[node.operator], sources, strict=False), ("output", operation.output(0))):
            origin = source.get_node()
            constant = origin.get_type_name() == "Constant"
            arrays[role] = (
                np.array(origin.data) if constant else outputs[self._places[origin.get_friendly_name(), source.get_index()]]
            )
            types[role] = source.get_element_type().get_type_name()
        function, attributes = FUNCTIONS[node.operator]
        named = {name: value for name, value in operation.get_attributes().items() if name in attributes}
        if node.operator in VERSIONED:
            named["version"] = node.version
        expected = arrays["output"]
        given = [each for role, each in arrays.items() if role != "output"]
        forms, faults = self._exported(node, arrays, named, getattr(dg.openvino, function))
        for device in ("cpu", "reference")[: 2 if expected.size <= FEW else 1]:
            self.executions += 1
            found = getattr(dg.openvino, function)(*given, **named, device=device)
            if found.shape != expected.shape or found.dtype != expected.dtype or found.tobytes() != expected.tobytes():
                faults.append(f"its plan gives other bits than OpenVINO on {device}")
        return NodeRun(
            (node.graph, node.index),
            activation,
            {role: SeenTensor.of(types[role], each) for role, each in arrays.items()},
            {level: _refusals(node, arrays, named, level) for level in described.LEVELS},
            forms,
            tuple(faults),
        )

    def _exported(
        self, node: CheckedNode, arrays: Mapping[str, Array], named: Mapping[str, Any], function: Any
    ) -> tuple[dict[FeatureLevel, tuple[str, ...]], list[str]]:
        """The forms of a layer, by level, and what is wrong with them."""
        forms: dict[FeatureLevel, tuple[str, ...]] = {}
        faults: list[str] = []
        given: list[Any] = [each for role, each in arrays.items() if role != "output"]
        for level in self.levels:
            found: Any = function.to_directml(*given, **named, level=level)
            refusals = _refusals(node, arrays, named, level)
            if isinstance(found, dg.Report):
                if not refusals:
                    faults.append(f"to_directml refuses it at {level}; DirectML's documents take it")
                continue
            if refusals:
                faults.append(f"to_directml takes it at {level}; DirectML's documents call for {', '.join(refusals)}")
            descs = found if isinstance(found, tuple) else (found,)
            forms[level] = tuple(desc.operator.name for desc in descs)
            sizes = _indexed_sizes(node, arrays, named)
            if "indices" in arrays and not _in_range(arrays["indices"], sizes):
                continue  # where OpenVINO gives 0, and DirectML the nearest element
            self.executions += 1
            buffer = binding.run(
                descs, data=arrays["data"], indices=arrays.get("indices"), sizes=sizes, level=level, device="cpu"
            )
            if buffer[: arrays["output"].nbytes].tobytes() != arrays["output"].tobytes():
                faults.append(f"its descriptors at {level} give other bits than OpenVINO")
        return forms, faults


def _indexed_sizes(node: CheckedNode, arrays: Mapping[str, Array], named: Mapping[str, Any]) -> NDArray[np.int64]:
    """The size of the axis that each index counts along, or each component of a tuple."""
    shape = arrays["data"].shape
    if node.operator == "GatherND":
        batch = named.get("batch_dims", 0)
        return np.array(shape[batch : batch + arrays["indices"].shape[-1]], np.int64)
    axis = int(arrays["axis"].item()) if "axis" in arrays else named.get("axis", 0)
    return np.array(shape[axis] if shape else 1, np.int64)


def _in_range(indices: Array, sizes: NDArray[np.int64]) -> bool:
    return bool(((indices >= -sizes) & (indices < sizes)).all())


def _refusals(node: CheckedNode, arrays: Mapping[str, Array], named: Mapping[str, Any], level: FeatureLevel) -> set[str]:
    """The codes that DirectML's documents call for: of the ONNX node that does the same. Batches of Gather are GatherND's tuples,
    and slices are told apart by whether a step is negative.
    """
    data, output = arrays["data"], arrays["output"]
    if "indices" not in arrays:
        steps = arrays.get("step", arrays.get("strides", np.ones(0, np.int64)))
        axes = arrays.get("axes", np.arange(len(steps)))
        bounds = {"axes": axes, "steps": steps} if output.ndim == data.ndim else {"axes": (), "steps": ()}
        return described.refusals(SeenCall("Slice", 13, data, None, bounds, output), level)
    indices, batch = arrays["indices"], named.get("batch_dims", 0)
    operator = "GatherND" if node.operator == "Gather" and batch else node.operator
    attributes = {"batch_dims": batch} if operator == "GatherND" else {}
    if node.operator == "Gather" and batch:
        indices = indices[..., None]
    return described.refusals(SeenCall(operator, 13, data, indices, attributes, output), level)
