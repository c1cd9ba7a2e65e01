"""Records of the JSON that commands print. `dmlgather schema` derives its schemas from these records."""

from __future__ import annotations

from typing import Any, Literal

from dmlgather.record import Record


class SupportedTensor(Record):
    """Support for one tensor of an operator."""

    data_types: tuple[str, ...]
    """The supported data types: "FLOAT32"."""

    dimension_counts: tuple[int, ...]
    """The supported numbers of dimensions."""

    source: str
    """The place in DirectML's documents that states the support."""


class SupportStep(Record):
    """Support for an operator from one feature level on."""

    level: str
    """The feature level: "3_0"."""

    tensors: dict[str, SupportedTensor]
    """Support by tensor name: "InputTensor"."""


class SupportedOperator(Record):
    """The support table of an operator."""

    operator: str
    """The operator: "DML_OPERATOR_GATHER"."""

    value: int
    """The operator's number in DML_OPERATOR_TYPE."""

    introduced: str
    """The feature level that introduced it."""

    levels: tuple[SupportStep, ...]
    """The changes of support, lowest level first."""


class RuleRow(Record):
    """One code of findings."""

    code: str
    """The code: "DML302"."""

    severity: Literal["error", "warning", "note"]
    """The severity of its findings."""

    title: str
    """The rule in one sentence."""

    source: str
    """The place in DirectML's documents that states the rule, with keys of docs/findings.md."""


class RulePage(RuleRow):
    """One code of findings with its explanation."""

    documents: dict[str, str]
    """The documents that `source` cites, by key."""

    explanation: str
    """The reason for the rule and, for most codes, a failing and a fixed example, as Markdown."""


class MovedBytes(Record):
    """Bytes that one run moves. An index or element that is read twice counts twice."""

    index: int
    """Bytes of indices that are read."""

    read: int
    """Bytes of elements that are read."""

    written: int
    """Bytes of elements that are written."""

    total: int
    """The sum of `index`, `read` and `written`."""


class ExplainedOperator(Record):
    """The explanation of a dispatchable, a descriptor or a node."""

    operator: str
    """The operator: "GATHER"."""

    lowest_level: str | None
    """The lowest feature level that supports the operator; null if no level does; empty if levels do not apply."""

    plan: str
    """The plan for the described layouts."""

    canonical: str
    """The plan's canonical form."""

    cpu: str
    """The loop or recipe that runs the plan on the CPU."""

    cuda: str
    """The kernels that run the plan on a GPU."""

    bytes_moved: MovedBytes
    """Bytes that one run moves."""

    name: str
    """The operator's name in the file; empty for a single descriptor."""


class UnexplainedNode(Record):
    """A node without explanation."""

    name: str
    """The place of the node in the model."""

    reason: str
    """The reason why the node cannot be explained."""


class Processor(Record):
    """The processor."""

    name: str
    """Its name."""

    cpus: int
    """The number of CPUs that the process may use."""


class NvidiaDriver(Record):
    """The NVIDIA driver."""

    cuda: str | None
    """The newest CUDA version that the driver supports: "13.0"."""

    error: str | None
    """The reason why the driver cannot be used."""


class DriverGpu(Record):
    """A GPU."""

    name: str
    """Its name."""

    compute_capability: str
    """Its compute capability: "9.0"."""

    memory: int
    """The memory of the GPU in bytes."""


class Gpus(Record):
    """The GPUs of the machine."""

    usable: bool
    """True if the CUDA backend can run here."""

    devices: tuple[DriverGpu, ...]
    """The GPUs that the driver lists."""


class Missing(Record):
    """A missing part without which no GPU can be used."""

    what: str
    """The missing part."""

    remedy: str
    """The command or advice to install it."""


class Environment(Record):
    """The installed versions, the devices, and what is missing for running on a GPU."""

    dmlgather: str
    """The version of dmlgather."""

    folder: str
    """The folder of the running dmlgather package."""

    here: str | None
    """The folder of another dmlgather that Python imports if it is started in the current folder; null for none."""

    python: str
    """The version of Python."""

    platform: str
    """The operating system."""

    processor: Processor
    """The processor."""

    engine: str
    """The CPU engine."""

    packages: dict[str, str | None]
    """The versions of packages; null for one that is not installed."""

    cupy: str | None
    """The package of CuPy and its version."""

    nvrtc: str | None
    """The version and file of the NVRTC that CuPy loads. If no GPU can be used: the package of NVRTC and its version."""

    driver: NvidiaDriver
    """The NVIDIA driver."""

    gpu: Gpus
    """The GPUs."""

    missing: tuple[Missing, ...]
    """The missing parts without which no GPU can be used."""


