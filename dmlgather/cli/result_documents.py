"""What `run`, `equivalent` and `translate` print as JSON; as documents.py."""

from __future__ import annotations

from typing import Any, Literal

from dmlgather.record import Record


class ExampleArray(Record):
    """An array."""

    dtype: str
    """Its data type."""

    shape: tuple[int, ...]
    """Its shape."""

    elements: Any
    """Its elements, as nested arrays; text where JSON has no number for them."""


class CounterexampleInputs(Record):
    """Inputs for which two programs differ."""

    inputs: dict[str, ExampleArray]
    """The inputs, by name."""

    output: str
    """The output that differs."""

    position: tuple[int, ...]
    """The place of its first element that differs."""

    values: tuple[str | None, ...]
    """The element of each program; none for one that raises."""

    sources: tuple[str, ...]
    """Where each value comes from."""

    errors: tuple[str | None, ...]
    """What each program raises."""


class EquivalenceResult(Record):
    """Whether two programs index alike."""

    verdict: Literal["proven", "different", "not proven"]
    """The verdict."""

    given: Literal["any", "valid"]
    """For which inputs: any, or those for which no index of the first program is out of range."""

    reason: str
    """Why it is not proven, or in what the programs differ; of a proof, what was compared for fewer values."""

    step: str
    """The first step that stops the proof; empty where there is none."""

    assumptions: tuple[str, ...]
    """What the proof takes for granted of operators that two libraries share."""

    counterexample: CounterexampleInputs | None
    """Inputs for which they differ."""

    left_out: int = 0
    """Of two files: how many lines of descriptors are left out."""


class TranslatedPart(Record):
    """What became of an operator, or of the whole model."""

    name: str
    """The operator's name in the file; the file for the whole model."""

    ok: bool
    """Whether there is a translation, and it is proven."""

    steps: tuple[str, ...]
    """What the translation does, in order; empty where nothing is to be done."""

    refused: str | None
    """Why there is no translation."""

    proof: EquivalenceResult | None
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

    not_kept: tuple[str, ...]
    """What the file that was written lacks of the model."""


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
