"""The tensors of a descriptor, and the prepared calls for arrays in their place."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from operator import index
from typing import Any

import numpy as np

from dmlgather.backends import arrays
from dmlgather.backends.devices import Device
from dmlgather.backends.footprints import (
    Footprint,
    Signature,
    buffer,
    device_of,
    logical,
    new_place,
    packed_signature,
    signature_on,
)
from dmlgather.backends.prepared_call import DeviceCall, PreparedCall, prepare_call, prepare_program
from dmlgather.dialects.descriptor_problem import DescriptorProblem
from dmlgather.dialects.element_types import conversion
from dmlgather.directml import DataType
from dmlgather.plan import OutOfBounds
from dmlgather.wording import counted

ALSO_ACCEPTED = {DataType.UINT8: ("bool",)}
"""NumPy types that stand for a DirectML type besides its own; DirectML's callers carry bool as UINT8."""


class DescribedTensors:
    """The tensors of a valid descriptor, in binding order, and the prepared calls for arrays in their place.

    It looks at signatures alone, never at arrays, so that callers may cache what it returns.
    """

    def __init__(self, problem: DescriptorProblem, device: Device | None, policy: tuple[OutOfBounds, bytes]) -> None:
        """device: where to run; None runs where the arrays are."""
        operator, self.device = problem.desc.operator, device
        self.tensors = {name: problem.desc.tensor(name) for name in operator.tensors}
        self.inputs = operator.inputs
        self._name, self._types = problem.name, dict(zip(self.tensors, problem.tensors, strict=True))
        self.lower = partial(problem.lower, out_of_bounds=policy[0], fill=policy[1])
        if device is not None:
            prepare_program(self.lower([each.layout for each in problem.tensors]), device)

    def new_output(self, *inputs: Signature | None) -> Signature | None:
        """The signature of a new output: a packed array where all inputs lie. None if one of them has to be moved first.

        Raises TypeError for another number of inputs, and for several devices.
        """
        self.check_count(len(inputs))
        devices = [device_of(found) for found in inputs if found is not None]
        if len(devices) < len(inputs) or (self.device is not None and set(devices) != {self.device.memory}):
            return None
        check_devices(devices)
        output = [*self._types.values()][-1]
        return packed_signature(output.dtype, output.shape, new_place(devices[0]))

    def prepared(self, *signatures: Signature | None, buffers: bool = False) -> PreparedCall | None:
        """The call for arrays (inputs, then output) whose shapes say whether they are logical tensors or buffers.

        buffers: all are read and written through the described strides. None if one of them has to be moved to the device first.
        Raises TypeError for another number of inputs, a wrong type or several devices, ValueError for a wrong shape, and for
        arrays that cannot be read or written where they lie.
        """
        self.check_count(len(signatures) - 1)
        present = [found for found in signatures if found is not None]
        devices = [device_of(found) for found in present]
        moves = len(present) < len(signatures) or (self.device is not None and set(devices) != {self.device.memory})
        if moves and not buffers:
            return None
        shown = (*self.inputs, "out")
        if buffers:
            footprints = [self._as_buffer(name, found) for name, found in zip(self.tensors, present, strict=True)]
        else:
            footprints = [self._footprint(*each) for each in zip(self.tensors, shown, present, strict=True)]
        if moves:
            found = ", ".join(map(str, devices))
            raise TypeError(f"buffers lie on {found}; the operator was compiled for {self.device}: move them there")
        check_devices(devices)
        return prepare_call(self.lower, self.device or devices[0], footprints[:-1], footprints[-1], present, alone=True)

    def target(self, device: str | None) -> Device:
        """The GPU, or the device compiled for, unless another is named. ValueError for one that was not compiled for."""
        target = Device.parse(device) if device is not None else self.device or Device("cuda")
        if self.device is not None and target != self.device:
            raise ValueError(f"device is {target}, but the operator was compiled for {self.device}")
        return target

    def addressed(self, device: str | None) -> DeviceCall:
        """The call for buffers on a GPU of which only the addresses are known, multiples of 16 bytes each.

        device: as `CompiledOperator.launch` takes it. ValueError when that is no GPU or not the one compiled for.
        """
        target = self.target(device)
        if not target.on_gpu:
            raise ValueError(f"launch takes addresses on a GPU, and the device is {target}; call the operator with arrays there")
        footprints = [Footprint(name, self._types[name].dtype, tensor.layout()) for name, tensor in self.tensors.items()]
        call = prepare_call(self.lower, target, footprints[:-1], footprints[-1], alone=True)
        assert isinstance(call, DeviceCall)
        return call

    def stated(self, device: Device, layout: Sequence[Any]) -> list[Signature]:
        """The signatures of arrays on `device`, inputs then output, of one item of the `layouts` that `prepare` takes; None there
        is a packed array of the described Sizes. TypeError for another number of arrays, and for what states none.
        """
        given = [*layout]
        if len(given) == len(self.inputs):
            given.append(None)
        if len(given) != len(self.tensors):
            raise TypeError(
                f"{self._name} takes {counted(len(self.inputs), 'input array')} ({', '.join(self.inputs)}), and out "
                f"if the call has one, got {counted(len(given), 'array')}: state one for each"
            )
        where = new_place(device.memory)
        return [
            packed_signature(each.dtype, each.shape, where) if item is None else _stated(name, item, where)
            for (name, each), item in zip(self._types.items(), given, strict=True)
        ]

    def check_count(self, count: int) -> None:
        """TypeError for another number of inputs than the operator has."""
        if count != len(self.inputs):
            raise TypeError(
                f"{self._name} takes the input arrays ({', '.join(self.inputs)}), {len(self.inputs)} in number, got {count}"
            )

    def _footprint(self, name: str, shown: str, found: Signature) -> Footprint:
        tensor, dtype, (given, shape, strides, where) = self.tensors[name], self._types[name].dtype, found
        if not tensor.is_logical(shape):
            return self._as_buffer(name, found)
        if given != dtype and str(given) not in ALSO_ACCEPTED.get(tensor.data_type, ()):
            raise TypeError(
                f"{shown}: expected {dtype} elements (the descriptor says {tensor.data_type.name}), got {given}; "
                f"{conversion(given, dtype)}"
            )
        return logical(shown, (given, tensor.sizes, (0,) * (tensor.rank - len(shape)) + strides, where))

    def _as_buffer(self, name: str, found: Signature) -> Footprint:
        tensor, dtype, (given, shape, strides, *_) = self.tensors[name], self._types[name].dtype, found
        bytes_ = given.itemsize * np.prod(shape, dtype=object)
        contiguous = len(shape) == 1 and (shape[0] < 2 or strides == (given.itemsize,))
        if not contiguous or given not in (dtype, np.dtype(np.uint8)) or bytes_ < tensor.total_bytes:
            ones = ", with or without leading 1s" if tensor.sizes[:1] == (1,) and tensor.strides is None else ""
            raise ValueError(
                f"{name}: expected shape {tensor.sizes}{ones}, or a one-dimensional contiguous buffer of {dtype} or uint8 with "
                f"at least {tensor.total_bytes} bytes (TotalTensorSizeInBytes), got {given} of shape {shape} with {bytes_} bytes"
            )
        return buffer(name, found, tensor.layout(), dtype)


