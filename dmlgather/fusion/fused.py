"""The result of `fuse`: the fused graph, the steps that each launch executes, and the reasons why some steps are not fused."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
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
from dmlgather.fusion.prepared_graph import GraphCall, GraphParts, PreparedGraph, Signatures, Targets, signature_of, unlaunched
from dmlgather.plan import BytesMoved, IndexPlan, bytes_moved, canonicalise
from dmlgather.wording import counted

if TYPE_CHECKING:
    from dmlgather.diagram.explanation import FusedExplanation


_NDARRAY = np.ndarray
_NEW = GraphCall(np.empty)
_HOST_DEVICES = {None: CPU, "cpu": CPU, "reference": Device("reference")}


def _prepared_on_a_gpu(
    graph: IndexGraph, prepared: Callable[..., PreparedGraph], *signatures: Signature | None
) -> PreparedGraph | None:
    types, inputs = graph.types, tuple(zip(graph.inputs, signatures, strict=True))
    for name, signature in inputs:
        if signature is None or signature[3] < 0 or (signature[1], signature[0]) != (types[name].shape, types[name].dtype):
            return None
    devices = {device_of(signature) for signature in signatures if signature is not None}
    return None if len(devices) > 1 else prepared(devices.pop(), inputs, ())


def _prepared_on_the_host(
    graph: IndexGraph, prepared: Callable[..., PreparedGraph], key: tuple[Any, ...]
) -> PreparedGraph | None:
    """Return the graph prepared for arrays in host memory, or None if it cannot run on these arrays.

    `key`: the device, the signature of each input, and a pair (name, signature) for each output array of the caller.
    """
    types, count = graph.types, len(graph.inputs) + 1
    inputs: Signatures = tuple(zip(graph.inputs, key[1:count], strict=True))
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
    device = _HOST_DEVICES.get(key[0])
    return None if device is None else prepared(device, inputs, targets)


class GraphRunner:
    """A graph that runs on arrays. It caches its prepared forms by the signatures of the arrays."""

    def __init__(self, graph: IndexGraph) -> None:
        self.graph, self._parts = graph, GraphParts(graph)
        # The caches must not refer to this object, because a cycle would keep GPU memory until the garbage collector runs.
        self._prepared = lru_cache(CALLS_KEPT)(partial(PreparedGraph, self._parts))
        self._prepared_on_the_host = lru_cache(CALLS_KEPT)(partial(_prepared_on_the_host, graph, self._prepared))
        self._prepared_on_a_gpu = lru_cache(CALLS_KEPT)(partial(_prepared_on_a_gpu, graph, self._prepared))

    def run(
        self,
        inputs: Sequence[Any],
        out: Sequence[Any] = (),
        *,
        device: str | None = None,
        stream: Any = None,
        named: bool = False,
    ) -> list[Any]:
        """Return the graph's outputs.

        `out`: an array or None for each output; or empty, for new arrays.
        `named`: True if messages show names of inputs, False if they show labels (`IndexGraph.labels`).
        """
        outputs = self._run_fast(inputs, out, device) if stream is None else None
        return self._run_adopted(inputs, out, device, stream, named) if outputs is None else outputs

    def _run_fast(self, inputs: Sequence[Any], out: Sequence[Any], device: str | None) -> list[Any] | None:
        """Return the outputs of a call whose arrays can be used as they are.

        Returns None if the arrays must be converted or moved first, or if the call must raise an error.
        """
        if device is not None and type(device) is not str:
            return None
        key: list[Any] = [device]
        for array in inputs:
            if type(array) is not _NDARRAY:
                return None if out else self._run_fast_elsewhere(inputs, device)
            key.append((array.dtype, array.shape, array.strides, WRITEABLE))
        targets: dict[str, Any] = {}
        if out:
            for name, array in zip(self.graph.outputs, out, strict=True):
                if array is not None:
                    if type(array) is not _NDARRAY or not array.flags.writeable or name in targets:
                        return None
                    key.append((name, (array.dtype, array.shape, array.strides, WRITEABLE)))
                    targets[name] = array
        prepared = self._prepared_on_the_host(tuple(key))
        if prepared is None or (targets and not prepared.apart(inputs, targets.values())):
            return None
        values = dict(zip(self.graph.inputs, inputs, strict=True))
        if self.graph.constants:
            values |= self._parts.constants(CPU)
        outputs = prepared.run(GraphCall(_NEW.empty, targets) if targets else _NEW, values)
        if targets:
            for number, array in enumerate(out):
                if array is not None and array is not outputs[number]:
                    array[...] = outputs[number]
                    outputs[number] = array
        return outputs

    def _run_fast_elsewhere(self, inputs: Sequence[Any], device: str | None) -> list[Any] | None:
        if arrays.signed_by(type(inputs[0])) is CUPY:
            return None if device is not None else self._run_fast_on_a_gpu(inputs)
        views = [torch_tensors.host_view(tensor) for tensor in inputs]
        if any(view is None for view in views):
            return None
        outputs = self._run_fast(views, (), device)
        return None if outputs is None else [torch_tensors.TORCH.hand_back(array, inputs[0]) for array in outputs]

    def _run_fast_on_a_gpu(self, inputs: Sequence[Any]) -> list[Any] | None:
        prepared = self._prepared_on_a_gpu(*arrays.view_signatures(inputs))
        if prepared is None:
            return None
        device, values = prepared.device, dict(zip(self.graph.inputs, inputs, strict=True))
        if self.graph.constants:
            values |= self._parts.constants(device)
        with device.current():
            return prepared.run(GraphCall(type(inputs[0])), values)

    def _run_adopted(self, inputs: Sequence[Any], out: Sequence[Any], device: str | None, stream: Any, named: bool) -> list[Any]:
        requested = None if device is None else Device.parse(device)
        with arrays.in_order((*inputs, *out), stream, requested):
            names = self.graph.inputs
            label = str if named or len({*map(self.graph.label, names)}) < len(names) else self.graph.label
            taken = take(dict(zip(map(label, names), inputs, strict=True)), requested)
            for name, item in zip(self.graph.inputs, taken, strict=True):
                check_type(item.name, item.type, self.graph.types[name])
            runs = taken[0].runs if taken else Device.parse(device or CPU)
            views = {name: item.array for name, item in zip(self.graph.inputs, taken, strict=True)}
            targets = Targets(self.graph, out or (None,) * len(self.graph.outputs), runs.memory, views, label)
            empty = partial(arrays.allocate, runs.memory, like=taken[0].given if taken else None)
            prepared = self._prepared(runs, _signatures(runs, views), _signatures(runs, targets.direct))
            with runs.current():
                results = prepared.run(GraphCall(empty, targets.direct), views | self._parts.constants(runs.memory))
            home = taken[0].home if taken else runs.memory
            outputs = []
            for number, result in enumerate(results):
                target = targets.returned(number, result)
                outputs.append(target if target is not None else _converted(result, runs.memory, home, taken))
            return outputs


def _signatures(runs: Device, views: Mapping[str, Any]) -> tuple[tuple[str, Signature], ...]:
    return () if runs.on_gpu else tuple((name, signature_of(array)) for name, array in views.items())


def _converted(result: Any, memory: Device, home: Device, taken: Sequence[Taken]) -> Any:
    """Return a result as an array of the first input's library, on the device `home`.

    A result of strings gets the string type of the inputs, if all inputs of strings have the same type.
    """
    array = arrays.move(result, memory, home)
    if not array.dtype.hasobject:
        return arrays.hand_back(array, taken[0].given) if taken else array
    types = {item.given.dtype for item in taken if item.array.dtype.hasobject}
    return array.astype(types.pop()) if len(types) == 1 else array


@dataclass(frozen=True, slots=True)
class FusedLaunch:
    """One launch of a fused graph. `holds`: the names of the original steps that it executes."""

    step: str
    holds: tuple[str, ...]
    plan: IndexPlan
    bytes: BytesMoved


@dataclass(frozen=True, slots=True)
class Cut:
    """Two steps that could not be fused. The step `maker` writes a value to memory, and the step `reader` reads it.

    `code`: one of the reasons in docs/fusing.md. `reason`: the details.
    """

    maker: str
    reader: str
    code: str
    reason: str


@dataclass(frozen=True)
class Fused:
    """A graph with fewer launches, made by `fuse`. Call it to run the graph.

    `graph`: the fused graph. Its outputs are the outputs of `source`, then the kept values.
    `source`: the graph before fusing, without steps that nothing needs.
    `cuts`: the pairs of steps that could not be fused.
    `kept`: the names of the values that `run` returns besides the outputs.

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
        return Fused, (self.graph, self.source, self.cuts, self.kept)  # unpickling prepares programs again

    @cached_property
    def launches(self) -> tuple[FusedLaunch, ...]:
        """The launches of one run, in order."""
        return tuple(_launches(self.graph))

    @cached_property
    def bytes_moved(self) -> int:
        """The number of bytes that one run reads and writes."""
        return _bytes(self.graph)

    @cached_property
    def bytes_saved(self) -> int:
        """The number of bytes that fusing saves: the bytes that the unfused steps move, minus `bytes_moved`."""
        return _bytes(self.source) - self.bytes_moved

    def __call__(self, *arrays: Any, out: Any = None, device: str | None = None, stream: Any = None) -> Any:
        """Run the graph. Return its output as an array of the first input's library, or a tuple of several outputs.

        `arrays`: the graph's inputs, in order: NumPy or CuPy arrays, or arrays of any library with DLPack.
        `out`: an array for the output, or a list of arrays for several outputs.
        `device`: "cpu", "cuda", "cuda:N" or "reference"; None for the device of the arrays.
        `stream`: the stream to run on, as in a call of a `CompiledOperator`.

        Raises the errors of `run`.
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
        """Run the graph on inputs by name, and return the outputs and the kept values by name.

        `values`: the array of each input, by name. `out`: the arrays to write, by the names of the outputs.
        `device`, `stream`: as in `__call__`.

        Raises TypeError for a wrong data type, for arrays on several devices, for an argument that is no mapping, for a missing
        or unknown name, and for a stream on the CPU; ValueError for a wrong shape, and if an array of `out` overlaps an input;
        IndexError for a bad index under RAISE, with the message of the step that reads the index; and DeviceError if there is
        no usable GPU.
        """
        inputs, positions, targets = self.graph.inputs, self._output_positions, list[Any]()
        _check_mapping("values", values, inputs)
        if out is not None:
            _check_mapping("out", out, [*positions])
        if values.keys() != set(inputs):
            raise TypeError(f"values has {sorted(values, key=str)}, but the graph takes {sorted(inputs)}")
        if out:
            if unknown := {*out}.difference(positions):
                raise TypeError(f"out has {sorted(unknown, key=str)}, but the graph's outputs are {sorted(positions)}")
            targets = [None] * len(self.graph.outputs)
            for name, array in out.items():
                targets[positions[name]] = array
        results = self._run([values[name] for name in inputs], targets, device, stream, named=True)
        return {name: results[position] for name, position in positions.items()}

    def explain(self) -> FusedExplanation:
        """Return a report on each launch, the cuts and the saved bytes.

        For each launch, the report has the plan, the canonical plan, a diagram, and how each device executes it.
        """
        from dmlgather.diagram.explanation import FusedExplanation, explain_problem

        problems = {step.name: step.work for step in self.graph.steps if isinstance(step.work, Problem)}
        launches = (
            explain_problem(problems[launch.step], f"one launch for {', '.join(launch.holds)}", "") for launch in self.launches
        )
        return FusedExplanation(str(self), self.to_json(), tuple(launches))

    def to_json(self) -> dict[str, Any]:
        """Return the launches, the cuts and the bytes as values that `json.dumps` accepts."""
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
        self, inputs: Sequence[Any], out: Sequence[Any], device: str | None, stream: Any, *, named: bool = False
    ) -> list[Any]:
        try:
            return self._runner.run(inputs, out, device=device, stream=stream, named=named)
        except IndexError as error:
            if all(len(launch.holds) == 1 for launch in self.launches):
                raise
            fused_error = error
        # Run the steps one by one, so that the first step with a bad index raises an error that names its own index tensor.
        self._unfused.run(inputs, device=device, stream=stream)
        raise fused_error

    @cached_property
    def _runner(self) -> GraphRunner:
        return GraphRunner(self.graph)

    @cached_property
    def _unfused(self) -> GraphRunner:
        return GraphRunner(self.source)

    @cached_property
    def _output_positions(self) -> dict[str, int]:
        return {name: self.graph.outputs.index(name) for name in self.graph.outputs}


def _check_mapping(argument: str, value: object, names: Sequence[str]) -> None:
    if type(value) is not dict and not isinstance(value, Mapping):
        example = names[0] if names else "name"
        expected = f"a mapping from names to arrays, such as {{{example!r}: …}}"
        remedy = "called as a function, the graph takes arrays in order"
        raise TypeError(f"{argument} is of type {type(value).__name__}, expected {expected}; {remedy}")


def _launches(graph: IndexGraph) -> Iterator[FusedLaunch]:
    views = unlaunched(graph)
    for step in graph.steps:
        if isinstance(step.work, Problem) and step.name not in views:
            plan = canonicalise(step.work.plan())
            yield FusedLaunch(step.name, step.work.holds or (step.name,), plan, bytes_moved(plan))


def _bytes(graph: IndexGraph) -> int:
    views = unlaunched(graph)
    computing = [step for step in graph.steps if not isinstance(step.work, Problem) and step.name not in views]
    tensors = [graph.types[name] for step in computing for name in (*step.inputs, *step.outputs)]
    computed = sum(prod(tensor.shape) * tensor.dtype.itemsize for tensor in tensors)
    return computed + sum(launch.bytes.total for launch in _launches(graph))
