"""Resources of a model: named buffers with initial values."""

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
    """A buffer: `offset` zero bytes, the values, zero bytes up to `size`."""

    name: str
    values: Values
    offset: int
    size: int

    @property
    def data_type(self) -> DataType:
        """The type of its initial values; it is printed as elements of that type."""
        return self.values.data_type

    @property
    def file(self) -> FilePath | None:
        """The file of its values; None where the model lists or describes them."""
        return self.values.path if isinstance(self.values, npy.StoredValues) else None

    @property
    def scratch_bytes(self) -> int:
        """Bytes that `buffer` needs in addition to the buffer, if they grow with the values."""
        return self.values.scratch_bytes + (0 if self._aligned else self.values.bytes)

    @property
    def _aligned(self) -> bool:
        """Whether the values can be written where they belong; NumPy's views begin at a multiple of the element."""
        return self.offset % self.data_type.bytes == 0

    def buffer(self) -> NDArray[np.uint8]:
        """A new buffer with its initial contents, shape [size] of bytes. FileError when the values' file cannot be read."""
        import numpy as np

        buffer = np.zeros(self.size, np.uint8)
        raw = buffer[self.offset : self.offset + self.values.bytes]
        if self._aligned:
            self.values.write(raw.view(dtype_of(self.data_type)))
            return buffer
        values: NDArray[Any] = np.empty(self.values.count, dtype_of(self.data_type))
        self.values.write(values)
        raw[:] = values.view(np.uint8)
        return buffer


def read_resource(reading: Reading, name: str, path: Path, files: SourceFiles) -> Resource | ForeignPart | None:
    """The resource at `path`; None after reporting why it cannot be read. files: those that the model may read."""
    part = reading.validated(wire.RESOURCE, path)
    if part is None:
        return None
    data_type = part.initial_values_data_type
    if data_type is not DataType.UNKNOWN and not data_type.whole_bytes:
        reading.problem(
            (*path, "initialValuesDataType"), f"an element of {data_type.name} has no whole number of bytes; use another type"
        )
        return None
    at = (*path, "initialValues")
    if data_type is DataType.UNKNOWN and _constants(part.initial_values):
        return ForeignPart(CONSTANTS, at)
    try:
        values = _values(reading, part.initial_values, data_type, at, files)
    except ValueFitError as error:
        reading.problem(at if error.index is None else (*at, error.index), str(error))
        return None
    return None if values is None else _sized(reading, name, part, values, path)


def _constants(given: object) -> bool:
    return isinstance(given, list) and bool(given) and all(isinstance(item, dict) for item in given)


def _values(reading: Reading, given: Any, data_type: DataType, at: Path, files: SourceFiles) -> Values | None:
    if isinstance(given, wire.FileValues):
        return _from_file(reading, given.source_path, data_type, at, files)
    if data_type is DataType.UNKNOWN:
        reading.problem(at[:-1], "'initialValuesDataType' is missing: only .npy files store their own type")
        return None
    if isinstance(given, list):
        if not given:
            reading.problem(at, "expected at least one value, got an empty array")
            return None
        return listed(data_type, given)
    numbers = {}
    keys = ("value",) if isinstance(given, wire.ConstantValues) else ("valueStart", "valueDelta")
    for key in keys:
        try:
            numbers[key] = scalar(data_type, reading.at(at)[key])
        except ValueFitError as error:
            reading.problem((*at, key), str(error))
    if len(numbers) < len(keys):
        return None
    if isinstance(given, wire.ConstantValues):
        return Constant(data_type, given.value_count, numbers["value"])
    return progression(data_type, given.value_count, numbers["valueStart"], numbers["valueDelta"])


def _from_file(reading: Reading, source: str, data_type: DataType, at: Path, files: SourceFiles) -> Values | None:
    try:
        values = files.values(source, data_type)
    except FileError as error:
        reading.problem((*at, "sourcePath"), f"{source} {error}")
        return None
    if data_type not in (DataType.UNKNOWN, values.data_type):
        place = (*at[:-1], "initialValuesDataType")
        finding = CODES["DML802"].finding(
            dotted(place),
            expected=f"{values.data_type.name}, the type stored in {source}, which is used (DxDispatch refuses a different one)",
            got=data_type.name,
            remedy=f"initialValuesDataType = {values.data_type.name}, or leave it out",
        )
        reading.finding(finding, place)
    return values


def _sized(reading: Reading, name: str, part: wire.ResourcePart, values: Values, path: Path) -> Resource | None:
    needed = part.initial_values_offset_in_bytes + values.bytes
    stated = part.size_in_bytes
    if stated is not None and stated < needed:
        reading.problem(
            (*path, "sizeInBytes"),
            f"the buffer is too small for its values: expected at least {needed} bytes "
            f"(offset {part.initial_values_offset_in_bytes}, values {values.bytes}), got {stated}",
        )
        return None
    size = rounded_up(max(needed, stated or 0))
    if stated is not None and stated % SIZE_GRANULE:
        place = (*path, "sizeInBytes")
        finding = CODES["DML803"].finding(
            dotted(place),
            expected=f"{size}, to which it is rounded up here (DxDispatch uses the stated size)",
            got=str(stated),
            remedy=f"sizeInBytes = {size}",
        )
        reading.finding(finding, place)
    return Resource(name, values, part.initial_values_offset_in_bytes, size)
