"""An OpenVINO IR as an `IndexGraph`: what it does with indices, at stated sizes."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dmlgather.dialects.checked_model import Unknown
from dmlgather.dialects.graph_arrays import GraphArithmetic, GraphArray, OpaqueError
from dmlgather.dialects.graph_building import GraphBuilder
from dmlgather.dialects.index_graph import IndexGraph
from dmlgather.dialects.problem import TensorType, whole
from dmlgather.dialects.sizes import KEPT_ELEMENTS, Sizes
from dmlgather.openvino.model.constants import LARGEST, READ_TYPES, Weights, shape_of
from dmlgather.openvino.model.ir_layers import Layer, Port, PortKey, Shape, element_type, read_model
from dmlgather.openvino.model.ir_xml import IRError, read_xml
from dmlgather.openvino.model.layer_calls import MOST_DIMENSIONS, LayerCall, UnknownResultError
from dmlgather.openvino.model.layer_reading import FAMILY, attributes_of, ports_of, problem_of, version_of
from dmlgather.openvino.model.layer_table import LayerRow, evaluated, row_of
from dmlgather.openvino.model.translated_layer import TranslatedLayer, label, tensor_name
from dmlgather.openvino.problems.data_types import TYPES

Identity = tuple[str, Sequence[str], Hashable]
"""Operator, inputs and attributes."""


def identity(call: TranslatedLayer) -> Identity:
    """What an opaque step of the layer has: two that are equal compute the same."""
    layer, kind = call.layer, call.layer.type
    if not layer.opset.lower().startswith("opset"):
        return f"openvino.{layer.opset}.{kind}".lower(), call.inputs, tuple(sorted(layer.data.items()))
    attributes: tuple[Hashable, ...] = (("opset", layer.opset), *sorted(layer.data.items()))
    if layer.bodies or row_of(layer).changing:
        attributes = (*attributes, ("its own", object()))
    return f"openvino.{kind}".lower(), call.inputs, attributes


def shape_of_output(call: TranslatedLayer) -> tuple[int, ...] | None:
    """The shape of the output of a layer that follows from its inputs; None where it is not known here."""
    rule = row_of(call.layer).shape
    return rule(call) if rule is not None and call.types else None


CONSTANT_TYPES = (*READ_TYPES, "bf16", "f8e4m3", "f8e5m2", "f8e8m0")
"""The element types of constants that a graph holds: those of whole bytes."""


def index_graph(path: Path, inputs: Mapping[str, Any] | None = None) -> IndexGraph:
    """What the IR at `path`, with its .bin beside it, does with indices. What no Result needs is left
    out, as OpenVINO leaves it out when it reads the IR.

    inputs: shapes by name, or anything that has a shape, such as arrays: of the model's inputs, where it leaves their sizes open,
    and of other tensors, where these neither follow nor stand in the file. A tensor is known by all its names, else by its
    layer's.

    Layers of the family and views are problems; arithmetic on integers is `Elementwise`. What follows from constants and sizes
    alone is a constant. All other layers are opaque, If and loops as a whole.

    Raises FileError for a file that cannot be understood; ValueError for sizes that are not known and for names and shapes that
    contradict the model; TypeError and ValueError, naming the layer, for one that breaks a rule of its operator.
    """
    model = read_model(read_xml(path))
    if model.version is None:
        raise IRError("is a single layer: a graph needs the whole model")
    return _LayerTranslation(model.graph.layers, model.graph.sources, Weights(path.with_suffix(".bin")), inputs or {}).graph()


class _LayerTranslation:
    """The layers of an IR as steps."""

    def __init__(
        self,
        layers: Mapping[int, Layer],
        sources: Mapping[PortKey, tuple[Layer, Port]],
        weights: Weights,
        stated: Mapping[str, Any],
    ) -> None:
        self._layers, self._sources, self._weights = layers, sources, weights
        self._stated = {name: _stated(name, item) for name, item in stated.items()}
        self._builder = GraphBuilder()
        self._values: dict[PortKey, str] = {}

    def graph(self) -> IndexGraph:
        """See `index_graph`."""
        self._check_names()
        results = [layer for layer in self._layers.values() if layer.type == "Result"]
        if not results:
            raise IRError("has no Result, so nothing is computed")
        for layer in (layer for layer in self._layers.values() if layer.type == "Parameter"):
            self._parameter(layer)
        for layer in self._ordered(results):
            if layer.type not in ("Parameter", "Result"):
                with _naming(layer):
                    self._translate(layer)
        return self._builder.build([self._read(layer, layer.inputs[0]) for layer in results if layer.inputs]).needed()

    def _check_names(self) -> None:
        known = {name for layer in self._layers.values() for port in layer.outputs for name in _names(layer, port)}
        for name in self._stated:
            if name not in known:
                layers = (layer for layer in self._layers.values() if layer.type == "Parameter")
                own = ", ".join(repr(tensor_name(layer, layer.outputs[0])) for layer in layers if layer.outputs)
                raise ValueError(f"inputs names {name!r}, which the model does not have: its inputs are {own or 'none'}")

    def _ordered(self, results: list[Layer]) -> Iterator[Layer]:
        """The layers that the results need, each behind those that it reads. Chains may be longer than Python's stack."""
        done, entered = set[int | None](), set[int | None]()
        waiting = [*reversed(results)]
        while waiting:
            layer = waiting[-1]
            sources = [self._source(layer, port)[0] for port in layer.inputs] if layer.id not in entered else []
            if missing := [source for source in sources if source.id not in done]:
                entered.add(layer.id)
                for source in missing:
                    if source.id in entered:
                        raise IRError(f"{source} needs its own result", source.line)
                waiting += reversed(missing)
                continue
            waiting.pop()
            if layer.id not in done:
                done.add(layer.id)
                yield layer

    def _source(self, layer: Layer, port: Port) -> tuple[Layer, Port]:
        assert layer.id is not None, "it is a model's"
        if (layer.id, port.id) not in self._sources:
            raise IRError(f"input port {port.id} of {layer} is connected to no layer", layer.line)
        return self._sources[layer.id, port.id]

    def _read(self, layer: Layer, port: Port) -> str:
        """The value that an input port reads."""
        source, output = self._source(layer, port)
        assert source.id is not None, "an edge leads to it"
        return self._values[source.id, output.id]

    def _parameter(self, layer: Layer) -> None:
        if len(layer.outputs) != 1 or layer.id is None:
            raise IRError(f"{layer} has {len(layer.outputs)} output ports, expected 1", layer.line)
        (port,) = layer.outputs
        name = tensor_name(layer, port)
        kind = element_type(layer.data.get("element_type", "")) or port.type
        given = self._given(layer, port)
        declared = shape_of(layer, port.shape)
        shape = self._shape(name, given, declared)
        if shape is None:
            raise ValueError(
                f"the shape of input {name!r} is {_shown(declared)}, but a graph of indices has numbers only: state it, such as "
                f"inputs={{{name!r}: (1, 2)}}"
            )
        self._values[layer.id, port.id] = self._builder.input(name, TensorType(shape, _dtype(name, kind)))

    def _given(self, layer: Layer, port: Port) -> tuple[int, ...] | None:
        """The shape that the caller states of an output."""
        return next((self._stated[name] for name in _names(layer, port) if name in self._stated), None)

    @staticmethod
    def _shape(name: str, given: tuple[int, ...] | None, declared: Shape | None) -> tuple[int, ...] | None:
        """The sizes that are given, else those that are declared; None where they are not known. ValueError where they differ."""
        if given is None:
            sizes = tuple(size for size in declared or () if size is not None)
            return None if declared is None or len(sizes) < len(declared) else sizes
        if declared is not None and (
            len(declared) != len(given) or any(own not in (None, size) for own, size in zip(declared, given, strict=True))
        ):
            raise ValueError(f"inputs states {list(given)} for {name!r}, but the model says {_shown(declared)}")
        return given

    def _translate(self, layer: Layer) -> None:
        """Add the steps of a layer."""
        if layer.type == "Const":
            found: tuple[str, ...] = (self._constant(layer),)
        else:
            inputs = [self._read(layer, port) for port in layer.inputs]
            call = TranslatedLayer(layer, self._builder, inputs, [tensor_name(layer, port) for port in layer.outputs])
            found = self._folded(call) or steps_of(call) or self._opaque(call)
        for port, value in zip(layer.outputs, found, strict=True):
            assert layer.id is not None, "it is a model's"
            self._values[layer.id, port.id] = value

    def _constant(self, layer: Layer) -> str:
        value = self._weights.constant(layer, LARGEST, CONSTANT_TYPES)
        if isinstance(value, Unknown):
            raise ValueError(f"{value.reason} is not read: a graph of indices has numbers of whole bytes")
        return self._builder.constant(value, tensor_name(layer, layer.outputs[0]))

    def _folded(self, call: TranslatedLayer) -> tuple[str, ...] | None:
        """The outputs of a layer that follow from constants and shapes alone, as constants; None for others and large ones."""
        layer, row = call.layer, row_of(call.layer)
        if row.run is None:
            return None
        values: list[NDArray[Any]] = []
        for number, tensor in enumerate(call.types):
            value = np.array(tensor.shape, np.int64) if row.from_types else call.known(number)
            if value is None or value.size > KEPT_ELEMENTS or value.ndim > MOST_DIMENSIONS:
                return None
            values.append(value)
        if layer.type.startswith("Reduce") and not call.integers:  # the order of float additions is not OpenVINO's
            return None
        try:
            results = evaluated(row, LayerCall(layer, values, Sizes()))
        except UnknownResultError:
            return None
        return tuple(self._builder.constant(np.asarray(each), name) for each, name in zip(results, call.outputs, strict=True))

    def _opaque(self, call: TranslatedLayer) -> tuple[str, ...]:
        """Add the step of another operator."""
        types = []
        for number, port in enumerate(call.layer.outputs):
            name = call.outputs[number]
            inferred = shape_of_output(call) if number == 0 else None
            shape = self._shape(name, self._given(call.layer, port), port.shape if inferred is None else inferred)
            if shape is None:
                raise ValueError(
                    f"the shape of {name!r} does not follow from the file, which says {_shown(port.shape)}: state it, such as "
                    f"inputs={{{name!r}: (1, 2)}}"
                )
            types.append(TensorType(shape, _dtype(name, port.type)))
        operator, inputs, attributes = identity(call)
        return self._builder.opaque(call.name, operator, inputs, types, attributes=attributes, outputs=call.outputs)


