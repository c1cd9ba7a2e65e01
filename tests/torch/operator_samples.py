"""PyTorch's own samples of its operators, `op_db` in its wheel: as calls of `dg.torch`, and as functions to trace."""

from __future__ import annotations

import os
import random
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from typing import Any

import torch

from tests.torch.judge import TorchCall

SAMPLES = int(os.environ.get("SAMPLES", "30"))
"""How many random samples of each operator are traced; ten times as many are called."""

_OWN = (
    *("as_strided", "chunk", "diagonal", "expand", "flip", "gather", "index_select", "narrow", "permute", "roll", "select"),
    *("slice", "split", "take", "take_along_dim", "tensor_split", "transpose", "unfold"),
)
_COPIES = ("as_strided", "diagonal", "expand", "narrow", "permute", "split_with_sizes", "transpose", "unfold")

FUNCTIONS: Mapping[str, str] = {
    **{name: name for name in _OWN},
    **{f"{name}_copy": name.removesuffix("_with_sizes") for name in _COPIES},
    **{f"nn.functional.{name}": name for name in ("embedding", "pixel_shuffle", "pixel_unshuffle")},
    "__getitem__": "index",
    "broadcast_to": "expand",
    "split_with_sizes": "split",
    "unsafe_chunk": "chunk",
    "unsafe_split": "split",
}
"""The functions of `dg.torch`, by the names that PyTorch's operators have there."""

TRACED = (
    *FUNCTIONS,
    *("T", "mT", "H", "mH", "t", "t_copy", "movedim", "fliplr", "flipud", "rot90", "linalg.diagonal", "trace"),
    *("reshape", "reshape_as", "view", "view_as", "view_copy", "ravel", "flatten", "unflatten", "squeeze", "squeeze_copy"),
    *("unsqueeze", "unsqueeze_copy", "atleast_1d", "atleast_2d", "atleast_3d", "expand_as", "broadcast_tensors", "meshgrid"),
    *("repeat", "repeat_interleave", "tile", "cat", "stack", "hstack", "vstack", "dstack", "column_stack", "block_diag"),
    *("hsplit", "vsplit", "dsplit", "unbind", "unbind_copy", "_chunk_cat", "kron", "cartesian_prod", "combinations"),
    *("clone", "contiguous", "alias_copy", "positive", "resolve_conj", "resolve_neg", "view_as_real", "view_as_complex"),
    *("constant_pad_nd", "nn.functional.pad", "nn.functional.channel_shuffle", "nn.functional.unfold", "tril", "triu"),
    *("diag", "diag_embed", "diagflat", "diagonal_scatter", "select_scatter", "slice_scatter", "as_strided_scatter"),
    *("index_add", "index_copy", "index_fill", "index_put", "scatter", "put", "fill", "masked_fill", "masked_select", "where"),
    *("add", "sub", "rsub", "mul", "__radd__", "__rsub__", "__rmul__", "__rmod__", "remainder", "floor_divide", "neg"),
    *("minimum", "maximum", "clamp", "clamp_min", "clamp_max", "lt", "le", "gt", "ge", "eq", "ne"),
    *("logical_and", "logical_or", "logical_not", "logical_xor", "bitwise_and", "bitwise_or", "bitwise_not", "bitwise_xor"),
    *("to", "bool", "byte", "char", "short", "int", "long", "half", "float", "double", "nonzero", "argwhere"),
)
"""The operators that are traced: those that move elements, what stands around them, and arithmetic on integers."""


@cache
def operators() -> Mapping[str, Sequence[Any]]:
    """PyTorch's descriptions of its operators, by name."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from torch.testing._internal.common_methods_invocations import op_db
    found: dict[str, list[Any]] = {}
    for operator in op_db:
        found.setdefault(operator.name, []).append(operator)
    return found


def samples(rng: random.Random, name: str, count: int) -> list[tuple[Any, Any]]:
    """As many random samples of an operator, of random types, or all of them: each with the description that it is of."""
    kinds = [(operator, dtype) for operator in operators()[name] for dtype in sorted(operator.supported_dtypes("cpu"), key=str)]
    rng.shuffle(kinds)
    found = [(operator, _made(operator, dtype, rng, more=name in FUNCTIONS)) for operator, dtype in kinds[:count]]
    taken: list[tuple[Any, Any]] = []
    # In turn of each type, so that few samples are of several types.
    while len(taken) < count and any(made for _, made in found):
        taken += [(operator, made.pop()) for operator, made in found if made][: count - len(taken)]
    return taken


def _made(operator: Any, dtype: torch.dtype, rng: random.Random, *, more: bool) -> list[Any]:
    """The samples of a type, in random order. more: the reference inputs as well; those of arithmetic are large."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = [*operator.sample_inputs("cpu", dtype), *(operator.reference_inputs("cpu", dtype) if more else ())]
    rng.shuffle(made)
    return made


def bad_samples(name: str) -> Iterator[tuple[Any, Any]]:
    """The samples of an operator with which PyTorch raises an error."""
    for operator in operators()[name]:
        if operator.error_inputs_func is not None:
            for bad in operator.error_inputs("cpu"):
                yield operator, bad.sample_input


def call_of(name: str, sample: Any) -> TorchCall:
    """A sample as a call of a function of `dg.torch`."""
    arguments = (sample.input, *sample.args)
    if FUNCTIONS[name] == "embedding":  # whose sample has the weight in front
        arguments = (arguments[1], arguments[0], *arguments[2:])
    return TorchCall(FUNCTIONS[name], arguments, sample.kwargs)


def function_of(operator: Any, sample: Any) -> tuple[Callable[..., Any], list[torch.Tensor]]:
    """A sample as a function of its tensors, and these."""
    flat, tree = torch.utils._pytree.tree_flatten(((sample.input, *sample.args), sample.kwargs))
    places = [place for place, leaf in enumerate(flat) if isinstance(leaf, torch.Tensor)]
    return partial(_called, operator.op, flat, tree, places), [flat[place].detach() for place in places]


def _called(function: Callable[..., Any], flat: Sequence[Any], tree: Any, places: Sequence[int], *tensors: Any) -> Any:
    given = list(flat)
    for place, tensor in zip(places, tensors, strict=True):
        given[place] = tensor
    arguments, keywords = torch.utils._pytree.tree_unflatten(given, tree)
    return function(*arguments, **keywords)
