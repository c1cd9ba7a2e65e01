"""Reading of tensors from files, and the search for a model's outputs in a folder."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dmlgather.directml.dxdispatch import npy
from dmlgather.directml.dxdispatch.bindings import BufferBinding
from dmlgather.directml.dxdispatch.commands import Dispatch, WriteFile
from dmlgather.directml.dxdispatch.model_file import SUFFIXES, CheckedFile, dispatch_outputs
from dmlgather.directml.dxdispatch.resources import Resource
from dmlgather.directml.dxdispatch.writing import plain
from dmlgather.directml.elements import dtype_of, elements
from dmlgather.directml.tensor import BufferTensorDesc
from dmlgather.files import FileError, described
from dmlgather.model_formats import recognised
from dmlgather.wording import alternatives, counted, printable


@dataclass(frozen=True)
class StoredTensor:
    """A tensor in a file, not read yet.

    `start`: the byte offset of the tensor, if the file holds the tensor's buffer. None if the file holds only the elements.
    """

    name: str
    values: npy.StoredValues
    tensor: BufferTensorDesc
    start: int | None

    @property
    def bytes(self) -> int:
        """The memory that `read` needs, in bytes."""
        return self.values.bytes + self.values.scratch_bytes

    def read(self) -> NDArray[Any]:
        """Read the tensor. Raise FileError, which names the file."""
        values = self.stored()
        if self.start is None:
            return values.reshape(self.tensor.sizes)
        return elements(values.view(np.uint8)[self.start :], self.tensor)

    def stored(self) -> NDArray[Any]:
        """Read all values of the file, in one dimension. Raise FileError, which names the file."""
        values = np.empty(self.values.count, dtype_of(self.values.data_type))
        try:
            self.values.write(values)
        except FileError as error:
            raise FileError(f"{self.values.path} {error}") from None
        return values


class FileTensor(NamedTuple):
    """A tensor that a file can provide.

    `field`: the name of the tensor, such as "OutputTensor". `remedy`: advice if the file has another size.
    """

    field: str
    tensor: BufferTensorDesc
    remedy: str
    bound: BufferBinding | None = None
    resource: Resource | None = None

    def start(self, size: int) -> int:
        """Return the tensor's byte offset in a file of this size. Raise FileError for a wrong size."""
        tensor, bound, resource = self.tensor, self.bound, self.resource
        span = tensor.span * tensor.data_type.bytes
        sizes = {tensor.total_bytes: f"{self.field} with its padding", span: self.field}
        if bound is not None and resource is not None:
            sizes = {resource.size: repr(bound.resource), **sizes}
            if size in (resource.size, resource.values.bytes) and size >= bound.offset + span:
                return bound.offset
        if span <= size <= tensor.total_bytes:
            return 0
        expected = alternatives(f"{count} for {content}" for count, content in sorted(sizes.items()))
        raise FileError(f"holds {size} bytes: expected {expected}; {self.remedy}")

    def stored(self, file: Path, name: str, dimensions: tuple[int, ...] | None = None) -> StoredTensor:
        """Return the tensor as stored in `file`. Raise FileError, which names the file, if the file does not fit.

        `dimensions`: the shape that a .npy file of the whole resource has.
        """
        suffix, tensor = file.suffix.lower(), self.tensor
        try:
            if suffix not in SUFFIXES:
                expected = f"expected a file that ends in {', '.join(SUFFIXES)}"
                raise FileError(recognised(file) or f"cannot hold {self.field}: {expected}")
            values = npy.read_npy(file) if suffix == ".npy" else npy.read_raw(file, tensor.data_type)
            if values.data_type is not tensor.data_type:
                raise FileError(
                    f"holds {values.data_type}, but {self.field}'s DataType is {tensor.data_type}: save it in that type"
                )
            if suffix == ".npy" and tensor.is_logical(values.shape):
                return StoredTensor(printable(name), values, tensor, None)
            if suffix == ".npy" and len(values.shape) > 1 and values.shape != dimensions:
                raise FileError(
                    f"has the shape {list(values.shape)}: expected {self.field}'s Sizes {list(tensor.sizes)}, or one dimension "
                    "that holds the buffer"
                )
            return StoredTensor(printable(name), values, tensor, self.start(values.bytes))
        except FileError as error:
            raise FileError(f"{file} {error}") from None


