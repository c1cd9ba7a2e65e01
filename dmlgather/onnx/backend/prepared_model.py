"""A model that is ready to run: as a fused graph, made for the types of a run's inputs, which have to fit the declared ones."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import replace
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
import onnx.backend.base
from numpy.typing import NDArray
from onnx import ModelProto, numpy_helper

from dmlgather.backends import arrays
from dmlgather.backends.arrays import adopt
from dmlgather.backends.cuda import require
from dmlgather.backends.devices import CPU, Device
from dmlgather.dialects.element_types import STRING_KINDS
from dmlgather.dialects.index_graph import IndexGraph
from dmlgather.fusion import fuse
from dmlgather.fusion.fused import GraphRunner
from dmlgather.fusion.graph_routes import Compute
from dmlgather.onnx.backend.supported_nodes import check_on, check_types, compute, deciding
from dmlgather.onnx.model.index_graph import translated
from dmlgather.onnx.model.partial_types import PartialType, type_of_value
from dmlgather.onnx.model.stated_types import check_fits
from dmlgather.onnx.problems.data_types import STRING, type_name
from dmlgather.wording import counted

RUNS_KEPT = 32
"""Fused graphs of a model that are kept (least recently used leave first)."""

LONG = 1024
"""Bytes of an array from which on a digest of it is kept in its place."""


class _Ready(NamedTuple):
    """A model at the sizes of a run's inputs. inputs: the names of those that it reads. constants: what it reads behind them.
    compute: does its opaque steps.
    """

    source: IndexGraph
    runner: GraphRunner
    inputs: tuple[str, ...]
    constants: tuple[Any, ...]
    compute: Compute


class PreparedModel(onnx.backend.base.BackendRep):
    """A model on a device. Threads may share it.

    It runs as a fused graph, made for the types of a run's inputs, and for the elements of those that decide shapes, and kept.
    """

    def __init__(self, model: ModelProto, device: Device) -> None:
        if device.on_gpu:
            require(device.index)
            check_types(model, device)
        self._model, self._device, self._runs_on = ModelProto(), device, str(device)
        self._model.CopyFrom(model)
        self._inputs = {value.name: type_of_value(value) for value in model.graph.input}
        self._defaults = {tensor.name: tensor for tensor in self._model.graph.initializer if tensor.name in self._inputs}
        # Before IR version 4, an initializer was always an input too, and graphs take such inputs for constants.
        self._deciding = deciding(model) | (self._defaults.keys() if model.ir_version < 4 else set())
        self._constants: dict[str, tuple[NDArray[Any], Any]] = {}
        required = [name for name in self._inputs if name not in self._defaults]
        self._names = {len(required): required, len(self._inputs): list(self._inputs)}
        self._declared = [(value.name, type_of_value(value)) for value in model.graph.output]
        self._outputs = onnx.backend.base.namedtupledict("Outputs", [name for name, _ in self._declared])
        self._kept: OrderedDict[Hashable, _Ready] = OrderedDict()
        self._lock = Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        return PreparedModel, (self._model, self._device)  # fused graphs are made again

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Any, ...]:
        """The outputs: a tuple, which can be indexed by name as well.

        inputs: arrays in the order of the model's inputs, with or without those that have a default; or arrays by name. They may
        be NumPy or CuPy arrays or anything with `__dlpack__`; outputs are the same kind of array as the first input and share no
        memory with any input. On a GPU, inputs are copied there once, and tensors whose values decide a shape (bounds of Slice,
        axes, shapes) are copied back to the host.

        Raises TypeError and ValueError for inputs that contradict the model; and, naming the node, IndexError for a bad index,
        TypeError and ValueError for inputs that break a rule of an operator. NotImplementedError for an operator that only the
        types and values of these inputs show to be one that the backend does not run.
        """
        if kwargs:
            raise TypeError(f"run has no option {', '.join(map(repr, kwargs))}")
        named = None if self._device.on_gpu else self._plain(inputs)
        ready = None if named is None else self._made_for(self._key(named))
        if named is not None and ready is not None:
            return self._outputs(*self._results(ready, [named[name] for name in ready.inputs]))
        given = inputs.values() if isinstance(inputs, Mapping) else inputs if isinstance(inputs, list | tuple) else ()
        with self._device.current(), arrays.in_order([*given]):
            return self._outputs(*self._adopting(inputs))

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

    def _key(self, given: Mapping[str, Any]) -> Hashable:
        """What a fused graph is made for. given: arrays, on the host those that decide shapes."""
        key: list[Hashable] = []
        for name, array in given.items():
            key += (name, array.dtype, array.shape)
            if name in self._deciding:
                key.append(_content(array))
        return tuple(key)

    def _made_for(self, key: Hashable) -> _Ready | None:
        """The graph that was made for a key, where it is kept."""
        with self._lock:
            ready = self._kept.get(key)
            if ready is not None:
                self._kept.move_to_end(key)
            return ready

    def _adopting(self, inputs: Any) -> list[Any]:
        """The outputs, of arrays of every kind and place; the first run of these types."""
        named = name_inputs(inputs, self._inputs, self._defaults)
        adopted = adopt_inputs(named, self._inputs)
        if self._device.on_gpu:
            check_on(self._device, ((repr(name), array.dtype) for name, (array, _) in adopted.items()))
        given = {name: arrays.move(*found, CPU) if name in self._deciding else found[0] for name, found in adopted.items()}
        key = self._key(given)
        ready = self._made_for(key)
        if ready is None:
            ready = self._made(given)
            with self._lock:
                self._kept[key] = ready
                if len(self._kept) > RUNS_KEPT:
                    self._kept.popitem(last=False)
        results = self._results(ready, [adopted[name][0] for name in ready.inputs])
        like, home = next(((named[name], device) for name, (_, device) in adopted.items()), (None, CPU))
        return [_as_kind_of(result, like, home) for result in results]

    def _made(self, given: Mapping[str, Any]) -> _Ready:
        """The model's graph, fused, for inputs of these types. TypeError and ValueError where one breaks a rule of a node."""
        known = {name: tensor for name, tensor in self._defaults.items() if name not in given}
        known |= {name: numpy_helper.from_array(given[name], name) for name in given if name in self._deciding}
        source = translated(self._model, {name: array for name, array in given.items() if name not in known}, known)
        for (name, declared), value in zip(self._declared, source.outputs, strict=True):
            dtype = source.types[value].dtype
            if declared.dtype not in {None, dtype}:
                raise TypeError(f"output {name!r} has type {type_name(dtype)}, but the model declares {declared}")
        graph = fuse(source).graph
        read = {name for step in (*source.steps, *graph.steps) for name in step.inputs} | {*graph.outputs}
        inputs, constants = (tuple(name for name in names if name in read) for names in (graph.inputs, graph.constants))
        held = tuple(self._constant(name, graph.constants[name]) for name in constants)
        runner = GraphRunner(replace(graph, inputs=(*inputs, *constants), constants={}))
        return _Ready(source, runner, inputs, held, compute(source))

    def _constant(self, name: str, array: NDArray[Any]) -> Any:
        """A constant in the memory of the device: one array for all graphs that have it."""
        first, moved = self._constants.get(name, (None, None))
        if first is None or (first.dtype, first.shape) != (array.dtype, array.shape) or _content(first) != _content(array):
            check_on(self._device, [(f"constant {name!r}", array.dtype)])
            moved = arrays.move(np.asarray(array, order="C"), CPU, self._device.memory)
            self._constants.setdefault(name, (array, moved))
        return moved

    def _results(self, ready: _Ready, given: Sequence[Any]) -> list[Any]:
        """The outputs, which are the caller's own. IndexError, naming the node, for a bad index."""
        try:
            found = ready.runner.run([*given, *ready.constants], compute=ready.compute, device=self._runs_on)
        except IndexError:
            self._one_by_one(ready, dict(zip(ready.inputs, given, strict=True)))
            raise
        return [array if array.flags.c_contiguous else array.copy() for array in found]

    def _one_by_one(self, ready: _Ready, values: dict[str, Any]) -> None:
        """Run the nodes in order, and name the one that raises an IndexError."""
        graph = ready.source
        values |= {name: arrays.move(np.asarray(array), CPU, self._device.memory) for name, array in graph.constants.items()}
        for step in graph.steps:
            names = tuple(dict.fromkeys(step.inputs))
            alone = replace(graph, inputs=names, outputs=step.outputs, steps=(step,), constants={}, unread=(), labels={})
            try:
                found = GraphRunner(alone).run([values[name] for name in names], compute=ready.compute, device=self._runs_on)
            except IndexError as error:
                raise IndexError(f"{step.name}: {error}") from None
            values |= dict(zip(step.outputs, found, strict=True))


