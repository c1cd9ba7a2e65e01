"""Written ONNX files, each changed in one place so that it does something else: onnxruntime says so, and not the package."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper

import dmlgather as dg
from dmlgather.dialects.programs import Program, read_program
from tests.directml.making import make
from tests.dxdispatch.random_chains import random_model
from tests.translation.random_problems import random_problem

OPERATORS = ("Gather", "GatherElements", "GatherND", "Slice", "DepthToSpace", "SpaceToDepth")

RUNS = 80
"""Random inputs on which the judge runs a changed model, beside those of one index everywhere."""

TRIED = 6
"""Changes of one model that are tried until one makes a difference."""


@dataclass(frozen=True)
class Changed:
    """A model that does not do what the program does any more. what: the change. traits: the operators of the file, and what
    the program's lookups do with which index types.
    """

    source: Program
    model: onnx.ModelProto
    what: str
    traits: frozenset[str]


def written(seed: int, folder: Path) -> tuple[Program, onnx.ModelProto] | None:
    """Return a program of a seed and its model: a problem, descriptors on lines or a DxDispatch model; None for one without."""
    rng = random.Random(seed)
    source: Any = random_problem(seed)
    if seed % 4 == 2:
        source = folder / "dump.jsonl"
        source.write_text("".join(json.dumps(make(rng).desc.document()) + "\n" for _ in range(rng.randint(1, 2))))
    elif seed % 4 == 3:
        source = folder / "model.json"
        source.write_text(json.dumps(random_model(seed)))
    read = read_program(source)
    form = dg.translate(read.graph, opset=rng.choice((13, 17, 21)), initial=read.initial).form
    return None if form is None else (read, form)


def changed(seed: int, folder: Path) -> Changed | None:
    """Return a changed model of a seed; None where there is no form, or where its changes change nothing or are illegal."""
    found = written(seed, folder)
    if found is None:
        return None
    (source, model), rng = found, random.Random(seed)
    if not all(prod(source.graph.types[name].shape) for name in source.graph.outputs):
        return None  # of no elements, libraries look at no index, and the check says that it compares no errors
    groups = [group for kind in (_attributes, _inputs, _orders, _constants) if (group := [*kind(model.graph)])]
    for _ in range(TRIED if groups else 0):
        what, parts = rng.choice(rng.choice(groups))
        other = onnx.ModelProto.FromString(model.SerializeToString())
        for path, value in parts:
            _set(other.graph, path, value)
        if _ends_the_process(other.graph):
            continue
        with suppress(Exception):  # a file that does not load is no silent change
            onnx.checker.check_model(other, full_check=True)
            if differ(model, other, np.random.default_rng(seed)):
                return Changed(source, other, what, _traits(source, model))
    return None


def _ends_the_process(graph: onnx.GraphProto) -> bool:
    """Whether an Expand is given a negative size, at which ONNX's shape inference, and so onnxruntime's, aborts."""
    held = {each.name: onnx.numpy_helper.to_array(each) for each in graph.initializer}
    return any(node.op_type == "Expand" and (held.get(node.input[1], np.zeros(0)) < 0).any() for node in graph.node)


def _traits(source: Program, model: onnx.ModelProto) -> frozenset[str]:
    found = {node.op_type for node in model.graph.node} & {*OPERATORS}
    for step in source.graph.steps:
        plan = step.work.plan() if len(step.inputs) > 1 and hasattr(step.work, "plan") else None
        if plan is not None and plan.lookups:
            found |= {plan.out_of_bounds.name, source.graph.types[step.inputs[1]].dtype.name}
    return frozenset(found)


# The changes: what one says, and which places of the graph get which values.

Change = tuple[str, Sequence[tuple[tuple[str | int, ...], Any]]]


def _attributes(graph: onnx.GraphProto) -> Iterator[Change]:
    """Another axis, perm, blocksize, mode, number of batch dimensions, type of a Cast."""
    for number, node in enumerate(graph.node):
        for place, attribute in enumerate(node.attribute):
            for value in _other_values(attribute):
                path = ("node", number, "attribute", place)
                yield f"{attribute.name} of {node.name} is {value}", [(path, helper.make_attribute(attribute.name, value))]


def _inputs(graph: onnx.GraphProto) -> Iterator[Change]:
    """An input of a node that is another value."""
    known = [value.name for value in (*graph.input, *graph.initializer)]
    for number, node in enumerate(graph.node):
        for place, name in enumerate(node.input):
            for other in sorted({*known} - {name}):
                yield f"input {place} of {node.name} is {other!r}", [(("node", number, "input", place), other)]
        known += node.output


def _orders(graph: onnx.GraphProto) -> Iterator[Change]:
    """A node's inputs in another order; two names of inputs exchanged."""
    pairs: list[tuple[tuple[str | int, ...], Any]]
    for number, node in enumerate(graph.node):
        for place in range(len(node.input) - 1):
            pairs = [(("node", number, "input", place + at), node.input[place + 1 - at]) for at in (0, 1)]
            yield f"inputs {place} and {place + 1} of {node.name} exchanged", pairs
    names, types = [value.name for value in graph.input], [value.type.tensor_type for value in graph.input]
    contents = [(type_.elem_type, prod(size.dim_value for size in type_.shape.dim)) for type_ in types]
    for number in range(len(names) - 1):
        if contents[number] == contents[number + 1]:  # inputs are matched by name: only the declared shapes would change
            continue
        pairs = [(("input", number + at, "name"), names[number + 1 - at]) for at in (0, 1)]
        yield f"the names {names[number]!r} and {names[number + 1]!r} exchanged", pairs


