"""Where PyTorch 2.13 and dmlgather differ: a row for each place, with a call that shows it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from tests.torch.judge import Said, TorchCall, bits

HALVES = {torch.float16: 0x7C00, torch.bfloat16: 0x7F80}
"""Types whose NaNs PyTorch's gather changes, with the bits of infinity."""


@dataclass(frozen=True)
class Disagreement:
    """A place where both differ. holds: whether a call is such a place, from what PyTorch and dmlgather said. example: a call."""

    holds: Callable[[TorchCall, Said, Said], bool]
    example: TorchCall


def _nans_alike(call: TorchCall, live: Said, ours: Said) -> bool:
    """Whether a gather of halves gave the same bits, but for those of NaNs."""
    if call.operation not in ("gather", "take_along_dim") or not (live.tensors and ours.tensors):
        return False
    (left,), (right,) = live.tensors, ours.tensors
    if left.dtype not in HALVES or (left.dtype, left.shape) != (right.dtype, right.shape):
        return False
    nan = left.isnan()
    return bool((nan == right.isnan()).all()) and bits(left[~nan]) == bits(right[~nan])


def _of_no_elements(call: TorchCall, live: Said, ours: Said) -> bool:
    index = call.arguments[-1]
    flat = call.operation == "take_along_dim" and len(call.arguments) == 2
    return (call.operation == "gather" or flat) and live.error is None and ours.error is RuntimeError and not index.numel()


def _schema(call: TorchCall, live: Said, ours: Said) -> bool:
    wrong = live.error is RuntimeError and "Expected a value of type 'int'" in live.text
    taken = any(isinstance(each, bool) for each in call.arguments) and ours.error is TypeError
    return call.operation == "slice" and (taken or (wrong and ours.error in (TypeError, ValueError)))


def _bool_behind(call: TorchCall, live: Said, ours: Said) -> bool:
    sequences = [each for each in call.arguments if isinstance(each, list | tuple)]
    return ours.error is TypeError and any(isinstance(each, bool) for values in sequences for each in values[1:])


def _refused(*texts: str) -> Callable[[TorchCall, Said, Said], bool]:
    """PyTorch has no way to do what dmlgather does."""
    return lambda call, live, ours: live.error is RuntimeError and any(text in live.text for text in texts) and ours.error is None


def _unshuffled(call: TorchCall, live: Said, ours: Said) -> bool:
    data = call.arguments[0]
    kept = live.error is None and live.tensors[0].shape == data.shape
    return call.operation == "pixel_unshuffle" and not data.numel() and kept and ours.error is None


def _expanded(call: TorchCall, live: Said, ours: Said) -> bool:
    return call.operation == "expand" and live.error is None and ours.error is RuntimeError and -1 in live.tensors[0].shape


_SIGNALLING = torch.tensor([[0x7D01, 0x7C02]] * 2, dtype=torch.int16).view(torch.float16)

DISAGREEMENTS = {
    "PyTorch has no kernel for the type": Disagreement(
        lambda call, live, ours: live.error is NotImplementedError and "not implemented for" in live.text,
        TorchCall("gather", (torch.zeros(2, dtype=torch.uint16), 0, torch.tensor([1]))),
    ),
    "gather changes the bits of NaNs of 16 bits": Disagreement(
        _nans_alike, TorchCall("gather", (_SIGNALLING, 1, torch.tensor([[0], [1]])))
    ),
    "an index of gather without elements may have any type": Disagreement(
        _of_no_elements, TorchCall("gather", (torch.zeros(2, 3), 0, torch.zeros(0, 3, dtype=torch.int16)))
    ),
    "aten::slice takes bools, and says RuntimeError where others say TypeError or ValueError": Disagreement(
        _schema, TorchCall("slice", (torch.zeros(3), 0, 0, 2, 1.5))
    ),
    "a list of integers may have bools, but for its first entry": Disagreement(
        _bool_behind, TorchCall("permute", (torch.zeros(2, 3), (0, True)))
    ),
    "take_along_dim without dim takes no input that cannot be viewed as flat": Disagreement(
        _refused("view size is not compatible"), TorchCall("take_along_dim", (torch.zeros(2, 3).t(), torch.tensor([1])))
    ),
    "pixel_shuffle and pixel_unshuffle take no other memory formats": Disagreement(
        _refused("Unsupported memory format"),
        TorchCall("pixel_shuffle", (torch.zeros(2, 1, 4, 1, 2).to(memory_format=torch.channels_last_3d), 2)),
    ),
    "pixel_unshuffle leaves the shape of a tensor without elements": Disagreement(
        _unshuffled, TorchCall("pixel_unshuffle", (torch.zeros(0, 2, 4, 6), 2))
    ),
    "expand gives a tensor of size -1 where another size is 0": Disagreement(
        _expanded, TorchCall("expand", (torch.zeros(()), (-1, 0)))
    ),
}


def disagreement(call: TorchCall, live: Said, ours: Said) -> str | None:
    """The row that a difference belongs to; None where it belongs to none."""
    return next((name for name, row in DISAGREEMENTS.items() if row.holds(call, live, ours)), None)
