"""Tensors in files, which another program or machine may have written; and which files of a folder hold a model's outputs."""

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
    """One tensor in a file. start: the byte of the file's data at which the tensor begins, to be read through its described
    strides; None where the data are the tensor's elements in row-major order.
    """

    name: str
    values: npy.StoredValues
    tensor: BufferTensorDesc
    start: int | None

    @property
    def bytes(self) -> int:
        """Return the memory that reading it takes."""
        return self.values.bytes + self.values.scratch_bytes

    def read(self) -> NDArray[Any]:
        """Return the tensor, shape Sizes. FileError, with the file, when it cannot be read."""
        found = self.stored()
        if self.start is None:
            return found.reshape(self.tensor.sizes)
        return elements(found.view(np.uint8)[self.start :], self.tensor)

    def stored(self) -> NDArray[Any]:
        """Return the values as they are stored, shape [count]. FileError, with the file, when they cannot be read."""
        found = np.empty(self.values.count, dtype_of(self.values.data_type))
        try:
            self.values.write(found)
        except FileError as error:
            raise FileError(f"{self.values.path} {error}") from None
        return found


class TensorSite(NamedTuple):
    """What a file can be given for. field: the tensor's name, "OutputTensor". bound, resource: where it lies in a model. remedy:
    what helps against a file of another size.
    """

    field: str
    tensor: BufferTensorDesc
    remedy: str
    bound: BufferBinding | None = None
    resource: Resource | None = None

    def start(self, size: int) -> int:
        """Return the byte at which the tensor begins in a file of `size` bytes, which holds the resource, or the tensor's part of
        it. FileError for another size.
        """
        tensor, bound, resource = self.tensor, self.bound, self.resource
        span = tensor.span * tensor.data_type.bytes
        sizes = {tensor.total_bytes: f"{self.field} with its padding", span: self.field}
        if bound is not None and resource is not None:
            sizes = {resource.size: repr(bound.resource), **sizes}
            if size in (resource.size, resource.values.bytes) and size >= bound.offset + span:
                return bound.offset
        if span <= size <= tensor.total_bytes:
            return 0
        expected = alternatives(f"{count} for {what}" for count, what in sorted(sizes.items()))
        raise FileError(f"holds {size} bytes: expected {expected}; {self.remedy}")

    def stored(self, file: Path, name: str, dimensions: tuple[int, ...] | None = None) -> StoredTensor:
        """Return the tensor in one file. FileError, with the file, for one that cannot hold it.

        name: of the file in messages. dimensions: of the buffer, where they are stated.
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


# Outputs that were made elsewhere.


class _Target(NamedTuple):
    """What one dispatch writes, and the writeFile commands that save it."""

    command: Dispatch
    tensor: BufferTensorDesc
    bound: BufferBinding
    resource: Resource
    writes: list[WriteFile]


def given_outputs(model: CheckedFile, path: Path) -> dict[int, list[StoredTensor]]:
    """The outputs at `path` by number of the dispatch command, at least one for each.

    path: a .npy, .bin or .dat file, for a model with one dispatch; or a folder with such files, called as a writeFile command of
    the model or `dmlgather compare --save` calls them. FileError, with the file, for one that does not fit its dispatch, and for
    a dispatch that the folder has no file for.
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
    found = {number: list(_in_folder(path, number, target)) for number, target in targets.items()}
    _check_one_case(path, targets)
    missing = [
        f"of commands[{number}] '{printable(target.command.dispatchable)}', expected {_looked_for(number, target)}"
        for number, target in targets.items()
        if not found[number]
    ]
    if missing:
        raise FileError(
            f"{path} holds no output {'; '.join(missing)}: add the files, or write a case with --save, whose writeFile commands "
            "write every output, and run it there"
        )
    return found


def _looked_for(number: int, target: _Target) -> str:
    """The names that a dispatch's output may have in a folder."""
    written = [repr(write.target) for write in target.writes]
    names = [*written, f"'out{number}_{plain(target.command.dispatchable)}.npy' (or .bin, .dat)"]
    return " or ".join(names)


def _targets(model: CheckedFile) -> dict[int, _Target]:
    """What each dispatch command writes, by its number."""
    targets = {}
    for number, output in dispatch_outputs(model).items():
        desc, resource = model.dispatchables[output.command.dispatchable].desc, model.resources[output.bound.resource]
        targets[number] = _Target(output.command, desc.tensor(desc.operator.output), output.bound, resource, output.writes)
    return targets


def _in_folder(folder: Path, number: int, target: _Target) -> Iterator[StoredTensor]:
    """The files in `folder` that hold what a dispatch wrote: those of its writeFile commands first."""
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


def _pattern(number: int, target: _Target) -> re.Pattern[str]:
    """Return what the files are called that --save writes of a dispatch's output; group 1 is the case."""
    return re.compile(rf"(?:(.+)\.)?out{number}_{re.escape(plain(target.command.dispatchable))}(?:\.[^.]+)?\.(?:npy|bin|dat)")


def _check_one_case(folder: Path, targets: Mapping[int, _Target]) -> None:
    """FileError when a folder holds outputs of several cases, of which one alone can be this one."""
    names, patterns = _files(folder), [_pattern(number, target) for number, target in targets.items()]
    cases = sorted({found[1] for name in names for pattern in patterns if (found := pattern.fullmatch(name)) and found[1]})
    if len(cases) > 1:
        shown = " and ".join(f"{printable(case)!r}" for case in cases)
        raise FileError(
            f"{folder} holds outputs of {len(cases)} cases, {shown}, and one model is compared: name the file of its "
            "output, or a folder with the files of its case alone"
        )


def _output(file: Path, name: str, target: _Target, dimensions: tuple[int, ...] | None = None) -> StoredTensor:
    """Return the output in one file. dimensions: which a writeFile command states for it."""
    remedy = "run this model there again, and copy the whole file"
    return TensorSite("OutputTensor", target.tensor, remedy, target.bound, target.resource).stored(file, name, dimensions)