def _other_values(attribute: onnx.AttributeProto) -> list[Any]:
    value = helper.get_attribute_value(attribute)
    if attribute.name == "to":
        return [kind for kind in (1, 2, 3, 5, 6, 7) if kind != value]
    if attribute.name == "mode":
        return [{b"CRD": b"DCR", b"DCR": b"CRD"}[value]]
    if attribute.name == "perm":
        return [[*value[:at], value[at + 1], value[at], *value[at + 2 :]] for at in range(len(value) - 1)]
    return [value + 1, value - 1]


def _constants(graph: onnx.GraphProto) -> Iterator[Change]:
    """One element more or less, or all in another order: bounds of slices and clamps, sizes, fill values, defaults of inputs."""
    for number, constant in enumerate(graph.initializer):
        array = numpy_helper.to_array(constant)
        one = np.ones((), array.dtype)
        found = [np.roll(array.reshape(-1), 1).reshape(array.shape)] if array.size > 1 else []
        for place in range(min(array.size, 6)):
            value = array.reshape(-1)[place]
            for other in [~value] if array.dtype.kind == "b" else [value + one, value - one]:
                found.append(array.copy())
                found[-1].reshape(-1)[place] = other
        for value in found:
            yield (
                f"{constant.name!r} is {value.tolist()}",
                [(("initializer", number), numpy_helper.from_array(value, constant.name))],
            )


def _set(place: Any, path: Sequence[str | int], value: Any) -> None:
    for part in path[:-1]:
        place = getattr(place, part) if isinstance(part, str) else place[part]
    if isinstance(path[-1], str):
        setattr(place, path[-1], value)
    elif hasattr(value, "CopyFrom"):
        place[path[-1]].CopyFrom(value)
    else:
        place[path[-1]] = value


# The judge: both models in onnxruntime. It knows no lookups: integers are now every index of small axes, now distinct data.


def differ(one: onnx.ModelProto, other: onnx.ModelProto, chance: np.random.Generator) -> bool:
    """Whether onnxruntime gives other bits for some inputs, or an error on one side alone."""
    sessions = [_session(model) for model in (one, other)]
    held = {each.name for each in one.graph.initializer}
    wanted = list(one.graph.input)
    sizes = {dim.dim_value for value in wanted for dim in value.type.tensor_type.shape.dim}
    pool = range(-max(sizes, default=0) - 2, max(sizes, default=0) + 3)
    tries = [{value.name: _drawn(value, [index], chance) for value in wanted} for index in pool]
    tries += [{value.name: _drawn(value, pool, chance) for value in wanted} for _ in range(RUNS)]
    tries += [{}] if held.issuperset(value.name for value in wanted) else []
    return any(_outcome(sessions[0], feeds) != _outcome(sessions[1], feeds) for feeds in tries)


def _session(model: onnx.ModelProto) -> Any:
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    return ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def _drawn(value: onnx.ValueInfoProto, pool: Sequence[int], chance: np.random.Generator) -> NDArray[Any]:
    tensor = value.type.tensor_type
    shape, dtype = [dim.dim_value for dim in tensor.shape.dim], helper.tensor_dtype_to_np_dtype(tensor.elem_type)
    count = prod(shape)
    if dtype.kind not in "iu":
        numbers = chance.integers(0, 2, count) if dtype.kind == "b" else chance.permutation(count) + 1
        return np.asarray(numbers.astype(dtype).reshape(shape))
    if chance.random() < 0.3:
        return np.asarray((chance.permutation(count) + chance.integers(0, 99)).astype(dtype).reshape(shape))
    limits = np.iinfo(dtype)
    far = np.array([int(limits.min), int(limits.max), 2**7, 2**8, 2**15, 2**16, 2**31, 2**32, 2**63], object)
    found = np.where(chance.random(count) < 0.95, chance.choice(np.array(pool, object), count), chance.choice(far, count))
    return np.array([min(max(each, int(limits.min)), int(limits.max)) for each in found], dtype).reshape(shape)


def _outcome(session: Any, feeds: dict[str, NDArray[Any]]) -> Any:
    options = __import__("onnxruntime").RunOptions()
    options.log_severity_level = 4
    try:
        return [(array.dtype, array.shape, array.tobytes()) for array in session.run(None, feeds, options)]
    except Exception:
        return "raised"
