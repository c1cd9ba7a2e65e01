"""DirectML's enumerations with the numbers of directml.h, parsing of their values, and the releases of DirectML."""

from __future__ import annotations

import contextlib
import enum
import operator
import re
from collections.abc import Iterable, Mapping
from typing import Annotated, NamedTuple, TypeVar

from pydantic import BeforeValidator, PlainSerializer, ValidationInfo, WithJsonSchema

from dmlgather.plan import IndexType
from dmlgather.record import plainly
from dmlgather.wording import alternatives, closest, shown_value


class Release(NamedTuple):
    """A minor version of DirectML, such as 1.8. Its patches support the same feature level.

    `redistributable`: True if the package Microsoft.AI.DirectML has it. The package runs on any Windows from 1903 on.
    """

    version: str
    level: str
    windows: str
    redistributable: bool
    source: str


RELEASES = (
    Release("1.0", "1_0", "Windows 10 1903 (build 18362)", False, "[VER]"),
    Release("1.1", "2_0", "Windows 10 2004 (build 19041)", False, "[VER]"),
    Release("1.4", "3_0", "", True, "[VER]"),
    Release("1.5", "3_1", "", True, "[VER]"),
    Release("1.6", "4_0", "Windows 11 21H2 (build 22000)", True, "[VER]"),
    Release("1.7", "4_1", "", True, "[VER]"),
    Release("1.8", "5_0", "Windows 11 22H2 (build 22621)", True, "[VER]"),
    Release("1.9", "5_1", "", True, "[VER]"),
    Release("1.10", "5_2", "", True, "[VER]"),
    Release("1.11", "6_0", "", True, "[VER]"),
    Release("1.12", "6_1", "", True, "[VER]"),
    Release("1.13", "6_2", "Windows 11 24H2 (build 26100)", True, "[VER]; [REL] for the Windows, which ships 1.13.1"),
    Release("1.15", "6_4", "", True, "[VER]"),
)
"""Oldest first. Versions 1.2, 1.3 and 1.14 were not widely released."""


def type_name(value: object) -> str | None:
    """Return the usual name of a data type of an array library: "float32" for "f4" or torch.float32. None for other values."""
    import numpy as np  # not needed for correct files

    if isinstance(value, str):
        if re.fullmatch(r"[<>=|]?[biufc]\d+|half|single|double", value):  # NumPy's short names
            with contextlib.suppress(TypeError):
                return type_name(np.dtype(value))
        return value if re.fullmatch(r"(bool|int|b?float|(u?int|b?float|complex)\d\w*)", value) else None
    if isinstance(value, np.dtype):
        return value.name if value.isnative else value.str
    if isinstance(value, type):  # np.float32, jnp.float32
        return value.__name__
    if type(value).__name__.lower() == "dtype":  # torch.float32
        return str(getattr(value, "name", value)).rpartition(".")[2]
    return None


def fault(name: str) -> str:
    """Return a message about a data type that DirectML lacks, and what to use instead."""
    if name in ("int", "float"):
        return f"{name} states no size: write numpy.{name}32 or numpy.{name}64"
    if name.startswith(("<", ">")):
        import numpy as np

        return f"{name} has the other byte order: convert the elements with .astype('{np.dtype(name).name}')"
    bits = "" if name.startswith(("str", "bytes", "void")) else re.sub(r"\D.*", "", name.lstrip("abcdefghijklmnopqrstuvwxyz_"))
    instead = f": uint{bits} holds its bits (array.view('uint{bits}'))" if bits in ("8", "16", "32", "64") else ""
    return f"{name} is no data type of DirectML{instead}"


