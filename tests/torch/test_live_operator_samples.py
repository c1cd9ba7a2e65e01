"""PyTorch's own samples of its operators: `dg.torch` and traces give PyTorch's bits, or say why not."""

from __future__ import annotations

import re
import traceback
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

import dmlgather as dg
from tests import seeds
from tests.peers.torch import PYTORCH, Answered
from tests.torch.fused_chains import content, leaves
from tests.torch.judge import TorchCall, live, ours
from tests.torch.operator_samples import FUNCTIONS, SAMPLES, TRACED, bad_samples, call_of, function_of, samples

pytestmark = pytest.mark.torch

Traced = tuple[Callable[..., Any], list[torch.Tensor]]

AT_ONCE = 8
"""Samples that are exported together."""

UNKNOWN = r"is known only when the program runs"
EXPORTER = r"data-dependent expression|Pending unbacked symbols"
"""What PyTorch's exporter says of numbers that follow from elements."""

REFUSED: Mapping[str, str] = {
    "__getitem__": f"{UNKNOWN}|{EXPORTER}",
    "argwhere": UNKNOWN,
    "as_strided": "take as_strided of the tensor that holds them all",
    "combinations": f"{UNKNOWN}|{EXPORTER}",
    "gather": "index has type u?int8, but torch.gather takes",
    "masked_select": UNKNOWN,
    "narrow": f"{UNKNOWN}|{EXPORTER}",
    "nonzero": UNKNOWN,
    "repeat_interleave": UNKNOWN,
    "tensor_split": f"{UNKNOWN}|{EXPORTER}",
}
"""What is said of the samples that no trace is made of, by the names of their operators."""


def refused(call: TorchCall, text: str) -> bool:
    """Whether a call is one that docs/torch.md says is refused, and is told so."""
    halves = any(isinstance(each, torch.Tensor) and each.dtype is torch.complex32 for each in call.arguments)
    return (halves and "complex32" in text) or (call.keywords.get("max_norm") is not None and text.startswith("max_norm is"))


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_calls_give_pytorchs_bits_and_errors(name: str) -> None:
    chosen = samples(seeds.rng(), name, 10 * SAMPLES)
    for _, sample in (*chosen, *bad_samples(name)):
        call = call_of(name, sample)
        theirs, found = live(call), ours(call)
        if theirs.error is found.error and theirs.same_bits(found):
            continue
        known = PYTORCH.known_fault(Answered(call, theirs, found)) or refused(call, found.text)
        assert known, f"{call}\nPyTorch: {theirs}\ndmlgather: {found}"
    assert len(chosen) >= min(SAMPLES, 2)


def compared(functions: Sequence[Traced]) -> list[bool]:
    """Of each function, whether its fused run gives PyTorch's bits. All are exported at once."""

    def all_of_them(arguments: Any) -> list[Any]:
        return [function(*each) for (function, _), each in zip(functions, arguments, strict=True)]

    arguments = [each for _, each in functions]
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the operators
        expected = all_of_them(arguments)
        found: Any = dg.torch.trace(all_of_them, arguments).run(arguments)
    return [_contents(one) == _contents(other) for one, other in zip(found, expected, strict=True)]


def _contents(tree: Any) -> list[Any]:
    return [content(leaf) if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves(tree)]


def said_of(function: Traced) -> str:
    """What is wrong with one function; empty where nothing is."""
    try:
        return "" if all(compared([function])) else "another result"
    except Exception as error:
        return f"{type(error).__name__}: {error}"


@pytest.mark.parametrize("name", TRACED)
def test_traces_give_pytorchs_bits(name: str) -> None:
    chosen = [function_of(*each) for each in samples(seeds.rng(), name, SAMPLES)]
    for first in range(0, len(chosen), AT_ONCE):
        group = chosen[first : first + AT_ONCE]
        try:
            if all(compared(group)):
                continue
        except Exception:
            pass  # each by itself says more
        said = [said_of(function) for function in group]
        assert any(said), f"{name}: what is wrong together is right one by one"
        for (_, tensors), text in zip(group, said, strict=True):
            halves = "complex32" in text and any(each.dtype is torch.complex32 for each in tensors)
            shown = [f"{each.dtype} {list(each.shape)} strides {each.stride()}" for each in tensors]
            assert not text or halves or re.search(REFUSED.get(name, "^$"), text), f"{name} of {shown}: {text}"


def raised_by(call: Callable[[], Any]) -> tuple[type[Exception] | None, bool]:
    """The class of the error that a call raises, and whether PyTorch's own code raises it."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            call()
    except Exception as error:
        frames = list(traceback.walk_tb(error.__traceback__))
        return type(error), Path(frames[-1][0].f_code.co_filename).is_relative_to(Path(torch.__file__).parent)
    return None, False


def test_traces_of_bad_samples_raise() -> None:
    asked = 0
    for name in TRACED:
        for operator, sample in bad_samples(name):
            function, tensors = function_of(operator, sample)
            wanted, _ = raised_by(partial(function, *tensors))
            if wanted is None or "out" in sample.kwargs:
                continue  # what is wrong is not of the operator
            asked += 1
            found, by_torch = raised_by(partial(traced, function, tensors))
            # PyTorch's exporter finds nearly all. An index out of range is an IndexError in every trace.
            assert found in (wanted, IndexError) or (found and by_torch), f"{name}: {found} in the place of {wanted}"
    assert asked > 150


def traced(function: Callable[..., Any], tensors: Sequence[torch.Tensor]) -> Any:
    return dg.torch.trace(function, *tensors).run(*tensors)