def _names(layer: Layer, port: Port) -> list[str]:
    """All names of a layer's output."""
    return [*filter(None, port.names.split(",")), tensor_name(layer, port)]


def _stated(name: str, item: Any) -> tuple[int, ...]:
    """The shape that the caller states."""
    sizes = getattr(item, "shape", item)
    try:
        shape = tuple(whole("a size", size) for size in sizes)
    except TypeError:
        raise TypeError(f"inputs states {item!r} for {name!r}, expected a shape, or an array") from None
    if any(size < 0 for size in shape):
        raise ValueError(f"inputs states {list(shape)} for {name!r}, expected sizes of 0 or more")
    return shape


def _dtype(name: str, kind: str | None) -> np.dtype[Any]:
    if kind is None or kind not in TYPES.names or kind == "string":
        raise TypeError(
            f"{name!r} has type {kind}, but a graph of indices has numbers of whole bytes: {', '.join(CONSTANT_TYPES)}"
        )
    return TYPES.dtype_of(kind)


def _shown(shape: Shape | None) -> str:
    if shape is None:
        return "a scalar or of unknown rank, which the format writes alike"
    return f"[{', '.join('?' if size is None else str(size) for size in shape)}]"


@contextmanager
def _naming(layer: Layer) -> Iterator[None]:
    """Puts the layer before the message of an IndexError, TypeError or ValueError."""
    try:
        yield
    except (IndexError, TypeError, ValueError) as error:
        kind = next(kind for kind in (IndexError, TypeError, ValueError) if isinstance(error, kind))
        raise kind(f"{label(layer)}: {error}") from error


