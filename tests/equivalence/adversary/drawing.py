"""Draws random drafts, and hostile elements for their inputs and constants."""

from __future__ import annotations

import random
from collections.abc import Collection, Iterator, Mapping
from itertools import permutations
from math import prod
from typing import Any

import numpy as np

from tests.equivalence.adversary.drafts import (
    FLOATS,
    INDEXING,
    INTEGERS,
    NOT_DRAWN,
    OPERATORS,
    Array,
    Builder,
    Draft,
    Type,
    numpy_dtype,
)

SHAPES = ((3,), (2, 3), (3, 3), (2, 3, 2))
"""Few shapes, since JAX compiles an operator for each."""

INDICES = Type((2,), "int64")
TRIALS = 10
"""Inputs that both programs of a pair run on."""

ALIGNMENT = 64
"""Bytes to which inputs are aligned: libraries compute the ends of others in another way."""


def aligned(array: Array) -> Array:
    """A copy whose memory begins at a multiple of ALIGNMENT."""
    memory = np.zeros(array.nbytes + ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % ALIGNMENT
    copy = memory[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


def specials(dtype: np.dtype[Any]) -> Array:
    """Zeros of both signs, infinities, NaNs with payloads, subnormals, and what lies at edges."""
    word = np.dtype(f"u{dtype.itemsize}")
    ones = np.array([1.0], dtype).view(word)[0]
    infinity = int(np.array([np.inf], dtype).view(word)[0])
    sign, quiet = 1 << (8 * dtype.itemsize - 1), 1 << (infinity & -infinity).bit_length() - 2
    positive = [0, 1, 2, quiet - 1, 2 * quiet - 1, 2 * quiet, infinity - 1, infinity, int(ones), int(ones) + 1, int(ones) - 1]
    positive += [infinity | quiet, infinity | quiet | 1, infinity | quiet | 5]
    positive += [] if dtype.itemsize == 2 else [infinity | 1]  # float16's signalling NaNs do not survive every copy
    numbers = np.array([0.1, 0.5, 2, 3, 6, 20, 88.8, 1e4, 1e-3, 1e-4], dtype).view(word)
    every = [*positive, *numbers.tolist()]
    return np.array([*every, *(each | sign for each in every)], word).view(dtype)


def integer_specials(dtype: np.dtype[Any]) -> Array:
    """The ends of a type, and small numbers."""
    limits = np.iinfo(dtype)
    numbers = {0, 1, 2, 3, 7, int(limits.max), int(limits.max) - 1, int(limits.min), int(limits.min) + 1}
    return np.array(sorted(numbers | ({-1, -2, -3} if limits.min else set())), dtype)


def elements(chance: random.Random, kind: Type, manner: int) -> Array:
    """Elements of an input: mild numbers, special ones, random bits, or one everywhere."""
    dtype, count = numpy_dtype(kind.dtype), prod(kind.shape)
    rng = np.random.default_rng(chance.getrandbits(32))
    if kind.dtype == "bool":
        return rng.integers(0, 2, kind.shape).astype(bool)
    pool = specials(dtype) if kind.dtype in FLOATS else integer_specials(dtype)
    match manner % 5:
        case 0 if kind.dtype in FLOATS:
            found = rng.standard_normal(count).astype(dtype)
        case 1:
            found = np.array(np.frombuffer(rng.bytes(count * dtype.itemsize), dtype))
            if dtype.itemsize == 2 and kind.dtype in FLOATS:
                with np.errstate(invalid="ignore"):  # of signalling NaNs
                    found[np.isnan(found)] = 1.5
        case 2:
            found = np.full(count, rng.choice(pool))
        case _:
            found = rng.choice(pool, count)
    return np.array(found).reshape(kind.shape)


def inputs_of(chance: random.Random, draft: Draft, trial: int) -> dict[str, Array]:
    """Elements for all inputs. Indices are in range or at edges."""
    found = {}
    for name, kind in draft.inputs.items():
        if name == "i":
            choices = (0, 1) if trial % 2 else (-4, -3, -2, -1, 0, 1, 2, 3, 2**31, -(2**63), 2**63 - 1)
            array = np.array([chance.choice(choices) for _ in range(prod(kind.shape))], np.int64).reshape(kind.shape)
        else:
            array = elements(chance, kind, trial)
        found[name] = aligned(array)
    return found


def trials(chance: random.Random, draft: Draft) -> Iterator[dict[str, Array]]:
    """Inputs of all manners."""
    for trial in range(TRIALS):
        yield inputs_of(chance, draft, trial)


def constant(chance: random.Random, kind: Type) -> Array:
    """A constant: one special or mild number at each place."""
    return elements(chance, kind, chance.choice((0, 2, 3)))


def random_draft(chance: random.Random, operators: Collection[str], dtypes: Collection[str] = (*FLOATS, *INTEGERS)) -> Draft:
    """A program of one to three of these operators, with indexing before and behind them."""
    dtype = chance.choice([each for each in dtypes if each in FLOATS] * 4 + list(dtypes))
    shape = chance.choice(SHAPES)
    inputs: Mapping[str, Type] = {"x": Type(shape, dtype), "y": Type(chance.choice((shape, shape, shape[-1:], ())), dtype)}
    inputs = {**inputs, "m": Type(shape, "bool"), "i": INDICES}
    builder = Builder(Draft(inputs, {}, (), ()))
    value = _moved(chance, builder, chance.choice("xxxy"))
    for _ in range(chance.choice((1, 1, 2, 3))):
        value = _computed(chance, builder, value, operators)
        if chance.random() < 0.3:
            value = _moved(chance, builder, value)
    if chance.random() < 0.3:
        value = _moved(chance, builder, value)
    if not builder.before:
        return random_draft(chance, operators, dtypes)
    built = builder.built()
    outputs = [value]
    if chance.random() < 0.15:
        outputs.append(chance.choice(built.steps).output)
    used = {name for step in built.steps for name in step.inputs}
    kept = {name: kind for name, kind in inputs.items() if name in used or name == "x"}
    return Draft(kept, built.constants, built.steps, tuple(dict.fromkeys(outputs)))


def attributes(chance: random.Random, operator: str, kind: Type) -> dict[str, Any]:
    """Random ones."""
    found = {name: chance.choice(choices) for name, choices in OPERATORS[operator].choices.items()}
    rank = len(kind.shape)
    if operator == "transpose":
        found["order"] = chance.choice(list(permutations(range(rank))))
    if operator == "reshape":
        count = prod(kind.shape)
        found["shape"] = chance.choice([(count,), (1, count), *((k, count // k) for k in (2, 3) if count % k == 0)])
    if operator == "slice":
        axis = found["axis"]
        size = kind.shape[axis] if -rank <= axis < rank else 1
        found["start"], found["stop"] = chance.choice(((0, size - 1), (1, size), (0, size)))
    return found


def _computed(chance: random.Random, builder: Builder, value: str, operators: Collection[str]) -> str:
    """One operator on a value and on others that go with it."""
    for _ in range(30):
        operator = chance.choice([name for name in operators if name not in (*INDEXING, *NOT_DRAWN)])
        row, kind = OPERATORS[operator], builder.kinds[value]
        others = [name for name, each in builder.kinds.items() if each.dtype == kind.dtype and name != "i"]
        draft, kinds = builder.draft, dict(builder.kinds)
        given = [value]
        if operator == "where":
            given = ["m", value]
        while len(given) < row.arity:
            if operator == "masked_attention" and len(given) == 3:
                given.append("m")
            elif chance.random() < 0.4:
                last = kind.shape[-1:]
                shape = (
                    (last[0] if last else 1, 2)
                    if operator in ("matmul", "linear")
                    else chance.choice(((), (1,), last, kind.shape))
                )
                shape = (2,) if len(given) == 2 and operator == "linear" else shape
                given.append(builder.constant(constant(chance, Type(shape, kind.dtype))))
            else:
                given.append(chance.choice(others))
        if operator != "where" and row.arity > 1 and chance.random() < 0.3:
            given.reverse()
        try:
            return builder.do(operator, *given, **attributes(chance, operator, kind))
        except ValueError:
            builder.draft, builder.kinds = draft, kinds
    return value


def _moved(chance: random.Random, builder: Builder, value: str) -> str:
    """A value, moved."""
    operator = chance.choice((*INDEXING, "gather"))
    given = [value]
    draft, kinds = builder.draft, dict(builder.kinds)
    if operator == "gather":
        positions = [chance.choice((0, 1, -1)) for _ in range(chance.choice((1, 2, 3)))]
        given.append("i" if chance.random() < 0.5 else builder.constant(np.array(positions, np.int64)))
    if operator == "concat":
        given.append(chance.choice([name for name, each in builder.kinds.items() if each.dtype == kinds[value].dtype]))
    try:
        return builder.do(operator, *given, **attributes(chance, operator, kinds[value]))
    except ValueError:
        builder.draft, builder.kinds = draft, kinds
        return value
