"""PyTorch's gathers and views as functions on tensors, with PyTorch's rules and errors.

The functions take PyTorch tensors, NumPy arrays, CuPy arrays, or anything with `__dlpack__`. They run on the arrays' device,
and return a new tensor or array of the same type. PyTorch is only needed for tensors. Views are copied. Gradients are not
recorded.

`out`: a tensor or array that receives the result. `out_of_bounds`: what an index out of range does: "clamp", "raise", "promise"
or a Fill. None means PyTorch's rule. `device`: where the call runs: "cpu", "cuda", "cuda:N" or "reference". None means the
arrays' device.

Each function has methods that accept pairs (shape, dtype) instead of tensors. `plan` returns the IndexPlan of a call.
`to_directml` returns its DirectML descriptors. `differences` lists the indices that give other results in DirectML.

In torch.compile and torch.export, calls become nodes of the graph. `dmlgather.torch.operators` registers the operators.
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
