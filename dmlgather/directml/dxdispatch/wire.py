"""The JSON objects of a model file as Pydantic classes. Rules that relate several values are checked elsewhere.

Source: DxDispatch's guide and model schema (microsoft/DirectML, DxDispatch/doc/Guide.md and models/_schema.json).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    SkipValidation,
    Tag,
    TypeAdapter,
    WithJsonSchema,
)
from pydantic.alias_generators import to_camel

from dmlgather.directml.types import DataType, DataTypeField
from dmlgather.record import BuiltOnUse, plainly

Count = Annotated[int, Field(gt=0, le=2**32 - 1)]
Bytes = Annotated[int, Field(ge=0, le=2**64 - 1)]
Elements = Annotated[int, Field(ge=0, le=2**64 - 1)]


def _no_number(value: Any) -> Any:
    if isinstance(value, int):
        raise ValueError(f"expected the name of a data type in double quotes, got {value}: DxDispatch reads no numbers here")
    return value


DataTypeName = Annotated[DataTypeField, BeforeValidator(plainly(_no_number))]
"""The name of a DataType, with or without the prefix "DML_TENSOR_DATA_TYPE_"."""

Scalar = Annotated[Any, WithJsonSchema({"type": ["number", "string"]})]
"""A number, or "nan", "inf" or "-inf". The resource's data type decides which are valid."""


class WirePart(BuiltOnUse):
    """A JSON object in a model file. Unknown keys are kept, so that they can be reported."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        extra="allow",
        field_title_generator=lambda name, _: to_camel(name),
        frozen=True,
        strict=True,
        validate_by_alias=True,
        validate_by_name=False,
    )


@cache
def names(kind: type[BaseModel]) -> tuple[str, ...]:
    """Return the JSON keys of a class's fields."""
    return tuple(field.alias or name for name, field in kind.model_fields.items())


class ConstantValues(WirePart):
    """One value, repeated `valueCount` times."""

    value_count: Count
    """Number of values."""

    value: Scalar
    """The value: a number, "nan", "inf" or "-inf"."""


class SequenceValues(WirePart):
    """The values valueStart, valueStart + valueDelta, …."""

    value_count: Count
    """Number of values."""

    value_start: Scalar
    """The first value."""

    value_delta: Scalar
    """Difference between neighbouring values. Each value is rounded to the data type before the difference is added to it."""


class FileValues(WirePart):
    """Values in a file."""

    source_path: str
    """A .npy file, or a file of raw elements without padding, in the model's folder or else in the current folder. Files in
    other folders are refused unless --allow-outside is given."""


def _kind_of_values(value: Any) -> str | None:
    if isinstance(value, list):
        return "list"
    if isinstance(value, Mapping):
        for key, kind in (("value", "constant"), ("valueStart", "sequence"), ("sourcePath", "file")):
            if key in value:
                return kind
    return None


InitialValues = Annotated[
    Annotated[
        SkipValidation[list[Any]],
        Tag("list"),
        WithJsonSchema({"type": "array", "minItems": 1, "items": {"type": ["number", "string"]}}),
    ]
    | Annotated[ConstantValues, Tag("constant")]
    | Annotated[SequenceValues, Tag("sequence")]
    | Annotated[FileValues, Tag("file")],
    Discriminator(
        _kind_of_values,
        custom_error_type="initial_values",
        custom_error_message=("expected [values …], {valueCount, value}, {valueCount, valueStart, valueDelta} or {sourcePath}"),
    ),
]


class ResourcePart(WirePart):
    """A buffer and its initial contents."""

    type: Literal["buffer"] = "buffer"
    """The kind of resource; only buffers exist."""

    initial_values: InitialValues
    """The contents of the buffer before the first dispatch."""

    initial_values_data_type: DataTypeName = DataType.UNKNOWN
    """The data type of the values. It may be left out for .npy files, which state it."""

    initial_values_offset_in_bytes: Bytes = 0
    """Offset of the values in the buffer, in bytes. The bytes before and after the values are zero."""

    size_in_bytes: Bytes | None = None
    """Size of the buffer in bytes. It is rounded up to a multiple of 4. The minimum, and default, is the offset plus the size
    of the values."""

    resample_size: Any = None
    """An option of images. dmlgather refuses images."""

    resample_mode: Any = None
    """An option of images. dmlgather refuses images."""


