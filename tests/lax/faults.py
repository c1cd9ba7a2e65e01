"""Every way to break a good call by one fault, and what it raises."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np

from tests.dialects import drafting
from tests.dialects.drafting import setting
from tests.lax.drafts import Draft

Breaks = Callable[[random.Random, Draft], bool | None]

NO_OPERANDS: tuple[Any, ...] = ("O", "U3", "S3", "datetime64[s]", "timedelta64[D]", "V4", ">f4", ">i8", "longdouble")
NO_INTEGERS: tuple[Any, ...] = ("bool", "float16", "float32", "complex64", ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn)
NO_INDICES: tuple[Any, ...] = ("O", "U3", "S3", "datetime64[s]", ">i4", ">u2")
NO_MODES: tuple[Any, ...] = ("wrap", "CLIP", "", 3, 0, "promise", ("clip",), np.float32(1))
NO_FILLS: tuple[Any, ...] = ("3", b"3", [1], (1,), np.array(1.0), np.array([1, 2]), object(), Fraction(1, 2), np.str_("1"), {})


@dataclass(frozen=True)
class Fault(drafting.Fault):
    """One way to break a good call. judged: whether JAX raises the same; where it does not, `why` says what it does."""

    why: str = ""

    @property
    def judged(self) -> bool:
        return not self.why


def _swapped(field: str) -> Breaks:
    def breaks(rng: random.Random, draft: Draft) -> bool | None:
        dims = draft.numbers[field]
        if len(dims) < 2:
            return False
        dims.reverse()
        if field == "operand_batching_dims":  # which the indices' go along with
            draft.numbers["start_indices_batching_dims"].reverse()
        return None

    return breaks


def _repeated(field: str) -> Breaks:
    def breaks(rng: random.Random, draft: Draft) -> bool | None:
        dims = draft.numbers[field]
        if not dims:
            return False
        number = rng.randrange(len(dims))
        dims.insert(number, dims[number])
        if field == "start_index_map":
            draft.start_indices = np.zeros((*draft.start_indices.shape[:-1], len(dims)), draft.start_indices.dtype)
        return None

    return breaks


def _outside(field: str, rank: Callable[[Draft], int]) -> Breaks:
    def breaks(rng: random.Random, draft: Draft) -> bool | None:
        dims, size = draft.numbers[field], rank(draft)
        if not dims:
            return False
        if rng.random() < 0.5:
            dims[-1] = size + rng.choice((0, 1, 5, 2**31, 2**40))
        else:
            dims[0] = -rng.choice((1, 2, 2**31, 2**40))
        return None

    return breaks


def _operand_rank(draft: Draft) -> int:
    return int(draft.operand.ndim)


def _index_rank(draft: Draft) -> int:
    return int(draft.start_indices.ndim)


def _result_rank(draft: Draft) -> int:
    return len(draft.numbers["offset_dims"]) + _index_rank(draft) - 1


def _scalar_indices(rng: random.Random, draft: Draft) -> None:
    draft.start_indices = np.zeros((), draft.start_indices.dtype)


def _other_count_of_components(rng: random.Random, draft: Draft) -> None:
    shape = draft.start_indices.shape
    draft.start_indices = np.zeros((*shape[:-1], shape[-1] + rng.choice((1, 2))), draft.start_indices.dtype)


def _in_both(field: str) -> Breaks:
    def breaks(rng: random.Random, draft: Draft) -> bool | None:
        dims, batching = draft.numbers[field], draft.numbers["operand_batching_dims"]
        if not batching:
            return False
        dims.append(rng.choice(batching))
        if field == "start_index_map":
            _scale_components(draft)
        else:
            dims.sort()
        return None

    return breaks


def _scale_components(draft: Draft) -> None:
    count = len(draft.numbers["start_index_map"])
    draft.start_indices = np.zeros((*draft.start_indices.shape[:-1], count), draft.start_indices.dtype)


def _batching(change: Callable[[random.Random, Draft, list[int], int], object]) -> Breaks:
    """Changes start_indices_batching_dims at a place of it."""

    def breaks(rng: random.Random, draft: Draft) -> bool | None:
        dims = draft.numbers["start_indices_batching_dims"]
        if not dims:
            return False
        change(rng, draft, dims, rng.randrange(len(dims)))
        return None

    return breaks


def _along_vectors(rng: random.Random, draft: Draft, dims: list[int], place: int) -> None:
    dims[place] = _index_rank(draft) - 1


def _unequal(rng: random.Random, draft: Draft, dims: list[int], place: int) -> None:
    sizes = list(draft.start_indices.shape)
    sizes[dims[place]] = rng.choice([size for size in (1, 2, 6) if size != sizes[dims[place]]])
    draft.start_indices = np.zeros(sizes, draft.start_indices.dtype)


def _count_of_sizes(rng: random.Random, draft: Draft) -> None:
    if draft.slice_sizes and rng.random() < 0.5:
        draft.slice_sizes.pop()
    else:
        draft.slice_sizes.append(1)


def _undecided_dimension(rng: random.Random, draft: Draft) -> bool | None:
    names = [name for name in ("offset_dims", "collapsed_slice_dims") if draft.numbers[name]]
    if not names:
        return False
    draft.numbers[rng.choice(names)].pop()
    return all(dim < _result_rank(draft) for dim in draft.numbers["offset_dims"]) or False


def _window(more: Callable[[random.Random, int], int], *, empty: bool = False) -> Breaks:
    """Gives a window another size, which `more` chooses for a size of operand. empty: where there are no windows."""

    def breaks(rng: random.Random, draft: Draft) -> bool | None:
        if not draft.slice_sizes or (0 in draft.start_indices.shape) is not empty:
            return False
        dim = rng.randrange(len(draft.slice_sizes))
        draft.slice_sizes[dim] = more(rng, draft.operand.shape[dim])
        return None

    return breaks


def _large_window_of_no_components(rng: random.Random, draft: Draft) -> bool | None:
    gone = (*draft.numbers["collapsed_slice_dims"], *draft.numbers["operand_batching_dims"])
    kept = [dim for dim in range(len(draft.slice_sizes)) if dim not in gone]
    if not kept or draft.numbers["start_index_map"] or 0 in (*draft.start_indices.shape[:-1], *draft.slice_sizes):
        return False
    dim = rng.choice(kept)
    draft.slice_sizes[dim] = draft.operand.shape[dim] + 1
    return None


def _size_of(field: str, sizes: tuple[int, ...]) -> Breaks:
    def breaks(rng: random.Random, draft: Draft) -> bool | None:
        dims = [dim for dim in draft.numbers[field] if draft.operand.shape[dim] >= max(sizes)]
        if not dims or 0 in draft.start_indices.shape:
            return False
        draft.slice_sizes[rng.choice(dims)] = rng.choice(sizes)
        return None

    return breaks


def _zeros(name: str, dtypes: tuple[Any, ...]) -> Callable[[random.Random, Draft], None]:
    return setting(name, lambda rng, draft: np.zeros(getattr(draft, name).shape, rng.choice(dtypes)))


def _no_fill(rng: random.Random, draft: Draft) -> None:
    draft.mode, draft.fill_value = rng.choice(("fill", "drop")), rng.choice(NO_FILLS)


def _complex_fill(rng: random.Random, draft: Draft) -> bool | None:
    if draft.operand.dtype.kind in "cb":
        return False
    draft.mode, draft.fill_value = "fill", rng.choice((1j, 3 - 2j))
    return None


def _no_size(rng: random.Random, draft: Draft) -> bool | None:
    if not draft.slice_sizes:
        return False
    draft.slice_sizes[rng.randrange(len(draft.slice_sizes))] = rng.choice((1.0, "1", None, (1,), 1j))
    return None


def _list_of_dims(rng: random.Random, draft: Draft) -> None:
    name = rng.choice(list(draft.numbers))
    draft.numbers[name] = np.array(draft.numbers[name], int)  # no more hashable than a list, which a finished call has not


FAULTS = (
    Fault("start_indices of rank 0", TypeError, _scalar_indices),
    Fault("offset_dims unsorted", TypeError, _swapped("offset_dims")),
    Fault("offset_dims repeated", TypeError, _repeated("offset_dims")),
    Fault("offset_dims outside", TypeError, _outside("offset_dims", _result_rank)),
    Fault("components of start_indices", TypeError, _other_count_of_components),
    Fault("start_index_map outside", TypeError, _outside("start_index_map", _operand_rank)),
    Fault("start_index_map repeated", TypeError, _repeated("start_index_map")),
    Fault("collapsed_slice_dims unsorted", TypeError, _swapped("collapsed_slice_dims")),
    Fault("collapsed_slice_dims outside", TypeError, _outside("collapsed_slice_dims", _operand_rank)),
    Fault("collapsed_slice_dims repeated", TypeError, _repeated("collapsed_slice_dims")),
    Fault("operand_batching_dims repeated", TypeError, _repeated("operand_batching_dims")),
    Fault("operand_batching_dims unsorted", TypeError, _swapped("operand_batching_dims")),
    Fault("operand_batching_dims outside", TypeError, _outside("operand_batching_dims", _operand_rank)),
    Fault("collapsed and batching", TypeError, _in_both("collapsed_slice_dims")),
    Fault("looked up and batching", TypeError, _in_both("start_index_map")),
    Fault("start_indices_batching_dims repeated", TypeError, _repeated("start_indices_batching_dims")),
    Fault("start_indices_batching_dims outside", TypeError, _outside("start_indices_batching_dims", _index_rank)),
    Fault("batching along index vectors", TypeError, _batching(_along_vectors)),
    Fault("counts of batching dimensions", TypeError, _batching(lambda rng, draft, dims, place: dims.pop(place))),
    Fault("sizes of batching dimensions", TypeError, _batching(_unequal)),
    Fault("count of slice sizes", TypeError, _count_of_sizes),
    Fault("dimension of no kind", TypeError, _undecided_dimension),
    Fault("slice size above", TypeError, _window(lambda rng, size: size + rng.choice((1, 1, 3, 2**31, 2**33)))),
    Fault("slice size below 0", TypeError, _window(lambda rng, size: -rng.choice((1, 2, 2**31)))),
    Fault("slice size of a collapsed dimension", TypeError, _size_of("collapsed_slice_dims", (0, 2))),
    Fault("slice size of a batching dimension", TypeError, _size_of("operand_batching_dims", (2,))),
    Fault("slice size type", TypeError, _no_size),
    Fault("arrays of dimensions", TypeError, _list_of_dims),
    Fault("operand type", TypeError, _zeros("operand", NO_OPERANDS)),
    Fault("start_indices of numbers that are no integers", ValueError, _zeros("start_indices", NO_INTEGERS)),
    Fault("start_indices of another type", TypeError, _zeros("start_indices", NO_INDICES)),
    Fault("start_indices as a list", TypeError, setting("start_indices", lambda rng, draft: draft.start_indices.tolist())),
    Fault("mode", ValueError, setting("mode", lambda rng, draft: rng.choice(NO_MODES))),
    Fault("fill_value type", TypeError, _no_fill),
    Fault("complex fill_value", TypeError, _complex_fill),
    Fault("mode one_hot", ValueError, setting("mode", lambda rng, draft: "one_hot"), why="fails an assertion"),
    Fault("slice size 0 of a batching dimension", TypeError, _size_of("operand_batching_dims", (0,)), why="backend-defined"),
    Fault(
        "slice size below 0 without indices",
        TypeError,
        _window(lambda rng, size: -1, empty=True),
        why="fails in its compiler, or passes",
    ),
    Fault("slice size above without components", TypeError, _large_window_of_no_components, why="fails in its compiler"),
)
