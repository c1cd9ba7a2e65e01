"""The files that a model names as initial values: where they are looked up, and which may be read."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from dmlgather.directml.dxdispatch import npy
from dmlgather.directml.dxdispatch.values import Values
from dmlgather.directml.types import DataType
from dmlgather.files import FileError, leads_outside

_NO_VALUES = {
    **dict.fromkeys(npy.IMAGES, "is an image; images cannot be used as initial values here: convert it to .npy"),
    ".npz": "is an archive of arrays (.npz), and a resource takes one array: save it with numpy.save as .npy",
    **dict.fromkeys(
        (".7z", ".bz2", ".gz", ".tar", ".tgz", ".xz", ".zip", ".zst"),
        "is an archive, and neither DxDispatch nor dmlgather unpacks it: unpack it, and name the .npy or raw file",
    ),
    **dict.fromkeys(
        (".h5", ".hdf5", ".mat", ".onnx", ".pickle", ".pkl", ".pt", ".pth", ".safetensors"),
        "is a container with a format of its own, not raw elements: save the array that is meant with numpy.save as .npy",
    ),
}
"""Why files cannot hold initial values, by suffix. Files with other suffixes are .npy or raw."""


@dataclass(frozen=True)
class SourceFiles:
    """The files of one model. folder: of the model file. allow_outside: whether files anywhere may be read."""

    folder: Path
    allow_outside: bool = False

    def found(self, source: str) -> Path:
        """The file: beside the model, or else in the current folder. FileError when it lies in neither, links followed."""
        beside = self.folder / source
        file = beside if os.path.lexists(beside) else Path(source)
        if not self.allow_outside and leads_outside(file, (self.folder, Path())):
            raise FileError(
                f"lies outside of the model's folder ({self.folder.absolute()}) and of the current one ({Path.cwd()}), and a "
                "model may only read files there: copy it there, or allow it with --allow-outside"
            )
        return file

    def values(self, source: str, data_type: DataType) -> Values:
        """The values in the file. data_type: of raw elements; UNKNOWN if it is not stated. FileError when they cannot be read."""
        file = self.found(source)
        suffix = file.suffix.lower()
        try:
            if suffix in _NO_VALUES:
                raise FileError(_NO_VALUES[suffix])
            if suffix == ".npy":
                return npy.read_npy(file)
            if data_type is DataType.UNKNOWN:
                raise FileError("holds raw bytes: 'initialValuesDataType' has to state their type")
            return npy.read_raw(file, data_type)
        except FileError as error:
            looked = "" if os.path.lexists(file) else f" (looked in {self.folder.absolute()} and {Path.cwd()})"
            raise FileError(f"{error}{looked}") from None
