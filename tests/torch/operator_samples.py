"""PyTorch's own samples of its operators, `op_db` in its wheel, as calls of `dg.torch`."""

from __future__ import annotations

import os
import random
import warnings
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any

import torch

from tests.torch.judge import TorchCall

SAMPLES = int(os.environ.get("SAMPLES", "300"))
"""How many random samples of each operator are called."""

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


def samples(rng: random.Random, name: str, count: int) -> list[Any]:
    """As many random samples of an operator, of random types, or all of them."""
    kinds = [(operator, dtype) for operator in operators()[name] for dtype in sorted(operator.supported_dtypes("cpu"), key=str)]
    rng.shuffle(kinds)
    found = [_made(operator, dtype, rng) for operator, dtype in kinds[:count]]
    taken: list[Any] = []
    # In turn of each type, so that few samples are of several types.
    while len(taken) < count and any(found):
        taken += [made.pop() for made in found if made][: count - len(taken)]
    return taken


def _made(operator: Any, dtype: torch.dtype, rng: random.Random) -> list[Any]:
    """The samples of a type, the reference inputs as well, in random order."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = [*operator.sample_inputs("cpu", dtype), *operator.reference_inputs("cpu", dtype)]
    rng.shuffle(made)
    return made


def bad_samples(name: str) -> Iterator[Any]:
    """The samples of an operator with which PyTorch raises an error."""
    for operator in operators()[name]:
        if operator.error_inputs_func is not None:
            for bad in operator.error_inputs("cpu"):
                yield bad.sample_input


def call_of(name: str, sample: Any) -> TorchCall:
    """A sample as a call of a function of `dg.torch`."""
    arguments = (sample.input, *sample.args)
    if FUNCTIONS[name] == "embedding":  # whose sample has the weight in front
        arguments = (arguments[1], arguments[0], *arguments[2:])
    return TorchCall(FUNCTIONS[name], arguments, sample.kwargs)
