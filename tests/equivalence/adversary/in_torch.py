"""Drafts as functions of PyTorch. Each operator runs on contiguous tensors: others take kernels that round otherwise."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import ml_dtypes
import numpy as np
import torch
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

from tests.equivalence.adversary import names
from tests.equivalence.adversary.drafts import Array, Attributes, Draft
from tests.equivalence.adversary.libraries import RAISED, NotCoveredError, Outcome
from tests.equivalence.adversary.stand_ins import cast, fits, stand_in


class StepByStep(TorchDispatchMode):  # type: ignore[misc] # torch is not installed where types are checked
    """Every operator gets copies of its tensors, contiguous and aligned. standing_in: stand-ins do what proofs may assume."""

    def __init__(self, *, standing_in: bool) -> None:
        super().__init__()
        self.standing_in = standing_in

    def __torch_dispatch__(self, operator: Any, types: Any, arguments: Any = (), named: Any = None) -> Any:
        stood = _stood_in(operator, arguments, named or {}) if self.standing_in else None
        if stood is not None:
            return tensor(stood)

        def copied(value: Any) -> Any:
            return value.clone(memory_format=torch.contiguous_format) if isinstance(value, torch.Tensor) else value

        return operator(*tree_map(copied, arguments), **tree_map(copied, named or {}))


def tensor(array: Array) -> Any:
    """A tensor of an array's elements."""
    if array.dtype == ml_dtypes.bfloat16:
        return torch.from_numpy(array.view(np.int16).copy()).view(torch.bfloat16)
    return torch.from_numpy(array.copy())


def _array(value: Any) -> Array:
    if value.dtype == torch.bfloat16:
        return np.asarray(value.contiguous().view(torch.int16).numpy().view(ml_dtypes.bfloat16))
    return np.asarray(value.contiguous().numpy())


def _axis(given: Attributes) -> int:
    return int(given.get("axis", -1))


def _sliced(x: Any, given: Attributes) -> Any:
    axis = _axis(given) % x.dim()
    return x[(slice(None),) * axis + (slice(given["start"], given["stop"]),)]


def _norm(x: Any, given: Attributes, operator: Callable[..., Any]) -> Any:
    return operator(x, x.shape[-1:], **({"eps": given["eps"]} if "eps" in given else {}))


OPERATORS: Mapping[str, Callable[..., Any]] = {
    **{name: getattr(torch if hasattr(torch, own) else functional, own) for name, own in names.TORCH.items()},
    "whole_quotient": lambda x, y: torch.div(x, y, rounding_mode="trunc"),
    "linear": lambda x, w, b: functional.linear(x, w.T, b),
}
"""The functions that take no attributes."""

WITH_ATTRIBUTES: Mapping[str, Callable[..., Any]] = {
    "gelu": lambda given, x: functional.gelu(x, **given),
    "leaky_relu": lambda given, x: functional.leaky_relu(x, *([given["alpha"]] if "alpha" in given else [])),
    "elu": lambda given, x: functional.elu(x, *([given["alpha"]] if "alpha" in given else [])),
    "scale": lambda given, x: x * given["number"],
    "shift": lambda given, x: x + given["number"],
    "clip": lambda given, x: torch.clamp(x, given["low"], given["high"]),
    "cast": lambda given, x: x.to(getattr(torch, given["to"])),
    "softmax": lambda given, x: torch.softmax(x, _axis(given)),
    "log_softmax": lambda given, x: torch.log_softmax(x, _axis(given)),
    "cumsum": lambda given, x: torch.cumsum(x, _axis(given)),
    "layer_norm": lambda given, x: _norm(x, given, functional.layer_norm),
    "rms_norm": lambda given, x: _norm(x, given, functional.rms_norm),
    "reduce_sum": lambda given, x: torch.sum(x, _axis(given), keepdim=given.get("keepdims", True)),
    "reduce_mean": lambda given, x: torch.mean(x, _axis(given), keepdim=given.get("keepdims", True)),
    "reduce_max": lambda given, x: torch.amax(x, _axis(given), keepdim=given.get("keepdims", True)),
    "gather": lambda given, x, i: _gathered(x, i, _axis(given)),
    "transpose": lambda given, x: x.permute(given["order"]),
    "reshape": lambda given, x: x.reshape(given["shape"]),
    "slice": lambda given, x: _sliced(x, given),
    "reverse": lambda given, x: torch.flip(x, [_axis(given)]),
    "concat": lambda given, x, y: torch.cat([x, y], _axis(given)),
    "attention": lambda given, *values: functional.scaled_dot_product_attention(*values, **given),
    "masked_attention": lambda given, *values: functional.scaled_dot_product_attention(*values, **given),
}
"""The other functions; they take the attributes first."""


def _gathered(x: Any, i: Any, axis: int) -> Any:
    """Indices wrap once and are checked, as in ONNX."""
    return x[(slice(None),) * (axis % x.dim()) + (i,)]


def program(draft: Draft) -> Callable[..., Any]:
    """The function of a draft. Its arguments are the inputs, in order."""
    constants = {name: tensor(each) for name, each in draft.constants.items()}
    return draft.function(OPERATORS, WITH_ATTRIBUTES, lambda: constants)


_STAND_INS = {
    **names.by_own(names.ATEN),
    **{"_softmax": "softmax", "_log_softmax": "log_softmax", "cumsum": "cumsum", "gelu": "gelu"},  # noqa: PIE800 - short
    **{"sum": "reduce_sum", "mean": "reduce_mean", "amax": "reduce_max"},  # noqa: PIE800 - likewise
}
"""What stands for an operator of ATen."""


def _stood_in(operator: Any, arguments: Any, named: Any) -> Array | None:
    """What a stand-in gives for an operator; None where there is none."""
    name = _STAND_INS.get(operator.overloadpacket.__name__)
    own = arguments[0] if arguments else None
    if operator.overloadpacket.__name__ == "_to_copy" and named.get("dtype") is not None:
        return cast(_array(own), str(named["dtype"]).removeprefix("torch."))
    if name is None or not isinstance(own, torch.Tensor) or named.get("alpha", 1) != 1:
        return None
    if named.get("approximate", "none") != "none":
        return None
    attributes: dict[str, Any] = {}
    operands = [*arguments]
    if name in ("softmax", "log_softmax", "cumsum") or name.startswith("reduce"):
        axis = arguments[1]
        attributes["axis"] = axis if isinstance(axis, int) else tuple(axis)
        operands = [own]
        if name.startswith("reduce"):
            attributes["keepdims"] = bool(arguments[2]) if len(arguments) > 2 else False
    arrays = [_array(each) if isinstance(each, torch.Tensor) else np.array(each).astype(_array(own).dtype) for each in operands]
    return stand_in(name, *arrays, **attributes) if fits(name, *arrays) else None


def runner(function: Callable[..., Any], *, standing_in: bool = False) -> Callable[[Mapping[str, Array]], Outcome]:
    """Runs a function. NotCoveredError where PyTorch has no code for it. standing_in: stand-ins do what proofs may assume."""

    def run(arrays: Mapping[str, Array]) -> Outcome:
        try:
            with torch.no_grad(), StepByStep(standing_in=standing_in):
                return [_array(value) for value in function(*map(tensor, arrays.values()))]
        except IndexError:
            return RAISED
        except RuntimeError as error:
            if "not implemented for" in str(error) or "not supported" in str(error):
                raise NotCoveredError(str(error)) from None
            raise

    return run
