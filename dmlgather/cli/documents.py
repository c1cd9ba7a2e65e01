"""The JSON that commands print, as Pydantic models. `dmlgather schema` derives JSON Schemas from them."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from dmlgather.record import Record, is_none


class SupportedTensor(Record):
    """The supported data types and numbers of dimensions of a tensor of an operator."""

    data_types: tuple[str, ...]
    """The supported data types, such as "FLOAT32"."""

    dimension_counts: tuple[int, ...]
    """The supported numbers of dimensions."""

    source: str
    """The place in DirectML's documents that states this."""


class SupportStep(Record):
    """The support of an operator from a feature level on."""

    level: str
    """The feature level, such as "3_0"."""

    tensors: dict[str, SupportedTensor]
    """The supported data types and numbers of dimensions, by tensor name ("InputTensor")."""


class SupportedOperator(Record):
    """An operator, and what it supports at each feature level."""

    operator: str
    """The operator's name in DirectML: "DML_OPERATOR_GATHER"."""

    value: int
    """The operator's number in DML_OPERATOR_TYPE."""

    introduced: str
    """The feature level that introduced the operator."""

    levels: tuple[SupportStep, ...]
    """The feature levels at which the support changes, lowest level first."""


class RuleRow(Record):
    """A code of findings, and its rule."""

    code: str
    """The code: "DML302"."""

    severity: Literal["error", "warning", "note"]
    """The severity of its findings."""

    title: str
    """The rule in one sentence."""

    source: str
    """The place in DirectML's documents that states the rule. Documents are named by keys in brackets, as in
    docs/findings.md.
    """


class RulePage(RuleRow):
    """A code of findings, its rule, and an explanation."""

    documents: dict[str, str]
    """The documents that `source` names, by key."""

    explanation: str
    """The reason for the rule and, for most codes, a failing and a fixed example, as Markdown."""


class MovedBytes(Record):
    """The number of bytes that one run of an operator moves. An index or element that is read twice counts twice."""

    index: int
    """Bytes of indices that the run reads."""

    read: int
    """Bytes of elements that the run reads."""

    written: int
    """Bytes of elements that the run writes."""

    total: int
    """The sum of `index`, `read` and `written`."""


class ExplainedOperator(Record):
    """The explanation of an operator in a file: of a dispatchable, a descriptor or a node of an ONNX model."""

    operator: str
    """The operator: "GATHER"."""

    lowest_level: str | None
    """The lowest feature level that can express the operator; null if no level can; empty if feature levels do not apply."""

    reason: str | None = Field(None, exclude_if=is_none)
    """For a node of an ONNX model: why no feature level supports it. Left out if one does."""

    plan: str
    """The plan, as text: which elements are copied where."""

    canonical: str
    """The plan in canonical form, as text. Operators that copy the same elements have the same canonical plan."""

    cpu: str
    """The code that runs the plan on the CPU, in words."""

    cuda: str
    """The kernels that run the plan on a GPU, in words."""

    bytes_moved: MovedBytes
    """The number of bytes that one run moves."""

    name: str
    """The operator's name in the file; empty for a single descriptor."""


class UnexplainedNode(Record):
    """A node that is not explained, and the reason."""

    name: str
    """The place of the node in the model."""

    reason: str
    """The reason why the node cannot be explained."""


class Processor(Record):
    """The model of the machine's CPU, and the number of CPUs that can be used."""

    name: str
    """The model of the processor."""

    cpus: int
    """The number of CPUs that the process may use."""


class NvidiaDriver(Record):
    """The installed NVIDIA driver."""

    cuda: str | None
    """The newest CUDA version that the driver supports, such as "13.0"; null if it is unknown."""

    error: str | None
    """The reason why no GPU can be used through the driver; null if one can."""


class DriverGpu(Record):
    """A GPU, as the NVIDIA driver describes it."""

    name: str
    """The model of the GPU."""

    compute_capability: str
    """The GPU's compute capability, such as "9.0"."""

    memory: int
    """The memory of the GPU in bytes."""


class Gpus(Record):
    """The GPUs of the machine."""

    usable: bool
    """True if the CUDA backend can run here."""

    devices: tuple[DriverGpu, ...]
    """The GPUs that the driver lists."""


class Missing(Record):
    """A package or driver that is missing, so that no GPU can be used."""

    what: str
    """The name of the missing part."""

    remedy: str
    """The command that installs it, or advice."""