def _content(array: NDArray[Any]) -> Hashable:
    """The elements of an array, or a digest of them."""
    content = repr(array.tolist()).encode() if array.dtype.hasobject else array.tobytes()
    return content if len(content) < LONG else hashlib.sha256(content).digest()


def _as_kind_of(result: Any, like: Any, home: Device) -> Any:
    """A result as the kind of array that the first input is, where that lies; strings stay objects on the host."""
    if result.dtype.hasobject:
        return result
    moved = arrays.move(*arrays.adopt(result), home)
    return moved if like is None or isinstance(like, np.generic) else arrays.hand_back(moved, like)


def adopt_inputs(named: Mapping[str, Any], inputs: Mapping[str, PartialType]) -> dict[str, tuple[Any, Device]]:
    """The NumPy or CuPy array of each input in `named`, and its device. Strings become objects.

    Raises TypeError for a wrong data type or no array, ValueError for shapes that contradict the model or each other.
    """
    adopted, symbols = {name: _adopted(name, array) for name, array in named.items()}, dict[str, tuple[int, str]]()
    for name, (array, _) in adopted.items():
        check_fits(name, array, inputs[name], symbols)
    return adopted


def name_inputs(given: Any, inputs: Collection[str], constants: Collection[str]) -> dict[str, Any]:
    """The arrays by the inputs' names, in the model's order.

    given: arrays in the order of all inputs, or of those without a default among the constants; or arrays by name. Raises
    TypeError for anything else, ValueError for missing and surplus ones.
    """
    required = [name for name in inputs if name not in constants]
    if isinstance(given, Mapping):
        missing, unknown = [name for name in required if name not in given], [name for name in given if name not in inputs]
        if missing or unknown:
            raise ValueError(f"the inputs are {_listed(inputs)}; missing: {_listed(missing)}; unknown: {_listed(unknown)}")
        return {name: given[name] for name in inputs if name in given}
    if not isinstance(given, list | tuple):
        raise TypeError(f"inputs is of type {type(given).__name__}, expected a list of arrays, or a dict of arrays by name")
    for names in (list(inputs), required):
        if len(given) == len(names):
            return dict(zip(names, given, strict=True))
    without = f"; {_listed(required)} have no default" if len(required) < len(inputs) else ""
    raise ValueError(f"the model has {counted(len(inputs), 'input')} ({_listed(inputs)}{without}), and {len(given)} were given")


def _listed(names: Collection[str]) -> str:
    return ", ".join(map(repr, names)) or "none"


def _adopted(name: str, given: Any) -> tuple[Any, Device]:
    try:
        array, device = (np.asarray(given), CPU) if isinstance(given, np.generic) else adopt(given)
    except TypeError as error:
        raise TypeError(f"input {name!r}: {error}") from None
    return (array.astype(STRING, copy=False) if array.dtype.kind in STRING_KINDS else array), device
