"""Run one operator on several devices and compare the results bit for bit."""

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
from dmlgather.model_formats import ONNX, recognised
from dmlgather.wording import counted

if TYPE_CHECKING:
    from onnx import ModelProto

    from dmlgather.comparing.saving import DispatchReport
    from dmlgather.differential import Agreement


@dataclass(frozen=True, slots=True)
class ComparedCall:
    """The call that was compared. inputs: in host memory; buffers: whether they are read through the described strides."""

    inputs: tuple[NDArray[Any], ...]
    buffers: bool
    out_of_bounds: str | Fill | None


@dataclass(frozen=True, slots=True)
class Comparison:
    """What `compare` found.

    devices: as they were named, then the names of outputs that were given. elements: of the output. differences: the devices
    whose output differs from the first one's. errors: per device, what it raised under "raise". outputs: per device, of
    OutputTensor's Sizes; None where it raised. given: how many of the last ones were given, and not made here.
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
        """Whether every device gave the same bits, or every device raised the same error."""
        return not self.differences and len(set(self.errors)) == 1

    def __bool__(self) -> bool:
        return self.equal

    @property
    def differing(self) -> int:
        """Output elements that differ from the first device's, over all devices."""
        return sum(found.differing for found in self.differences)

    @property
    def first(self) -> Mismatch | None:
        """The first mismatch (row-major) on the first device that differs."""
        return self.differences[0].first if self.differences else None

    @property
    def worst(self) -> Mismatch | None:
        """The worst mismatch (as `Difference.worst`) on the first device that differs."""
        return self.differences[0].worst if self.differences else None

    def save(self, path: str | PathLike[str]) -> Path:
        """Write the case as a DxDispatch model, `path` if that ends in .json, else case.json in the folder `path`; its path.

        Beside it lie the inputs, the output of each device and a report. The input arrays must not have changed since the
        comparison. Raises FileError when it cannot be written or when outputs of an earlier case lie there, and ValueError for
        what a model cannot hold: a policy other than clamping, several values at one address of a described tensor, one dispatch
        of a model.
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
        ran = self.devices[: len(self.devices) - self.given]
        check_no_older(Path(path), ran, self.given)
        target = write_single(self.desc, inputs, Path(path))
        name = self.desc.operator.name.lower()
        files = save_outputs(target, 0, name, dict(zip(self.devices, self.outputs, strict=True)), given=self.given)
        save_report(target, compare_report(ran, [self.report(0, name, files)]))
        return target

    def report(self, command: int, dispatchable: str, outputs: Mapping[str, str]) -> DispatchReport:
        """The comparison as data. command, dispatchable: its place in a model; outputs: the files it was saved in, by device."""
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
        """What was found, in one message, or in one for each device that differs from the first, and one for the others."""
        names = ", ".join(self.devices)
        if len(set(self.errors)) > 1:
            said = "; ".join(f"{name}: {error or 'no error'}" for name, error in zip(self.devices, self.errors, strict=True))
            return [f"different outcomes on {names}: {said}"]
        if len(self.devices) == 1 and self.errors[0] is None:
            return [f"run on {names}: {counted(self.elements, 'element')}, compared with nothing"]
        if self.errors[0] is not None:
            return [f"equal on {names}: {self.errors[0]}"]
        if not self.differences:
            return [f"equal on {names}: {counted(self.elements, 'element')}, bit for bit"]
        told = [str(found) for found in self.differences]
        first, *others = (each for each in self.devices if each not in {found.devices[1] for found in self.differences})
        return (
            [*told, f"equal on {', '.join([first, *others])}: {counted(self.elements, 'element')}, bit for bit"]
            if others
            else told
        )


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
    """Run `desc` on the same `inputs` on each device ("cpu", "cuda", "cuda:N", "reference") and compare bits. Where none are
    named: on "cuda", if a GPU can be used, "cpu" and "reference".

    inputs: as a compiled operator takes them. buffers: they are one-dimensional buffers of the described type or uint8, read
    through the described strides, and so is the output written, as `CompiledOperator.run_buffers` does. against: an output that
    was made elsewhere, of OutputTensor's Sizes and type. It counts as a device called "against", so that one device is enough.

    An IndexError under "raise" is compared like a result. Raises what else `compile` and the call of an operator raise,
    DeviceError for a device that is not there, ValueError for fewer than two different devices, TypeError or ValueError for
    an output `against` of another type or shape.

    >>> row = dg.BufferTensorDesc(data_type="INT64", sizes=(1, 4))
    >>> desc = dg.GatherElementsOperatorDesc(input_tensor=row, indices_tensor=row, output_tensor=row, axis=1)
    >>> print(dg.compare(desc, np.array([[10, 11, 12, 13]]), np.array([[3, 0, -1, 9]]), devices=("cpu", "reference")))
    equal on cpu, reference: 4 elements, bit for bit

    In the place of inputs, an ONNX model: the path of a file, or an onnx.ModelProto. Then the first argument is anything that
    `dg.translate` takes, and both run on many inputs: the first in the reference backend, the model in onnx's reference
    evaluator and, where it can be imported, in onnxruntime. The result says where it was run, and is true where all was equal.

    >>> dg.compare(desc, dg.translate(desc, "onnx").form).verdict
    'equal'
    """
    if len(inputs) == 1 and is_model(inputs[0]):
        if buffers or not (devices is out_of_bounds is against is None) or FeatureLevel.parse(level) != FeatureLevel.LEVEL_6_4:
            raise TypeError("an ONNX model in the place of inputs takes no devices, level, out_of_bounds, buffers or against")
        if is_model(desc) and not isinstance(desc, str | PathLike):
            raise TypeError(f"what is compared is {ONNX.what}: {ONNX.remedy.format('MODEL')}")
        from dmlgather.dialects.programs import read_program
        from dmlgather.differential import check_agreement

        source = read_program(desc, "what is compared")
        return check_agreement(source.graph, inputs[0], initial=source.initial)
    for each in inputs:
        if isinstance(each, str | PathLike):
            what = f", which {known}" if (known := recognised(Path(each))) else ""
            raise TypeError(
                f"inputs has the path {os.fspath(each)!r}{what}: pass arrays, or alone the path of an ONNX model, which ends in "
                ".onnx"
            )
    if isinstance(desc, str | PathLike):
        raise TypeError(
            f"desc is the path {os.fspath(desc)!r}: pass dg.parse_descriptor(json.loads(…)), or run dmlgather compare FILE"
        )
    if isinstance(against, str | PathLike):
        raise TypeError(f"against is the path {os.fspath(against)!r}: pass the array, such as numpy.load(path)")
    given = () if against is None else (_given(desc, against),)
    if devices is None:
        devices, _ = default_devices()
    check_devices(devices, least_devices(bool(given)))
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
    names = (*devices, *["against" for _ in given])
    outputs = (*(None if error else output for output, error in outcomes), *given)
    errors = (*(error for _, error in outcomes), *[None for _ in given])
    found: tuple[Difference, ...] = ()
    if not any(errors):
        made = [output for output, _ in outcomes]
        found = differences(names, [*made, *given], lambda: tracer(operators[0], host, buffers))
    call = ComparedCall(host, buffers, out_of_bounds)
    return Comparison(desc, names, outcomes[0][0].size, found, errors, outputs, call, len(given))


def is_model(value: Any) -> bool:
    """Return whether this is an ONNX model: the path of a .onnx file, or an onnx.ModelProto."""
    if isinstance(value, str | PathLike):
        return Path(value).suffix.lower() == ".onnx"
    return type(value).__name__ == "ModelProto"


def default_devices() -> tuple[list[str], str | None]:
    """The devices to compare where none are named, and why no GPU is among them."""
    from dmlgather.backends import cuda

    try:
        cuda.require(0)
    except DeviceError as error:
        return ["cpu", "reference"], str(error)
    return ["cuda", "cpu", "reference"], None


def least_devices(enough: bool) -> int:
    """How many devices a comparison takes. enough: whether one is, because outputs from elsewhere are, or will be, compared."""
    return 1 if enough else 2


def check_devices(names: Sequence[str], least: int = 2) -> None:
    """ValueError unless these name different devices, at least two, or one where there is something else to compare it with;
    TypeError for a single text.
    """
    if isinstance(names, str):
        raise TypeError(f"devices is the text {names!r}, expected a list of names, such as ({names!r}, 'reference')")
    devices = [Device.parse(name) for name in names]
    if twice := [name for place, name in enumerate(names) if devices[place] in devices[:place]]:
        raise ValueError(f"{', '.join(names)} name {twice[0]} twice, which would be compared with itself: name each device once")
    if len(devices) < least:
        number, more = ("one device", "") if least == 1 else ("two different devices", "; with against= one is enough")
        raise ValueError(f"comparing takes at least {number}, got {', '.join(names) or 'none'}{more}")


def _given(desc: OperatorDesc, against: Any) -> NDArray[Any]:
    """The output that a caller gave, on the host."""
    output, array = desc.tensor(desc.operator.output), _on_host(against)
    if array.dtype != np.dtype(output.data_type.name.lower()):
        raise TypeError(f"against is {array.dtype}, but OutputTensor's DataType is {output.data_type}")
    if array.shape != output.sizes:
        raise ValueError(f"against has the shape {list(array.shape)}, but OutputTensor's Sizes are {list(output.sizes)}")
    return array


def _on_host(array: Any) -> NDArray[Any]:
    adopted, device = adopt(array)
    return np.asarray(move(adopted, device, CPU))


def _of_sizes(tensor: BufferTensorDesc, array: NDArray[Any]) -> NDArray[Any]:
    """The array with the leading 1s of Sizes that it leaves out; a buffer as it is."""
    return array.reshape(tensor.sizes) if tensor.is_logical(array.shape) else array


def _run(operator: CompiledOperator, inputs: Sequence[NDArray[Any]], rank: int) -> tuple[NDArray[Any], str | None]:
    """The output, shape Sizes, and the error under "raise"."""
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
    """Run on byte buffers that lie on `device`, the `rank`-th one, where the elements of `out` are poison before. Returns the
    output on the host, shape Sizes, and the error under "raise".
    """
    output = operator.desc.tensor(operator.desc.operator.output)
    width = output.data_type.bytes
    with device.current():
        before = np.asarray(move(out, device.memory, CPU))
        for chunk in chunks(elements(before, output).view(f"u{width}")):
            chunk[...] = int.from_bytes(bytes([POISON - rank]) * width)
        if device.on_gpu:
            out[...] = move(before, CPU, device.memory)
        del before
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
    """What belongs where in the output. inputs: on the host; buffers: they are all buffers."""

    def is_buffer(tensor: BufferTensorDesc, array: NDArray[Any]) -> bool:
        return buffers or array.shape != tensor.sizes

    def logical(tensor: BufferTensorDesc, array: NDArray[Any]) -> NDArray[Any]:
        seen = is_buffer(tensor, array)
        return elements(array.view(np.uint8), tensor) if seen else array.view(tensor.data_type.name.lower())

    desc = operator.desc
    tensors = [desc.tensor(name) for name in desc.operator.inputs]
    buffer = None
    if is_buffer(tensors[0], inputs[0]):
        dtype = dtype_of(tensors[0].data_type)
        buffer = inputs[0].view(np.uint8)[: inputs[0].nbytes // dtype.itemsize * dtype.itemsize].view(dtype)
    return Tracer(desc, operator.lower, [logical(tensor, array) for tensor, array in zip(tensors, inputs, strict=True)], buffer)
