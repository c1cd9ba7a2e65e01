"""What commands print as JSON, where no other module has a class for it: `dmlgather schema` describes it by these.

Tests compare what the commands print with the schemas.
"""

from __future__ import annotations

from typing import Literal

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


class Explained(Record):
    """How an operator runs."""

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


class ExplainedOperator(Explained):
    """A dispatchable, a descriptor or a node, explained."""

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
    """NVRTC: the package and its version."""

    driver: NvidiaDriver
    """The NVIDIA driver."""

    gpu: Gpus
    """The GPUs."""

    missing: tuple[Missing, ...]
    """What is missing to run on a GPU."""
