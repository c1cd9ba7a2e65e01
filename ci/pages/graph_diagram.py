"""Draws docs/graphs/gather.svg, the task graph of a gather: the graph runs over a table of its own row numbers, and the picture
shows the rows that each task returned.
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
"""Width of a row's cell, height of a box, and from one box to the next below it."""

COLUMNS = {"chunk": 32.0, "take": 196.0, "pick": 392.0, "place": 570.0}
"""Left edges of what is drawn below each other."""

HEADINGS = {
    "chunk": ("table", "as it is stored, in chunks"),
    "take": ("take", "one task loads the chunk and", "keeps the rows wanted, each once"),
    "pick": ("pick", "one block's rows, where the", "blocks want different ones"),
    "place": ("place", "a chunk of the output: every", "index gets its row"),
}

TOP = 176.0
"""Where the boxes begin, below the indices and the headings."""


@dataclass(frozen=True, slots=True)
class _Box:
    """A chunk or a task: the rows that it holds, where it is drawn, and the names of the boxes that it needs."""

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
    """The picture on the page about tables in chunks: one chunk is not touched, and two blocks share the loads of the others."""
    return draw((3, 3, 3, 3), (1, 4, 1, 0, 4, 5, 10, 40), block=4)


def draw(sizes: Sequence[int], indices: Sequence[int], *, block: int) -> str:
    """The task graph of a gather of whole rows as an SVG document, under DirectML's rules.

    sizes: rows of each chunk of the table. indices: which rows are gathered, `block` of them at a time. For small ones.
    """
    table = da.arange(sum(sizes), chunks=(tuple(sizes),), dtype=np.int64)
    gathered = gather(table, np.asarray(indices), block_bytes=block * table.dtype.itemsize)
    positions = dask.compute(gathered)[0].tolist()  # since each row of the table is its own number
    boxes = _boxes(table, gathered)
    starts = list(accumulate(sizes))
    owners = {row: next(chunk for chunk, end in enumerate(starts) if row < end) for row in range(sum(sizes))}
    height = TOP + PITCH * len(sizes) + 20
    width = max(COLUMNS["place"] + 150, *(each.x + each.width for each in boxes.values())) + 24
    said = _said(indices, positions)
    drawn = [
        text(24, 34, "The tasks of a gather", size=17, bold=True),
        *_strip(indices, [owners[row] for row in positions], block, said),
        *_headings(),
        *_frames(boxes),
        *(edge for each in boxes.values() for edge in _edges(each, boxes, owners)),
        *(part for each in boxes.values() for part in _drawn(each, boxes, owners)),
    ]
    return document("The tasks of a gather", f"{said} {_described(boxes)}", drawn, width, height)


def _boxes(table: da.Array, result: da.Array) -> dict[Any, _Box]:
    """Chunks and tasks by name, top to bottom as their rows lie in the table."""
    graph = dict(result.__dask_graph__())
    values = dict(zip(graph, dask.get(graph, list(graph)), strict=True))
    sizes = table.chunks[0]
    middle = TOP + PITCH * (len(sizes) - 1) / 2
    found = {
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
        found[key] = _Box(kind, label, tuple(values[key].tolist()), y, tuple(needs))
    return found


def _said(indices: Sequence[int], positions: Sequence[int]) -> str:
    meant = [f"{index} means row {row}" for index, row in zip(indices, positions, strict=True) if index != row]
    return "Indices are resolved and split by chunk when gather is called" + (f"; {', '.join(meant)}." if meant else ".")


def _described(boxes: dict[Any, _Box]) -> str:
    tasks = [each for each in boxes.values() if each.kind != "chunk"]
    loaded = [each.label for each in tasks if each.kind == "take"]
    held = "; ".join(f"{each.kind} {each.label}: rows {', '.join(map(str, each.rows))}" for each in tasks)
    return f"Loaded: {', '.join(loaded)}. Tasks: {held}."


def _strip(indices: Sequence[int], owners: Sequence[int], block: int, said: str) -> Iterator[svg.Element]:
    """The indices, block by block, each in the colour of the chunk that it wants a row of."""
    yield text(24, 62, said, size=12, colour=SOFT)
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
    """Round a chunk and what is taken of it: one task loads and takes."""
    for each in boxes.values():
        if each.kind == "take":
            chunk = boxes[each.needs[0]]
            yield box(chunk.x - 8, each.y - 7, each.x + each.width - chunk.x + 16, HEIGHT + 14, fill=SHADE, stroke=RULE)


def _edges(target: _Box, boxes: dict[Any, _Box], owners: dict[int, int]) -> Iterator[svg.Element]:
    for number, name in enumerate(target.needs):
        source = boxes[name]
        start = (source.x + source.width, source.y + HEIGHT / 2)
        end = (target.x, target.y + HEIGHT * (number + 1) / (len(target.needs) + 1))
        yield path([], (start, end), colour=hue(owners[source.rows[0]]), dashes=[3, 3] if source.kind == "chunk" else ())


def _drawn(each: _Box, boxes: dict[Any, _Box], owners: dict[int, int]) -> Iterator[svg.Element]:
    """A box, its label and its rows; the rows of a chunk that nothing takes are pale."""
    wanted = set(each.rows)
    if each.kind == "chunk":
        wanted = {row for other in boxes.values() for row in other.rows if other.kind == "take"}
    untouched = not wanted & set(each.rows)
    yield box(each.x, each.y, each.width, HEIGHT, stroke=RULE if untouched else SOFT, dashed=untouched)
    label = f"{each.label}: not loaded" if untouched else each.label
    yield text(each.x + 7, each.y + 14, label, size=10, colour=SOFT if untouched else INK)
    for number, row in enumerate(each.rows):
        fill = hue(owners[row]) if row in wanted else "none"
        yield from _cell(each.x + 7 + CELL * number, each.y + 20, str(row), fill, pale=row not in wanted)


def _cell(x: float, y: float, content: str, fill: str, *, pale: bool = False) -> Iterator[svg.Element]:
    yield box(x, y, CELL - 2, 22, fill=fill, opacity=0.3, stroke=RULE)
    yield text(x + CELL / 2 - 1, y + 15, content, size=11, anchor="middle", mono=True, colour=SOFT if pale else INK)
