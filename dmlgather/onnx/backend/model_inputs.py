"""The arrays that a caller passes for a model's inputs, by position or by name, checked against the declared types."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from dmlgather.backends.arrays import adopt
from dmlgather.backends.devices import CPU, Device
from dmlgather.dialects.element_types import STRING_KINDS
from dmlgather.onnx.model.partial_types import PartialType
from dmlgather.onnx.model.stated_types import check_fits
from dmlgather.onnx.problems.data_types import STRING
from dmlgather.wording import counted


def adopt_inputs(named: Mapping[str, Any], inputs: Mapping[str, PartialType]) -> dict[str, tuple[Any, Device]]:
    """The NumPy or CuPy array of each input in `named`, and its device. Strings become objects.

    Raises TypeError for a wrong data type or no array, ValueError for shapes that contradict the model or each other.
    """
    adopted, symbols = {name: _adopted(name, array) for name, array in named.items()}, dict[str, tuple[int, str]]()
    for name, (array, _) in adopted.items():
        check_fits(name, array, inputs[name], symbols)
    return adopted


def name_inputs(given: Any, inputs: Collection[str], constants: Collection[str]) -> dict[str, Any]:
    """The arrays by the inputs' names, in the model's order.

    given: arrays in the order of all inputs, or of those without a default among the constants; or arrays by name. Raises
    TypeError for anything else, ValueError for missing and surplus ones.
    """
    required = [name for name in inputs if name not in constants]
    if isinstance(given, Mapping):
        missing, unknown = [name for name in required if name not in given], [name for name in given if name not in inputs]
        if missing or unknown:
            raise ValueError(f"the inputs are {_listed(inputs)}; missing: {_listed(missing)}; unknown: {_listed(unknown)}")
        return {name: given[name] for name in inputs if name in given}
    if not isinstance(given, list | tuple):
        raise TypeError(f"inputs is of type {type(given).__name__}, expected a list of arrays, or a dict of arrays by name")
    for names in (list(inputs), required):
        if len(given) == len(names):
            return dict(zip(names, given, strict=True))
    without = f"; {_listed(required)} have no default" if len(required) < len(inputs) else ""
    raise ValueError(f"the model has {counted(len(inputs), 'input')} ({_listed(inputs)}{without}), and {len(given)} were given")


def _listed(names: Collection[str]) -> str:
    return ", ".join(map(repr, names)) or "none"


def _adopted(name: str, given: Any) -> tuple[Any, Device]:
    try:
        array, device = (np.asarray(given), CPU) if isinstance(given, np.generic) else adopt(given)
    except TypeError as error:
        raise TypeError(f"input {name!r}: {error}") from None
    return (array.astype(STRING, copy=False) if array.dtype.kind in STRING_KINDS else array), device
