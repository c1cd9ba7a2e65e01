"""Where PyTorch does not do what its pages say, or what others say of the same arguments.

A fault is known by what both answered, so that all else of a call is compared.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch

from tests.peers.faults import Peer, PeerFault
from tests.torch.judge import Said, TorchCall, bits, live, ours

HALVES = (torch.float16, torch.bfloat16)
"""Types whose NaNs PyTorch's gather changes."""


class Answered(NamedTuple):
    """A call, and what PyTorch and dmlgather said."""

    call: TorchCall
    live: Said
    ours: Said

    @property
    def agree(self) -> bool:
        """Whether both gave the same bits, or raised errors of one class."""
        return self.live.error is self.ours.error and self.live.same_bits(self.ours)

    def __str__(self) -> str:
        return f"{self.call}\nPyTorch: {self.live}\ndmlgather: {self.ours}"


def both(call: TorchCall) -> Answered:
    """What PyTorch and dmlgather say of a call."""
    return Answered(call, live(call), ours(call))


def asked(operation: str, *arguments: object) -> Answered:
    return both(TorchCall(operation, arguments))


def _answers(answered: Answered) -> tuple[object, object]:
    theirs, right = (
        (each.error, [(one.dtype, one.shape, bits(one) if one.numel() else b"") for one in each.tensors]) for each in answered[1:]
    )
    return theirs, right


def _nans_alike(answered: Answered) -> bool:
    """Whether a gather of halves gave the same bits, but for those of NaNs."""
    call, live, ours = answered
    if call.operation not in ("gather", "take_along_dim") or not (live.tensors and ours.tensors):
        return False
    (left,), (right,) = live.tensors, ours.tensors
    if left.dtype not in HALVES or (left.dtype, left.shape) != (right.dtype, right.shape):
        return False
    nan = left.isnan()
    return bool((nan == right.isnan()).all()) and bits(left[~nan]) == bits(right[~nan])


def _of_no_elements(answered: Answered) -> bool:
    call, live, ours = answered
    index = call.arguments[-1]
    flat = call.operation == "take_along_dim" and len(call.arguments) == 2
    return (call.operation == "gather" or flat) and live.error is None and ours.error is RuntimeError and not index.numel()


def _schema(answered: Answered) -> bool:
    call, live, ours = answered
    wrong = live.error is RuntimeError and "Expected a value of type 'int'" in live.text
    taken = any(isinstance(each, bool) for each in call.arguments) and ours.error is TypeError
    return call.operation == "slice" and (taken or (wrong and ours.error in (TypeError, ValueError)))


def _bool_behind(answered: Answered) -> bool:
    call, _, ours = answered
    sequences = [each for each in call.arguments if isinstance(each, list | tuple)]
    return ours.error is TypeError and any(isinstance(each, bool) for values in sequences for each in values[1:])


def _refused(text: str) -> Callable[[Answered], bool]:
    """PyTorch has no way to do what dmlgather does."""
    return lambda answered: answered.live.error is RuntimeError and text in answered.live.text and answered.ours.error is None


def _unshuffled(answered: Answered) -> bool:
    call, live, ours = answered
    data = call.arguments[0]
    kept = live.error is None and live.tensors[0].shape == data.shape
    return call.operation == "pixel_unshuffle" and not data.numel() and kept and ours.error is None


def _expanded(answered: Answered) -> bool:
    call, live, ours = answered
    return call.operation == "expand" and live.error is None and ours.error is RuntimeError and -1 in live.tensors[0].shape


_SIGNALLING = torch.tensor([[0x7D01, 0x7C02]] * 2, dtype=torch.int16).view(torch.float16)

PYTORCH = Peer(
    "PyTorch",
    "torch",
    _answers,
    (
        PeerFault(
            "types without a kernel",
            "refuses them",
            "take them: the pages exclude no type",
            lambda answered: answered.live.error is NotImplementedError and "not implemented for" in answered.live.text,
            asked("take", torch.zeros(2, dtype=torch.uint16), torch.tensor([1])),
        ),
        PeerFault(
            "NaNs of 16 bits",
            "gather changes their bits",
            "move bits",
            _nans_alike,
            asked("gather", _SIGNALLING, 1, torch.tensor([[0], [1]])),
        ),
        PeerFault(
            "an index of gather without elements",
            "takes any type of it",
            "refuse it: the page says that index is of int64 or int32",
            _of_no_elements,
            asked("gather", torch.zeros(2, 3), 0, torch.zeros(0, 3, dtype=torch.int16)),
        ),
        PeerFault(
            "arguments of aten::slice",
            "takes bools, and says RuntimeError",
            "say TypeError or ValueError, as other operators do",
            _schema,
            asked("slice", torch.zeros(3), 0, 0, 2, 1.5),
        ),
        PeerFault(
            "bools in a list of integers",
            "takes them, but for the first entry",
            "refuse them all",
            _bool_behind,
            asked("permute", torch.zeros(2, 3), (0, True)),
        ),
        PeerFault(
            "take_along_dim without dim",
            "takes no input that cannot be viewed as flat",
            "flatten it",
            _refused("view size is not compatible"),
            asked("take_along_dim", torch.zeros(2, 3).t(), torch.tensor([1])),
        ),
        PeerFault(
            "memory formats of pixel_shuffle and pixel_unshuffle",
            "takes some alone",
            "take all",
            _refused("Unsupported memory format"),
            asked("pixel_shuffle", torch.zeros(2, 1, 4, 1, 2).to(memory_format=torch.channels_last_3d), 2),
        ),
        PeerFault(
            "pixel_unshuffle without elements",
            "leaves the shape",
            "give that of the page",
            _unshuffled,
            asked("pixel_unshuffle", torch.zeros(0, 2, 4, 6), 2),
        ),
        PeerFault(
            "expand with -1 where another size is 0",
            "gives a tensor of size -1",
            "refuse it: -1 leaves the size of a dimension that is there",
            _expanded,
            asked("expand", torch.zeros(()), (-1, 0)),
        ),
    ),
)
