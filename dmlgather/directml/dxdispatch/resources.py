"""The resources of a DxDispatch model: named buffers with initial values."""

from __future__ import annotations

from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any, NamedTuple

from dmlgather.directml.codes import CODES
from dmlgather.directml.dxdispatch import npy, wire
from dmlgather.directml.dxdispatch.jsonc import Path
from dmlgather.directml.dxdispatch.npy import SourceFiles
from dmlgather.directml.dxdispatch.reading import CONSTANTS, ForeignPart, Reading
from dmlgather.directml.dxdispatch.values import Constant, ValueFitError, Values, listed, progression, scalar
from dmlgather.directml.elements import dtype_of
from dmlgather.directml.tensor import SIZE_GRANULE, rounded_up
from dmlgather.directml.types import DataType
from dmlgather.files import FileError
from dmlgather.wording import dotted

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class Resource(NamedTuple):
    """A named buffer of `size` bytes. It initially contains `values` from byte `offset` on, and zeros elsewhere."""

    name: str
    values: Values
    offset: int
    size: int

    @property
    def data_type(self) -> DataType:
        """Data type of the initial values. Print commands show elements of this type."""
        return self.values.data_type

    @property
    def file(self) -> FilePath | None:
        """The file with the initial values, or None if the model itself contains them."""
        return self.values.path if isinstance(self.values, npy.StoredValues) else None

    @property
    def scratch_bytes(self) -> int:
        """Temporary memory that `buffer` needs, in bytes, without small constant amounts."""
        return self.values.scratch_bytes + (0 if self._aligned else self.values.bytes)

    @property
    def _aligned(self) -> bool:
        return self.offset % self.data_type.bytes == 0

    def buffer(self) -> NDArray[np.uint8]:
        """Return the initial contents, shape [size]. Raises FileError if a file cannot be read."""
        import numpy as np

        buffer = np.zeros(self.size, np.uint8)
        raw = buffer[self.offset : self.offset + self.values.bytes]
        if self._aligned:
            self.values.write(raw.view(dtype_of(self.data_type)))
            return buffer
        # The elements are not aligned in the buffer, so they are written to an aligned array first.
        values: NDArray[Any] = np.empty(self.values.count, dtype_of(self.data_type))
        self.values.write(values)
        raw[:] = values.view(np.uint8)
        return buffer


def read_resource(reading: Reading, name: str, path: Path, files: SourceFiles) -> Resource | ForeignPart | None:
    """Return the resource at `path`. If it cannot be read, report why and return None."""
    part = reading.validated(wire.RESOURCE, path)
    if part is None:
        return None
    data_type = part.initial_values_data_type
    if data_type is not DataType.UNKNOWN and not data_type.whole_bytes:
        reading.report_problem(
            (*path, "initialValuesDataType"), f"an element of {data_type.name} has no whole number of bytes; use another type"
        )
        return None
    values_path = (*path, "initialValues")
    stated: Any = part.initial_values
    if data_type is DataType.UNKNOWN and isinstance(stated, list) and stated and all(isinstance(item, dict) for item in stated):
        return ForeignPart(CONSTANTS, values_path)
    try:
        values = _values(reading, stated, data_type, values_path, files)
    except ValueFitError as error:
        reading.report_problem(values_path if error.index is None else (*values_path, error.index), str(error))
        return None
    return None if values is None else _sized(reading, name, part, values, path)


def _values(reading: Reading, part: Any, data_type: DataType, path: Path, files: SourceFiles) -> Values | None:
    if isinstance(part, wire.FileValues):
        return _from_file(reading, part.source_path, data_type, path, files)
    if data_type is DataType.UNKNOWN:
        reading.report_problem(path[:-1], "'initialValuesDataType' is missing: only .npy files store their own type")
        return None
    if isinstance(part, list):
        if not part:
            reading.report_problem(path, "expected at least one value, got an empty array")
            return None
        return listed(data_type, part)
    numbers = {}
    keys = ("value",) if isinstance(part, wire.ConstantValues) else ("valueStart", "valueDelta")
    for key in keys:
        try:
            numbers[key] = scalar(data_type, reading.value_at(path)[key])
        except ValueFitError as error:
            reading.report_problem((*path, key), str(error))
    if len(numbers) < len(keys):
        return None
    if isinstance(part, wire.ConstantValues):
        return Constant(data_type, part.value_count, numbers["value"])
    return progression(data_type, part.value_count, numbers["valueStart"], numbers["valueDelta"])


def _from_file(reading: Reading, source: str, data_type: DataType, path: Path, files: SourceFiles) -> Values | None:
    try:
        values = files.values(source, data_type)
    except FileError as error:
        reading.report_problem((*path, "sourcePath"), f"{source} {error}")
        return None
    if data_type not in (DataType.UNKNOWN, values.data_type):
        type_path = (*path[:-1], "initialValuesDataType")
        finding = CODES["DML802"].finding(
            dotted(type_path),
            expected=f"{values.data_type.name}, the type stored in {source}, which is used (DxDispatch refuses another type)",
            got=data_type.name,
            remedy=f"initialValuesDataType = {values.data_type.name}, or leave it out",
        )
        reading.report_finding(finding, type_path)
    return values


def _sized(reading: Reading, name: str, part: wire.ResourcePart, values: Values, path: Path) -> Resource | None:
    needed = part.initial_values_offset_in_bytes + values.bytes
    stated = part.size_in_bytes
    if stated is not None and stated < needed:
        reading.report_problem(
            (*path, "sizeInBytes"),
            f"the buffer is too small for its values: expected at least {needed} bytes "
            f"(offset {part.initial_values_offset_in_bytes}, values {values.bytes}), got {stated}",
        )
        return None
    size = rounded_up(max(needed, stated or 0))
    if stated is not None and stated % SIZE_GRANULE:
        size_path = (*path, "sizeInBytes")
        finding = CODES["DML803"].finding(
            dotted(size_path),
            expected=f"{size}, to which it is rounded up here (DxDispatch uses the stated size)",
            got=str(stated),
            remedy=f"sizeInBytes = {size}",
        )
        reading.report_finding(finding, size_path)
    return Resource(name, values, part.initial_values_offset_in_bytes, size)