def check_devices(devices: Sequence[Device]) -> None:
    """TypeError for more than one device."""
    if len(set(devices)) > 1:
        raise TypeError(
            f"arrays lie on different devices ({', '.join(map(str, devices))}); move them to one, or compile(…, device=…) to say "
            "where"
        )


def _stated(name: str, item: Any, where: int) -> Signature:
    """The signature of an array like `item`: another array, or (shape, dtype) or (shape, dtype, strides in bytes)."""
    if not isinstance(item, tuple):
        try:
            array, home = arrays.adopt(item)
        except TypeError:
            raise TypeError(
                f"{name} is {type(item).__name__}, expected an array, (shape, dtype) or (shape, dtype, strides in bytes)"
            ) from None
        dtype, shape, strides, place = signature_on(home, array)
        return dtype, shape, strides, where | place & 15 if home.on_gpu and where >= 0 else where
    try:
        shape, dtype = tuple(map(index, item[0])), np.dtype(item[1])
        strides = packed_signature(dtype, shape, where)[2] if len(item) == 2 else tuple(map(index, item[2]))
    except (IndexError, TypeError) as error:
        raise TypeError(
            f"{name} is stated as {item!r}, expected (shape, dtype) or (shape, dtype, strides in bytes), such as "
            f"((2, 3), 'float32'): {error}"
        ) from None
    if len(strides) != len(shape) or len(item) > 3:
        raise ValueError(f"{name} is stated as {item!r}, expected a stride in bytes for each of the {len(shape)} dimensions")
    return dtype, shape, strides, where
