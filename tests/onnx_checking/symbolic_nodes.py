"""Random nodes whose sizes and bounds are expressions, and what their verdicts say about numbers."""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
from onnx import helper

from dmlgather.directml import FeatureLevel, Finding
from dmlgather.onnx.problems.partial_types import PartialType
from dmlgather.onnx_checking.checked_model import Verdict
from dmlgather.onnx_checking.following.model_nodes import ModelNode, NodeValue
from dmlgather.onnx_checking.sizes.expressions import KnownSize, Sizes
from dmlgather.onnx_checking.sizes.values import Unknown, has_names
from dmlgather.onnx_checking.verdicts import judge

SYMBOLS = ("N", "M", "past seq")

FUNCTIONS = {
    "min": min,
    "max": max,
    "floor": lambda value: value // 1,
    "ceiling": lambda value: -(-value // 1),
    "mod": lambda a, b: a % b,
}
"""What the words in conditions mean."""


PASSED = ("EXP101", "EXP107")
"""Findings about numbers that conditions do not speak of: sizes that the operator does not take, and more than 2^32 elements."""


@cache
def expressions() -> tuple[Sizes, tuple[KnownSize, ...]]:
    """Sizes as models compute them."""
    sizes = Sizes()
    n, m, p = map(sizes.symbol, SYMBOLS)
    known: list[KnownSize] = [n, m, p]
    operations: list[tuple[str, tuple[KnownSize, ...]]] = [
        *(("add", pair) for pair in ((n, 1), (n, m), (n, p), (n, -5), (p, 3))),
        *(("subtract", pair) for pair in ((m, n), (9, n), (m, 2))),
        *(("negate", (each,)) for each in (n, p)),
        *(("multiply", pair) for pair in ((n, 2), (m, 4), (n, m))),
        *(("floor_divide", pair) for pair in ((n, 2), (m, 3), (p, 4))),
        *(("minimum", pair) for pair in ((n, 7), (m, n), (p, 12))),
        *(("maximum", pair) for pair in ((n, 3), (m, n))),
        *(("floor_modulo", pair) for pair in ((n, 4),)),
    ]
    for operation, operands in operations:
        found = sizes.compute(operation, *operands)
        assert found is not None
        known.append(found)
    for operation, operands in (("add", (known[14], 1)), ("multiply", (known[15], 3)), ("subtract", (known[4], known[17]))):
        found = sizes.compute(operation, *operands)
        assert found is not None
        known.append(found)
    return sizes, tuple(known)


def random_node(rng: random.Random) -> ModelNode:
    """A node of the family. Its sizes are those of `expressions`."""
    operator = rng.choice(("Gather", "GatherElements", "GatherND", "Slice", "Slice", "Slice", "DepthToSpace", "SpaceToDepth"))
    opset = rng.choice((7, 9, 10, 12, 17, 21)) if operator in ("Gather", "Slice") else 17
    rank = 4 if operator in ("DepthToSpace", "SpaceToDepth") else rng.randint(1, 5)
    data = [_size(rng) for _ in range(rank)]
    dtype = np.dtype(rng.choice(("float32", "int8", "int64", "bool")))
    values: dict[str, NodeValue] = {"data": NodeValue("data", PartialType(dtype, tuple(data)), Unknown("an input"))}
    attributes: dict[str, Any] = {}
    indices: list[KnownSize] | None = None
    if operator == "Slice":
        bounds = _bounds(rng, rank)
        if opset < 10:
            numbers = {
                role: [each if isinstance(each, int) else 2 for each in bounds[role]] for role in ("starts", "ends", "axes")
            }
            attributes |= numbers
        else:
            values |= {role: _constant(role, elements) for role, elements in bounds.items()}
    elif operator == "Gather":
        attributes["axis"] = rng.randrange(rank)
        indices = [_size(rng) for _ in range(rng.randrange(3))]
    elif operator == "GatherElements":
        attributes["axis"] = rng.randrange(-rank, rank)
        indices = [rng.choice((_size(rng), size)) for size in data]
    elif operator == "GatherND":
        attributes["batch_dims"] = batch = rng.randrange(min(2, rank))
        indices = [*(rng.choice((size, size, _size(rng))) for size in data[:batch])]
        indices += [*(_size(rng) for _ in range(rng.randrange(3))), rng.randint(1, rank - batch)]
    else:
        attributes["blocksize"] = rng.randint(1, 3)
    if indices is not None:
        values["indices"] = NodeValue("indices", PartialType(np.dtype("int64"), tuple(indices)), Unknown("an input"))
    node = helper.make_node(operator, [value.name for value in values.values()], ["output"], **attributes)
    return ModelNode("node", "", 0, node, opset, tuple(values.values()), ())


def _size(rng: random.Random) -> KnownSize:
    _, known = expressions()
    return rng.randint(1, 6) if rng.random() < 0.3 else rng.choice(known[:3]) if rng.random() < 0.5 else rng.choice(known)


def _bounds(rng: random.Random, rank: int) -> dict[str, list[KnownSize]]:
    axes = rng.sample(range(rank), rng.randint(1, min(rank, 3)))
    _, known = expressions()

    def bound() -> KnownSize:
        if rng.random() < 0.5:
            return rng.choice(known)
        return rng.choice((0, 0, 1, -1, rng.randint(-9, 9), 2**63 - 1, -(2**63), 2**31 - 1))

    steps = [rng.choice((1, 1, 2, 5, -1, -2)) for _ in axes]
    return {"starts": [bound() for _ in axes], "ends": [bound() for _ in axes], "axes": [*axes], "steps": [*steps]}


def _constant(role: str, elements: Sequence[KnownSize]) -> NodeValue:
    array = np.array([*elements, None], object)[:-1]  # NumPy makes no texts of strings beside None
    array = array if any(isinstance(each, str) for each in elements) else np.array(elements, np.int64)
    return NodeValue(role, PartialType(np.dtype("int64"), array.shape), array)


def with_numbers(node: ModelNode, values: Mapping[str, int]) -> ModelNode | None:
    """The node with numbers for its symbols; None where a size has none there, or is negative."""
    sizes, _ = expressions()
    inputs = []
    try:
        for each in node.inputs:
            shape = tuple(sizes.at(size or 0, values) for size in each.type.shape or ())
            elements = each.elements
            if not isinstance(elements, Unknown) and has_names(elements):
                elements = np.array([sizes.at(size, values) for size in elements], np.int64)
            inputs.append(replace(each, type=PartialType(each.type.dtype, shape), elements=elements))
    except ZeroDivisionError:
        return None
    shapes = (size for each in inputs for size in each.type.shape or () if isinstance(size, int))
    return None if any(size < 0 for size in shapes) else replace(node, inputs=tuple(inputs))


def holds(conditions: Sequence[str], values: Mapping[str, int]) -> bool:
    """Whether conditions hold, by their words: "1 <= N <= 7", "N = 3", "N + M >= min(N, 4)". NameError for other symbols."""
    return all(bool(meaning(text.replace(" = ", " == "), values)) for text in conditions)


def meaning(text: str, values: Mapping[str, int]) -> Any:
    """What words about sizes say, for values of their symbols. NameError for other symbols."""
    names = sorted(values, key=len, reverse=True)
    pattern = "|".join(rf"'?(?<![\w.]){re.escape(name)}(?![\w\[])'?" for name in names)
    numbered = re.sub(pattern, lambda found: f"symbol_{names.index(found[0].strip(chr(39)))}", text) if names else text
    return eval(numbered, FUNCTIONS, {f"symbol_{number}": values[name] for number, name in enumerate(names)})


def told_sizes(findings: Iterable[Finding]) -> dict[str, int] | None:
    """The sizes with which a node is refused, as its findings say; None where they name none."""
    found = next((found[1] for each in findings if (found := re.search(r"\(with (.*)\)$", each.got))), None)
    return None if found is None else {name: int(size) for name, size in (pair.split(" = ") for pair in found.split(", "))}


def disagreement(node: ModelNode, level: FeatureLevel, rng: random.Random, count: int = 8) -> str | None:
    """How the verdict on a node differs from those on the node with numbers; None where it does not."""
    sizes, _ = expressions()
    judged = judge(node, level, sizes, {})
    drawn = [{name: _number(rng) for name in SYMBOLS} for _ in range(count)]
    told = told_sizes(judged.findings) if judged.verdict is Verdict.REFUSED else None
    if judged.verdict is Verdict.REFUSED and told is not None:
        drawn = [each | told for each in drawn[:1]]
    for values in drawn:
        known = with_numbers(node, values)
        if known is None:
            continue
        verdict, held = judge(known, level, Sizes(), {}), holds(judged.provided, values)
        if judged.verdict is Verdict.REFUSED and (held or told) and verdict.verdict is not Verdict.REFUSED:
            return f"refused, but not with {values}: {[each.got for each in judged.findings]}"
        if judged.verdict is not Verdict.TAKEN or any(each.code in PASSED for each in verdict.findings):
            continue
        if held and verdict.verdict is not Verdict.TAKEN:
            return f"taken, provided that {judged.provided}, but not with {values}: {[each.got for each in verdict.findings]}"
        if held and (judged.lowest is None or verdict.lowest is None or verdict.lowest.level > judged.lowest.level):
            return f"taken from {judged.lowest} on, but with {values} from {verdict.lowest}"
        if not held and verdict.verdict is Verdict.TAKEN and _exact(node):
            return f"taken with {values}, although {judged.provided} do not hold"
    return None


def _number(rng: random.Random) -> int:
    return rng.choice((rng.randint(0, 4), rng.randint(0, 12), rng.randint(0, 70)))


def _exact(node: ModelNode) -> bool:
    """Whether conditions state exactly when no tensor is empty: where bounds are numbers."""
    return all(isinstance(each.elements, Unknown) or not has_names(each.elements) for each in node.inputs)
