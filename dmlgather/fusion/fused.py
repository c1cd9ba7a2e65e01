"""The result of fusing: the graph that is left, what each launch holds, and where it was cut."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property, lru_cache, partial
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlgather.backends import arrays, torch_tensors
from dmlgather.backends.adapter import CUPY
from dmlgather.backends.devices import CPU, Device
from dmlgather.backends.footprints import WRITEABLE, Signature, check_output, device_of, logical
from dmlgather.backends.prepared_call import CALLS_KEPT
from dmlgather.calls.arguments import Taken, check_type, take
from dmlgather.dialects.element_types import STRING_KINDS
from dmlgather.dialects.index_graph import IndexGraph
from dmlgather.dialects.problem import Problem, TensorType
from dmlgather.fusion.prepared_graph import (
    GraphCall,
    GraphParts,
    PreparedGraph,
    Signatures,
    Targets,
    signature_of,
    unlaunched,
)
from dmlgather.plan import BytesMoved, IndexPlan, bytes_moved, canonicalise
from dmlgather.wording import counted

if TYPE_CHECKING:
    from dmlgather.diagram.explanation import FusedExplanation


# Running a graph on arrays: those of NumPy, CuPy and PyTorch by what is prepared for their signatures, others are adopted first.

_NDARRAY = np.ndarray
_NEW = GraphCall(np.empty)
_ON_THE_HOST = {None: CPU, "cpu": CPU, "reference": Device("reference")}


class PreparedGraphs:
    """A graph, prepared for each device and signatures of arrays. It holds no runner, so that memory of a GPU goes with the last
    reference to that.
    """

    def __init__(self, parts: GraphParts) -> None:
        self.graph, self.of = parts.graph, lru_cache(CALLS_KEPT)(partial(PreparedGraph, parts))

    def on_a_gpu(self, *signatures: Signature | None) -> PreparedGraph | None:
        """The graph, prepared for arrays of CuPy on one GPU. None for arrays that do not fit."""
        types, inputs = self.graph.types, tuple(zip(self.graph.inputs, signatures, strict=True))
        for name, found in inputs:
            if found is None or found[3] < 0 or (found[1], found[0]) != (types[name].shape, types[name].dtype):
                return None
        places = {device_of(found) for found in signatures if found is not None}
        return None if len(places) > 1 else self.of(places.pop(), inputs, ())

    def on_the_host(self, key: tuple[Any, ...]) -> PreparedGraph | None:
        """The graph, prepared for a device and signatures of arrays: of the inputs, then of what is written, with names. None for
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
        return None if device is None else self.of(device, inputs, targets)


