"""Diagram of the task graph of a gather, docs/graphs/gather.svg.

The rows of the table are their own numbers, so the results of tasks show the rows that each task returned.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any

import dask
import dask.array as da
import numpy as np
import svg

from dmlgather.diagram.canvas import INK, RULE, SHADE, SOFT, box, document, hue, path, text
from dmlgather.distributed import gather

CELL, HEIGHT, PITCH = 25.0, 48.0, 78.0
"""Width of a row's cell, height of a box, and vertical distance of boxes."""

COLUMNS = {"chunk": 32.0, "take": 196.0, "pick": 392.0, "place": 570.0}
"""Left edges of the columns."""

HEADINGS = {
    "chunk": ("table", "as it is stored, in chunks"),
    "take": ("take", "one task loads the chunk and", "keeps the rows wanted, each once"),
    "pick": ("pick", "one block's rows, where the", "blocks want different ones"),
    "place": ("place", "a chunk of the output: every", "index gets its row"),
}

TOP = 176.0
"""Top of the first box, below the indices and the headings."""


@dataclass(frozen=True, slots=True)
class _Box:
    """A chunk or a task. `needs`: the names of the boxes that it needs."""

    kind: str
    label: str
    rows: tuple[int, ...]
    y: float
    needs: tuple[Any, ...] = ()

    @property
    def x(self) -> float:
        return COLUMNS[self.kind]

    @property
    def width(self) -> float:
        return max(CELL * len(self.rows), 94) + 14


def example() -> str:
    """Return the diagram of docs/distributed.md: one chunk is not loaded, and two blocks share the other loads."""
    return draw((3, 3, 3, 3), (1, 4, 1, 0, 4, 5, 10, 40), block=4)


def draw(sizes: Sequence[int], indices: Sequence[int], *, block: int) -> str:
    """Return the task graph of a gather of rows as an SVG document. All numbers must be small.

    `sizes`: rows of each chunk of the table. `block`: indices per block.
    """
    table = da.arange(sum(sizes), chunks=(tuple(sizes),), dtype=np.int64)
    gathered = gather(table, np.asarray(indices), block_bytes=block * table.dtype.itemsize)
    positions = dask.compute(gathered)[0].tolist()  # each row is its own number
    boxes = _boxes(table, gathered)
    starts = list(accumulate(sizes))
    owners = {row: next(chunk for chunk, end in enumerate(starts) if row < end) for row in range(sum(sizes))}
    height = TOP + PITCH * len(sizes) + 20
    width = max(COLUMNS["place"] + 150, *(drawn.x + drawn.width for drawn in boxes.values())) + 24
    caption = _caption(indices, positions)
    elements = [
        text(24, 34, "The tasks of a gather", size=17, bold=True),
        *_strip(indices, [owners[row] for row in positions], block, caption),
        *_headings(),
        *_frames(boxes),
        *(edge for target in boxes.values() for edge in _edges(target, boxes, owners)),
        *(part for drawn in boxes.values() for part in _box(drawn, boxes, owners)),
    ]
    return document("The tasks of a gather", f"{caption} {_described(boxes)}", elements, width, height)


def _boxes(table: da.Array, result: da.Array) -> dict[Any, _Box]:
    """Return chunks and tasks by name, from top to bottom in the order of the table's rows."""
    graph = dict(result.__dask_graph__())
    values = dict(zip(graph, dask.get(graph, list(graph)), strict=True))
    sizes = table.chunks[0]
    middle = TOP + PITCH * (len(sizes) - 1) / 2
    boxes = {
        ("chunk", number): _Box("chunk", f"chunk {number}", tuple(range(begin, end)), TOP + PITCH * number)
        for number, (begin, end) in enumerate(pairwise((0, *accumulate(sizes))))
    }
    for key, task in graph.items():
        kind = next((kind for kind in ("take", "pick") if key[0].startswith(f"gather-{kind}")), "place")
        number = key[-1]
        place = {
            "take": (f"chunk {number}", TOP + PITCH * number),
            "pick": (f"chunk {number}, block {key[1]}", TOP + PITCH * number - 8),
            "place": (f"block {number}", middle + PITCH * (number - (result.numblocks[0] - 1) / 2) * 1.9),
        }
        label, y = place[kind]
        needs = [("chunk", number)] if kind == "take" else sorted(task.dependencies, key=lambda needed: needed[-1])
        boxes[key] = _Box(kind, label, tuple(values[key].tolist()), y, tuple(needs))
    return boxes


