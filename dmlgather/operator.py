"""Compile a DirectML operator descriptor and run it on arrays."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from typing import Any

import numpy as np

from dmlgather.backends import arrays
from dmlgather.backends.arrays import Operand
from dmlgather.backends.devices import CPU, Device, stream_pointer
from dmlgather.directml import (
    BufferTensorDesc,
    DataType,
    FeatureLevel,
    OperatorDesc,
    lower,
    validate,
)
from dmlgather.execute import Call, Executor
from dmlgather.explain import Explanation, explain
from dmlgather.plan import IndexPlan, Layout, OutOfBounds
from dmlgather.policy import Fill, resolve_policy

ALSO_ACCEPTED = {DataType.UINT8: ("bool",)}
"""NumPy types that stand for a DirectML type besides its own; DirectML's callers carry bool as UINT8."""


def compile(  # noqa: A001 - the word users know for preparing an operator
    desc: OperatorDesc,
    device: str | None = None,
    level: str | FeatureLevel = "6_4",
    out_of_bounds: str | Fill | None = None,
) -> CompiledOperator:
    """Validate `desc` at a feature level and make it callable.

    device: None follows the arrays at each call; "cpu", "cuda", "cuda:N" or "reference" prepares for packed arrays now, runs
    there, and moves arrays that lie elsewhere. out_of_bounds: None is DirectML's clamping; else "clamp", "raise", "promise"
    or Fill(value).

    Raises DescriptorError (a ValueError that lists every error), ValueError for an unknown device, level or policy, and
    DeviceError when the device cannot be used.
    """
    validate(desc, level=level).raise_for_errors()
    return CompiledOperator(desc, None if device is None else Device.parse(device), out_of_bounds)


