"""Contradictions between a tensor's declared type and the type that follows from its node's inputs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from operator import eq

from dmlgather.dialects.export_codes import CODES
from dmlgather.directml import Finding
from dmlgather.directml.rules.tensors import ELEMENT_LIMIT
from dmlgather.onnx.problems.partial_types import NOTHING, PartialType, Size
from dmlgather.onnx_checking.sizes.expressions import Sizes
from dmlgather.onnx_checking.sizes.size_search import SizeSearch, constraint_on
from dmlgather.wording import printable

Shape = tuple[Size, ...]


@dataclass(frozen=True, slots=True)
class Contradiction:
    """A tensor with different declared and inferred types.
    `runtime`: the type that onnxruntime uses, after it merged both.
    `first_runtime`: the type that it uses before it folds constants and inlines functions.
    """

    place: str
    graph: str
    tensor: str
    operator: str
    declared: PartialType
    inferred: PartialType
    runtime: PartialType
    first_runtime: PartialType
    is_output: bool
    refused: bool = False


def consistent_part(declared: PartialType, inferred: PartialType, may_be: Callable[[Size, Size], bool]) -> PartialType:
    """Return the declared type without the facts that the inferred type contradicts."""
    if not same_type(declared, inferred):
        return NOTHING
    if declared.shape is None or inferred.shape is None:
        return declared
    if len(declared.shape) != len(inferred.shape):
        return declared.sized(None)
    return declared.sized([pair[0] if may_be(*pair) else None for pair in _pairs(declared, inferred)])


def same_type(declared: PartialType, inferred: PartialType) -> bool:
    """Return True if the data types are equal, or if one is unknown."""
    return None in (declared.name, inferred.name) or declared.name == inferred.name


def numbers_may_be(declared: Size, inferred: Size) -> bool:
    """Return True if the sizes may be equal: they are the same number, or one is not a number."""
    return not isinstance(declared, int) or not isinstance(inferred, int) or declared == inferred


def confirmed_part(type_: PartialType, inferred: PartialType) -> PartialType:
    """Keep only the facts of a type that the inferred type confirms. Numbers become the inferred sizes; names of sizes stay."""
    if type_.kind is not None or type_.excessive:
        return type_ if inferred.kind == type_.kind else NOTHING
    dtype = None if inferred.dtype is None else type_.dtype
    if type_.shape is None or inferred.shape is None or len(type_.shape) != len(inferred.shape):
        return PartialType(dtype, None if type_.shape is None else inferred.shape)
    return PartialType(dtype, tuple(sure if isinstance(size, int) else size for size, sure in _pairs(type_, inferred)))


def runtime_merge(declared: PartialType, inferred: PartialType) -> PartialType:
    """Merge a declared and an inferred type of a tensor as onnxruntime does."""
    typed = inferred if declared.name is None else declared
    if declared.shape is None or inferred.shape is None:
        return typed.sized(inferred.shape if declared.shape is None else declared.shape)
    if len(declared.shape) != len(inferred.shape):
        return typed.sized(None)
    pairs = _pairs(declared, inferred)
    difference = next((position for position, pair in enumerate(pairs) if not numbers_may_be(*pair)), None)
    if difference is None:
        return typed.sized([_filled(*pair) for pair in pairs])
    # onnxruntime merges sizes in order. It stops at the first difference, and then keeps only sizes that are equal.
    # [?, 2, ?] and [N, 3, M]: the first size becomes N, the second is dropped, the third stays unknown.
    merged = [_filled(*pair) if position < difference else pair[0] for position, pair in enumerate(pairs)]
    return typed.sized([left if left == right else None for left, (_, right) in zip(merged, pairs, strict=True)])


def _filled(declared: Size, inferred: Size) -> Size:
    return inferred if declared is None or isinstance(inferred, int) else declared


UNNOTICED = (
    "what follows from it may be refused or fail, and the DirectML provider ends with 0x80070057 if it runs the node, because it "
    "compares the model's sizes with its own"
)


def finding_of(contradiction: Contradiction, sizes: Sizes) -> Finding:
    """Return the finding about a contradiction."""
    declared, inferred, name = contradiction.declared, contradiction.inferred, printable(contradiction.tensor)
    advice = f"remove the type of {name!r} from the model's value_info"
    if contradiction.is_output:  # ONNX's checker requires its type
        advice = f"state {inferred} for {name!r} in the outputs of the graph"
        computed = [size for size in dict.fromkeys(inferred.shape or ()) if isinstance(size, str) and not size.isidentifier()]
        advice += f" (any name does for {printable(' and '.join(computed))})" if computed else ""
    if contradiction.refused:
        code, outcome, advice = "EXP307", "onnxruntime refuses to load the model", f"correct the type of {name!r} in the model"
    elif _always_wrong(declared, inferred, sizes):
        code, outcome = "EXP306", _outcome(contradiction)
    else:
        code = "EXP308"
        numbers = [(number, size) for number, size in _pairs(declared, inferred) if isinstance(number, int)]
        needed = printable(" and ".join(dict.fromkeys(f"{size} = {number}" for number, size in numbers if isinstance(size, str))))
        outcome = f"right for {needed} only; onnxruntime does not notice others: {UNNOTICED}"
    return CODES[code].finding(
        "",
        expected=f"{name!r} of type {inferred}, which follows from the inputs of its node",
        got=f"{declared}, as the model states it; {outcome}",
        remedy=f"{advice}, or mend the exporter that wrote it",
    )


def _outcome(contradiction: Contradiction) -> str:
    """Say which type onnxruntime uses for the tensor, and what follows from it."""
    if _contradicts(contradiction.runtime.shape, contradiction.inferred.shape):
        return f"onnxruntime does not notice, and goes on with {contradiction.runtime}: {UNNOTICED}"
    if _contradicts(contradiction.first_runtime.shape, contradiction.inferred.shape):
        before = f"before, it may refuse what follows from {contradiction.first_runtime}"
        return f"onnxruntime goes on with {contradiction.runtime} once it has folded constants and inlined functions; {before}"
    return f"onnxruntime goes on with {contradiction.runtime}, and computes the right one"


def _contradicts(shape: Shape | None, inferred: Shape | None) -> bool:
    """Return True if ranks differ, or if a number in the shape differs from the inferred size."""
    if shape is None or inferred is None or len(shape) != len(inferred):
        return shape is not None
    return any(isinstance(size, int) and size != expected for size, expected in zip(shape, inferred, strict=True))


def _always_wrong(declared: PartialType, inferred: PartialType, sizes: Sizes) -> bool:
    """Return True if the declared type is wrong for all sizes of the model's inputs."""
    ranks = [None if type_.shape is None else len(type_.shape) for type_ in (declared, inferred)]
    if not same_type(declared, inferred) or None in ranks or ranks[0] != ranks[1]:
        return True
    pairs = [(number, size) for number, size in _pairs(declared, inferred) if isinstance(number, int) and size is not None]
    symbols = sorted(frozenset().union(*(sizes.symbols(size) for _, size in pairs)))
    constraints = [constraint_on(sizes, size, partial(eq, number), number) for number, size in pairs]
    return SizeSearch(sizes, symbols, {}, ELEMENT_LIMIT).first(constraints) is None


def _pairs(declared: PartialType, inferred: PartialType) -> list[tuple[Size, Size]]:
    return list(zip(declared.shape or (), inferred.shape or (), strict=True))