def _caption(indices: Sequence[int], positions: Sequence[int]) -> str:
    resolved = [f"{index} means row {row}" for index, row in zip(indices, positions, strict=True) if index != row]
    return "Indices are resolved and split by chunk when gather is called" + (f"; {', '.join(resolved)}." if resolved else ".")


def _described(boxes: dict[Any, _Box]) -> str:
    tasks = [task for task in boxes.values() if task.kind != "chunk"]
    loaded = [task.label for task in tasks if task.kind == "take"]
    rows = "; ".join(f"{task.kind} {task.label}: rows {', '.join(map(str, task.rows))}" for task in tasks)
    return f"Loaded: {', '.join(loaded)}. Tasks: {rows}."


def _strip(indices: Sequence[int], owners: Sequence[int], block: int, caption: str) -> Iterator[svg.Element]:
    """Draw the indices, block by block, each in the colour of its chunk."""
    yield text(24, 62, caption, size=12, colour=SOFT)
    for number, (index, owner) in enumerate(zip(indices, owners, strict=True)):
        x = 132 + CELL * number + 116 * (number // block)
        if not number % block:
            yield text(x - 8, 90, f"indices, block {number // block}", size=11, anchor="end", colour=INK)
        yield from _cell(x, 74, str(index), hue(owner))


def _headings() -> Iterator[svg.Element]:
    for kind, (title, *rest) in HEADINGS.items():
        yield text(COLUMNS[kind], 128, title, size=13, bold=True)
        for number, row in enumerate(rest):
            yield text(COLUMNS[kind], 143 + 13 * number, row, size=10, colour=SOFT)


def _frames(boxes: dict[Any, _Box]) -> Iterator[svg.Element]:
    """Draw frames around a chunk and its "take" box, which are one task."""
    for take in boxes.values():
        if take.kind == "take":
            chunk = boxes[take.needs[0]]
            yield box(chunk.x - 8, take.y - 7, take.x + take.width - chunk.x + 16, HEIGHT + 14, fill=SHADE, stroke=RULE)


def _edges(target: _Box, boxes: dict[Any, _Box], owners: dict[int, int]) -> Iterator[svg.Element]:
    for number, name in enumerate(target.needs):
        source = boxes[name]
        start = (source.x + source.width, source.y + HEIGHT / 2)
        end = (target.x, target.y + HEIGHT * (number + 1) / (len(target.needs) + 1))
        yield path([], (start, end), colour=hue(owners[source.rows[0]]), dashes=[3, 3] if source.kind == "chunk" else ())


def _box(drawn: _Box, boxes: dict[Any, _Box], owners: dict[int, int]) -> Iterator[svg.Element]:
    """Draw a box with its label and rows. Rows of a chunk that no task takes are pale."""
    taken = set(drawn.rows)
    if drawn.kind == "chunk":
        taken = {row for other in boxes.values() for row in other.rows if other.kind == "take"}
    unused = not taken & set(drawn.rows)
    yield box(drawn.x, drawn.y, drawn.width, HEIGHT, stroke=RULE if unused else SOFT, dashed=unused)
    label = f"{drawn.label}: not loaded" if unused else drawn.label
    yield text(drawn.x + 7, drawn.y + 14, label, size=10, colour=SOFT if unused else INK)
    for number, row in enumerate(drawn.rows):
        fill = hue(owners[row]) if row in taken else "none"
        yield from _cell(drawn.x + 7 + CELL * number, drawn.y + 20, str(row), fill, pale=row not in taken)


def _cell(x: float, y: float, content: str, fill: str, *, pale: bool = False) -> Iterator[svg.Element]:
    yield box(x, y, CELL - 2, 22, fill=fill, opacity=0.3, stroke=RULE)
    yield text(x + CELL / 2 - 1, y + 15, content, size=11, anchor="middle", mono=True, colour=SOFT if pale else INK)