class GraphRunner:
    """Runs one graph, which is prepared once for each device and signatures of arrays."""

    def __init__(self, graph: IndexGraph) -> None:
        self.graph, self._parts = graph, GraphParts(graph)
        prepared = PreparedGraphs(self._parts)
        self._prepared = prepared.of
        self._known = lru_cache(CALLS_KEPT)(prepared.on_the_host)
        self._known_on_a_gpu = lru_cache(CALLS_KEPT)(prepared.on_a_gpu)

    def run(
        self,
        given: Sequence[Any],
        out: Sequence[Any] = (),
        *,
        device: str | None = None,
        stream: Any = None,
        named: bool = False,
    ) -> list[Any]:
        """The graph's outputs, in order, which are the caller's own. given: an array for each input. out: nothing, or for each
        output an array or None. named: whether the caller gave them by the names of values, as messages then have them.
        """
        found = self._at_once(given, out, device) if stream is None else None
        return self._adopting(given, out, device, stream, named) if found is None else found

    def _at_once(self, given: Sequence[Any], out: Sequence[Any], device: str | None) -> list[Any] | None:
        """The outputs, where all arrays are NumPy's, all inputs tensors in host memory, or all inputs CuPy's on one GPU. None for
        all others, and for what does not fit: adopting says why.
        """
        if device is not None and type(device) is not str:
            return None
        key: list[Any] = [device]
        for array in given:
            if type(array) is not _NDARRAY:
                return None if out else self._at_once_elsewhere(given, device)
            key.append((array.dtype, array.shape, array.strides, WRITEABLE))
        targets: dict[str, Any] = {}
        if out:
            for name, array in zip(self.graph.outputs, out, strict=True):
                if array is not None:
                    if type(array) is not _NDARRAY or not array.flags.writeable or name in targets:
                        return None
                    key.append((name, (array.dtype, array.shape, array.strides, WRITEABLE)))
                    targets[name] = array
        ready = self._known(tuple(key))
        if ready is None or (targets and not ready.apart(given, targets.values())):
            return None
        values = dict(zip(self.graph.inputs, given, strict=True))
        if self.graph.constants:
            values |= self._parts.constants(CPU)
        found = ready.run(GraphCall(_NEW.empty, targets) if targets else _NEW, values)
        if targets:
            for number, array in enumerate(out):
                if array is not None and array is not found[number]:
                    array[...] = found[number]
                    found[number] = array
        return found

    def _at_once_elsewhere(self, given: Sequence[Any], device: str | None) -> list[Any] | None:
        """The outputs, of the library of the inputs: tensors in host memory, or CuPy's arrays on one GPU; else None."""
        if arrays.signed_by(type(given[0])) is CUPY:
            return None if device is not None else self._at_once_on_a_gpu(given)
        taken = [torch_tensors.host_view(tensor) for tensor in given]
        if any(array is None for array in taken):
            return None
        found = self._at_once(taken, (), device)
        return None if found is None else [torch_tensors.TORCH.hand_back(array, given[0]) for array in found]

    def _at_once_on_a_gpu(self, given: Sequence[Any]) -> list[Any] | None:
        """The outputs, where all inputs are CuPy's on one GPU and fit; on CuPy's current stream."""
        ready = self._known_on_a_gpu(*arrays.view_signatures(given))
        if ready is None:
            return None
        runs, values = ready.device, dict(zip(self.graph.inputs, given, strict=True))
        if self.graph.constants:
            values |= self._parts.constants(runs)
        with runs.current():
            return ready.run(GraphCall(type(given[0])), values)

    def _adopting(self, given: Sequence[Any], out: Sequence[Any], device: str | None, stream: Any, named: bool) -> list[Any]:
        """The outputs, of arrays of every kind and place. Raises TypeError and ValueError for what does not fit."""
        where = None if device is None else Device.parse(device)
        with arrays.in_order((*given, *out), stream, where):
            shown = str if named or not self._labelled else self.graph.label
            taken = take(dict(zip(map(shown, self.graph.inputs), given, strict=True)), where)
            for name, item in zip(self.graph.inputs, taken, strict=True):
                check_type(item.name, item.type, self.graph.types[name])
            runs = taken[0].runs if taken else Device.parse(device or CPU)
            inputs = {name: item.array for name, item in zip(self.graph.inputs, taken, strict=True)}
            targets = Targets(self.graph, out or (None,) * len(self.graph.outputs), runs.memory, inputs, shown)
            new = partial(arrays.allocate, runs.memory, like=taken[0].given if taken else None)
            ready = self._prepared(runs, *(_signatures(runs, each) for each in (inputs, targets.direct)))
            with runs.current():
                results = ready.run(GraphCall(new, targets.direct), inputs | self._parts.constants(runs.memory))
            home = taken[0].home if taken else runs.memory
            found = []
            for number, result in enumerate(results):
                written = targets.returned(number, result)
                found.append(written if written is not None else _handed_back(result, runs.memory, home, taken))
            return found

    @cached_property
    def _labelled(self) -> bool:
        """Whether the inputs can be told apart by what users know them by."""
        return len({*map(self.graph.label, self.graph.inputs)}) == len(self.graph.inputs)


def _signatures(runs: Device, found: Mapping[str, Any]) -> tuple[tuple[str, Signature], ...]:
    return () if runs.on_gpu else tuple((name, signature_of(array)) for name, array in found.items())


def _handed_back(result: Any, memory: Device, home: Device, taken: Sequence[Taken]) -> Any:
    """A result as the kind of array that the first input is; strings of the type that all inputs have."""
    found = arrays.move(result, memory, home)
    if not found.dtype.hasobject:
        return arrays.hand_back(found, taken[0].given) if taken else found
    types = {item.given.dtype for item in taken if item.array.dtype.hasobject}
    return found.astype(types.pop()) if len(types) == 1 else found


@dataclass(frozen=True, slots=True)
class FusedLaunch:
    """One launch. step: its name in the fused graph; holds: the names of the steps that it does, in order. plan: over packed
    arrays, in canonical form.
    """

    step: str
    holds: tuple[str, ...]
    plan: IndexPlan
    bytes: BytesMoved


