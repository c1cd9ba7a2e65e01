"""x[…] of a tensor: PyTorch's index expressions as problems."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dmlgather.dialects.advanced_indexing import AdvancedIndexing, BasicIndexing, Entry, Mask, indexing
from dmlgather.dialects.problem import TensorType
from dmlgather.plan import OutOfBounds
from dmlgather.torch.problems.arguments import check_data


@dataclass(frozen=True)
class TorchIndexing(AdvancedIndexing):
    """An index expression with index tensors, in which PyTorch looks at no index where the output has no elements."""

    @property
    def arguments(self) -> tuple[str, ...]:
        return ("input", "indices")

    @property
    def out_of_bounds(self) -> OutOfBounds:  # type: ignore[override] # it follows from the output
        """An error; without an output, nothing."""
        return OutOfBounds.PROMISE if 0 in self.output.shape else OutOfBounds.RAISE


def index(data: TensorType, entries: Sequence[Entry]) -> BasicIndexing | TorchIndexing:
    """The problem data[entries], as `indexing`, by PyTorch's rules.

    An ellipsis parts no neighbours where it stands for nothing, and integers do not count as index tensors. Raises IndexError for
    an index of a dimension of size 0; ValueError for a step below 1.
    """
    check_data("Tensor.__getitem__", "input", data)
    for number, entry in enumerate(entries):
        if isinstance(entry, slice) and entry.step is not None and entry.step < 1:
            raise ValueError(f"entry {number} has step {entry.step}, expected 1 or more: flip the dimension for a negative one")
    problem = indexing(data, _without_ellipses(data.rank, entries), integers_advance=False)
    if not isinstance(problem, AdvancedIndexing):
        return problem
    empty = [axis for axis in problem.axes if not data.shape[axis]]
    if empty and 0 not in problem.positions:
        raise IndexError(f"dimension {empty[0]} of input has size 0, but is indexed: there is no valid index")
    return TorchIndexing(problem.data, problem.indices, problem.taken, problem.axes, problem.kept, problem.place)


def _without_ellipses(rank: int, entries: Sequence[Entry]) -> list[Entry]:
    """The entries with slices in the place of the first ellipsis; another one, at the end, stands for nothing."""
    taken = sum(len(entry.shape) if isinstance(entry, Mask) else entry is not None and entry is not ... for entry in entries)
    found: list[Entry] = []
    for entry in entries:
        if entry is ... and taken <= rank:
            found += [slice(None)] * (rank - taken)
            taken = rank
        else:
            found.append(entry)
    return found
