"""The objects of a model file as they are written: keys, types of values, defaults. The reader and the JSON Schema use these
classes; what values mean together is checked where they are used.

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
"""A DataType by its name, with or without DirectML's prefix."""

Scalar = Annotated[Any, WithJsonSchema({"type": ["number", "string"]})]
"""A number, or "nan", "inf", "-inf"; the data type decides which are valid."""


class WirePart(BuiltOnUse):
    """One object of a model file. Unknown keys are kept, so that they can be reported."""

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
    """The keys of a model's fields, as they are written in a file."""
    return tuple(field.alias or name for name, field in kind.model_fields.items())


class ConstantValues(WirePart):
    """The same value, `valueCount` times."""

    value_count: Count
    """Number of values."""

    value: Scalar
    """The value: a number, "nan", "inf" or "-inf"."""


class SequenceValues(WirePart):
    """valueStart, then each value plus valueDelta."""

    value_count: Count
    """Number of values."""

    value_start: Scalar
    """The first value."""

    value_delta: Scalar
    """What is added from one value to the next, in the data type."""


class FileValues(WirePart):
    """Values in a file."""

    source_path: str
    """A .npy file, whose stored type is used, or raw packed elements; searched in the model's folder, then in the current one.
    Other places are refused unless --allow-outside is given."""


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
    """The type of the values; may be left out for .npy files."""

    initial_values_offset_in_bytes: Bytes = 0
    """Where in the buffer the values begin; the bytes before and after them are zero."""

    size_in_bytes: Bytes | None = None
    """The buffer's size, rounded up to 4; at least offset and values, which is the default."""

    resample_size: Any = None
    """Of images, which are refused."""

    resample_mode: Any = None
    """Of images, which are refused."""


class BindingPart(WirePart):
    """A resource, or a part of it, for one tensor."""

    name: str
    """The resource."""

    element_offset: Elements = 0
    """Where the tensor begins, in elements of the resource's data type."""

    element_count: Elements | None = None
    """Of shader views; the tensor's size is used instead."""

    element_stride: Elements | None = None
    """Of shader views."""

    element_size_in_bytes: Elements | None = None
    """Bytes of one element that `elementOffset` counts, instead of the resource's."""

    format: Any = None
    """Of shader views."""

    counter: Any = None
    """Of shader views."""

    counter_offset_bytes: Any = None
    """Of shader views."""

    shape: Any = None
    """Of ONNX models."""


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
    """The keys around the structure of a DirectML operator."""

    execution_flags: ExecutionFlags = Field(default=["NONE"])
    """DML_EXECUTION_FLAGS, accepted; moving data is exact with any of them."""

    dml_compile_type: Literal["DmlCompileOp", "DmlCompileGraph"] = "DmlCompileOp"
    """Accepted; both give the same result."""

    bindings: dict[str, Binding] = Field(default={})
    """Resources for the inputs that DirectML owns (OWNED_BY_DML), bound when the operator is initialised."""


class DispatchPart(WirePart):
    """Run a dispatchable."""

    type: Literal["dispatch"]
    """The kind of command."""

    dispatchable: str
    """Name of the dispatchable."""

    bindings: dict[str, Binding]
    """A resource for each tensor of the operator, by the tensor's field name ("InputTensor")."""

    thread_group_count: Any = None
    """Of shaders."""


class PrintPart(WirePart):
    """Print a resource: as many elements as it has initial values, of their type."""

    type: Literal["print"]
    """The kind of command."""

    resource: str
    """Name of the resource."""

    verbose: bool = False
    """One line per element, with its number and its bits."""


class WriteFilePart(WirePart):
    """Write a resource to a file: .npy with the shape of the dispatch that wrote it, anything else as raw bytes."""

    type: Literal["writeFile"]
    """The kind of command."""

    resource: str
    """Name of the resource."""

    target_path: str
    """The file, inside the output folder; symbolic links there are not followed."""

    dimensions: list[Count] | None = None
    """Shape of the .npy, in elements of the resource's data type. Default: OutputTensor's Sizes."""


CommandPart = Annotated[DispatchPart | PrintPart | WriteFilePart, Field(discriminator="type")]

RESOURCE: TypeAdapter[ResourcePart] = TypeAdapter(ResourcePart)
ENVELOPE: TypeAdapter[Envelope] = TypeAdapter(Envelope)
PLAIN = Envelope.model_construct()
"""The envelope of most operators: all defaults."""
COMMAND: TypeAdapter[DispatchPart | PrintPart | WriteFilePart] = TypeAdapter(CommandPart, config=ConfigDict(defer_build=True))
