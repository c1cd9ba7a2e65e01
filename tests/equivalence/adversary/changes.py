"""Near misses: changes of a draft after which it means the same, or almost."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import replace
from math import prod

import numpy as np

from tests.equivalence.adversary.drafts import (
    FLOATS,
    INDEXING,
    INTEGERS,
    NOT_DRAWN,
    OPERATORS,
    Builder,
    Draft,
    Step,
)
from tests.equivalence.adversary.drawing import INDICES, attributes
from tests.equivalence.adversary.rewrites import NEUTRAL, REWRITES, Put


def _other_attribute(chance: random.Random, draft: Draft) -> Draft:
    """One attribute is another one, or is written out, or left out."""
    at = _step(chance, draft, lambda step: bool(step.attributes) or bool(OPERATORS[step.operator].choices))
    step = draft.steps[at]
    choices = OPERATORS[step.operator].choices
    if not choices:
        drawn = attributes(chance, step.operator, draft.types()[step.inputs[0]])
    else:
        name = chance.choice(list(choices))
        drawn = {**step.attributes, name: chance.choice(choices[name])}
        if step.operator == "slice":  # whose numbers depend on the axis
            drawn = attributes(chance, step.operator, draft.types()[step.inputs[0]])
    given = {name: value for name, value in drawn.items() if value is not None}
    return _replaced(draft, at, replace(step, attributes=given))


def _other_order(chance: random.Random, draft: Draft) -> Draft:
    """Two operands are exchanged."""
    at = _step(chance, draft, lambda step: len(step.inputs) > 1 and step.operator not in ("gather", "linear"))
    step = draft.steps[at]
    *first, one, other = step.inputs
    return _replaced(draft, at, replace(step, inputs=(*first, other, one)))


def _other_operand(chance: random.Random, draft: Draft) -> Draft:
    """A step reads another value of the same type."""
    kinds, at = draft.types(), chance.randrange(len(draft.steps))
    step = draft.steps[at]
    made = [each.output for each in draft.steps[at:]]
    place = chance.randrange(len(step.inputs))
    own = step.inputs[place]
    others = [name for name, kind in kinds.items() if kind == kinds[own] and name != own and name not in made]
    inputs = list(step.inputs)
    inputs[place] = chance.choice(others)
    return _replaced(draft, at, replace(step, inputs=tuple(inputs)))


def _other_operator(chance: random.Random, draft: Draft) -> Draft:
    """An operator is another one that takes and gives the same types."""
    at = chance.randrange(len(draft.steps))
    step, kinds = draft.steps[at], draft.types()
    row = OPERATORS[step.operator]
    like = [
        name
        for name, each in OPERATORS.items()
        if name != step.operator and (each.arity, each.result, each.choices) == (row.arity, row.result, row.choices)
    ]
    changed = replace(
        step, operator=chance.choice([name for name in like if kinds[step.inputs[0]].dtype in OPERATORS[name].takes])
    )
    if changed.operator in NOT_DRAWN:
        raise ValueError("an operator that may end the process")
    return _replaced(draft, at, changed)


def _other_constant(chance: random.Random, draft: Draft) -> Draft:
    """One element of a constant is the next number, has another sign, or another payload."""
    name = chance.choice(list(draft.constants))
    array = np.array(draft.constants[name])
    place = chance.randrange(array.size)
    if array.dtype.kind in "biu":
        array.reshape(-1)[place] ^= 1
        return replace(draft, constants={**draft.constants, name: array})
    words = array.view(f"u{array.dtype.itemsize}").reshape(-1)
    top = 8 * array.dtype.itemsize - 1
    words[place] ^= np.array(1 << chance.choice((0, 0, 1, top)), words.dtype)
    return replace(draft, constants={**draft.constants, name: array})


def _through_other_type(chance: random.Random, draft: Draft) -> Draft:
    """A value is converted to another type and back."""
    value, builder = _value(chance, draft), Builder(draft)
    own = builder.kinds[value].dtype
    other = chance.choice([name for name in (*FLOATS, *INTEGERS) if name != own])
    return _inserted(builder, value, lambda put, x: put("cast", put("cast", x, to=other), to=own))


def _neutral(chance: random.Random, draft: Draft) -> Draft:
    """What changes no number, or only zeros, NaNs or types, stands behind a value."""
    value, builder = _value(chance, draft), Builder(draft)
    kind = builder.kinds[value]
    rows = [row for row, dtypes in NEUTRAL if kind.dtype in dtypes]
    row = chance.choice(rows)
    return _inserted(builder, value, lambda put, x: row(put, x, lambda number: builder.number(number, x)))


def _moved_and_back(chance: random.Random, draft: Draft) -> Draft:
    """A value is moved, and moved back, or almost."""
    value, builder = _value(chance, draft), Builder(draft)
    shape = builder.kinds[value].shape
    rank = len(shape)
    order = chance.sample(range(rank), rank)
    back = [order.index(axis) for axis in range(rank)]
    axis = chance.randrange(-rank, rank) if rank else 0
    positions = np.arange(shape[axis] if rank else 1)
    if chance.random() < 0.3:
        positions = positions[::-1].copy()

    def moves(put: Put, x: str) -> str:
        match chance.randrange(4):
            case 0:
                return put("transpose", put("transpose", x, order=tuple(order)), order=tuple(chance.choice((back, back, order))))
            case 1:
                return put("reshape", put("reshape", x, shape=(prod(shape),)), shape=shape)
            case 2:
                return put("reverse", put("reverse", x, axis=axis), axis=axis)
            case _:
                return put("gather", x, builder.constant(positions.astype(np.int64)), axis=axis)

    return _inserted(builder, value, moves)


def _raising(chance: random.Random, draft: Draft) -> Draft:
    """A gather that no output needs."""
    builder = Builder(draft if "i" in draft.inputs else replace(draft, inputs={**draft.inputs, "i": INDICES}))
    value = chance.choice([name for name, kind in draft.types().items() if kind.shape])
    builder.do("gather", value, "i", axis=0)
    return builder.built()


def _exchanged_steps(chance: random.Random, draft: Draft) -> Draft:
    """A step that moves elements and the one before it change places."""
    at = chance.randrange(len(draft.steps) - 1)
    one, other = draft.steps[at : at + 2]
    if one.output not in other.inputs or one.output in draft.outputs or {one.operator, other.operator}.isdisjoint(INDEXING):
        raise ValueError("no step that moves elements beside another one")
    first = replace(
        other, inputs=tuple(one.inputs[0] if name == one.output else name for name in other.inputs), output=one.output
    )
    second = replace(one, inputs=(one.output, *one.inputs[1:]), output=other.output)
    return replace(draft, steps=(*draft.steps[:at], first, second, *draft.steps[at + 2 :]))


def _twice(chance: random.Random, draft: Draft) -> Draft:
    """A step is done twice, and one of those behind it reads the second result."""
    at = chance.randrange(len(draft.steps))
    builder, step = Builder(draft), draft.steps[at]
    name = builder.do(step.operator, *step.inputs, **step.attributes)
    later = [_reading(each, step.output, name) for each in draft.steps[at + 1 :]]
    return replace(builder.built(at), steps=(*draft.steps[:at], *builder.before, step, *later))


def _same(chance: random.Random, draft: Draft) -> Draft:
    """Nothing is changed."""
    return draft


def _rewritten(chance: random.Random, draft: Draft) -> Draft:
    """An operator is stated by others, as its definition does, or almost."""
    at = _step(chance, draft, lambda step: step.operator in REWRITES)
    step, builder = draft.steps[at], Builder(draft)
    row = chance.choice(REWRITES[step.operator])
    before = replace(draft, steps=draft.steps[:at])
    builder.draft = before
    found = row(builder.do, lambda number: builder.number(number, step.inputs[0]), step)
    last = builder.before[-1]
    assert last.output == found
    builder.before[-1] = replace(last, output=step.output)
    return replace(builder.draft, steps=(*before.steps, *builder.before, *draft.steps[at + 1 :]))


CHANGES: Mapping[str, tuple[int, Callable[[random.Random, Draft], Draft]]] = {
    "same": (2, _same),
    "attribute": (4, _other_attribute),
    "order": (3, _other_order),
    "operand": (1, _other_operand),
    "operator": (3, _other_operator),
    "constant": (2, _other_constant),
    "type": (1, _through_other_type),
    "neutral": (5, _neutral),
    "moved": (3, _moved_and_back),
    "raising": (1, _raising),
    "exchanged": (2, _exchanged_steps),
    "twice": (1, _twice),
    "rewritten": (6, _rewritten),
}
"""The changes with their shares."""


def changed(chance: random.Random, draft: Draft) -> tuple[str, Draft]:
    """A near miss of a draft, with the kind of the change."""
    names = [name for name, (share, _) in CHANGES.items() for _ in range(share)]
    while True:
        name = chance.choice(names)
        try:
            found = CHANGES[name][1](chance, draft)
            found.types()
        except (ValueError, IndexError):  # a change that this draft has no place for
            continue
        used = {each for step in found.steps for each in step.inputs}
        return name, replace(found, constants={key: array for key, array in found.constants.items() if key in used})


def _step(chance: random.Random, draft: Draft, fits: Callable[[Step], bool]) -> int:
    return chance.choice([at for at, step in enumerate(draft.steps) if fits(step)])


def _replaced(draft: Draft, at: int, step: Step) -> Draft:
    return replace(draft, steps=(*draft.steps[:at], step, *draft.steps[at + 1 :]))


def _value(chance: random.Random, draft: Draft) -> str:
    """An input or a result."""
    read = {name for step in draft.steps for name in step.inputs}
    return chance.choice([name for name in draft.types() if name in read or name in draft.outputs])


def _reading(step: Step, old: str, new: str) -> Step:
    return replace(step, inputs=tuple(new if name == old else name for name in step.inputs))


def _inserted(builder: Builder, value: str, steps: Callable[[Put, str], str]) -> Draft:
    """The draft in which everything behind a value reads what these steps make of it."""
    found = steps(builder.do, value)
    draft = builder.draft
    at = next((k + 1 for k, step in enumerate(draft.steps) if step.output == value), 0)
    later = tuple(_reading(step, value, found) for step in draft.steps[at:])
    outputs = tuple(found if name == value else name for name in draft.outputs)
    return replace(draft, steps=(*draft.steps[:at], *builder.before, *later), outputs=outputs)
