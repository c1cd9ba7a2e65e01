"""Initial values in .npy files and in files of raw bytes, and access to the files that a model may read."""

from __future__ import annotations

import io
import os
import warnings
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from dmlgather.chunks import chunks
from dmlgather.directml.dxdispatch.values import Values
from dmlgather.directml.elements import dtype_of
from dmlgather.directml.types import DataType
from dmlgather.files import FileError, leads_outside, open_regular
from dmlgather.wording import counted

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

IMAGES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp")

_MAGIC = b"\x93NUMPY"
_TYPES = {f"{item.name[0].lower()}{item.bytes}": item for item in DataType if item.whole_bytes} | {"b1": DataType.UINT8}


@dataclass(frozen=True)
class StoredValues(Values):
    """Initial values in a file. `write` reads the file.

    `offset`: the position of the first value in the file, in bytes.
    `stored`: the NumPy type of the values in the file. It may be big-endian.
    """

    data_type: DataType
    count: int
    path: Path
    offset: int
    stored: np.dtype[Any]
    shape: tuple[int, ...]
    fortran_order: bool = False

    @property
    def scratch_bytes(self) -> int:
        return self.bytes if self.fortran_order else 0

    def write(self, out: NDArray[Any]) -> None:
        """Read the values into `out`, of shape [count]. Raises FileError if the file has become shorter."""
        import numpy as np

        with open_regular(self.path) as (file, _):
            file.seek(self.offset)
            for chunk in chunks(out):
                if file.readinto(chunk.view(np.uint8).data) != chunk.nbytes:
                    raise FileError("became shorter while it was read")
                if self.stored.byteorder == ">":
                    chunk.view(self.stored.newbyteorder("=")).byteswap(inplace=True)
        if self.fortran_order:
            out[...] = out.reshape(self.shape, order="F").ravel()


def read_npy(path: Path) -> StoredValues:
    """Return the values of a .npy file. Only its header is read. Raises FileError if it cannot be used."""
    with open_regular(path) as (file, size):
        shape, fortran_order, dtype = read_header(file)
        offset = file.tell()
    if dtype.hasobject:
        raise FileError("holds pickled Python objects, which are never loaded; save an array of numbers")
    data_type = _TYPES.get(dtype.str.lstrip("<>|="))
    if data_type is None:
        known = ", ".join(item.name for item in DataType if item.whole_bytes)
        raise FileError(f"holds elements of type {dtype}, which DirectML does not have: its types are {known}")
    count = prod(shape)
    expected = count * dtype.itemsize
    if size - offset != expected:
        raise FileError(
            f"has the wrong size: its header announces {expected} bytes ({dtype} of shape {shape}), but {size - offset} follow"
        )
    if count == 0:
        raise FileError(f"holds no values (shape {shape}); a resource needs at least one")
    return StoredValues(data_type, count, path, offset, dtype, shape, fortran_order and len(shape) > 1)


def read_raw(path: Path, data_type: DataType) -> StoredValues:
    """Return the values of a file of raw little-endian elements. Raises FileError if it cannot be used."""
    with open_regular(path) as (_, size):
        pass
    if size == 0:
        raise FileError(f"is empty: expected at least one {data_type.name} element of {counted(data_type.bytes, 'byte')}")
    if size % data_type.bytes:
        raise FileError(
            f"has {counted(size, 'byte')}, not a whole number of {data_type.name} elements of {data_type.bytes} bytes"
        )
    count = size // data_type.bytes
    return StoredValues(data_type, count, path, 0, dtype_of(data_type), (count,))


def write_npy(array: NDArray[Any], file: BinaryIO) -> None:
    """Write a .npy file in the form that DxDispatch reads: version 1.0, C order, little-endian."""
    import numpy as np
    from numpy.lib import format as npy_format

    dtype = array.dtype.newbyteorder("<")
    header = {"descr": npy_format.dtype_to_descr(dtype), "fortran_order": False, "shape": array.shape}
    npy_format.write_array_header_1_0(file, header)
    file.writelines(np.ascontiguousarray(chunk, dtype).reshape(-1).view(np.uint8).data for chunk in chunks(array))


