"""Comparison of one operator on several devices, bit for bit."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import numpy as np
from numpy.typing import NDArray

from dmlgather.backends.arrays import adopt, move
from dmlgather.backends.cuda.driver import DeviceError
from dmlgather.backends.devices import CPU, Device
from dmlgather.calls.arguments import Fill
from dmlgather.calls.operator import CompiledOperator
from dmlgather.calls.operator import compile as compile_operator
from dmlgather.chunks import chunks
from dmlgather.comparing.differences import Tracer, differences
from dmlgather.comparing.hypotheses import POISON
from dmlgather.comparing.mismatches import Difference, Mismatch
from dmlgather.directml import BufferTensorDesc, FeatureLevel, OperatorDesc
from dmlgather.directml.elements import dtype_of, elements
from dmlgather.files import FileError
from dmlgather.model_formats import ONNX, recognised
from dmlgather.wording import counted

if TYPE_CHECKING:
    from onnx import ModelProto

    from dmlgather.comparing.saving import DispatchReport
    from dmlgather.differential import Agreement


@dataclass(frozen=True, slots=True)
class ComparedCall:
    """The call that was compared, with inputs in host memory.

    `buffers`: True if the caller passed one-dimensional buffers.
    """

    inputs: tuple[NDArray[Any], ...]
    buffers: bool
    out_of_bounds: str | Fill | None


@dataclass(frozen=True, slots=True)
class Comparison:
    """The result of `compare`: one operator's output on several devices, and the differences between the outputs.

    `devices`: the names of the devices that ran the operator, then the names of outputs that the caller passed (`against`).
    `elements`: the number of output elements.
    `differences`: one entry for each device with an output that differs from the first device's output.
    `errors`: for each device, the message of the IndexError that it raised, or None.
    `outputs`: for each device, its output as an array of OutputTensor's Sizes; None if the device raised an error.
    `call`: the inputs and options of the call, which `save` needs; None for a dispatch of a model.
    `given`: the number of outputs that the caller passed. They are the last entries of `devices` and `outputs`.
    """

    desc: OperatorDesc = field(repr=False)
    devices: tuple[str, ...]
    elements: int
    differences: tuple[Difference, ...]
    errors: tuple[str | None, ...]
    outputs: tuple[NDArray[Any] | None, ...] = field(repr=False, compare=False)
    call: ComparedCall | None = field(default=None, repr=False, compare=False)
    given: int = 0

    @property
    def equal(self) -> bool:
        """Return True if all devices gave the same bits, or raised the same error."""
        return not self.differences and len(set(self.errors)) == 1

    def __bool__(self) -> bool:
        return self.equal

    @property
    def differing(self) -> int:
        """Return the number of output elements that differ from the first device's, summed over all devices."""
        return sum(difference.differing for difference in self.differences)

    @property
    def first(self) -> Mismatch | None:
        """Return the first mismatch, in row-major order, of the first device that differs."""
        return self.differences[0].first if self.differences else None

    @property
    def worst(self) -> Mismatch | None:
        """Return the mismatch with the largest numeric difference (`Difference.worst`), on the first device that differs."""
        return self.differences[0].worst if self.differences else None

    def save(self, path: str | PathLike[str]) -> Path:
        """Write the compared operator and its inputs as a DxDispatch model ("case") that can run elsewhere. Return the model's
        path.

        `path`: the model's file if it ends in .json; otherwise a folder, in which the model is called case.json. The inputs,
        the output of each device and a report are written beside the model. The input arrays must not have changed since the
        comparison.

        Raise FileError if a file cannot be written, or if the folder has outputs of an earlier case. Raise ValueError if a
        DxDispatch model cannot hold the case: the policy is not clamping, strides put several values at one address, or the
        comparison belongs to a dispatch of a model.
        """
        from dmlgather.comparing.saving import buffers, check_no_older, compare_report, save_outputs, save_report
        from dmlgather.directml.dxdispatch.writing import write_single

        call = self.call
        if call is None:
            raise ValueError("one dispatch of a model cannot be saved alone: save the model's case")
        if call.out_of_bounds not in (None, "clamp", "promise"):
            raise ValueError(
                f"out_of_bounds is {call.out_of_bounds!r}, and a DxDispatch model can only clamp: compare with 'clamp'"
            )
        inputs = buffers(self.desc, call.inputs, described=call.buffers)
        devices = self.devices[: len(self.devices) - self.given]
        check_no_older(Path(path), devices, self.given)
        target = write_single(self.desc, inputs, Path(path))
        name = self.desc.operator.name.lower()
        files = save_outputs(target, 0, name, dict(zip(self.devices, self.outputs, strict=True)), external=self.given)
        save_report(target, compare_report(devices, [self.report(0, name, files)]))
        return target

    def report(self, command: int, dispatchable: str, outputs: Mapping[str, str]) -> DispatchReport:
        """Return the comparison as a record for the JSON report.

        `command`: the number of the dispatch among the model's commands. `dispatchable`: the dispatchable's name. `outputs`:
        the files of the saved outputs, by device.
        """
        from dmlgather.comparing.saving import DispatchReport

        tensor = self.desc.tensor(self.desc.operator.output)
        return DispatchReport(
            command=command,
            dispatchable=dispatchable,
            operator=self.desc.operator.type,
            data_type=tensor.data_type.name,
            sizes=tensor.sizes,
            equal=self.equal,
            errors={name: error for name, error in zip(self.devices, self.errors, strict=True) if error is not None},
            differences=self.differences,
            outputs=dict(outputs),
            against=self.devices[len(self.devices) - self.given :],
        )

    def __str__(self) -> str:
        return "\n".join(self.messages())

    def messages(self) -> list[str]:
        """Return the result in words: a message for each device that differs from the first, and one message for all equal
        devices.
        """
        names = ", ".join(self.devices)
        if len(set(self.errors)) > 1:
            outcomes = "; ".join(f"{name}: {error or 'no error'}" for name, error in zip(self.devices, self.errors, strict=True))
            return [f"different outcomes on {names}: {outcomes}"]
        if len(self.devices) == 1 and self.errors[0] is None:
            return [f"run on {names}: {counted(self.elements, 'element')}, compared with nothing"]
        if self.errors[0] is not None:
            return [f"equal on {names}: {self.errors[0]}"]
        if not self.differences:
            return [f"equal on {names}: {counted(self.elements, 'element')}, bit for bit"]
        messages = [str(difference) for difference in self.differences]
        differing = {difference.devices[1] for difference in self.differences}
        equal = [device for device in self.devices if device not in differing]
        if len(equal) > 1:
            messages.append(f"equal on {', '.join(equal)}: {counted(self.elements, 'element')}, bit for bit")
        return messages