def steps_of(call: TranslatedLayer) -> tuple[str, ...] | None:
    """Add the steps of a layer to its graph: the names of the values that its outputs are; None, with nothing added, for a layer
    of another operator, and where what decides the shape of its result is not known.

    Raises TypeError and ValueError for a layer that breaks a rule of its operator.
    """
    if not call.layer.opset.lower().startswith("opset"):  # an extension's operator
        return None
    if call.layer.type in FAMILY:
        return _family(call)
    row = row_of(call.layer)
    if not row.steps:
        return None
    if row.step is not None:
        return row.step(call)
    return _computed(call, row) if row.moves == () else _moved(call, row)


def _family(call: TranslatedLayer) -> tuple[str, ...] | None:
    version = version_of(call.layer)
    roles = dict(zip(ports_of(call.layer, version)[0], range(len(call.inputs)), strict=True))
    bounds = {role: call.known(number) for role, number in roles.items() if role in version.bounds}
    if any(value is None for value in bounds.values()):
        return None
    types = {role: call.types[roles[role]] for role in version.arrays}
    problem = problem_of(version, types, bounds, attributes_of(call.layer, version))
    inputs = [call.inputs[roles[role]] for role in version.arrays]
    return (call.graph.problem(call.name, problem, *inputs, output=call.output),)


def _moved(call: TranslatedLayer, row: LayerRow) -> tuple[str, ...] | None:
    """The row on values of the graph; None where another input is not known."""
    assert row.run is not None, "it moves elements"
    inputs: list[Any] = []
    for number, name in enumerate(call.inputs):
        known = None if row.moves is None or number in row.moves else call.graph.known(name)
        inputs.append(GraphArray.of(call.graph, name) if known is None else known)
    try:
        found = row.run(LayerCall(call.layer, inputs, Sizes()))
    except UnknownResultError:
        return None
    if not isinstance(found, list):
        return (found.written(call.name, call.output),)
    return tuple(each.written(f"{call.name}: {name!r}", name) for name, each in zip(call.outputs, found, strict=True))


def _computed(call: TranslatedLayer, row: LayerRow) -> tuple[str, ...] | None:
    """The row on values of the graph; None for floating-point numbers, which a graph does not compute with."""
    if row.elements is None or not (call.broadcasts and (call.integers or row.any_type)):
        return None
    arithmetic = GraphArithmetic(call.graph, call.name, call.output, attributes=call.flags)
    try:
        return (arithmetic.written(row.elements(arithmetic, *call.inputs)),)
    except OpaqueError:
        return None