class DataType(enum.IntEnum):
    """The data type of a tensor (DML_TENSOR_DATA_TYPE).

    DirectML has neither bool nor bfloat16. Store bool as UINT8 and bfloat16 as UINT16, which keeps their bits.
    """

    UNKNOWN = 0
    FLOAT32 = 1
    FLOAT16 = 2
    UINT32 = 3
    UINT16 = 4
    UINT8 = 5
    INT32 = 6
    INT16 = 7
    INT8 = 8
    FLOAT64 = 9
    UINT64 = 10
    INT64 = 11
    UINT4 = 12
    INT4 = 13

    def __str__(self) -> str:
        return self.name

    @classmethod
    def parse(cls, value: object) -> DataType:
        """Return the DataType for a name, a number, or a data type of an array library.

        `value`: a member, "FLOAT32", "DML_TENSOR_DATA_TYPE_FLOAT32", the number 1; or a type of NumPy, CuPy, JAX, torch or
        ml_dtypes, such as np.float32, x.dtype, torch.float32, "float32" or "f4". bool becomes UINT8. Raises ValueError for a
        type that DirectML lacks, and for Python's int and float, which have no fixed size.

        >>> dg.DataType.parse(np.float32).name, dg.DataType.parse("int64").name
        ('FLOAT32', 'INT64')
        """
        try:
            return _named_by_directml(value)
        except ValueError:
            name = type_name(value)
            if name is None and isinstance(value, str):  # "BFLOAT16" gets the message of bfloat16
                lowered = type_name(value.lower())
                name = lowered if lowered and lowered not in _OF_LIBRARIES and lowered[-1].isdigit() else None
            if name is None:
                raise
        if name not in _OF_LIBRARIES:
            known = ", ".join(kind.name.lower() for kind in cls if kind is not cls.UNKNOWN)
            raise ValueError(f"{fault(name)}; DirectML's types are {known}")
        return _OF_LIBRARIES[name]

    @property
    def whole_bytes(self) -> bool:
        """True if the size of an element is a whole number of bytes. False for UNKNOWN, UINT4 and INT4."""
        return self not in (DataType.UNKNOWN, DataType.UINT4, DataType.INT4)

    @property
    def bytes(self) -> int:
        """Size of one element, in bytes. Raises ValueError for UNKNOWN, UINT4 and INT4."""
        if not self.whole_bytes:
            raise ValueError(f"an element of data type {self.name} has no whole number of bytes")
        return _BYTES[self]

    @property
    def index_type(self) -> IndexType | None:
        """The IndexType that a plan has for indices of this data type. None for floats, UNKNOWN, UINT4 and INT4."""
        return IndexType[self.name] if self.name in IndexType.__members__ else None


