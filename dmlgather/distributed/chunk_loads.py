"""How a task gets a chunk: it loads it itself where the chunk's tasks are its alone, else it depends on the chunk's task.

A chunk that is loaded in the task that takes rows of it is gone when that task ends, and costs a worker memory only for so long;
as a task of its own it stays until the last of its rows is taken, and several of them are loaded ahead.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import dask.array as da
from dask._task_spec import Alias, DataNode, GraphNode, Task, TaskRef, convert_legacy_graph, execute_graph
from dask.core import flatten
from dask.sizeof import sizeof
from dask.utils import ensure_dict

EMBEDDED_TASKS = 64
"""Tasks of a chunk that is loaded inside another task, at most: more of them are work that should be spread over workers."""

EMBEDDED_BYTES = 2**20
"""Bytes of arguments that are embedded, at most: a chunk that lies in memory already is sent once, not with each task."""

Place: TypeAlias = tuple[int, ...]
"""A chunk's number along each dimension."""


@dataclass(frozen=True, slots=True)
class Load:
    """A chunk's own tasks, to be run by whoever needs the chunk."""

    key: Any
    graph: Mapping[Any, GraphNode] = field(repr=False)

    def __call__(self) -> Any:
        """The chunk."""
        return execute_graph(dict(self.graph), keys={self.key})[self.key]

    def __dask_tokenize__(self) -> Any:
        return self.key


def loaded(payload: Any) -> Any:
    """The chunk of a payload, inside a task: a `Load` is run; anything else is the chunk."""
    return payload() if isinstance(payload, Load) else payload


class ChunkLoads:
    """The chunks of an array, each as an argument for the tasks that need it.

    graph: what the graph of those tasks must be merged with, for `dask.highlevelgraph.HighLevelGraph.from_collections`: the
    array where a chunk that was asked for is a dependency.
    """

    def __init__(self, array: da.Array, places: Iterable[Place] | None = None) -> None:
        """places: of the chunks that will be asked for, by default all."""
        self._array = array
        wanted = list(places) if places is not None else [key[1:] for key in _keys(array)]
        self._loads = _own_loads(array, [(array.name, *place) for place in wanted])
        self._depends = False

    def of(self, place: Place) -> tuple[Load | TaskRef, tuple[Any, ...]]:
        """From a chunk's coordinates to what a task takes in its place (inside it: `loaded(payload)`), and the keys that the task
        depends on by that.
        """
        key = (self._array.name, *place)
        load = self._loads.get(key)
        if load is not None:
            return load, ()
        self._depends = True
        return TaskRef(key), (key,)

    @property
    def graph(self) -> tuple[da.Array, ...]:
        """What the tasks that were given payloads so far depend on."""
        return (self._array,) if self._depends else ()


def chunk_loads(array: da.Array, places: Iterable[Place] | None = None) -> ChunkLoads:
    """How the chunks of `array` reach the tasks that need them. places: of those that will be asked for, by default all."""
    return ChunkLoads(array, places)


def _keys(array: da.Array) -> list[Any]:
    return list(flatten(array.__dask_keys__()))


def _own_loads(array: da.Array, keys: list[Any]) -> dict[Any, Load]:
    """The chunks that are loaded by whoever needs them, by key."""
    if not keys:
        return {}
    graph = convert_legacy_graph(ensure_dict(array.__dask_optimize__(array.__dask_graph__(), keys)))
    reached = {key: _reached(graph, key) for key in keys}
    users = Counter(name for names in reached.values() if names is not None for name in names)
    return {
        key: Load(key, {name: graph[name] for name in names})
        for key, names in reached.items()
        if names is not None and all(users[name] == 1 or isinstance(graph[name], DataNode) for name in names)
    }


def _reached(graph: Mapping[Any, GraphNode], key: Any) -> list[Any] | None:
    """The names of all tasks that a chunk is made by; None where they are too many, too large, or already run elsewhere."""
    names: list[Any] = []
    waiting, seen, bytes_ = [key], {key}, 0
    while waiting:
        name = waiting.pop()
        node = graph.get(name)
        if node is None or len(names) == EMBEDDED_TASKS:
            return None
        bytes_ += _bytes_of(node)
        if bytes_ > EMBEDDED_BYTES:
            return None
        names.append(name)
        new = [needed for needed in node.dependencies if needed not in seen]
        seen.update(new)
        waiting += new
    return names


def _bytes_of(node: GraphNode) -> int:
    """Bytes of what a task holds besides the names of other tasks, of its fused tasks too."""
    if isinstance(node, DataNode):
        in_memory = node.value.nbytes if hasattr(node.value, "__dlpack__") and hasattr(node.value, "nbytes") else 0
        return max(int(sizeof(node.value)), int(in_memory))
    if isinstance(node, Alias):
        return 0
    if isinstance(node, Task) and node.has_subgraph():
        return sum(map(_bytes_of, node.args[0].values()))
    return int(sizeof(node.args)) + int(sizeof(node.kwargs)) if isinstance(node, Task) else 0
