"""Exports PyTorch's operators to DirectML descriptors, and finds indices that give other results in DirectML."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from dmlgather.dialects import descriptors
from dmlgather.dialects.advanced_indexing import AdvancedIndexing
from dmlgather.dialects.descriptors import Dim, View
from dmlgather.dialects.export_codes import CODES
from dmlgather.dialects.exporter import Descriptors, Exporter, IndexDifferences, index_bounds, views
from dmlgather.dialects.problem import Problem
from dmlgather.dialects.view_forms import VIEW_FORMS, indexing_form, needed_by_indexing
from dmlgather.directml import DepthSpaceOrder, FeatureLevel, OperatorDesc, Report
from dmlgather.torch.problems.gathers import (
    TorchEmbedding,
    TorchGather,
    TorchGatherProblem,
    TorchIndexing,
    TorchIndexSelect,
    TorchTake,
    TorchTakeAlongDim,
)
from dmlgather.torch.problems.views import PixelProblem, PixelShuffle, PixelUnshuffle
from dmlgather.torch.problems.windows import Rolling

ONE = Dim(1, 0)
"""The dimension that replaces a missing one, because DirectML's tensors have at least one."""


def _index_select(problem: TorchIndexSelect, level: FeatureLevel) -> Descriptors:
    data, indices, output = views(problem)
    if not problem.data.rank:
        data, output = (replace(view, dims=(ONE, *view.dims)) for view in (data, output))
    return descriptors.gather(data, replace(indices, dims=indices.dims or (ONE,)), output, problem.dim, level)


def _gather(problem: TorchGather, level: FeatureLevel) -> Descriptors:
    data, indices, output = views(problem)
    parts = data.dims[problem.data.rank :]
    if not problem.data.rank:
        data = replace(data, dims=(ONE, *parts))
    if not problem.indices.rank:
        indices, output = replace(indices, dims=(ONE,)), replace(output, dims=(ONE, *parts))
    indices = replace(indices, dims=(*indices.dims, *(Dim(part.size, 0) for part in parts)))
    return descriptors.gather_elements(data, indices, output, problem.dim, level)


def _rows(problem: TorchTake | TorchEmbedding, level: FeatureLevel) -> Descriptors:
    data, indices, output = views(problem)
    return descriptors.gather(data, indices, output, 0, level)


def _shuffle(problem: PixelProblem, level: FeatureLevel) -> Descriptors:
    batch_dims, factor = problem.data.rank - 3, getattr(problem, problem.factor_name)
    data, output = (  # DirectML takes one batch dimension
        View.packed(view.name, view.data_type, (prod(view.sizes[:batch_dims]), *view.sizes[batch_dims:]))
        for view in views(problem)
    )
    form = descriptors.depth_to_space if isinstance(problem, PixelShuffle) else descriptors.space_to_depth
    return form(data, output, factor, DepthSpaceOrder.COLUMN_ROW_DEPTH, level)


def _index_differences(problem: Problem | Rolling, _: None) -> IndexDifferences | None:
    """Return the texts of findings EXP201 and EXP202, or None if the operator reads no indices."""
    if isinstance(problem, AdvancedIndexing):
        index, outside = "indices", "an IndexError"
    elif isinstance(problem, TorchGatherProblem):
        index, error = problem.arguments[1], problem.bad_index.__name__
        outside = f"{'an' if error.startswith('I') else 'a'} {error}"
    else:
        return None
    remedy = "compare the indices with these bounds before you bind them, unless you know that all are in range"
    sizes = [problem.data.shape[axis] if problem.data.rank else 1 for axis in problem.lookup_axes]
    if not any(sizes):
        return None
    outside = f"{outside} in PyTorch"
    bounds = index_bounds(filter(None, sizes), problem.wraps)
    return IndexDifferences(
        index, bounds, outside, remedy, None if problem.wraps else outside, "also compare the indices with 0 before you bind them"
    )


EXPORTER = Exporter(
    {
        TorchIndexSelect: _index_select,
        TorchGather: _gather,
        TorchTake: _rows,
        TorchEmbedding: _rows,
        PixelShuffle: _shuffle,
        PixelUnshuffle: _shuffle,
        TorchIndexing: indexing_form,
        **VIEW_FORMS,
    },
    lambda problem: f"PyTorch {problem.name}",
    needed_by_indexing,
    index_differences=_index_differences,
)


def no_remainders(problem: TorchTakeAlongDim, level: FeatureLevel) -> Report:
    """Return a report with EXP106, because DirectML cannot take indices modulo a size."""
    size = problem.data.shape[problem.dim]
    finding = CODES["EXP106"].finding(
        "indices",
        expected="indices that need no remainder, as in GATHER_ELEMENTS",
        got=f"indices that count modulo {size}",
        remedy=f"take the remainders by {size}, expand both tensors to one shape except along dim, and describe gather",
    )
    return Report(subject=f"PyTorch {problem.name}", level=level, findings=(finding,))


def express(problem: Problem | Rolling, level: FeatureLevel) -> Descriptors | Report:
    """Return the DirectML descriptors of a problem or a roll, in the order of execution, or a report of why there are none."""
    if isinstance(problem, Problem):
        return EXPORTER.express(problem, level)
    result: list[OperatorDesc] = []
    for view in problem.chain():
        descs = EXPORTER.express(view, level)
        if isinstance(descs, Report):
            return descs.model_copy(update={"subject": "PyTorch roll"})
        result += descs
    return tuple(result)