_BYTES = {kind: int(re.sub(r"\D", "", kind.name)) // 8 for kind in DataType if kind.whole_bytes}

_OF_LIBRARIES = {kind.name.lower(): kind for kind in DataType if kind is not DataType.UNKNOWN} | {"bool": DataType.UINT8}

AS_IN_FILES: Mapping[str, str] = {"data types": "as DirectML names them"}
"""Validation context for values from files: fields accept only DirectML's names and numbers of data types."""


class TensorFlags(enum.IntFlag):
    """The flags of a tensor (DML_TENSOR_FLAGS). They say who owns its memory."""

    NONE = 0
    """The caller owns the memory. The tensor is bound at each execution."""
    OWNED_BY_DML = 1
    """DirectML owns the memory. The tensor is bound at initialisation, when DirectML copies it, and not at execution."""

    def __str__(self) -> str:
        return self.name or str(self.value)


class DepthSpaceOrder(enum.IntEnum):
    """The order in which DEPTH_TO_SPACE1 and SPACE_TO_DEPTH1 number channels (DML_DEPTH_SPACE_ORDER).

    In the tensor with more channels, a channel number is made of three parts: channel, row in the block, column in the block.
    Each member is an order of these parts, outermost first.
    """

    DEPTH_COLUMN_ROW = 0
    """Row in the block, column in the block, channel. ONNX calls it DCR."""
    COLUMN_ROW_DEPTH = 1
    """Channel, row in the block, column in the block. ONNX calls it CRD."""

    def __str__(self) -> str:
        return self.name

    @classmethod
    def parse(cls, value: object) -> DepthSpaceOrder:
        """Return the DepthSpaceOrder for a member, a name with or without "DML_DEPTH_SPACE_ORDER_", or a number.

        Raises ValueError for other values.

        >>> dg.DepthSpaceOrder.parse("COLUMN_ROW_DEPTH").value
        1
        """
        if isinstance(value, str) and value in ONNX_ORDERS:
            raise ValueError(f"{value!r} is ONNX's name; DirectML's is {ONNX_ORDERS[value].name}")
        return member(cls, "DML_DEPTH_SPACE_ORDER_", value)


ONNX_ORDERS = {"DCR": DepthSpaceOrder.DEPTH_COLUMN_ROW, "CRD": DepthSpaceOrder.COLUMN_ROW_DEPTH}


class FeatureLevel(enum.IntEnum):
    """A feature level of DirectML (DML_FEATURE_LEVEL): a set of supported operators, data types and dimension counts.

    Each level includes all earlier levels. 6_4 is the last one.
    """

    LEVEL_1_0 = 0x1000
    LEVEL_2_0 = 0x2000
    LEVEL_2_1 = 0x2100
    LEVEL_3_0 = 0x3000
    LEVEL_3_1 = 0x3100
    LEVEL_4_0 = 0x4000
    LEVEL_4_1 = 0x4100
    LEVEL_5_0 = 0x5000
    LEVEL_5_1 = 0x5100
    LEVEL_5_2 = 0x5200
    LEVEL_6_0 = 0x6000
    LEVEL_6_1 = 0x6100
    LEVEL_6_2 = 0x6200
    LEVEL_6_3 = 0x6300
    LEVEL_6_4 = 0x6400

    def __str__(self) -> str:
        return self.name.removeprefix("LEVEL_")

    @classmethod
    def parse(cls, value: object) -> FeatureLevel:
        """Return the FeatureLevel for a name, a number, or a release of DirectML.

        `value`: a member, "3_1", "3.1", "LEVEL_3_1", "DML_FEATURE_LEVEL_3_1", 0x3100 or "0x3100". A release, such as
        "DirectML 1.5" or "DirectML 1.5.1", gives its highest level; "1.5" alone is a level. Raises ValueError for other values.

        >>> dg.FeatureLevel.parse("3.1").name, dg.FeatureLevel.parse("DirectML 1.8").name
        ('LEVEL_3_1', 'LEVEL_5_0')
        """
        text = str(value).strip() if isinstance(value, str | float) else ""
        if release := _RELEASE.fullmatch(text):
            levels = {item.version: item.level for item in RELEASES}
            if release[1] in levels:
                return cls[f"LEVEL_{levels[release[1]]}"]
            known = f"{', '.join(levels)}, and their patches{level_hint(text)}"
            raise ValueError(f"unknown version of DirectML {_shown(text)}; known versions are {known}")
        if level := _LEVEL.fullmatch(text):
            value = f"LEVEL_{level[1]}_{level[2]}"
        elif _HEXADECIMAL.fullmatch(text):
            value = int(text, 16)
        try:
            return member(cls, "", value)
        except ValueError:
            known = ", ".join(map(str, cls))
            raise ValueError(
                f"unknown feature level {_shown(text or value)}; known levels are {known}{level_hint(text)}"
            ) from None


def level_hint(text: str) -> str:
    """Return the end of a message: the level of the DirectML or Windows version in `text`, or an empty text."""
    if text.lower().startswith("windows"):
        system = (release for release in RELEASES if release.windows)
        return "; " + ", ".join(f"{release.windows.partition(' (')[0]} has {release.level}" for release in system)
    if "onnxruntime" in text.lower():
        return "; the page Checking ONNX models lists the versions of DirectML in onnxruntime-directml, and their levels"
    version = re.search(r"(?<![\d.])(\d+)\.(\d+)", text)
    if version is None:
        return ""
    number = tuple(map(int, version.groups()))
    numbers = [tuple(map(int, release.version.split("."))) for release in RELEASES]
    older = [release for release, known in zip(RELEASES, numbers, strict=True) if known <= number <= numbers[-1]]
    if not older:
        return ""
    exact = older[-1].version == version[0]
    return f"; DirectML {version[0]} has level {older[-1].level}{'' if exact else f' or higher, as {older[-1].version} has it'}"


_LEVEL = re.compile(r"(?:(?:DML_FEATURE_)?LEVEL_)?([0-9])[._]([0-9])")
_RELEASE = re.compile(r"DirectML[ -]([0-9]+\.[0-9]+)(?:\.[0-9]+)?", re.IGNORECASE)
_HEXADECIMAL = re.compile(r"0x[0-9a-fA-F]{4}")


Member = TypeVar("Member", bound=enum.Enum)


def member(kind: type[Member], prefix: str, value: object) -> Member:
    """Return the member of `kind` for a member, a name with or without `prefix`, or a number.

    Raises ValueError for other values, also for bool and float.
    """
    if isinstance(value, kind):
        return value
    if isinstance(value, str):
        named = kind.__members__.get(value.removeprefix(prefix))
        if named is not None:
            return named
    elif not isinstance(value, bool | float):
        with contextlib.suppress(TypeError, StopIteration):  # no integer, or an unknown number
            number = operator.index(value)  # type: ignore[arg-type]
            return next(item for item in kind.__members__.values() if item.value == number)
    similar: str | None = None
    if isinstance(value, str):
        word = value.removeprefix(prefix)
        completions = [name for name in kind.__members__ if word and name.startswith(word.upper())]
        similar = alternatives(completions) if completions else closest(word, kind.__members__)
    legal = ", ".join(f"{name} ({item.value})" for name, item in kind.__members__.items())
    raise ValueError(
        f"{_shown(value)} is no {kind.__name__}; {f'did you mean {similar}?' if similar else f'expected one of {legal}'}"
    )


def _flags(value: object) -> TensorFlags:
    if isinstance(value, str):
        parts: Iterable[object] = [part.strip() for part in value.split("|")]
    elif isinstance(value, list | tuple | set | frozenset):
        parts = value
    else:
        parts = [value]
    flags = TensorFlags.NONE
    for part in parts:
        flags |= member(TensorFlags, "DML_TENSOR_FLAG_", part)
    return flags


def _named_by_directml(value: object) -> DataType:
    return member(DataType, "DML_TENSOR_DATA_TYPE_", value)


def _data_type(value: object, info: ValidationInfo) -> DataType:
    from_file = info.mode == "json" or info.context is AS_IN_FILES
    return _named_by_directml(value) if from_file else DataType.parse(value)


def _shown(value: object) -> str:
    if isinstance(value, int) and value.bit_length() > 64:
        return f"an integer of {value.bit_length()} bits"
    text = repr(value) if isinstance(value, str) else shown_value(value)
    return text if len(text) <= 80 else text[:77] + "…"


def _schema(kind: type[Member], prefix: str) -> WithJsonSchema:
    names = list(kind.__members__)  # no numbers, because DxDispatch does not read them
    return WithJsonSchema({"enum": [*names, *(prefix + name for name in names)]})


DataTypeField = Annotated[
    DataType,
    BeforeValidator(plainly(_data_type)),
    PlainSerializer(str, when_used="json"),
    _schema(DataType, "DML_TENSOR_DATA_TYPE_"),
]
"""It accepts what `DataType.parse` accepts. In files, it accepts only DirectML's names and numbers."""

TensorFlagsField = Annotated[
    TensorFlags,
    BeforeValidator(plainly(_flags)),
    PlainSerializer(str, when_used="json"),
    _schema(TensorFlags, "DML_TENSOR_FLAG_"),
]

DepthSpaceOrderField = Annotated[
    DepthSpaceOrder,
    BeforeValidator(plainly(DepthSpaceOrder.parse)),
    PlainSerializer(str, when_used="json"),
    _schema(DepthSpaceOrder, "DML_DEPTH_SPACE_ORDER_"),
]

FeatureLevelField = Annotated[
    FeatureLevel,
    BeforeValidator(plainly(FeatureLevel.parse)),
    PlainSerializer(str, when_used="json"),
    WithJsonSchema({"enum": [str(level) for level in FeatureLevel]}),
]
"""It accepts what `FeatureLevel.parse` accepts. JSON output has the form "3_0"."""