class BindingPart(WirePart):
    """The resource that a tensor is bound to, with the tensor's offset in it."""

    name: str
    """Name of the resource."""

    element_offset: Elements = 0
    """Offset of the tensor in the resource, in elements of the resource's data type or of `elementSizeInBytes`."""

    element_count: Elements | None = None
    """An option of shader views. DirectML operators do not have it."""

    element_stride: Elements | None = None
    """An option of shader views. DirectML operators do not have it."""

    element_size_in_bytes: Elements | None = None
    """Size, in bytes, of the elements that `elementOffset` counts. Default: the element size of the resource's data type."""

    format: Any = None
    """An option of shader views. DirectML operators do not have it."""

    counter: Any = None
    """An option of shader views. DirectML operators do not have it."""

    counter_offset_bytes: Any = None
    """An option of shader views. DirectML operators do not have it."""

    shape: Any = None
    """An option of ONNX models. DirectML operators do not have it."""


def _kind_of_binding(value: Any) -> str | None:
    for kind, python in (("name", str), ("list", list), ("range", Mapping)):
        if isinstance(value, python):
            return kind
    return None


_ONE_BINDING = Annotated[str, Tag("name")] | Annotated[BindingPart, Tag("range")]
_EXPECTED_BINDING = {
    "custom_error_type": "binding",
    "custom_error_message": "expected a resource name, {name, elementOffset, …}, or a list of one of these",
}
Binding = Annotated[
    _ONE_BINDING | Annotated[list[Annotated[_ONE_BINDING, Discriminator(_kind_of_binding, **_EXPECTED_BINDING)]], Tag("list")],
    Discriminator(_kind_of_binding, **_EXPECTED_BINDING),
]

_FLAG_NAMES = ("NONE", "ALLOW_HALF_PRECISION_COMPUTATION", "DISABLE_META_COMMANDS", "DESCRIPTORS_VOLATILE")
_FLAG_SCHEMA = {"enum": [*_FLAG_NAMES, *(f"DML_EXECUTION_FLAG_{name}" for name in _FLAG_NAMES)]}


def _flag_names(value: Any) -> list[Any]:
    flags = value if isinstance(value, list) else [value]
    for flag in flags:
        if flag not in _FLAG_SCHEMA["enum"]:
            raise ValueError(f"expected one of {', '.join(_FLAG_NAMES)}, or a list of them")
    return flags


ExecutionFlags = Annotated[
    list[str],
    BeforeValidator(plainly(_flag_names)),
    WithJsonSchema({"anyOf": [_FLAG_SCHEMA, {"type": "array", "items": _FLAG_SCHEMA}]}),
]


class Envelope(WirePart):
    """The keys that a dispatchable has in addition to the structure of its DirectML operator."""

    execution_flags: ExecutionFlags = Field(default=["NONE"])
    """DML_EXECUTION_FLAGS. They do not change the result."""

    dml_compile_type: Literal["DmlCompileOp", "DmlCompileGraph"] = "DmlCompileOp"
    """The function by which DxDispatch compiles the operator. The result does not depend on it."""

    bindings: dict[str, Binding] = Field(default={})
    """The resources that are bound to OWNED_BY_DML inputs at initialisation, by the tensor's field name."""


class DispatchPart(WirePart):
    """A command that runs a dispatchable."""

    type: Literal["dispatch"]
    """The kind of command."""

    dispatchable: str
    """Name of the dispatchable."""

    bindings: dict[str, Binding]
    """A resource for each tensor of the operator, by the tensor's field name ("InputTensor")."""

    thread_group_count: Any = None
    """An option of shaders. DirectML operators do not have it."""


class PrintPart(WirePart):
    """A command that prints a resource. The initial values determine the number and the data type of the printed elements."""

    type: Literal["print"]
    """The kind of command."""

    resource: str
    """Name of the resource."""

    verbose: bool = False
    """True to print each element on a line of its own, with its number and its bits."""


class WriteFilePart(WirePart):
    """A command that writes a resource to a .npy file or, with any other suffix, to a file of raw bytes."""

    type: Literal["writeFile"]
    """The kind of command."""

    resource: str
    """Name of the resource."""

    target_path: str
    """The file, inside the output folder; symbolic links there are not followed."""

    dimensions: list[Count] | None = None
    """Shape of the array in the .npy file. Default: Sizes of the OutputTensor that was last written to the resource."""


CommandPart = Annotated[DispatchPart | PrintPart | WriteFilePart, Field(discriminator="type")]

RESOURCE: TypeAdapter[ResourcePart] = TypeAdapter(ResourcePart)
ENVELOPE: TypeAdapter[Envelope] = TypeAdapter(Envelope)
PLAIN = Envelope.model_construct()
"""The Envelope of a dispatchable that has none of its keys."""
COMMAND: TypeAdapter[DispatchPart | PrintPart | WriteFilePart] = TypeAdapter(CommandPart, config=ConfigDict(defer_build=True))
