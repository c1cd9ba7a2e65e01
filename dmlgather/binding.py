"""Which arrays a descriptor's tensors take: from the signatures of arrays to the route on which the operator runs."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from operator import index
from typing import Any

import numpy as np

from dmlgather.backends.arrays import adopt
from dmlgather.backends.devices import Device
from dmlgather.backends.executor import Executor
from dmlgather.backends.footprints import WRITEABLE, Footprint, Signature, buffer, device_of, logical, signature_on
from dmlgather.backends.routes import DeviceRoute, Route
from dmlgather.directml import BufferTensorDesc, DataType, OperatorDesc, lower
from dmlgather.plan import IndexPlan, Layout, OutOfBounds, packed_strides
from dmlgather.policy import Fill, resolve_policy
from dmlgather.wording import braces, counted

ALSO_ACCEPTED = {DataType.UINT8: ("bool",)}
"""NumPy types that stand for a DirectML type besides its own; DirectML's callers carry bool as UINT8."""


class Binding:
    """The tensors of a valid descriptor, in binding order, and the rules for arrays in their place.

    It looks at signatures alone, never at arrays, so that callers may cache what it returns.
    """

    def __init__(self, desc: OperatorDesc, device: Device | None, out_of_bounds: str | Fill | None) -> None:
        """device: where to run; None runs where the arrays are."""
        self.desc, self.device = desc, device
        self.tensors: dict[str, BufferTensorDesc] = {name: desc.tensor(name) for name in desc.operator.tensors}
        *self.inputs, self.output = self.tensors
        self.dtypes = {name: np.dtype(tensor.data_type.name.lower()) for name, tensor in self.tensors.items()}
        policy, fill = resolve_policy(out_of_bounds, OutOfBounds.CLAMP, self.dtypes[self.output])
        self.policy = f"Fill({out_of_bounds.value!r})" if isinstance(out_of_bounds, Fill) else policy.value
        self.lower = partial(_lower, desc, tuple(self.tensors), policy, fill)
        self._executor = Executor(self.lower)
        if device is not None:
            self._executor.prepare(device, [Layout.packed(tensor.sizes) for tensor in self.tensors.values()])

    def shown(self, device: Device | None) -> str:
        """Operator, types and sizes of its tensors, the device (None: of the arrays), and the policy where there are indices."""
        shown = [f"{tensor.data_type} {braces(tensor.sizes)}" for tensor in self.tensors.values()]
        where = "where the arrays are" if device is None else f"on {device}"
        policy = f", out of bounds: {self.policy}" if "indices_tensor" in self.tensors else ""
        return f"{self.desc.operator.name}: {', '.join(shown[:-1])} -> {shown[-1]}; {where}{policy}"

    def place(self, *inputs: Signature | None) -> Device | None:
        """The device in whose memory all inputs lie and the output belongs; None if an input has to be moved there first.

        Raises TypeError for another number of inputs, a wrong type and for several devices, ValueError for a wrong shape.
        """
        self.check_count(len(inputs))
        present = [found for found in inputs if found is not None]
        devices = [device_of(found) for found in present]
        if len(present) < len(inputs) or (self.device is not None and set(devices) != {self.device.memory}):
            return None
        self._footprints(present)
        check_devices(devices)
        return devices[0]

    def route(self, *signatures: Signature | None) -> Route | None:
        """The route for arrays (inputs, then output) whose shapes say whether they are logical tensors or buffers.

        None if one of them has to be moved to the device first. Raises TypeError for a wrong type or several devices,
        ValueError for a wrong shape, and for arrays that cannot be read or written where they lie.
        """
        *given, out = signatures
        place = self.place(*given)
        if place is None or out is None or (self.device is not None and device_of(out) != place):
            return None
        target = self._footprint(self.output, "out", out)
        check_devices([place, device_of(out)])
        return self._executor.route(self.device or place, self._footprints([found for found in given if found]), target)

    def buffer_route(self, *signatures: Signature) -> Route:
        """The route for buffers that are all read and written through the described strides."""
        self.check_count(len(signatures) - 1)
        footprints = [self._as_buffer(name, found) for name, found in zip(self.tensors, signatures, strict=True)]
        devices = [device_of(found) for found in signatures]
        if self.device is not None and set(devices) != {self.device.memory}:
            found = ", ".join(map(str, devices))
            raise TypeError(f"buffers lie on {found}; the operator was compiled for {self.device}: move them there")
        check_devices(devices)
        return self._executor.route(self.device or devices[0], footprints[:-1], footprints[-1])

    def address_route(self, device: str | None) -> DeviceRoute:
        """The route for buffers on a GPU of which only the addresses are known, multiples of 16 bytes each.

        device: as `CompiledOperator.launch` takes it. ValueError when that is no GPU or not the one compiled for.
        """
        target = Device.parse(device) if device is not None else self.device or Device("cuda")
        if self.device is not None and target != self.device:
            raise ValueError(f"device is {target}, but the operator was compiled for {self.device}")
        if not target.on_gpu:
            raise ValueError(f"launch takes addresses on a GPU, and the device is {target}; call the operator with arrays there")
        footprints = [Footprint(name, self.dtypes[name], tensor.layout()) for name, tensor in self.tensors.items()]
        route = self._executor.route(target, footprints[:-1], footprints[-1])
        assert isinstance(route, DeviceRoute)
        return route

    def prepared_device(self, device: str | None) -> Device:
        """The device that `CompiledOperator.prepare` prepares for. ValueError when calls never run there."""
        target = Device.parse(device) if device is not None else self.device or Device("cuda")
        if self.device is not None and target != self.device:
            raise ValueError(f"device is {target}, but the operator was compiled for {self.device}")
        if self.device is None and target != target.memory:
            raise ValueError(f"device is {target}, where no arrays lie: compile(…, device='{target}') to run calls there")
        return target

    def stated(self, device: Device, layout: Sequence[Any] | None) -> list[Signature]:
        """The signatures of arrays on `device`, inputs then output, of one item of the `layouts` that `prepare` takes; None for
        packed arrays of the described Sizes. TypeError for another number of arrays, and for what states none.
        """
        given: list[Any] = [None] * len(self.inputs) if layout is None else [*layout]
        if len(given) == len(self.inputs):
            given.append(None)
        if len(given) != len(self.tensors):
            raise TypeError(
                f"{self.desc.operator.name} takes {counted(len(self.inputs), 'input array')} ({', '.join(self.inputs)}), and out "
                f"if the call has one, got {counted(len(given), 'array')}: state one for each"
            )
        where = device.memory.index << 4 if device.on_gpu else WRITEABLE
        return [
            (self.dtypes[name], tensor.sizes, _packed(tensor.sizes, self.dtypes[name]), where) if item is None
            else _stated(name, item, where)
            for (name, tensor), item in zip(self.tensors.items(), given, strict=True)
        ]  # fmt: skip

    def check_count(self, count: int) -> None:
        """TypeError for another number of inputs than the operator has."""
        if count != len(self.inputs):
            raise TypeError(
                f"{self.desc.operator.name} takes the input arrays ({', '.join(self.inputs)}), {len(self.inputs)} in number, "
                f"got {count}"
            )

    def _footprints(self, inputs: Sequence[Signature]) -> list[Footprint]:
        return [self._footprint(name, name, found) for name, found in zip(self.inputs, inputs, strict=True)]

    def _footprint(self, name: str, shown: str, found: Signature) -> Footprint:
        tensor, dtype, (given, shape, strides, where) = self.tensors[name], self.dtypes[name], found
        if not tensor.is_logical(shape):
            return self._as_buffer(name, found)
        if given != dtype and str(given) not in ALSO_ACCEPTED.get(tensor.data_type, ()):
            raise TypeError(
                f"{shown}: expected {dtype} elements (the descriptor says {tensor.data_type.name}), got {given}; "
                f"convert with .astype or reinterpret with .view('{dtype}')"
            )
        return logical(shown, (given, tensor.sizes, (0,) * (tensor.rank - len(shape)) + strides, where))

    def _as_buffer(self, name: str, found: Signature) -> Footprint:
        tensor, dtype, (given, shape, strides, *_) = self.tensors[name], self.dtypes[name], found
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
            array, home = adopt(item)
        except TypeError:
            raise TypeError(
                f"{name} is {type(item).__name__}, expected an array, (shape, dtype) or (shape, dtype, strides in bytes)"
            ) from None
        dtype, shape, strides, place = signature_on(home, array)
        return dtype, shape, strides, where | place & 15 if home.on_gpu and where >= 0 else where
    try:
        shape, dtype = tuple(map(index, item[0])), np.dtype(item[1])
        strides = _packed(shape, dtype) if len(item) == 2 else tuple(map(index, item[2]))
    except (IndexError, TypeError) as error:
        raise TypeError(
            f"{name} is stated as {item!r}, expected (shape, dtype) or (shape, dtype, strides in bytes), such as "
            f"((2, 3), 'float32'): {error}"
        ) from None
    if len(strides) != len(shape) or len(item) > 3:
        raise ValueError(f"{name} is stated as {item!r}, expected a stride in bytes for each of the {len(shape)} dimensions")
    return dtype, shape, strides, where


def _packed(shape: tuple[int, ...], dtype: np.dtype[Any]) -> tuple[int, ...]:
    return tuple(step * dtype.itemsize for step in packed_strides(shape))


def _lower(desc: OperatorDesc, names: Sequence[str], policy: OutOfBounds, fill: bytes, layouts: Sequence[Layout]) -> IndexPlan:
    return lower(desc, dict(zip(names, layouts, strict=True)), policy, fill)