@overload
def compare(what: Any, model: str | PathLike[str] | ModelProto, /) -> Agreement: ...


@overload
def compare(
    desc: OperatorDesc,
    *inputs: Any,
    devices: Sequence[str] | None = None,
    level: str | FeatureLevel = "6_4",
    out_of_bounds: str | Fill | None = None,
    buffers: bool = False,
    against: Any = None,
) -> Comparison: ...


def compare(
    desc: Any,
    *inputs: Any,
    devices: Sequence[str] | None = None,
    level: str | FeatureLevel = "6_4",
    out_of_bounds: str | Fill | None = None,
    buffers: bool = False,
    against: Any = None,
) -> Comparison | Agreement:
    """Run `desc` on the same `inputs` on several devices and compare the outputs bit for bit.

    `inputs`: an array for each input tensor, as the compiled operator takes them. `devices`: names such as "cpu", "cuda",
    "cuda:1" and "reference". Default: "cpu" and "reference", and before them "cuda" if a GPU can be used. `buffers`: True if
    inputs and output are one-dimensional buffers of the described type or uint8. The tensors then lie in the buffers at the
    described strides, as in `CompiledOperator.run_buffers`. `against`: an output that another program computed, as an array of
    OutputTensor's Sizes or a one-dimensional buffer of its type. It counts as a device called "against", so one further device
    is enough.

    If the policy is "raise", an IndexError counts as a device's result and is compared. All other errors of `compile` and of
    the call are raised. Raise DeviceError for a device that cannot be used. Raise ValueError for fewer than two different
    devices. Raise TypeError or ValueError if `against` has another type or shape.

    >>> row = dg.BufferTensorDesc(data_type="INT64", sizes=(1, 4))
    >>> desc = dg.GatherElementsOperatorDesc(input_tensor=row, indices_tensor=row, output_tensor=row, axis=1)
    >>> print(dg.compare(desc, np.array([[10, 11, 12, 13]]), np.array([[3, 0, -1, 9]]), devices=("cpu", "reference")))
    equal on cpu, reference: 4 elements, bit for bit

    To compare `desc` with an ONNX model, pass the model (the path of a file, or an onnx.ModelProto) in place of `inputs`.
    `desc` may then be anything that `dg.translate` takes. Both run on many inputs: `desc` in the reference backend, the model
    in onnx's reference evaluator and, if installed, in onnxruntime. The result is true if all outputs were equal.

    >>> dg.compare(desc, dg.translate(desc, "onnx").form).verdict
    'equal'
    """
    if len(inputs) == 1 and is_model(inputs[0]):
        if buffers or not (devices is out_of_bounds is against is None) or FeatureLevel.parse(level) != FeatureLevel.LEVEL_6_4:
            raise TypeError("a comparison with an ONNX model takes no devices, level, out_of_bounds, buffers or against")
        if is_model(desc) and not isinstance(desc, str | PathLike):
            raise TypeError(f"what is compared is {ONNX.what}: {ONNX.remedy.format('MODEL')}")
        from dmlgather.dialects.programs import read_program
        from dmlgather.differential import check_agreement

        source = read_program(desc, "what is compared")
        return check_agreement(source.graph, inputs[0], initial=source.initial)
    for array in inputs:
        if isinstance(array, str | PathLike):
            file_format = f", which {text}" if (text := recognised(Path(array))) else ""
            raise TypeError(
                f"inputs has the path {os.fspath(array)!r}{file_format}: pass arrays, or only the path of an ONNX model (.onnx)"
            )
    if isinstance(desc, str | PathLike):
        raise TypeError(
            f"desc is the path {os.fspath(desc)!r}: pass dg.parse_descriptor(json.loads(…)), or run dmlgather compare FILE"
        )
    if isinstance(against, str | PathLike):
        raise TypeError(f"against is the path {os.fspath(against)!r}: pass the array, such as numpy.load(path)")
    external = () if against is None else (_external_output(desc, against),)
    if devices is None:
        devices, _ = default_devices()
    check_devices(devices, least_devices(bool(external)))
    operators = []
    for name in devices:
        try:
            operators.append(compile_operator(desc, device=name, level=level, out_of_bounds=out_of_bounds))
        except DeviceError as error:
            raise DeviceError(f"device {name!r} cannot be used: {error}; devices=('cpu', 'reference') runs anywhere") from None
    host = tuple(_on_host(array) for array in inputs)
    tensors = [desc.tensor(name) for name in desc.operator.inputs]
    if not buffers and len(tensors) == len(host):
        host = tuple(map(_of_sizes, tensors, host))
    outcomes = [
        _run_buffers(operator, Device.parse(name), host, rank) if buffers else _run(operator, host, rank)
        for rank, (operator, name) in enumerate(zip(operators, devices, strict=True))
    ]
    names = (*devices, *["against" for _ in external])
    outputs = (*(None if error else output for output, error in outcomes), *external)
    errors = (*(error for _, error in outcomes), *[None for _ in external])
    differing: tuple[Difference, ...] = ()
    if not any(errors):
        results = [output for output, _ in outcomes]
        differing = differences(names, [*results, *external], lambda: tracer(operators[0], host, buffers))
    call = ComparedCall(host, buffers, out_of_bounds)
    return Comparison(desc, names, outcomes[0][0].size, differing, errors, outputs, call, len(external))


