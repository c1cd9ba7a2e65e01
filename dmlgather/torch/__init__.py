"""PyTorch's gathers and views as functions on tensors, with PyTorch's rules and errors.

Each function takes torch.Tensors on the CPU or a GPU, NumPy arrays, CuPy arrays, or anything with `__dlpack__`, runs where they
are, and returns a new tensor, or array, of the same kind. Without tensors, PyTorch is not needed. Views are copied. No gradients
are recorded.

out: takes the result. out_of_bounds: None for PyTorch's own rule; else "clamp", "raise", "promise" or a Fill. device: None for
where the arrays are; "cpu", "cuda", "cuda:N" or "reference" to run there, wherever they are.

`gather.plan(…)`, and likewise for the others, takes (shape, dtype) pairs instead of tensors and returns the IndexPlan.
`gather.to_directml(…)` returns the DirectML descriptors of a call, and `gather.differences(…)` lists the indices that give other
results there.

In torch.compile and torch.export, calls are nodes of the graph: operators that `dmlgather.torch.operators` registers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dmlgather.package import lazy_names

if TYPE_CHECKING:
    from dmlgather.torch.functions import embedding, gather, index, index_select, take, take_along_dim
    from dmlgather.torch.views import (
        as_strided,
        chunk,
        diagonal,
        expand,
        flip,
        narrow,
        permute,
        pixel_shuffle,
        pixel_unshuffle,
        roll,
        select,
        slice,  # noqa: A004 - the operator's name
        split,
        tensor_split,
        transpose,
        unfold,
    )

__all__ = [
    "as_strided",
    "chunk",
    "diagonal",
    "embedding",
    "expand",
    "flip",
    "gather",
    "index",
    "index_select",
    "narrow",
    "permute",
    "pixel_shuffle",
    "pixel_unshuffle",
    "roll",
    "select",
    "slice",
    "split",
    "take",
    "take_along_dim",
    "tensor_split",
    "transpose",
    "unfold",
]

_GATHERS = ("embedding", "gather", "index", "index_select", "take", "take_along_dim")

__getattr__, __dir__ = lazy_names(__name__, {**dict.fromkeys(__all__, "views"), **dict.fromkeys(_GATHERS, "functions")})