class CompiledOperator:
    """A valid descriptor, ready to run. Make one with `compile`.

    Called with the operator's input arrays in the descriptor's order. An array whose shape equals the described Sizes is
    taken as those elements, with its own strides; a one-dimensional contiguous array of at least TotalTensorSizeInBytes
    bytes, of the described type or uint8, is read through the described strides.
    """

    def __init__(self, desc: OperatorDesc, device: Device | None, out_of_bounds: str | Fill | None) -> None:
        self.desc = desc
        self._device = device
        self._tensors: dict[str, BufferTensorDesc] = {name: desc.tensor(name) for name in desc.operator.tensors}
        *self._inputs, self._output = self._tensors
        self._dtypes = {name: np.dtype(tensor.data_type.name.lower()) for name, tensor in self._tensors.items()}
        self._policy, self._fill = resolve_policy(out_of_bounds, OutOfBounds.CLAMP, self._dtypes[self._output])
        self._executor = Executor(self.lower)
        self._last: Call | None = None
        if device is not None:
            self._executor.prepare(device, [Layout.packed(tensor.sizes) for tensor in self._tensors.values()])

    @cached_property
    def plan(self) -> IndexPlan:
        """The plan over the described layouts, as lowered."""
        return self.lower([tensor.layout() for tensor in self._tensors.values()])

    def __call__(self, *inputs: Any, out: Any = None, stream: Any = None) -> Any:
        """Run on arrays and return the output, the same kind of array as the first input, shape OutputTensor.Sizes.

        inputs: one array per input tensor. out: written instead of a new array and returned; nothing is allocated then.
        stream: on a GPU, the stream to run on (CuPy stream, `__cuda_stream__` object or address), else CuPy's current one.

        Raises TypeError for a wrong type, kind or mixture of devices, ValueError for a wrong shape or an overlapping `out`;
        IndexError for a bad index under "raise" on the CPU (on a GPU, ask with `raise_if_bad`).
        """
        with self._on(stream, inputs):
            call, result = self._bound(inputs, out)
            call.run(stream_pointer(stream, result.device))
            self._last = call
            if not result.device.on_gpu:
                self._raise(call)
            return self._returned(inputs, out, result)

    def bind(self, *inputs: Any, out: Any) -> BoundOperator:
        """The operator with its arrays fixed: the cheapest way to run it again, and what a CUDA graph captures.

        Raises TypeError and ValueError as a call does.
        """
        if self._device is not None and any(arrays.adopt(item)[1] != self._device.memory for item in (*inputs, out)):
            raise TypeError(f"bind takes arrays that lie on {self._device.memory}; move them there first")
        call, result = self._bound(inputs, out, reports_alone=True)
        return BoundOperator(self, call, result.device)

    def run_buffers(self, *inputs: Any, out: Any, stream: Any = None) -> None:
        """Run on one-dimensional byte buffers (uint8), all read and written through the described strides.

        Raises TypeError for buffers elsewhere than the operator was compiled for, ValueError for one that is too short or
        overlaps; IndexError as a call does.
        """
        self._check_count(inputs)
        operands = []
        for name, array in zip(self._tensors, (*inputs, out), strict=True):
            adopted, device = arrays.adopt(array)
            operands.append(self._as_buffer(name, adopted, device))
        self._check_devices(operands, self._device)
        call = self._executor.bind(self._device or operands[-1].device, operands[:-1], operands[-1])
        call.run(stream_pointer(stream, operands[-1].device))
        self._last = call
        if not operands[-1].device.on_gpu:
            self._raise(call)

    def launch(self, *pointers: int, stream: Any = None, device: str | None = None) -> None:
        """Run on raw device addresses (inputs, then output) of buffers that the described tensors occupy, whole.

        device: "cuda" or "cuda:N", unless the operator was compiled for a device. Only what addresses show is checked:
        TypeError for another number of them; ValueError for one that is not a multiple of 16 bytes, for an output that
        overlaps an input, and for a device that is no GPU.
        """
        if len(pointers) != len(self._tensors):
            raise TypeError(f"launch takes {len(self._tensors)} addresses ({', '.join(self._tensors)}), got {len(pointers)}")
        target = Device.parse(device) if device is not None else self._device or Device("cuda")
        if self._device is not None and target != self._device:
            raise ValueError(f"device is {target}, but the operator was compiled for {self._device}")
        if not target.on_gpu:
            raise ValueError(f"launch takes addresses on a GPU, and the device is {target}; call the operator with arrays there")
        operands = []
        for (name, tensor), pointer in zip(self._tensors.items(), pointers, strict=True):
            if pointer % 16:
                raise ValueError(f"{name} is at address {pointer:#x}, which is not a multiple of 16 bytes")
            operands.append(arrays.at_address(pointer, target, tensor.layout(), self._dtypes[name]))
        call = self._executor.bind(target, operands[:-1], operands[-1])
        call.run(stream_pointer(stream, target))
        self._last = call

    def raise_if_bad(self) -> None:
        """Under "raise": IndexError for the first bad index (in memory order) of the last call; on a GPU, one sync."""
        if self._last is not None:
            self._raise(self._last)

    def explain(self) -> Explanation:
        """Plan, canonical plan, what each device would run, bytes moved, lowest feature level."""
        return explain(self.desc, self.plan)

    def lower(self, layouts: Sequence[Layout]) -> IndexPlan:
        """The plan over other layouts: one per tensor in binding order, inputs first."""
        return lower(self.desc, dict(zip(self._tensors, layouts, strict=True)), self._policy, self._fill)

    def _on(self, stream: Any, inputs: Sequence[Any]) -> AbstractContextManager[None]:
        """A context in which a stream that was given is the current one."""
        if stream is None or not inputs:
            return nullcontext()
        return arrays.on_stream(stream, arrays.adopt(inputs[0])[1] if self._device is None else self._device)

    def _bound(self, inputs: Sequence[Any], out: Any, *, reports_alone: bool = False) -> tuple[Call, Operand]:
        self._check_count(inputs)
        operands = [self._operand(name, array) for name, array in zip(self._inputs, inputs, strict=True)]
        self._check_devices(operands)
        device = operands[0].device
        if out is None:
            fresh = arrays.allocate(device, self._tensors[self._output].sizes, self._dtypes[self._output])
            result = arrays.logical(fresh, device, "out")
        else:
            result = self._operand(self._output, out, "out")
            self._check_devices([operands[0], result])
        return self._executor.bind(self._device or device, operands, result, reports_alone=reports_alone), result

    def _operand(self, name: str, array: Any, shown: str | None = None) -> Operand:
        adopted, device = arrays.adopt(array)
        if self._device is not None and device != self._device.memory:
            adopted, device = arrays.move(adopted, device, self._device.memory), self._device.memory
        tensor, dtype = self._tensors[name], self._dtypes[name]
        if tuple(adopted.shape) != tensor.sizes:
            return self._as_buffer(name, adopted, device)
        if adopted.dtype != dtype and str(adopted.dtype) not in ALSO_ACCEPTED.get(tensor.data_type, ()):
            raise TypeError(
                f"{shown or name}: expected {dtype} elements (the descriptor says {tensor.data_type.name}), got {adopted.dtype}; "
                f"convert with .astype or reinterpret with .view('{dtype}')"
            )
        return arrays.logical(adopted, device, shown or name)

    def _as_buffer(self, name: str, array: Any, device: Device) -> Operand:
        tensor, dtype = self._tensors[name], self._dtypes[name]
        contiguous = array.ndim == 1 and (array.size < 2 or array.strides == (array.itemsize,))
        if not contiguous or array.dtype not in (dtype, np.dtype(np.uint8)) or array.nbytes < tensor.total_bytes:
            raise ValueError(
                f"{name}: expected shape {tensor.sizes}, or a one-dimensional contiguous buffer of {dtype} or uint8 with at "
                f"least {tensor.total_bytes} bytes (TotalTensorSizeInBytes), got {array.dtype} of shape {tuple(array.shape)} "
                f"with {array.nbytes} bytes"
            )
        return arrays.buffer(array, device, tensor.layout(), dtype)

    def _returned(self, inputs: Sequence[Any], out: Any, result: Operand) -> Any:
        if out is None:
            home = arrays.adopt(inputs[0])[1]
            return arrays.hand_back(arrays.move(result.array, result.device, home), inputs[0])
        adopted, home = arrays.adopt(out)
        if home != result.device:  # `device=` said to compute elsewhere; `out` still gets the result
            arrays.fill_from(adopted, home, arrays.move(result.array, result.device, home))
        return out

    def _check_count(self, inputs: Sequence[Any]) -> None:
        if len(inputs) != len(self._inputs):
            raise TypeError(
                f"{self.desc.operator.name} takes the input arrays ({', '.join(self._inputs)}), {len(self._inputs)} in number, "
                f"got {len(inputs)}"
            )

    def _check_devices(self, operands: Sequence[Operand], wanted: Device | None = None) -> None:
        devices = [str(operand.device) for operand in operands]
        if wanted is not None and any(operand.device != wanted.memory for operand in operands):
            raise TypeError(f"buffers lie on {', '.join(devices)}; the operator was compiled for {wanted}: move them there")
        if len(set(devices)) > 1:
            raise TypeError(
                f"arrays lie on different devices ({', '.join(devices)}); move them to one, or compile(…, device=…) to say where"
            )

    def _raise(self, call: Call) -> None:
        call.raise_for_bad_index("IndicesTensor", self.desc.operator.lookup_axes(self.desc))


class BoundOperator:
    """A compiled operator with its arrays fixed and kept alive. Make one with `CompiledOperator.bind`."""

    def __init__(self, operator: CompiledOperator, call: Call, device: Device) -> None:
        self._operator, self._call, self._device = operator, call, device

    def __call__(self, stream: Any = None) -> None:
        """Run into the bound output; on a GPU on `stream` (or the current one), without a sync or an allocation.

        A CUDA graph that captured this uses the binding's memory: keep the binding as long as the graph.
        """
        self._call.run(stream_pointer(stream, self._device))
        if self._device == CPU:
            self.raise_if_bad()

    def raise_if_bad(self) -> None:
        """As `CompiledOperator.raise_if_bad`, for this binding's last run. After a CUDA graph that ran on another stream than it
        was captured on, wait for that stream first.
        """
        self._operator._raise(self._call)
