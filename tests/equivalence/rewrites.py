"""Random programs, random rewrites of them that keep their meaning, and changes of one number that do not.

The rules are the algebra of NumPy's operations, each a few lines; NumPy is the judge of all of them.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Iterator, Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.equivalence.terms import (
    Arithmetic,
    Cut,
    Input,
    Join,
    Node,
    Number,
    Other,
    Shape,
    Spread,
    Take,
    TakeND,
    Turn,
    nodes,
    replaced,
)

DATA_TYPES = ("float32", "int64", "uint8", "float16")

Rule = Callable[[Node, random.Random], Node | None]


def whole(sizes: Sequence[int]) -> list[tuple[int, int, int]]:
    return [(0, size, 1) for size in sizes]


def clipped(ids: Node, low: int, high: int) -> Node:
    return Arithmetic("minimum", (Arithmetic("maximum", (ids, Number(low))), Number(high)))


def factors(size: int, chance: random.Random) -> tuple[int, ...]:
    """A random shape of so many elements."""
    found: list[int] = []
    while size > 1:
        found.append(chance.choice([divisor for divisor in range(2, size + 1) if size % divisor == 0]))
        size //= found[-1]
    for _ in range(chance.choice([0, 0, 1])):
        found.insert(chance.randint(0, len(found)), 1)
    return tuple(found)


# programs


def program(chance: random.Random) -> tuple[Node, list[Input]]:
    """A random program, and its inputs."""
    sizes = tuple(chance.choice([1, 2, 3, 4, 5, 6]) for _ in range(chance.randint(1, 4)))
    x = Input("x", sizes, chance.choice(DATA_TYPES))
    inputs: list[Input] = [x]
    term: Node = x
    for number in range(chance.randint(1, 5)):
        term = _step(term, inputs, number, chance)
    return term, inputs


def _step(term: Node, inputs: list[Input], number: int, chance: random.Random) -> Node:
    shape = term.shape
    match chance.choice(["take", "take", "take", "cut", "turn", "shape", "join", "other"]):
        case "take" if shape and prod(shape) < 1500:
            sizes = tuple(chance.randint(1, 4) for _ in range(chance.choice([0, 1, 1, 2])))
            ids = Input(f"ids{number}", sizes, "int64")
            inputs.append(ids)
            axis = chance.randrange(len(shape))
            index: Node = ids
            for _ in range(chance.choice([0, 0, 1])):
                index = clipped(index, -shape[axis], shape[axis] - 1)
            return Take(term, index, axis, chance.choice(["raise", "clip", "fill"]))
        case "cut" if shape:
            return Cut(term, tuple(window(size, chance) for size in shape))
        case "turn":
            return Turn(term, tuple(chance.sample(range(len(shape)), len(shape))))
        case "shape":
            return Shape(term, factors(prod(shape), chance))
        case "join" if shape and prod(shape) < 800:
            axis = chance.randrange(len(shape))
            return Join((term, Cut(term, (*whole(shape)[:axis], window(shape[axis], chance), *whole(shape)[axis + 1 :]))), axis)
        case "other" if chance.random() < 0.5:
            return Other(term)
    return term


def window(size: int, chance: random.Random) -> tuple[int, int, int]:
    step = chance.choice([1, 1, 2, -1, -2])
    start = chance.randrange(size)
    room = (size - 1 - start) // step if step > 0 else start // -step
    return start, chance.randint(1, room + 1), step


# rules: each gives an equal term, or None where it does not apply


def cut_before_take(term: Node, chance: random.Random) -> Node | None:
    if not isinstance(term, Cut) or not isinstance(term.x, Take):
        return None
    take, windows = term.x, list(term.windows)
    rank, axis = len(take.ids.shape), take.axis
    ids = windows[axis : axis + rank]
    lead, trail = windows[:axis], windows[axis + rank :]
    size = take.x.shape[axis]
    data = Cut(take.x, (*lead, (0, size, 1), *trail))
    if take.mode != "raise" and rank:
        return Take(data, Cut(take.ids, tuple(ids)), axis, take.mode)
    found = Take(data, take.ids, axis, take.mode)
    return Cut(found, (*whole(found.shape)[:axis], *ids, *whole(found.shape)[axis + rank :]))


def cut_in_two(term: Node, chance: random.Random) -> Node | None:
    if not isinstance(term, Cut):
        return None
    first, second = [], []
    for start, count, step in term.windows:
        low, high = sorted((start, start + (count - 1) * step))
        first.append((low, high - low + 1, 1))
        second.append((start - low, count, step))
    return Cut(Cut(term.x, tuple(first)), tuple(second))


def flipped_twice(term: Node, chance: random.Random) -> Node | None:
    shape = term.shape
    if not shape:
        return None
    axis = chance.randrange(len(shape))
    flip = tuple((size - 1, size, -1) if number == axis else (0, size, 1) for number, size in enumerate(shape))
    return Cut(Cut(term, flip), flip)


def turned_twice(term: Node, chance: random.Random) -> Node | None:
    order = tuple(chance.sample(range(len(term.shape)), len(term.shape)))
    return Turn(Turn(term, order), tuple(np.argsort(order).tolist()))


def take_of_turned(term: Node, chance: random.Random) -> Node | None:
    if not isinstance(term, Take):
        return None
    order = chance.sample(range(len(term.x.shape)), len(term.x.shape))
    place, rank = order.index(term.axis), len(term.ids.shape)
    # the dimensions of the result, by where they come from
    found = (
        [("x", axis) for axis in order[:place]] + [("ids", k) for k in range(rank)] + [("x", axis) for axis in order[place + 1 :]]
    )
    count = len(term.x.shape)
    wanted = (
        [("x", k) for k in range(term.axis)] + [("ids", k) for k in range(rank)] + [("x", k) for k in range(term.axis + 1, count)]
    )
    back = tuple(found.index(each) for each in wanted)
    return Turn(Take(Turn(term.x, tuple(order)), term.ids, place, term.mode), back)


def reshaped_twice(term: Node, chance: random.Random) -> Node | None:
    return Shape(Shape(term, factors(prod(term.shape), chance)), term.shape)


def joined_and_cut(term: Node, chance: random.Random) -> Node | None:
    shape = term.shape
    if not shape or prod(shape) > 800:
        return None
    axis = chance.randrange(len(shape))
    part = Cut(term, tuple((size - 1, size, -1) for size in shape))
    parts, start = ((term, part), 0) if chance.random() < 0.5 else ((part, term), shape[axis])
    return Cut(Join(parts, axis), tuple((start, size, 1) if k == axis else (0, size, 1) for k, size in enumerate(shape)))


def in_two_parts(term: Node, chance: random.Random) -> Node | None:
    shape = term.shape
    axes = [axis for axis, size in enumerate(shape) if size > 1]
    if not axes:
        return None
    axis = chance.choice(axes)
    at = chance.randint(1, shape[axis] - 1)
    one, two = list(whole(shape)), list(whole(shape))
    one[axis], two[axis] = (0, at, 1), (at, shape[axis] - at, 1)
    return Join((Cut(term, tuple(one)), Cut(term, tuple(two))), axis)


def spread_and_cut(term: Node, chance: random.Random) -> Node | None:
    shape = term.shape
    if prod(shape) > 500:
        return None
    spread = Spread(Shape(term, (1, *shape)), (3, *shape))
    return Shape(Cut(spread, ((chance.randrange(3), 1, 1), *whole(shape))), shape)


def clip_by_arithmetic(term: Node, chance: random.Random) -> Node | None:
    if not isinstance(term, Take) or term.mode != "clip":
        return None
    return Take(term.x, clipped(term.ids, 0, term.x.shape[term.axis] - 1), term.axis, chance.choice(["raise", "clip", "fill"]))


def fill_by_selection(term: Node, chance: random.Random) -> Node | None:
    if not isinstance(term, Take) or term.mode != "fill":
        return None
    size, ids = term.x.shape[term.axis], term.ids
    valid = Arithmetic("and", (Arithmetic("greater_equal", (ids, Number(0))), Arithmetic("less", (ids, Number(size)))))
    valid_there = Shape(valid, (*ids.shape, *[1] * (len(term.x.shape) - term.axis - 1)))
    fill = Number(-1 if next(_dtypes(term.x)) != "uint8" else 255, next(_dtypes(term.x)))
    return Arithmetic("where", (valid_there, Take(term.x, ids, term.axis, "clip"), fill))


def wrapped_by_arithmetic(term: Node, chance: random.Random) -> Node | None:
    """Only where the indices are clipped: arithmetic would also wrap those that raise."""
    if not isinstance(term, Take) or term.mode != "raise" or not isinstance(term.ids, Arithmetic):
        return None
    size, ids = term.x.shape[term.axis], term.ids
    if ids != clipped(ids.operands[0].children[0], -size, size - 1) if ids.operands[0].children else True:
        return None
    wrapped = Arithmetic("where", (Arithmetic("less", (ids, Number(0))), Arithmetic("add", (ids, Number(size))), ids))
    return Take(term.x, wrapped, term.axis, chance.choice(["raise", "clip", "fill"]))


def take_of_pairs(term: Node, chance: random.Random) -> Node | None:
    """Two axes as one: the rows of pairs (index, every position of the next axis)."""
    if not isinstance(term, Take) or term.mode != "clip" or term.axis + 1 == len(term.x.shape):
        return None
    shape, axis = term.x.shape, term.axis
    size, next_size = shape[axis : axis + 2]
    data = Shape(term.x, (*shape[:axis], size * next_size, *shape[axis + 2 :]))
    rows = Arithmetic("multiply", (clipped(term.ids, 0, size - 1), Number(next_size)))
    rows_there = Shape(rows, (*term.ids.shape, 1))
    return Take(
        data, Arithmetic("add", (rows_there, Number(tuple(range(next_size))))), axis, chance.choice(["raise", "clip", "fill"])
    )


def take_of_window(term: Node, chance: random.Random) -> Node | None:
    if not isinstance(term, Take) or term.mode != "clip" or not isinstance(term.x, Cut):
        return None
    start, count, step = term.x.windows[term.axis]
    windows = list(term.x.windows)
    windows[term.axis] = (0, term.x.x.shape[term.axis], 1)
    at = Arithmetic("add", (Arithmetic("multiply", (clipped(term.ids, 0, count - 1), Number(step))), Number(start)))
    return Take(Cut(term.x.x, tuple(windows)), at, term.axis, chance.choice(["raise", "clip"]))


def take_of_taken(term: Node, chance: random.Random) -> Node | None:
    if not (isinstance(term, Take) and isinstance(term.x, Take) and term.mode == term.x.mode == "clip"):
        return None
    inner = term.x
    if term.axis != inner.axis or len(inner.ids.shape) != 1:
        return None
    return Take(inner.x, Take(inner.ids, term.ids, 0, "clip"), term.axis, "clip")


def take_by_tuples(term: Node, chance: random.Random) -> Node | None:
    if not isinstance(term, Take) or term.mode != "raise" or not term.ids.shape:
        return None
    count, rank, axis = len(term.x.shape), len(term.ids.shape), term.axis
    first = Turn(term.x, (axis, *(k for k in range(count) if k != axis)))
    taken = TakeND(first, Shape(term.ids, (*term.ids.shape, 1)))
    lead = tuple(range(rank, rank + axis))
    return Turn(taken, (*lead, *range(rank), *range(rank + axis, rank + count - 1)))


RULES: tuple[Rule, ...] = (
    cut_before_take,
    cut_in_two,
    flipped_twice,
    turned_twice,
    take_of_turned,
    reshaped_twice,
    joined_and_cut,
    in_two_parts,
    spread_and_cut,
    clip_by_arithmetic,
    fill_by_selection,
    wrapped_by_arithmetic,
    take_of_pairs,
    take_of_window,
    take_of_taken,
    take_by_tuples,
)


def _dtypes(term: Node) -> Iterator[str]:
    """The type of a term that moves elements: that of its data."""
    while term.children:
        term = term.operands[1] if isinstance(term, Arithmetic) and term.operator == "where" else term.children[0]
    assert isinstance(term, Input)
    yield term.dtype


def rewritten(term: Node, chance: random.Random, count: int) -> Node:
    """An equal term, after so many rules."""
    done = 0
    while done < count:
        part = chance.choice(list(nodes(term)))
        rule = chance.choice(RULES)
        if isinstance(part, Number) or (isinstance(part, Arithmetic) and rule is in_two_parts):
            continue
        new = rule(part, chance)
        if new is not None:
            term = replaced(term, part, new)
            done += 1
    return term


# changes


def changed(term: Node, chance: random.Random) -> Node | None:
    """The term with one number, order or mode changed, but not in front of an operator that does not index. It may mean the same.
    None where nothing can be changed.
    """
    parts = list(nodes(term))
    behind = [part for part in parts if not any(part in nodes(each.x) for each in parts if isinstance(each, Other))]
    for part in chance.sample(behind, len(behind)):
        new = _changed(part, chance)
        if new is not None:
            return replaced(term, part, new)
    return None


def _changed(part: Node, chance: random.Random) -> Node | None:
    match part:
        case Cut(x, windows):
            axis = chance.randrange(len(windows))
            start, count, step = windows[axis]
            new = chance.choice([(start + 1, count, step), (start - 1, count, step), (start + (count - 1) * step, count, -step)])
            ends = new[0], new[0] + (new[1] - 1) * new[2]
            inside = min(ends) >= 0 and max(ends) < x.shape[axis]
            return Cut(x, (*windows[:axis], new, *windows[axis + 1 :])) if inside else None
        case Turn(x, order) if len(order) > 1:
            i, j = chance.sample(range(len(order)), 2)
            swapped = list(order)
            swapped[i], swapped[j] = swapped[j], swapped[i]
            return Turn(x, tuple(swapped))
        case Take(mode=mode):
            other = chance.choice([each for each in ("raise", "clip", "fill") if each != mode])
            return dataclasses.replace(part, mode=other)
        case Number(int(value), dtype) if dtype == "int64":
            return Number(value + chance.choice([-1, 1]))
        case Join(parts, axis) if len(parts) == 2:
            return Join(parts[::-1], axis)
    return None


# the judge


def draws(inputs: Sequence[Input], chance: random.Random, count: int) -> Iterator[dict[str, NDArray[Any]]]:
    """Random inputs: indices from a few values around 0 and the sizes."""
    generator = np.random.default_rng(chance.getrandbits(32))
    for number in range(count):
        reach = number % 9 + 1
        yield {
            each.name: generator.integers(0 if number % 3 else -reach, reach, each.sizes)
            if each.name.startswith("ids")
            else generator.integers(0, 250, each.sizes).astype(each.dtype)
            for each in inputs
        }


def same(one: Node, other: Node, arrays: dict[str, NDArray[Any]]) -> bool:
    """Whether two terms mean the same for these inputs, by NumPy."""
    found: list[NDArray[Any] | None] = []
    for term in (one, other):
        try:
            found.append(term.numpy(arrays))
        except IndexError:
            found.append(None)
    a, b = found
    if a is None or b is None:
        return a is b
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
