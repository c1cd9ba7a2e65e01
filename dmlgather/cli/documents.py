"""The documents that commands read and print, as the schemas of `dmlgather schema` describe them."""

from __future__ import annotations

from typing import Any, Literal

from dmlgather.record import Record


class SupportedTensor(Record):
    """What a tensor of an operator takes."""

    data_types: tuple[str, ...]
    """The data types: "FLOAT32"."""

    dimension_counts: tuple[int, ...]
    """The numbers of dimensions."""

    source: str
    """Where DirectML's documents say so."""


class SupportStep(Record):
    """What an operator takes from a feature level on."""

    level: str
    """The feature level: "3_0"."""

    tensors: dict[str, SupportedTensor]
    """By the name of the tensor: "InputTensor"."""


class SupportedOperator(Record):
    """The support table of an operator."""

    operator: str
    """The operator: "DML_OPERATOR_GATHER"."""

    value: int
    """Its number in DML_OPERATOR_TYPE."""

    introduced: str
    """The feature level from which on it exists."""

    levels: tuple[SupportStep, ...]
    """The steps of the table, oldest level first."""


class RuleRow(Record):
    """A code of findings."""

    code: str
    """The code: "DML302"."""

    severity: Literal["error", "warning", "note"]
    """The severity of its findings."""

    title: str
    """What must hold."""

    source: str
    """Where DirectML's documents say so, by the keys of docs/findings.md."""


class RulePage(RuleRow):
    """A code, explained."""

    documents: dict[str, str]
    """The documents of its source, by key."""

    explanation: str
    """Why the rule exists, with an example that breaks it and one that does not, as Markdown."""


class MovedBytes(Record):
    """Bytes that one run moves, each index and element counted once per read."""

    index: int
    """Of indices."""

    read: int
    """Of elements read."""

    written: int
    """Of elements written."""

    total: int
    """All of them."""


class ExplainedOperator(Record):
    """A dispatchable, a descriptor or a node, explained."""

    operator: str
    """The operator: "GATHER"."""

    lowest_level: str | None
    """The lowest feature level that takes it; none where no level does; empty where levels do not matter."""

    plan: str
    """The plan over the described layouts."""

    canonical: str
    """The plan's canonical form."""

    cpu: str
    """What runs it on the CPU."""

    cuda: str
    """What runs it on a GPU."""

    bytes_moved: MovedBytes
    """The bytes that one run moves."""

    name: str
    """Its name in the file; empty for a single descriptor."""


class UnexplainedNode(Record):
    """A node that is not explained."""

    name: str
    """Its place in the model."""

    reason: str
    """Why not."""


class Processor(Record):
    """The processor."""

    name: str
    """Its name."""

    cpus: int
    """The CPUs that the process may use."""


class NvidiaDriver(Record):
    """The NVIDIA driver."""

    cuda: str | None
    """The newest CUDA version that it supports: "13.0"."""

    error: str | None
    """Why it cannot be used."""


class DriverGpu(Record):
    """A GPU."""

    name: str
    """Its name."""

    compute_capability: str
    """Its compute capability: "9.0"."""

    memory: int
    """Its memory in bytes."""


class Gpus(Record):
    """The GPUs of the machine."""

    usable: bool
    """Whether the CUDA backend can run here."""

    devices: tuple[DriverGpu, ...]
    """The GPUs that the driver names."""


class Missing(Record):
    """Something that is missing to run on a GPU."""

    what: str
    """What it is."""

    remedy: str
    """How to get it."""


class Environment(Record):
    """What is installed, and what is missing to run on a GPU."""

    dmlgather: str
    """The version of dmlgather."""

    python: str
    """The version of Python."""

    platform: str
    """The operating system."""

    processor: Processor
    """The processor."""

    engine: str
    """The CPU engine."""

    packages: dict[str, str | None]
    """The versions of packages, none where one is not installed."""

    cupy: str | None
    """CuPy: the package and its version."""

    nvrtc: str | None
    """NVRTC: the version and the file that CuPy loads; where no GPU can be used, the package and its version."""

    driver: NvidiaDriver
    """The NVIDIA driver."""

    gpu: Gpus
    """The GPUs."""

    missing: tuple[Missing, ...]
    """What is missing to run on a GPU."""


