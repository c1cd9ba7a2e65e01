"""The tensors of a descriptor, and the prepared calls for arrays that a caller passes for them."""

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
"""Further NumPy types that a DirectML type accepts. Callers of DirectML store bool as UINT8."""


class DescribedTensors:
    """The tensors of a valid descriptor, inputs first. The methods prepare calls for arrays that hold these tensors.

    The methods take signatures instead of arrays, so that callers may cache the results.
    `device`: the device that runs all calls; None for the device of the arrays.
    """

    def __init__(self, problem: DescriptorProblem, device: Device | None, policy: tuple[OutOfBounds, bytes]) -> None:
        operator, self.device = problem.desc.operator, device
        self.tensors = {name: problem.desc.tensor(name) for name in operator.tensors}
        self.inputs = operator.inputs
        self._name, self._types = problem.name, dict(zip(self.tensors, problem.tensors, strict=True))
        self.lower = partial(problem.lower, out_of_bounds=policy[0], fill=policy[1])
        if device is not None:
            prepare_program(self.lower([tensor.layout for tensor in problem.tensors]), device)

    def new_output(self, *inputs: Signature | None) -> Signature | None:
        """Return the signature of a new packed output array.

        Returns None if an input must be converted or moved first. `inputs`: the signature of each input, or None if it has
        none.
        """
        self.check_count(len(inputs))
        devices = [device_of(signature) for signature in inputs if signature is not None]
        if len(devices) < len(inputs) or (self.device is not None and set(devices) != {self.device.memory}):
            return None
        check_devices(devices)
        output = [*self._types.values()][-1]
        return packed_signature(output.dtype, output.shape, new_place(devices[0]))

    def prepared(self, *signatures: Signature | None, buffers: bool = False) -> PreparedCall | None:
        """Return the prepared call for arrays with these signatures, or None if an array must be converted or moved first.

        An array for whose shape `is_logical` is True is a tensor with its own strides. Any other array must be a buffer.
        `buffers`: True to use all arrays as buffers. Raises TypeError or ValueError if an array does not fit its tensor.
        """
        self.check_count(len(signatures) - 1)
        present = [signature for signature in signatures if signature is not None]
        devices = [device_of(signature) for signature in present]
        moves = len(present) < len(signatures) or (self.device is not None and set(devices) != {self.device.memory})
        if moves and not buffers:
            return None
        shown = (*self.inputs, "out")
        if buffers:
            footprints = [self._as_buffer(name, signature) for name, signature in zip(self.tensors, present, strict=True)]
        else:
            footprints = [self._footprint(*entry) for entry in zip(self.tensors, shown, present, strict=True)]
        if moves:
            places = ", ".join(map(str, devices))
            raise TypeError(f"buffers lie on {places}; the operator was compiled for {self.device}: move them there")
        check_devices(devices)
        return prepare_call(self.lower, self.device or devices[0], footprints[:-1], footprints[-1], present, own_words=True)

    def target(self, device: str | None) -> Device:
        """Return the device with this name. For None, return the operator's own device, or else GPU 0.

        Raises ValueError if the operator was compiled for another device.
        """
        target = Device.parse(device) if device is not None else self.device or Device("cuda")
        if self.device is not None and target != self.device:
            raise ValueError(f"device is {target}, but the operator was compiled for {self.device}")
        return target

    def addressed(self, device: str | None) -> DeviceCall:
        """Return the prepared call for GPU buffers at addresses that are multiples of 16."""
        target = self.target(device)
        if not target.on_gpu:
            raise ValueError(f"launch takes addresses on a GPU, and the device is {target}; call the operator with arrays there")
        footprints = [Footprint(name, self._types[name].dtype, tensor.layout()) for name, tensor in self.tensors.items()]
        call = prepare_call(self.lower, target, footprints[:-1], footprints[-1], own_words=True)
        assert isinstance(call, DeviceCall)
        return call

    def stated(self, device: Device, layout: Sequence[Any]) -> list[Signature]:
        """Return the signatures of the arrays that one item of `layouts` states, inputs first.

        See `CompiledOperator.prepare` for `layouts`.
        """
        entries = [*layout]
        if len(entries) == len(self.inputs):
            entries.append(None)
        if len(entries) != len(self.tensors):
            raise TypeError(
                f"{self._name} takes {counted(len(self.inputs), 'input array')} ({', '.join(self.inputs)}), and out "
                f"if the call passes it, got {counted(len(entries), 'array')}: state each array"
            )
        where = new_place(device.memory)
        return [
            packed_signature(tensor.dtype, tensor.shape, where) if entry is None else _stated(name, entry, where)
            for (name, tensor), entry in zip(self._types.items(), entries, strict=True)
        ]

    def check_count(self, count: int) -> None:
        """Raise TypeError if `count` is not the operator's number of inputs."""
        if count != len(self.inputs):
            raise TypeError(
                f"{self._name} takes {counted(len(self.inputs), 'input array')} ({', '.join(self.inputs)}), got {count}"
            )

    def _footprint(self, name: str, shown: str, signature: Signature) -> Footprint:
        tensor, dtype, (actual, shape, strides, where) = self.tensors[name], self._types[name].dtype, signature
        if not tensor.is_logical(shape):
            return self._as_buffer(name, signature)
        if actual != dtype and str(actual) not in ALSO_ACCEPTED.get(tensor.data_type, ()):
            is_input, indices = name in self.inputs, name != self.inputs[0]
            remedy = conversion(actual, dtype, indices=indices) if is_input else f"allocate an array of {dtype}"
            described = f"{dtype} elements (the descriptor says {tensor.data_type.name})"
            raise TypeError(f"{shown}: expected {described}, got {actual}; {remedy}")
        return logical(shown, (actual, tensor.sizes, (0,) * (tensor.rank - len(shape)) + strides, where))

    def _as_buffer(self, name: str, signature: Signature) -> Footprint:
        tensor, dtype, (actual, shape, strides, *_) = self.tensors[name], self._types[name].dtype, signature
        bytes_ = actual.itemsize * np.prod(shape, dtype=object)
        contiguous = len(shape) == 1 and (shape[0] < 2 or strides == (actual.itemsize,))
        if not contiguous or actual not in (dtype, np.dtype(np.uint8)) or bytes_ < tensor.total_bytes:
            ones = ", with or without leading 1s" if tensor.sizes[:1] == (1,) and tensor.strides is None else ""
            raise ValueError(
                f"{name}: expected shape {tensor.sizes}{ones}, or a one-dimensional contiguous buffer of {dtype} or uint8 with "
                f"at least {tensor.total_bytes} bytes (TotalTensorSizeInBytes), got {actual} of shape {shape} with {bytes_} bytes"
            )
        return buffer(name, signature, tensor.layout(), dtype)


def check_devices(devices: Sequence[Device]) -> None:
    """Raise TypeError if the arrays of a call lie on several devices."""
    if len(set(devices)) > 1:
        raise TypeError(
            f"arrays lie on different devices ({', '.join(map(str, devices))}); move them to one, or compile the operator "
            "for one: compile(…, device=…)"
        )


def _stated(name: str, item: Any, where: int) -> Signature:
    """Return the signature of the array that `item` states.

    `item`: an example array, (shape, dtype), or (shape, dtype, strides in bytes). `where`: the place of an array that is
    stated by shape (see `Signature`).
    """
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