class Environment(Record):
    """The installed versions and devices, and what is missing to run on a GPU."""

    dmlgather: str
    """The version of dmlgather."""

    folder: str
    """The folder of the running dmlgather package."""

    here: str | None
    """The folder of another dmlgather that Python would import if it were started in the current folder; null for none."""

    python: str
    """The version of Python."""

    platform: str
    """The operating system."""

    processor: Processor
    """The processor."""

    engine: str
    """The compiled engine that runs plans on the CPU (instruction set and threads), or the reason why NumPy runs them."""

    packages: dict[str, str | None]
    """The versions of installed packages, by name; null for a package that is not installed."""

    cupy: str | None
    """The name and version of the package that contains CuPy; null if it is not installed."""

    nvrtc: str | None
    """The version and file of the NVRTC library that CuPy loads. If no GPU can be used: the package that contains NVRTC."""

    driver: NvidiaDriver
    """The NVIDIA driver."""

    gpu: Gpus
    """The GPUs of the machine."""

    missing: tuple[Missing, ...]
    """The packages and drivers that are missing, so that no GPU can be used."""


class DifferingInputs(Record):
    """Inputs for which a program and an ONNX model give different results."""

    judge: str
    """The library that ran the ONNX model, with its version."""

    output: str | None
    """The name of the output that differs; null if only one of the two raises an error."""

    position: tuple[int, ...]
    """The coordinates of the first output element that differs."""

    values: tuple[str, str]
    """The results in words: the program's element or error, then the model's."""

    sources: tuple[str | None, str | None]
    """The input elements that the two differing elements were copied from; null for unknown."""

    indices: dict[str, Any]
    """The elements of the index tensors as nested arrays, by name; null for a tensor of more than 4,096 elements."""


class DifferenceInWords(Record):
    """The reason why a program and a model cannot run on the same inputs."""

    text: str
    """The reason in words."""


class AgreementResult(Record):
    """The result of running a program and an ONNX model on the same inputs."""

    verdict: Literal["equal", "different", "not checked"]
    """"equal" or "different"; "not checked" if no library ran the model. "equal" holds for the inputs that were tried and is no
    proof.
    """

    judges: tuple[str, ...]
    """The libraries that ran the model, with their versions."""

    index_values: int
    """The number of index values that were tried."""

    elements: int
    """The number of output elements that were compared."""

    remarks: tuple[str, ...]
    """The limits of the check, as sentences."""

    difference: DifferingInputs | DifferenceInWords | None
    """The first difference, or the reason why the two cannot be compared; null if all results were equal."""

    text: str
    """The result in words."""


class ModelComparison(AgreementResult):
    """The result of `dmlgather compare FILE --against MODEL.onnx`."""

    file: str
    """The file that was compared with the model."""

    against: str
    """The file of the ONNX model."""

    left_out: int
    """The number of lines of a stream of descriptors that were left out."""


class TranslatedPart(Record):
    """The translation of one operator, or of the whole model."""

    name: str
    """The operator's name in the file; the file's name for the whole model."""

    ok: bool
    """True if there is a translation, and it gave the same results as the original."""

    steps: tuple[str, ...]
    """The ONNX operators of the translation, in order; empty if no operator is needed."""

    refused: str | None
    """The reason why there is no translation; null if there is one."""

    check: AgreementResult | None
    """The result of running the original and the translation on the same inputs; null without a translation."""


class TranslationResult(Record):
    """The result of `dmlgather translate`."""

    file: str
    """The file that was translated."""

    to: str
    """The target library and its version: "onnx, opset 13"."""

    left_out: int
    """The number of lines of a stream of descriptors that were left out."""

    parts: tuple[TranslatedPart, ...]
    """The translation of each operator: gathers, slices, DepthToSpace and SpaceToDepth."""

    whole: TranslatedPart
    """The translation of the whole model."""

    written: str | None
    """The file to which the ONNX model was written; null for none."""


class PrintCommand(Record):
    """The result of a print command."""

    type: Literal["print"]
    """The kind of command."""

    resource: str
    """The name of the resource."""

    data_type: str
    """The NumPy data type of the elements, such as "float32"."""

    values: tuple[int | float | str, ...]
    """The elements. NaNs and infinities are strings."""


class DispatchCommand(Record):
    """The result of a dispatch command."""

    type: Literal["dispatch"]
    """The kind of command."""

    dispatchables: tuple[str, ...]
    """The name of the dispatchable that ran, in a list of one."""

    iterations: int
    """How often the dispatchable ran."""

    cpu_ms: float
    """The median time from start to completion, in milliseconds."""

    gpu_ms: float | None
    """The median time on the GPU, in milliseconds; null if the device is no GPU."""


class WriteCommand(Record):
    """The result of a writeFile command."""

    type: Literal["writeFile"]
    """The kind of command."""

    resource: str
    """The name of the resource."""

    file: str
    """The file that was written."""


class RunResult(Record):
    """The result of `dmlgather run`."""

    file: str
    """The model's file."""

    device: str
    """The device that ran it."""

    commands: tuple[PrintCommand | DispatchCommand | WriteCommand, ...]
    """The results of the commands, in order."""