@dataclass(frozen=True, slots=True)
class Cut:
    """Two steps that stay apart: what `maker` writes exists in memory, and `reader` reads it.

    code: the reason in few words, one of docs/fusing.md. reason: what holds here.
    """

    maker: str
    reader: str
    code: str
    reason: str


@dataclass(frozen=True)
class Fused:
    """A graph after fusing, which can be run. `fuse` makes it.

    graph: the fused graph, whose outputs are those of the program, then the values that are kept. source: the graph before,
    without steps that nothing needs. kept: the names of the values that are kept.

    >>> from dmlgather.dialects.problem import TensorType
    >>> from dmlgather.dialects.views import SliceView, TransposeView, Window
    >>> image, turned = TensorType((2, 3), np.dtype("uint8")), TensorType((3, 2), np.dtype("uint8"))
    >>> print(dg.fuse([TransposeView(image, (1, 0)), SliceView(turned, (Window(0, 2, 1), Window(0, 2, 1)))]))
    2 steps in 1 launch, 8 bytes moved, 12 saved
    launch          steps it does                       bytes  cut from
    step 1 (slice)  step 0 (transpose), step 1 (slice)      8
    """

    graph: IndexGraph
    source: IndexGraph
    cuts: tuple[Cut, ...]
    kept: tuple[str, ...] = ()

    def __reduce__(self) -> tuple[Any, ...]:
        return Fused, (self.graph, self.source, self.cuts, self.kept)  # prepared programs are prepared again

    @cached_property
    def launches(self) -> tuple[FusedLaunch, ...]:
        """The launches of one run, in order."""
        return tuple(_launches(self.graph))

    @cached_property
    def bytes_moved(self) -> int:
        """Bytes that one run reads and writes."""
        return _bytes(self.graph)

    @cached_property
    def bytes_saved(self) -> int:
        """Bytes that the steps one by one would read and write more."""
        return _bytes(self.source) - self.bytes_moved

    def __call__(self, *arrays: Any, out: Any = None, device: str | None = None, stream: Any = None) -> Any:
        """Run on the graph's inputs, in order: arrays of NumPy, CuPy or any library with DLPack. Returns the output, of the first
        input's kind, or a tuple of several.

        out: an array to write, or one for each output of several. device: "cpu", "cuda", "cuda:N" or "reference"; None for where
        the arrays lie. stream: as of a compiled operator. Raises as `run`.
        """
        names = self.graph.inputs
        if len(arrays) != len(names):
            raise TypeError(f"the graph takes {counted(len(names), 'array')} ({', '.join(names)}), got {len(arrays)}")
        count, targets = len(self.graph.outputs) - len(self.kept), tuple[Any, ...]()
        if out is not None:
            if count != 1 and not isinstance(out, list | tuple):
                outputs = counted(count, "output")
                raise TypeError(f"out is of type {type(out).__name__}, but the graph has {outputs}: expected a list of arrays")
            targets = (out,) if count == 1 else (*out,)
            if len(targets) != count:
                raise ValueError(f"out has {counted(len(targets), 'array')}, but the graph has {counted(count, 'output')}")
            targets += (None,) * len(self.kept)
        results = self._run(arrays, targets, device, stream)
        return results[0] if count == 1 else tuple(results[:count])

    def run(
        self,
        values: Mapping[str, Any],
        *,
        out: Mapping[str, Any] | None = None,
        device: str | None = None,
        stream: Any = None,
    ) -> dict[str, Any]:
        """The outputs, and the values that are kept, by name. values: the inputs, by name.

        out: arrays to write, by the names of outputs. device, stream: as of a call.

        Raises TypeError for arrays of another data type or on several devices, for what is no mapping, for a name that is
        missing, and for a stream on the CPU; ValueError for another shape, and an `out` that overlaps an input; IndexError for a
        bad index under RAISE, as the step would that looks it up, and DeviceError for no usable GPU.
        """
        inputs, places, targets = self.graph.inputs, self._places, list[Any]()
        _check_mapping("values", values, inputs)
        if out is not None:
            _check_mapping("out", out, [*places])
        if values.keys() != self._names:
            raise TypeError(f"values has {sorted(values, key=str)}, but the graph takes {sorted(inputs)}")
        if out:
            if unknown := {*out}.difference(places):
                raise TypeError(f"out has {sorted(unknown, key=str)}, but the graph's outputs are {sorted(places)}")
            targets = [None] * len(self.graph.outputs)
            for name, array in out.items():
                targets[places[name]] = array
        found = self._run([values[name] for name in inputs], targets, device, stream, named=True)
        return {name: found[place] for name, place in places.items()}

    def explain(self) -> FusedExplanation:
        """Each launch with its plan, canonical plan, what each device runs, and a picture; with what was cut and saved."""
        from dmlgather.diagram.explanation import FusedExplanation, explain_problem

        problems = {step.name: step.work for step in self.graph.steps if isinstance(step.work, Problem)}
        found = [explain_problem(problems[each.step], f"one launch for {', '.join(each.holds)}", "") for each in self.launches]
        return FusedExplanation(str(self), self.to_json(), tuple(found))

    def to_json(self) -> dict[str, Any]:
        """As JSON-able data."""
        return {
            "steps": len(self.source.steps),
            "launches": [
                {
                    "step": launch.step,
                    "holds": list(launch.holds),
                    "plan": str(launch.plan),
                    "bytes": {**asdict(launch.bytes), "total": launch.bytes.total},
                }
                for launch in self.launches
            ],
            "cuts": [asdict(cut) for cut in self.cuts],
            "bytes_moved": self.bytes_moved,
            "bytes_saved": self.bytes_saved,
        }

    def __str__(self) -> str:
        rows = [("launch", "steps it does", "bytes", "cut from")]
        for launch in self.launches:
            cuts = [f"{cut.maker} ({cut.code})" for cut in self.cuts if cut.reader in launch.holds]
            rows.append((launch.step, ", ".join(launch.holds), str(launch.bytes.total), ", ".join(cuts)))
        widths = [max(len(row[column]) for row in rows) for column in range(3)]
        table = [f"{a:<{widths[0]}}  {b:<{widths[1]}}  {c:>{widths[2]}}  {d}".rstrip() for a, b, c, d in rows]
        steps, launches = counted(len(self.source.steps), "step"), counted(len(self.launches), "launch")
        head = f"{steps} in {launches}, {self.bytes_moved} bytes moved, {self.bytes_saved} saved"
        reasons = [f"{cut.reader} is cut from {cut.maker}: {cut.reason}" for cut in self.cuts]
        return "\n".join((head, *(table if self.launches else ()), *reasons))

    def _run(
        self, given: Sequence[Any], out: Sequence[Any], device: str | None, stream: Any, *, named: bool = False
    ) -> list[Any]:
        try:
            return self._runner.run(given, out, device=device, stream=stream, named=named)
        except IndexError as error:
            if all(len(launch.holds) == 1 for launch in self.launches):
                raise
            bad = error
        # A step on its own says best which of its indices is bad, and steps one by one, which step is the first.
        self._unfused.run(given, device=device, stream=stream)
        raise bad

    @cached_property
    def _runner(self) -> GraphRunner:
        return GraphRunner(self.graph)

    @cached_property
    def _unfused(self) -> GraphRunner:
        return GraphRunner(self.source)

    @cached_property
    def _names(self) -> frozenset[str]:
        return frozenset(self.graph.inputs)

    @cached_property
    def _places(self) -> dict[str, int]:
        """The first place of each output among the outputs."""
        return {name: self.graph.outputs.index(name) for name in self.graph.outputs}