class _DispatchOutput(NamedTuple):
    """The output of a dispatch command, and the commands that save it."""

    command: Dispatch
    tensor: BufferTensorDesc
    bound: BufferBinding
    resource: Resource
    writes: list[WriteFile]


def external_outputs(model: CheckedFile, path: Path) -> dict[int, list[StoredTensor]]:
    """Return the outputs that another program saved, by the number of the dispatch command.

    `path`: a file if the model has one dispatch, else a folder. Raise FileError if an output is missing or does not fit.
    """
    targets = _targets(model)
    if not path.exists():
        raise FileError(f"{path} does not exist")
    if not path.is_dir():
        if len(targets) != 1:
            raise FileError(
                f"{path} is one file, and {model.file} has {counted(len(targets), 'dispatch command')}: name a folder with a "
                "file for each"
            )
        return {number: [_output(path, path.name, target)] for number, target in targets.items()}
    outputs = {number: list(_in_folder(path, number, target)) for number, target in targets.items()}
    _check_one_case(path, targets)
    missing = [
        f"of commands[{number}] '{printable(target.command.dispatchable)}', expected {_possible_names(number, target)}"
        for number, target in targets.items()
        if not outputs[number]
    ]
    if missing:
        raise FileError(
            f"{path} holds no output {'; '.join(missing)}: add the files. Or write a case with --save and run it: its "
            "writeFile commands write every output"
        )
    return outputs


def _possible_names(number: int, target: _DispatchOutput) -> str:
    written = [repr(write.target) for write in target.writes]
    names = [*written, f"'out{number}_{plain(target.command.dispatchable)}.npy' (or .bin, .dat)"]
    return " or ".join(names)


def _targets(model: CheckedFile) -> dict[int, _DispatchOutput]:
    targets = {}
    for number, output in dispatch_outputs(model).items():
        desc, resource = model.dispatchables[output.command.dispatchable].desc, model.resources[output.bound.resource]
        targets[number] = _DispatchOutput(
            output.command, desc.tensor(desc.operator.output), output.bound, resource, output.writes
        )
    return targets


def _in_folder(folder: Path, number: int, target: _DispatchOutput) -> Iterator[StoredTensor]:
    """Yield the outputs of a dispatch in a folder: first the files of writeFile commands, then the files of --save."""
    seen = set()
    for name, dimensions in [(write.target, write.dimensions) for write in target.writes]:
        if (folder / name).suffix.lower() in SUFFIXES and os.path.lexists(folder / name) and name not in seen:
            seen.add(name)
            yield _output(folder / name, name, target, dimensions)
    for name in _files(folder):
        if _pattern(number, target).fullmatch(name) and name not in seen:
            yield _output(folder / name, name, target)


def _files(folder: Path) -> list[str]:
    with described():
        return sorted(path.name for path in folder.iterdir())


def _pattern(number: int, target: _DispatchOutput) -> re.Pattern[str]:
    """Return a regular expression for the names of files that --save writes for an output. Group 1 is the case's name."""
    return re.compile(rf"(?:(.+)\.)?out{number}_{re.escape(plain(target.command.dispatchable))}(?:\.[^.]+)?\.(?:npy|bin|dat)")


def _check_one_case(folder: Path, targets: Mapping[int, _DispatchOutput]) -> None:
    files, patterns = _files(folder), [_pattern(number, target) for number, target in targets.items()]
    cases = sorted({match[1] for name in files for pattern in patterns if (match := pattern.fullmatch(name)) and match[1]})
    if len(cases) > 1:
        names = " and ".join(f"{printable(case)!r}" for case in cases)
        raise FileError(
            f"{folder} holds outputs of {len(cases)} cases, {names}, but only one model is compared: name the file of its "
            "output, or a folder with the files of its case alone"
        )


def _output(file: Path, name: str, target: _DispatchOutput, dimensions: tuple[int, ...] | None = None) -> StoredTensor:
    remedy = "run this model there again, and copy the whole file"
    return FileTensor("OutputTensor", target.tensor, remedy, target.bound, target.resource).stored(file, name, dimensions)