class DifferingInputs(Record):
    """Inputs on which a program and a model differ."""

    judge: str
    """The library that ran the ONNX model, with its version."""

    output: str | None
    """The output that differs; null if the program or the model raises."""

    position: tuple[int, ...]
    """The coordinates of the first element that differs."""

    values: tuple[str, str]
    """The element or the error of the program, and the element or the error of the model."""

    sources: tuple[str | None, str | None]
    """The input elements that the two values were copied from, if known."""

    indices: dict[str, Any]
    """The index tensors by name, as nested arrays; null for a tensor of more than 4,096 elements."""


class DifferenceInWords(Record):
    """The reason why a program and a model cannot run on the same inputs."""

    text: str
    """The reason in words."""


class AgreementResult(Record):
    """The result of running a program and an ONNX model on the same inputs."""

    verdict: Literal["equal", "different", "not checked"]
    """The verdict. "equal" holds only for the inputs that were tried; it is no proof."""

    judges: tuple[str, ...]
    """The libraries that ran the model, with their versions."""

    index_values: int
    """The number of index values that were tried."""

    elements: int
    """The number of output elements that were compared."""

    remarks: tuple[str, ...]
    """Limits of the check."""

    difference: DifferingInputs | DifferenceInWords | None
    """The first difference."""

    text: str
    """The result in words."""


class ModelComparison(AgreementResult):
    """The result of `dmlgather compare FILE --against MODEL.onnx`."""

    file: str
    """The file."""

    against: str
    """The ONNX model."""

    left_out: int
    """The number of lines of a stream of descriptors that were left out."""


class TranslatedPart(Record):
    """The translation of one operator, or of the whole model."""

    name: str
    """The operator's name in the file; the file's name for the whole model."""

    ok: bool
    """True if there is a translation whose results equal the original's."""

    steps: tuple[str, ...]
    """The ONNX operators of the translation, in order; empty if no operator is needed."""

    refused: str | None
    """The reason why there is no translation."""

    check: AgreementResult | None
    """The result of running the original and the translation; null without a translation."""


class TranslationResult(Record):
    """The result of `dmlgather translate`."""

    file: str
    """The file."""

    to: str
    """The library and its version: "onnx, opset 13"."""

    left_out: int
    """The number of lines of a stream of descriptors that were left out."""

    parts: tuple[TranslatedPart, ...]
    """The translation of each gather, slice, DepthToSpace and SpaceToDepth."""

    whole: TranslatedPart
    """The translation of the whole model."""

    written: str | None
    """The file that was written; null for none."""


class PrintCommand(Record):
    """The output of a print command."""

    type: Literal["print"]
    """The command's type."""

    resource: str
    """The name of the resource."""

    data_type: str
    """The NumPy type of its elements."""

    values: tuple[int | float | str, ...]
    """Its elements; NaNs and infinities are strings."""


class DispatchCommand(Record):
    """The result of a dispatch command."""

    type: Literal["dispatch"]
    """The command's type."""

    dispatchables: tuple[str, ...]
    """The name of the dispatchable, in a list of one."""

    iterations: int
    """The number of executions."""

    cpu_ms: float
    """The median time until completion, in milliseconds."""

    gpu_ms: float | None
    """The median time on the GPU, in milliseconds; null on other devices."""


class WriteCommand(Record):
    """The result of a writeFile command."""

    type: Literal["writeFile"]
    """The command's type."""

    resource: str
    """The name of the resource."""

    file: str
    """The file."""


class RunResult(Record):
    """The result of `dmlgather run`."""

    file: str
    """The model's file."""

    device: str
    """The device that ran it."""

    commands: tuple[PrintCommand | DispatchCommand | WriteCommand, ...]
    """The results of the commands, in order."""
