"""Tensors of a running model: the device of each, and whether its memory is shared."""

from __future__ import annotations

from typing import Any

from dmlgather.backends import arrays
from dmlgather.backends.devices import CPU, Device
from dmlgather.dialects.problem import TensorType
from dmlgather.onnx.problems.data_types import STRING, type_name
from dmlgather.onnx.problems.operator_versions import VERSIONS


class DeviceTensor:
    """A value of the graph: a NumPy or CuPy array, copied at most once to each device that asks for it.

    memory: an identity of the array's memory; None for a caller's and for constants, which no output may share.
    """

    __slots__ = ("_array", "_copies", "_device", "memory")

    def __init__(self, array: Any, device: Device, memory: object | None = None) -> None:
        self._array, self._device, self.memory = array, device, memory
        self._copies: dict[Device, Any] = {}

    @property
    def type(self) -> TensorType:
        """Shape and data type."""
        return TensorType(tuple(self._array.shape), self._array.dtype)

    def on(self, device: Device) -> Any:
        """The array on a device. TypeError for strings and other types that a GPU does not take."""
        if device == self._device:
            return self._array
        if device not in self._copies:
            check_type_on(device, "a tensor", self._array.dtype)
            self._copies[device] = arrays.move(self._array, self._device, device)
        return self._copies[device]

    def nearest(self, device: Device) -> tuple[Any, Device]:
        """The array and its device: on `device` if there is a copy there already, else the array as it came."""
        return (self._copies[device], device) if device in self._copies else (self._array, self._device)

    def as_output(self, target: Device, device: Device, returned: set[object]) -> Any:
        """A packed array on `target` that no one else has, for a model that ran on `device`; strings stay on the host.

        returned: the memory of the outputs before this one, whose memory is added.
        """
        array, source = self.nearest(device)
        target = CPU if array.dtype.hasobject else target
        if source != target:
            return arrays.move(array, source, target)
        if self.memory is not None and self.memory not in returned and array.flags.c_contiguous:
            returned.add(self.memory)
            return array
        copied = arrays.allocate(target, array.shape, array.dtype)
        arrays.fill_from(copied, target, array)
        return copied


def check_type_on(device: Device, what: str, dtype: Any) -> None:
    """TypeError for data that a GPU does not take: strings, and types that no operator of the family has."""
    name = type_name(dtype)
    if device.on_gpu and (dtype == STRING or name not in VERSIONS["Gather"][-1].types):
        raise TypeError(f"{what} has type {name}, which does not run on {device}: prepare the model for the CPU")