def read_header(file: io.BufferedReader) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Return shape, Fortran order and data type of a .npy file, and leave `file` at the first element.

    Raises FileError if it is not a .npy file of version 1.0 or 2.0.
    """
    from numpy.lib import format as npy_format

    readers = {(1, 0): npy_format.read_array_header_1_0, (2, 0): npy_format.read_array_header_2_0}
    start = file.read(len(_MAGIC))
    if start != _MAGIC:
        raise FileError(f"is no .npy file: it begins with {start!r}, not {_MAGIC!r}" if start else "is empty, not a .npy file")
    file.seek(0)
    try:
        version = npy_format.read_magic(file)
        if version not in readers:
            raise FileError(f"is a .npy file of format version {version[0]}.{version[1]}; versions 1.0 and 2.0 can be read")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # NumPy warns of headers that Python 2 wrote
            shape, fortran_order, dtype = readers[version](file)
    except FileError:
        raise
    except Exception as error:  # NumPy evaluates the header as a Python literal, which can raise many kinds of errors
        reason = (str(error).splitlines() or [type(error).__name__])[0][:200]
        raise FileError(f"has no readable .npy header: {reason}") from None
    if any(size < 0 for size in shape):
        raise FileError(f"has a negative size in its shape {shape}")
    return shape, fortran_order, dtype


_NO_VALUES = {
    **dict.fromkeys(IMAGES, "is an image; images cannot be used as initial values here: convert it to .npy"),
    ".npz": "is an archive of arrays (.npz), and a resource takes one array: save it with numpy.save as .npy",
    **dict.fromkeys(
        (".7z", ".bz2", ".gz", ".tar", ".tgz", ".xz", ".zip", ".zst"),
        "is an archive, and neither DxDispatch nor dmlgather unpacks it: unpack it, and name the .npy or raw file",
    ),
    **dict.fromkeys(
        (".h5", ".hdf5", ".mat", ".onnx", ".pickle", ".pkl", ".pt", ".pth", ".safetensors"),
        "is a container with a format of its own, not raw elements: save the array as .npy with numpy.save",
    ),
}


@dataclass(frozen=True)
class SourceFiles:
    """Access to the files with initial values that a model names.

    `allow_outside`: True if they may be outside the model's `folder` and the current folder.
    """

    folder: Path
    allow_outside: bool = False

    def resolve(self, source: str) -> Path:
        """Return the path of a file in the model's folder, else in the current folder.

        Raises FileError if the path, with links resolved, leads out of both folders and this is not allowed.
        """
        beside = self.folder / source
        file = beside if os.path.lexists(beside) else Path(source)
        if not self.allow_outside and leads_outside(file, (self.folder, Path())):
            raise FileError(
                f"lies outside the model's folder ({self.folder.absolute()}) and the current folder ({Path.cwd()}). A "
                "model may read only files in these folders: copy it there, or allow it with --allow-outside"
            )
        return file

    def values(self, source: str, data_type: DataType) -> Values:
        """Return the initial values in a file. Raises FileError if the file cannot be used.

        `data_type`: the type that the model states, or UNKNOWN. A file of raw bytes needs a stated type.
        """
        file = self.resolve(source)
        suffix = file.suffix.lower()
        try:
            if suffix in _NO_VALUES:
                raise FileError(_NO_VALUES[suffix])
            if suffix == ".npy":
                return read_npy(file)
            if data_type is DataType.UNKNOWN:
                raise FileError("holds raw bytes: 'initialValuesDataType' has to state their type")
            return read_raw(file, data_type)
        except FileError as error:
            searched = "" if os.path.lexists(file) else f" (looked in {self.folder.absolute()} and {Path.cwd()})"
            raise FileError(f"{error}{searched}") from None
