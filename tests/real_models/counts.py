"""The committed counts (`counts.json`), which `ci/heavy models` makes, compares and writes."""

from __future__ import annotations

import platform
from collections import Counter
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from pathlib import Path

from dmlgather.onnx_checking.checked_model import CheckedModel, Verdict
from dmlgather.record import Record
from tests.onnx_checking.large_models import Measured

GENERATED = "a generated model of 2 GB"

RECORD = Path(__file__).with_name("counts.json")
REMEDY = "if that is right, run `ci/heavy models --record`"


class Counts(Record):
    """The verdicts of a file at feature level 6_4, and the extent of their judgement."""

    nodes: int
    """Nodes of the family."""

    decided: int
    """Accepted or refused nodes."""

    conditional: int
    """Conditionally accepted nodes."""

    host: int
    unreached: int
    undecided: int
    refused: int

    refused_1_0: int
    """Refused at level 1_0."""

    ran: int
    """Nodes that ran, and so were judged."""

    executions: int
    """Runs of plans and of descriptors whose output was compared bit for bit."""

    seconds: float
    """CPU seconds of `dmlgather check`."""

    mb: int
    """Memory of `dmlgather check`: the sum of its processes' peaks."""

    @classmethod
    def of(cls, checked: CheckedModel, *, refused_1_0: int, ran: int, executions: int, measured: Measured) -> Counts:
        """Return the counts of a file that was checked at 6_4."""
        verdicts = Counter(node.verdict for node in checked.nodes)
        return cls(
            nodes=len(checked.nodes),
            decided=verdicts[Verdict.TAKEN] + verdicts[Verdict.REFUSED],
            conditional=sum(bool(node.provided) for node in checked.nodes if node.verdict is Verdict.TAKEN),
            host=verdicts[Verdict.HOST],
            unreached=verdicts[Verdict.UNREACHED],
            undecided=verdicts[Verdict.UNKNOWN],
            refused=verdicts[Verdict.REFUSED],
            refused_1_0=refused_1_0,
            ran=ran,
            executions=executions,
            seconds=round(measured.busy, 1),
            mb=round(measured.memory / 10**6),
        )


class ModelRow(Record):
    """A model of the set."""

    version: str
    """The package's version. Empty for the generated model."""

    opset: int
    counts: Counts


class CountsRecord(Record):
    """The committed counts."""

    machine: str
    versions: dict[str, str]
    models: dict[str, ModelRow]


def recorded() -> CountsRecord:
    """Return the committed counts."""
    return CountsRecord.model_validate_json(RECORD.read_bytes())


def record_of(models: Mapping[str, ModelRow]) -> CountsRecord:
    """Return the counts of models with the machine and the versions used."""
    versions = {name: version(name) for name in ("onnx", "onnxruntime")}
    return CountsRecord(
        machine=f"{platform.system()} {platform.machine()}, Python {platform.python_version()}",
        versions=versions,
        models=dict(models),
    )


def differences(now: Mapping[str, ModelRow], then: Mapping[str, ModelRow]) -> Iterator[str]:
    """Yield the differences from the committed counts, for the models of `now`."""
    for name, row in now.items():
        if name not in then:
            yield f"{name}: not recorded; {REMEDY}"
            continue
        old = _verdicts(then[name].counts)
        for what, new in _verdicts(row.counts).items():
            if new != old[what]:
                yield f"{name}: {what} is {new}, recorded is {old[what]}; {REMEDY}"


def _verdicts(counts: Counts) -> dict[str, int]:
    """Return the counts that must not change: all except time and memory."""
    return counts.model_dump(exclude={"seconds", "mb"})
