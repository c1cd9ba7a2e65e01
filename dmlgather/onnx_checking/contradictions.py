"""What a model states of a tensor, where that contradicts what follows from the inputs of the node that gives it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import zip_longest

from dmlgather.dialects.export_codes import CODES
from dmlgather.directml import Finding
from dmlgather.directml.rules.tensors import ELEMENT_LIMIT
from dmlgather.onnx.problems.partial_types import NOTHING, PartialType, Size
from dmlgather.onnx_checking.sizes.expressions import KnownSize, Sizes
from dmlgather.onnx_checking.sizes.size_search import Constraint, Crossing, SizeSearch, Values
from dmlgather.wording import printable

Shape = tuple[Size, ...]


@dataclass(frozen=True, slots=True)
class Contradiction:
    """Two types of one tensor.

    place: of the node that gives it. graph: the path of the graph around it. tensor: its name. operator: of the node, with its
    domain. stated: the type in the model's value_info or outputs. follows: the type by the node's inputs. kept: the type that
    onnxruntime goes on with once it has merged both. first: the one that it goes on with before it folds constants and inlines
    functions. refused: whether it does not load the model instead.
    """

    place: str
    graph: str
    tensor: str
    operator: str
    stated: PartialType
    follows: PartialType
    kept: PartialType
    first: PartialType
    refused: bool = False


def uncontradicted(stated: PartialType, follows: PartialType, may_be: Callable[[Size, Size], bool]) -> PartialType:
    """Return what of a stated type may be true beside what follows. may_be: whether a stated size may be one that follows."""
    if not same_type(stated, follows):
        return NOTHING
    if stated.shape is None or follows.shape is None:
        return stated
    if len(stated.shape) != len(follows.shape):
        return stated.sized(None)
    return stated.sized([one if may_be(one, two) else None for one, two in zip(stated.shape, follows.shape, strict=True)])


def same_type(stated: PartialType, follows: PartialType) -> bool:
    """Return whether a stated data type may be the one that follows."""
    return None in (stated.name, follows.name) or stated.name == follows.name


def numbers_may_be(stated: Size, follows: Size) -> bool:
    """Return whether a stated size may be one that follows, of which only a number is known."""
    return not isinstance(stated, int) or not isinstance(follows, int) or stated == follows


def sure_part(known: PartialType, follows: PartialType) -> PartialType:
    """Return a type with only those numbers, that rank and that data type that follow. Its other sizes stay."""
    if known.kind is not None or known.excessive:
        return known if follows.kind == known.kind else NOTHING
    dtype = None if follows.dtype is None else known.dtype
    if known.shape is None or follows.shape is None or len(known.shape) != len(follows.shape):
        return PartialType(dtype, None if known.shape is None else follows.shape)
    return PartialType(
        dtype, tuple(two if isinstance(one, int) else one for one, two in zip(known.shape, follows.shape, strict=True))
    )


def lenient(stated: PartialType, inferred: PartialType) -> PartialType:
    """Return what onnxruntime keeps of a stated type and one that it infers: of sizes that differ none, of two ranks no shape."""
    known = inferred if stated.name is None else stated
    if stated.shape is None or inferred.shape is None:
        return known.sized(inferred.shape if stated.shape is None else stated.shape)
    if len(stated.shape) != len(inferred.shape):
        return known.sized(None)
    pairs = _pairs(stated, inferred)
    first = next((at for at, (one, two) in enumerate(pairs) if _numbers(one, two) and one != two), None)
    if first is None:
        return known.sized([_filled(*pair) for pair in pairs])
    # Sizes before the first one that differs are filled before it is met; then only what is equal stays.
    merged = [_filled(*pair) if at < first else pair[0] for at, pair in enumerate(pairs)]
    return known.sized([one if one == two else None for one, (_, two) in zip(merged, pairs, strict=True)])


def _numbers(*sizes: Size) -> bool:
    return all(isinstance(size, int) for size in sizes)


def _filled(stated: Size, inferred: Size) -> Size:
    return inferred if stated is None or isinstance(inferred, int) else stated


UNNOTICED = (
    "what follows from it may be refused or fail, and the DirectML provider ends with 0x80070057 if it runs the node, because it "
    "compares the model's sizes with its own"
)
"""What becomes of a stated size that is wrong and that onnxruntime does not notice."""


def finding_of(found: Contradiction, sizes: Sizes) -> Finding:
    """Return the finding about a contradiction. sizes: of its model."""
    stated, follows, name = found.stated, found.follows, printable(found.tensor)
    mend = f"remove the type of {name!r} from the model's value_info or outputs"
    if found.refused:
        code, outcome, mend = "EXP307", "onnxruntime refuses to load the model", f"correct the type of {name!r} in the model"
    elif _never(stated, follows, sizes):
        code, outcome = "EXP306", _outcome(found)
    else:
        code = "EXP308"
        held = [f"{two} = {one}" for one, two in _pairs(stated, follows) if isinstance(two, str) and isinstance(one, int)]
        outcome = (
            f"right for {printable(' and '.join(dict.fromkeys(held)))} only; onnxruntime does not notice others: {UNNOTICED}"
        )
    return CODES[code].finding(
        "",
        expected=f"{name!r} of type {follows}, which follows from the inputs of its node",
        got=f"{stated}, as the model states it; {outcome}",
        remedy=f"{mend}, or mend the exporter that wrote it",
    )


def _outcome(found: Contradiction) -> str:
    """What onnxruntime does with a tensor of which it keeps some sizes."""
    if _wrong(found.kept.shape, found.follows.shape):
        return f"onnxruntime does not notice, and goes on with {found.kept}: {UNNOTICED}"
    if _wrong(found.first.shape, found.follows.shape):
        before = f"before, it may refuse what follows from {found.first}"
        return f"onnxruntime goes on with {found.kept} once it has folded constants and inlined functions; {before}"
    return f"onnxruntime goes on with {found.kept}, and computes the right one"


def _wrong(kept: Shape | None, follows: Shape | None) -> bool:
    """Whether a shape has a number, or a rank, that does not follow."""
    if kept is None or follows is None or len(kept) != len(follows):
        return kept is not None
    return any(isinstance(one, int) and one != two for one, two in zip(kept, follows, strict=True))


def _never(stated: PartialType, follows: PartialType, sizes: Sizes) -> bool:
    """Whether a stated type is the one that follows for no sizes of the inputs."""
    if not same_type(stated, follows) or stated.shape is None or follows.shape is None or len(stated.shape) != len(follows.shape):
        return True
    pairs = [(one, two) for one, two in _pairs(stated, follows) if isinstance(one, int) and two is not None]
    symbols = sorted(frozenset().union(*(sizes.symbols(two) for _, two in pairs)))
    constraints = [
        Constraint(sizes.symbols(two), partial(_is, sizes, two, one), (Crossing((two,), (), one),)) for one, two in pairs
    ]
    return SizeSearch(sizes, symbols, {}, ELEMENT_LIMIT).first(constraints) is None


def _is(sizes: Sizes, size: KnownSize, number: int, values: Values) -> bool:
    return sizes.at(size, values) == number


def _pairs(stated: PartialType, follows: PartialType) -> list[tuple[Size, Size]]:
    return list(zip_longest(stated.shape or (), follows.shape or ()))