def _check_mapping(argument: str, given: object, names: Sequence[str]) -> None:
    """TypeError for anything but a mapping. names: those that it may have."""
    if type(given) is not dict and not isinstance(given, Mapping):
        example = names[0] if names else "name"
        text = (
            f"{argument} is of type {type(given).__name__}, expected a mapping from names to arrays, such as {{{example!r}: …}}"
        )
        raise TypeError(f"{text}; called as a function, the graph takes arrays in order")


def _launches(graph: IndexGraph) -> Iterator[FusedLaunch]:
    without = unlaunched(graph)
    for step in graph.steps:
        if isinstance(step.work, Problem) and step.name not in without:
            plan = canonicalise(step.work.plan())
            yield FusedLaunch(step.name, step.work.holds or (step.name,), plan, bytes_moved(plan))


def _bytes(graph: IndexGraph) -> int:
    """What one run reads and writes."""

    def size(name: str) -> int:
        tensor = graph.types[name]
        return prod(tensor.shape) * tensor.dtype.itemsize

    without = unlaunched(graph)
    others = (step for step in graph.steps if not isinstance(step.work, Problem) and step.name not in without)
    return sum(launch.bytes.total for launch in _launches(graph)) + sum(
        size(name) for step in others for name in (*step.inputs, *step.outputs)
    )
