"""How a task gets a chunk: it loads a chunk itself whose tasks no other chunk needs, and depends on the task of any other.

A chunk that a task loads itself is freed when that task ends. As separate tasks, chunks would be loaded early and kept until the
last of their rows is taken, so that workers spill to disk.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import dask.array as da
from dask._task_spec import Alias, DataNode, GraphNode, Task, TaskRef, convert_legacy_graph, execute_graph
from dask.sizeof import sizeof
from dask.utils import ensure_dict

from dmlgather.distributed.chunk_grid import Place

EMBEDDED_TASKS = 64
"""The most tasks of a chunk that another task runs itself; more of them are spread over the workers."""

EMBEDDED_BYTES = 2**20
"""The most bytes of arguments that are sent with a task; a larger chunk in memory is sent once, as a task of its own."""


@dataclass(frozen=True, slots=True)
class Load:
    """A chunk's own tasks, which a task that needs the chunk runs."""

    key: Any
    graph: Mapping[Any, GraphNode] = field(repr=False)

    def __call__(self) -> Any:
        """The chunk."""
        return execute_graph(dict(self.graph), keys={self.key})[self.key]

    def __dask_tokenize__(self) -> Any:
        return self.key


def loaded(payload: Any) -> Any:
    """The chunk, inside a task: a `Load` is run, and any other payload is the chunk itself."""
    return payload() if isinstance(payload, Load) else payload


class ChunkLoads:
    """The chunks of an array, each as an argument for the tasks that need it."""

    def __init__(self, array: da.Array, places: Iterable[Place]) -> None:
        """places: of the chunks that will be asked for."""
        self._array = array
        self._loads = _own_loads(array, [(array.name, *place) for place in places])
        self._depends = False

    def of(self, place: Place) -> Load | TaskRef:
        """What a task takes in the place of a chunk; inside the task, `loaded` gives the chunk."""
        key = (self._array.name, *place)
        if key in self._loads:
            return self._loads[key]
        self._depends = True
        return TaskRef(key)

    @property
    def graph(self) -> tuple[da.Array, ...]:
        """The array if `of` has returned references to its tasks: a dependency for `HighLevelGraph.from_collections`."""
        return (self._array,) if self._depends else ()


def _own_loads(array: da.Array, keys: list[Any]) -> dict[Any, Load]:
    """How chunks are loaded by the tasks that need them, by key; a chunk whose tasks others need as well is left out."""
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
    """The names of all tasks that make a chunk; None if they are too many or too large, or if one runs elsewhere already."""
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
    """Bytes of a task's arguments, without references to other tasks; of all its parts where it is a fused task."""
    if isinstance(node, DataNode):
        in_memory = node.value.nbytes if hasattr(node.value, "__dlpack__") and hasattr(node.value, "nbytes") else 0
        return max(int(sizeof(node.value)), int(in_memory))
    if isinstance(node, Alias):
        return 0
    if isinstance(node, Task) and node.has_subgraph():
        return sum(map(_bytes_of, node.args[0].values()))
    return int(sizeof(node.args)) + int(sizeof(node.kwargs)) if isinstance(node, Task) else 0
