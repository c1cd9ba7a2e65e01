"""Run one operator on several devices and compare the results bit for bit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dmlgather.backends import reference
from dmlgather.backends.arrays import adopt, move
from dmlgather.backends.devices import CPU, Device
from dmlgather.directml import FeatureLevel, OperatorDesc
from dmlgather.operator import CompiledOperator
from dmlgather.operator import compile as compile_operator
from dmlgather.plan import IndexPlan, Layout, coordinates
from dmlgather.policy import Fill
from dmlgather.wording import counted

POISON = 0xA5
"""Every byte of the first device's output before a run, and less one on each further device, so that an element that no
device writes differs as well."""


@dataclass(frozen=True, slots=True)
class Mismatch:
    """The first output element (row-major) whose bits differ between two devices.

    output: coordinates in OutputTensor. source: coordinates in InputTensor of the element that belongs there, None where the
    policy writes a fill value. bits: hexadecimal, most significant byte first, one per device.
    """

    output: tuple[int, ...]
    source: tuple[int, ...] | None
    devices: tuple[str, str]
    bits: tuple[str, str]

    def __str__(self) -> str:
        came_from = "the fill value" if self.source is None else f"InputTensor{list(self.source)}"
        return (
            f"OutputTensor{list(self.output)}, which should come from {came_from}, is {self.bits[0]} on {self.devices[0]} and "
            f"{self.bits[1]} on {self.devices[1]}"
        )


@dataclass(frozen=True, slots=True)
class Comparison:
    """What `compare` found.

    devices: as they were named. elements: of the output. differing: output elements that differ from the first device's, over
    all devices. first: the first of them on the first device that differs. errors: per device, what it raised under "raise".
    """

    devices: tuple[str, ...]
    elements: int
    differing: int
    first: Mismatch | None
    errors: tuple[str | None, ...]

    @property
    def equal(self) -> bool:
        """Whether every device gave the same bits, or every device refused with the same words."""
        return self.differing == 0 and len(set(self.errors)) == 1

    def __str__(self) -> str:
        names = ", ".join(self.devices)
        if len(set(self.errors)) > 1:
            said = "; ".join(f"{name}: {error or 'no error'}" for name, error in zip(self.devices, self.errors, strict=True))
            return f"different outcomes on {names}: {said}"
        if self.errors[0] is not None:
            return f"equal on {names}: {self.errors[0]}"
        if self.first is None:
            return f"equal on {names}: {counted(self.elements, 'element')}, bit for bit"
        return f"{self.differing} of {counted(self.elements, 'element')} differ between {names}; first: {self.first}"


def compare(
    desc: OperatorDesc,
    *inputs: Any,
    devices: Sequence[str] = ("cuda", "cpu"),
    level: str | FeatureLevel = "6_4",
    out_of_bounds: str | Fill | None = None,
) -> Comparison:
    """Run `desc` on the same `inputs` on each device ("cpu", "cuda", "cuda:N", "reference") and compare bits.

    An IndexError under "raise" is an outcome like a result, and compared. Raises what `compile` and the call of an operator
    raise otherwise, DeviceError for a device that is not there, and ValueError for fewer than two different devices.
    """
    check_devices(devices)
    operators = [compile_operator(desc, device=name, level=level, out_of_bounds=out_of_bounds) for name in devices]
    host = [_on_host(array) for array in inputs]
    outcomes = [_outcome(operator, host, POISON - rank) for rank, operator in enumerate(operators)]
    outputs, errors = [output for output, _ in outcomes], tuple(error for _, error in outcomes)
    if any(error is not None for error in errors):
        return Comparison(tuple(devices), outputs[0][..., 0].size, 0, None, errors)
    return compare_outputs(devices, outputs, lambda at: source_coordinates(operators[0], host, at))


def check_devices(names: Sequence[str]) -> None:
    """ValueError unless these name at least two different devices."""
    if len({Device.parse(name) for name in names}) < 2:
        raise ValueError(f"comparing takes at least two different devices, got {', '.join(names) or 'none'}")


def compare_outputs(
    devices: Sequence[str],
    outputs: Sequence[NDArray[np.uint8]],
    source: Callable[[tuple[int, ...]], tuple[int, ...] | None],
) -> Comparison:
    """Compare the bytes that each device wrote.

    outputs: one per device, shape [*Sizes, bytes of an element]. source: output coordinates -> those of the element in
    InputTensor that belongs there, None for a fill value; asked for the first mismatch only.
    """
    differing, first = 0, None
    for device, output in zip(devices[1:], outputs[1:], strict=True):
        unequal = (outputs[0] != output).any(axis=-1)
        differing += int(np.count_nonzero(unequal))
        if first is None and unequal.any():
            at = tuple(int(index) for index in np.unravel_index(int(np.argmax(unequal)), unequal.shape))
            bits = outputs[0][at].tobytes()[::-1].hex(), output[at].tobytes()[::-1].hex()
            first = Mismatch(at, source(at), (devices[0], device), bits)
    return Comparison(tuple(devices), outputs[0][..., 0].size, differing, first, (None,) * len(devices))


def _on_host(array: Any) -> NDArray[Any]:
    adopted, device = adopt(array)
    return np.asarray(move(adopted, device, CPU))


def _outcome(operator: CompiledOperator, inputs: Sequence[NDArray[Any]], poison: int) -> tuple[NDArray[np.uint8], str | None]:
    """The output's bytes, shape [*Sizes, bytes of an element], and the error under "raise"."""
    output = operator.desc.tensor(operator.desc.operator.output)
    raw = np.full((*output.sizes, output.data_type.bytes), poison, np.uint8)
    out = raw.view(output.data_type.name.lower()).reshape(output.sizes)
    try:
        operator(*inputs, out=out)
        operator.raise_if_bad()
    except IndexError as error:
        return raw, str(error)
    return raw, None