def is_model(value: Any) -> bool:
    """Return True for an ONNX model: the path of a .onnx file, or an onnx.ModelProto."""
    if isinstance(value, str | PathLike):
        return Path(value).suffix.lower() == ".onnx"
    return type(value).__name__ == "ModelProto"


def default_devices() -> tuple[list[str], str | None]:
    """Return the default devices, and the reason if "cuda" is not among them."""
    from dmlgather.backends import cuda

    try:
        cuda.require(0)
    except DeviceError as error:
        return ["cpu", "reference"], str(error)
    return ["cuda", "cpu", "reference"], None


def least_devices(one_suffices: bool) -> int:
    """Return the minimum number of devices to compare: 1 if one suffices, else 2."""
    return 1 if one_suffices else 2


def check_devices(names: Sequence[str], least: int = 2) -> None:
    """Raise ValueError unless there are at least `least` devices, all different."""
    if isinstance(names, str):
        raise TypeError(f"devices is the text {names!r}, expected a list of names, such as ({names!r}, 'reference')")
    devices = [Device.parse(name) for name in names]
    if twice := [name for place, name in enumerate(names) if devices[place] in devices[:place]]:
        raise ValueError(f"{', '.join(names)} name {twice[0]} twice, which would be compared with itself: name each device once")
    if len(devices) < least:
        number, hint = ("one device", "") if least == 1 else ("two different devices", "; with against= one is enough")
        raise ValueError(f"comparing takes at least {number}, got {', '.join(names) or 'none'}{hint}")


