"""Running a graph on arrays: those of NumPy and tensors by the route for their signatures, all others after they are adopted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache, partial
from typing import Any

import numpy as np

from dmlgather import eager
from dmlgather.backends import arrays, torch_tensors
from dmlgather.backends.devices import CPU, Device
from dmlgather.backends.executor import ROUTES_KEPT
from dmlgather.backends.footprints import WRITEABLE, Signature, check_output, logical
from dmlgather.dialects.element_types import STRING_KINDS
from dmlgather.dialects.index_graph import IndexGraph
from dmlgather.dialects.problem import TensorType
from dmlgather.fusion.graph_routes import Compute, GraphCall, GraphParts, GraphRoute, Signatures, signature_of
from dmlgather.fusion.targets import Targets, check_type

_NDARRAY = np.ndarray
_NEW = GraphCall(np.empty)
_ON_THE_HOST = {None: CPU, "cpu": CPU, "reference": Device("reference")}


class GraphRunner:
    """Runs one graph. Its routes are made once for each device and signatures of arrays, and kept."""

    def __init__(self, graph: IndexGraph) -> None:
        self.graph, self._parts = graph, GraphParts(graph)
        self._route = lru_cache(ROUTES_KEPT)(partial(GraphRoute, self._parts))
        self._known = lru_cache(ROUTES_KEPT)(self._route_on_the_host)

    def run(
        self,
        given: Sequence[Any],
        out: Sequence[Any] = (),
        *,
        compute: Compute | None = None,
        device: str | None = None,
        stream: Any = None,
    ) -> list[Any]:
        """The graph's outputs, in order, which are the caller's own. given: an array for each input. out: nothing, or for each
        output an array or None.
        """
        found = self._at_once(given, out, compute, device) if stream is None else None
        return self._adopting(given, out, compute, device, stream) if found is None else found

    def _at_once(self, given: Sequence[Any], out: Sequence[Any], compute: Compute | None, device: str | None) -> list[Any] | None:
        """The outputs, where all arrays are NumPy's, or all inputs tensors in host memory. None for all others, and for what does
        not fit: adopting says why.
        """
        if device is not None and type(device) is not str:
            return None
        key: list[Any] = [device]
        for array in given:
            if type(array) is not _NDARRAY:
                return None if out else self._at_once_on_tensors(given, device)
            key.append((array.dtype, array.shape, array.strides, WRITEABLE))
        targets: dict[str, Any] = {}
        if out:
            for name, array in zip(self.graph.outputs, out, strict=True):
                if array is not None:
                    if type(array) is not _NDARRAY or not array.flags.writeable or name in targets:
                        return None
                    key.append((name, (array.dtype, array.shape, array.strides, WRITEABLE)))
                    targets[name] = array
        route = self._known(tuple(key))
        if route is None or (targets and not route.apart(given, targets.values())):
            return None
        values = dict(zip(self.graph.inputs, given, strict=True))
        if self.graph.constants:
            values |= self._parts.constants(CPU)
        found = route.run(_NEW if compute is None and not targets else GraphCall(_NEW.empty, compute, targets), values)
        if targets:
            for number, array in enumerate(out):
                if array is not None and array is not found[number]:
                    array[...] = found[number]
                    found[number] = array
        return [*map(_own, found)] if self._parts.has_opaque else found

    def _at_once_on_tensors(self, given: Sequence[Any], device: str | None) -> list[Any] | None:
        """The outputs as tensors, where all inputs are tensors in host memory; else None."""
        if self._parts.has_opaque:
            return None
        taken = [torch_tensors.host_view(tensor) for tensor in given]
        if any(array is None for array in taken):
            return None
        found = self._at_once(taken, (), None, device)
        return None if found is None else [torch_tensors.hand_back(array, given[0]) for array in found]

    def _route_on_the_host(self, key: tuple[Any, ...]) -> GraphRoute | None:
        """The route for a device and the signatures of arrays: of the inputs, then of what is written, with their names. None for
        arrays that do not fit, and for strings and objects.
        """
        types, count = self.graph.types, len(self.graph.inputs) + 1
        inputs: Signatures = tuple(zip(self.graph.inputs, key[1:count], strict=True))
        targets: Signatures = key[count:]
        for name, (dtype, shape, *_) in (*inputs, *targets):
            if TensorType(shape, dtype) != types[name] or dtype.hasobject or dtype.kind in STRING_KINDS:
                return None
        try:
            for tensor in types.values():
                arrays.check_size(tensor.shape, tensor.dtype)
            for name, signature in targets:
                check_output(logical(name, signature))
        except ValueError:
            return None
        device = _ON_THE_HOST.get(key[0])
        return None if device is None else self._route(device, inputs, targets)

    def _adopting(
        self, given: Sequence[Any], out: Sequence[Any], compute: Compute | None, device: str | None, stream: Any
    ) -> list[Any]:
        """The outputs, of arrays of every kind and place. Raises TypeError and ValueError for what does not fit."""
        with arrays.in_order((*given, *out), stream, None if device is None else Device.parse(device)):
            taken = eager.take(dict(zip(self.graph.inputs, given, strict=True)), device)
            for item in taken:
                check_type(item.name, item.type, self.graph.types[item.name])
            runs = taken[0].runs if taken else Device.parse(device or CPU)
            inputs = {item.name: item.array for item in taken}
            targets = Targets(self.graph, out or (None,) * len(self.graph.outputs), runs.memory, inputs)
            new = partial(arrays.allocate, runs.memory, like=taken[0].given if taken else None)
            route = self._route(runs, *(_signatures(runs, each) for each in (inputs, targets.direct)))
            with runs.current():
                results = route.run(GraphCall(new, compute, targets.direct), inputs | self._parts.constants(runs.memory))
            home = taken[0].home if taken else runs.memory
            found = []
            for number, result in enumerate(results):
                written = targets.returned(number, result)
                found.append(written if written is not None else _own(_handed_back(result, runs.memory, home, taken)))
            return found


def _signatures(runs: Device, found: Mapping[str, Any]) -> tuple[tuple[str, Signature], ...]:
    return () if runs.on_gpu else tuple((name, signature_of(array)) for name, array in found.items())


def _own(array: Any) -> Any:
    """An array that may be written: an opaque step may give one of NumPy's that may not."""
    return array.copy() if isinstance(array, np.ndarray) and not array.flags.writeable else array


def _handed_back(result: Any, memory: Device, home: Device, taken: Sequence[eager.Taken]) -> Any:
    """A result as the kind of array that the first input is; strings of the type that all inputs have."""
    found = arrays.move(result, memory, home)
    if not found.dtype.hasobject:
        return arrays.hand_back(found, taken[0].given) if taken else found
    types = {item.given.dtype for item in taken if item.array.dtype.hasobject}
    return found.astype(types.pop()) if len(types) == 1 else found
