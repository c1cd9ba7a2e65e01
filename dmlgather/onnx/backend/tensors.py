"""Tensors of a running model: where each one lies, and who else may see its memory."""

from __future__ import annotations

from typing import Any

from dmlgather.backends import arrays
from dmlgather.backends.devices import CPU, Device
from dmlgather.dialects.problem import TensorType
from dmlgather.onnx.auxiliary.versions import TYPES
from dmlgather.onnx.problems.operators import DTYPES, STRING


class DeviceTensor:
    """A value of the graph: a NumPy or CuPy array, moved at most once to each device that asks for it.

    memory: stands for the memory of the array as it came; None for a caller's and for constants, which no output may share.
    """

    __slots__ = ("_array", "_copies", "_lies", "memory")

    def __init__(self, array: Any, lies: Device, memory: object | None = None) -> None:
        self._array, self._lies, self.memory = array, lies, memory
        self._copies: dict[Device, Any] = {}

    @property
    def type(self) -> TensorType:
        """Shape and data type."""
        return TensorType(tuple(self._array.shape), self._array.dtype)

    def on(self, device: Device) -> Any:
        """The array on a device. TypeError for strings and other types that a GPU does not take."""
        if device == self._lies:
            return self._array
        if device not in self._copies:
            check_type_on(device, "a tensor", self._array.dtype)
            self._copies[device] = arrays.move(self._array, self._lies, device)
        return self._copies[device]

    def nearest(self, device: Device) -> tuple[Any, Device]:
        """An array and where it lies: on that device if the tensor is there already, else anywhere."""
        return (self._copies[device], device) if device in self._copies else (self._array, self._lies)

    def handed_out(self, home: Device, device: Device, shared: set[object]) -> Any:
        """A packed array on `home` that no one else sees, for a model that ran on `device`; strings stay on the host.

        shared: the memory of what was handed out before; this tensor's is added.
        """
        array, lies = self.nearest(device)
        home = CPU if array.dtype.hasobject else home
        if lies != home:
            return arrays.move(array, lies, home)
        if self.memory is not None and self.memory not in shared and array.flags.c_contiguous:
            shared.add(self.memory)
            return array
        copied = arrays.allocate(home, array.shape, array.dtype)
        arrays.fill_from(copied, home, array)
        return copied


def check_type_on(device: Device, what: str, dtype: Any) -> None:
    """TypeError for data that a GPU does not take: strings, and types that no operator of the family has."""
    if device.on_gpu and (dtype == STRING or TYPES.name_of(dtype) not in DTYPES):
        raise TypeError(f"{what} has type {TYPES.name_of(dtype)}, which does not run on {device}: prepare the model for the CPU")