def source_coordinates(operator: CompiledOperator, inputs: Sequence[NDArray[Any]], at: tuple[int, ...]) -> tuple[int, ...] | None:
    """Input coordinates of the element that belongs at output coordinates `at`: the plan's pseudocode for one element."""
    tensors = [operator.desc.tensor(name) for name in operator.desc.operator.tensors]
    logical = all(array.shape == tensor.sizes for array, tensor in zip(inputs, tensors, strict=False))
    layouts = [Layout.packed(tensor.sizes) if logical else tensor.layout() for tensor in tensors]
    layouts[-1] = Layout.packed(tensors[-1].sizes)
    plan = operator.lower(layouts)
    indices = None
    if len(inputs) > 1:
        dtype = np.dtype(tensors[1].data_type.name.lower())
        indices = inputs[1].reshape(-1) if logical else inputs[1].view(np.uint8)[: plan.index_extent * dtype.itemsize].view(dtype)
    address = _source_address(plan, indices, sum(a * b for a, b in zip(at, layouts[-1].strides, strict=True)))
    return None if address is None else layouts[0].position(address)


def _source_address(plan: IndexPlan, indices: NDArray[Any] | None, target: int) -> int | None:
    """The input address that output address `target` reads: the reference's answer over an input whose elements are their
    own addresses, for that one element.
    """
    at = coordinates(target - plan.out_offset, plan.shape, plan.out_strides)
    assert at is not None

    def moved(offset: int, strides: Sequence[int]) -> int:
        return offset + sum(a * b for a, b in zip(at, strides, strict=True))

    one = replace(
        plan,
        shape=(1,) * plan.rank,
        in_offset=moved(plan.in_offset, plan.in_strides),
        out_offset=0,
        element_bytes=8,
        fill=b"\xff" * 8 if plan.fill else b"",
        lookups=tuple(replace(lookup, index_offset=moved(lookup.index_offset, lookup.index_strides)) for lookup in plan.lookups),
    )
    found = np.empty(1, np.int64)
    reference.run(one, range(plan.in_extent), indices, found)
    return int(found[0]) if found[0] >= 0 else None