def _external_output(desc: OperatorDesc, against: Any) -> NDArray[Any]:
    output, array = desc.tensor(desc.operator.output), _on_host(against)
    if array.dtype != np.dtype(output.data_type.name.lower()):
        raise TypeError(f"against is {array.dtype}, but OutputTensor's DataType is {output.data_type}")
    if output.is_logical(array.shape):
        return array.reshape(output.sizes)
    if array.ndim == 1:
        from dmlgather.comparing.tensor_files import FileTensor

        try:
            FileTensor("OutputTensor", output, "pass the whole output").start(array.nbytes)
        except FileError as error:
            raise ValueError(f"against {error}") from None
        return elements(np.ascontiguousarray(array).view(np.uint8), output)
    raise ValueError(f"against has the shape {list(array.shape)}, but OutputTensor's Sizes are {list(output.sizes)}")


def _on_host(array: Any) -> NDArray[Any]:
    adopted, device = adopt(array)
    return np.asarray(move(adopted, device, CPU))


def _of_sizes(tensor: BufferTensorDesc, array: NDArray[Any]) -> NDArray[Any]:
    """Reshape an array to the tensor's Sizes, which may begin with additional 1s. Return a buffer unchanged."""
    return array.reshape(tensor.sizes) if tensor.is_logical(array.shape) else array


def _run(operator: CompiledOperator, inputs: Sequence[NDArray[Any]], rank: int) -> tuple[NDArray[Any], str | None]:
    """Return the output, and the message if an IndexError was raised."""
    output = operator.desc.tensor(operator.desc.operator.output)
    raw = np.full((*output.sizes, output.data_type.bytes), POISON - rank, np.uint8)
    out = raw.view(output.data_type.name.lower()).reshape(output.sizes)
    return out, _error(operator, lambda: operator(*inputs, out=out))


def _run_buffers(
    operator: CompiledOperator, device: Device, inputs: Sequence[NDArray[Any]], rank: int
) -> tuple[NDArray[Any], str | None]:
    output = operator.desc.tensor(operator.desc.operator.output)
    with device.current():
        moved = [move(array.view(np.uint8), CPU, device.memory) for array in inputs]
        out = move(np.zeros(output.total_bytes, np.uint8), CPU, device.memory)
    return run_over_poison(operator, device, moved, out, rank)


def run_over_poison(
    operator: CompiledOperator, device: Device, inputs: Sequence[Any], out: Any, rank: int
) -> tuple[NDArray[Any], str | None]:
    """Run an operator on byte buffers. Fill the output with a fixed byte before, so that unwritten elements can be seen.

    Return the output in host memory, and the message of an IndexError, if any. `rank`: the number of the device, which selects
    the byte.
    """
    output = operator.desc.tensor(operator.desc.operator.output)
    width = output.data_type.bytes
    with device.current():
        poisoned = np.asarray(move(out, device.memory, CPU))
        for chunk in chunks(elements(poisoned, output).view(f"u{width}")):
            chunk[...] = int.from_bytes(bytes([POISON - rank]) * width)
        if device.on_gpu:
            out[...] = move(poisoned, CPU, device.memory)
        del poisoned
        error = _error(operator, lambda: operator.run_buffers(*inputs, out=out))
        written = np.asarray(move(out, device.memory, CPU))
    return elements(written, output), error


def _error(operator: CompiledOperator, run: Any) -> str | None:
    try:
        run()
        operator.raise_if_bad()
    except IndexError as error:
        return str(error)
    return None


def tracer(operator: CompiledOperator, inputs: Sequence[NDArray[Any]], buffers: bool) -> Tracer:
    """Return a `Tracer` for a call.

    `inputs`: the inputs of the call, in host memory. `buffers`: True if the caller passed one-dimensional buffers.
    """

    def is_buffer(tensor: BufferTensorDesc, array: NDArray[Any]) -> bool:
        return buffers or array.shape != tensor.sizes

    def logical(tensor: BufferTensorDesc, array: NDArray[Any]) -> NDArray[Any]:
        if is_buffer(tensor, array):
            return elements(array.view(np.uint8), tensor)
        return array.view(tensor.data_type.name.lower())

    desc = operator.desc
    tensors = [desc.tensor(name) for name in desc.operator.inputs]
    buffer = None
    if is_buffer(tensors[0], inputs[0]):
        dtype = dtype_of(tensors[0].data_type)
        buffer = inputs[0].view(np.uint8)[: inputs[0].nbytes // dtype.itemsize * dtype.itemsize].view(dtype)
    return Tracer(desc, operator.lower, [logical(tensor, array) for tensor, array in zip(tensors, inputs, strict=True)], buffer)