class DifferingInputs(Record):
    """Inputs for which a program and a model differ."""

    judge: str
    """The library that ran the model, with its version."""

    output: str | None
    """The output that differs; none where one of both raises."""

    position: tuple[int, ...]
    """The place of its first element that differs."""

    values: tuple[str, str]
    """The element, or what is raised: of the program, then of the model."""

    sources: tuple[str | None, str | None]
    """The input elements that the two values are, where that is known."""

    indices: dict[str, Any]
    """The index tensors, by name, as nested arrays; none for one of more than 4,096 elements."""


class DifferenceInWords(Record):
    """What keeps a program and a model from being run on the same inputs."""

    text: str
    """In words."""


class AgreementResult(Record):
    """Whether an ONNX model does what a program does, as far as running both shows."""

    verdict: Literal["equal", "different", "not checked"]
    """What was found. Equal is no proof: it holds for the inputs that were tried."""

    judges: tuple[str, ...]
    """The libraries that ran the model, with their versions."""

    index_values: int
    """How many elements of index tensors were tried."""

    elements: int
    """How many elements of outputs were compared."""

    remarks: tuple[str, ...]
    """What limits the check."""

    difference: DifferingInputs | DifferenceInWords | None
    """In what the two differ."""

    text: str
    """The same in words."""


class ModelComparison(AgreementResult):
    """What `dmlgather compare FILE --against MODEL.onnx` found."""

    file: str
    """The file."""

    against: str
    """The ONNX model."""

    left_out: int
    """How many lines of descriptors are left out."""


class TranslatedPart(Record):
    """What became of an operator, or of the whole model."""

    name: str
    """The operator's name in the file; the file for the whole model."""

    ok: bool
    """Whether there is a translation, and it was found equal."""

    steps: tuple[str, ...]
    """What the translation does, in order; empty where nothing is to be done."""

    refused: str | None
    """Why there is no translation."""

    check: AgreementResult | None
    """Whether both do the same; none where there is no translation."""


class TranslationResult(Record):
    """What `dmlgather translate` made of a file."""

    file: str
    """The file."""

    to: str
    """The library and its version: "onnx, opset 13"."""

    left_out: int
    """How many lines of descriptors are left out."""

    parts: tuple[TranslatedPart, ...]
    """Each gather, slice, DepthToSpace and SpaceToDepth."""

    whole: TranslatedPart
    """The whole model."""

    written: str | None
    """The file that was written."""


class PrintCommand(Record):
    """What a print command shows."""

    type: Literal["print"]
    """The command."""

    resource: str
    """The name of the resource."""

    data_type: str
    """The type of its elements, as NumPy calls it."""

    values: tuple[int | float | str, ...]
    """Its elements; NaNs and infinities are text."""


class DispatchCommand(Record):
    """One dispatch."""

    type: Literal["dispatch"]
    """The command."""

    dispatchables: tuple[str, ...]
    """The name of the dispatchable, in a list of one."""

    iterations: int
    """How often it was executed."""

    cpu_ms: float
    """The median of the time until it was complete, in milliseconds."""

    gpu_ms: float | None
    """The median of the time on the GPU, in milliseconds; none elsewhere."""


class WriteCommand(Record):
    """What a writeFile command wrote."""

    type: Literal["writeFile"]
    """The command."""

    resource: str
    """The name of the resource."""

    file: str
    """The file."""


class RunResult(Record):
    """What `dmlgather run` did."""

    file: str
    """The model."""

    device: str
    """Where it ran."""

    commands: tuple[PrintCommand | DispatchCommand | WriteCommand, ...]
    """Its commands, in order."""
