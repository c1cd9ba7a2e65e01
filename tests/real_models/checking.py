"""Checks a model of the set, and judges the result by runs."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from dmlgather.directml import FeatureLevel
from dmlgather.onnx_checking.check import check_model
from dmlgather.onnx_checking.checked_model import CheckedModel, Verdict
from tests.onnx_checking.large_models import measured, write_large
from tests.real_models.counts import Counts
from tests.real_models.inputs import inputs
from tests.real_models.judging import judge
from tests.real_models.listed import ListedModel
from tests.real_models.observing import ModelRuns
from tests.real_models.stepping import session

RUNS = 4
"""Runs of each model. The first has the smallest sizes."""

LEVELS = FeatureLevel.parse("1_0"), FeatureLevel.parse("6_4")
"""The judged levels. The verdicts of the last one are counted."""


@dataclass(frozen=True)
class CheckedFile:
    """A file with its counts. wrong: contradictions with the runs, one per line."""

    opset: int
    checked: CheckedModel
    counts: Counts
    wrong: tuple[str, ...]

    def undecided(self) -> Iterator[str]:
        """The undecided nodes, with reasons."""
        for node in self.checked.nodes:
            if node.verdict is Verdict.UNKNOWN:
                why = "; ".join(
                    f"{each.code} {each.path}: {each.got}" for each in self.checked.findings if each.subject == node.place
                )
                yield f"undecided: {node.operator} {node.place}: {why}"


def check_onnx(model: ListedModel, path: Path) -> CheckedFile:
    """Return the model, checked at each level."""
    proto = onnx.load(path)
    opset = next(entry.version for entry in proto.opset_import if entry.domain in ("", "ai.onnx"))
    runs, whole, wrong = ModelRuns(proto, LEVELS), session(str(path)), []
    for number in range(RUNS):
        fed = inputs(model, proto.graph, number)
        for (output, found), expected in zip(runs.run(fed).items(), whole.run(None, fed), strict=True):
            if not _close(found, expected):
                wrong.append(f"run {number} node by node gives another {output} than the model as a whole")
    for level in LEVELS:
        checked = check_model(path, level)
        wrong += [f"problem: {problem.message}" for problem in checked.problems]
        judgement = judge(checked, level, runs)
        wrong += judgement.wrong
        refused = sum(node.verdict is Verdict.REFUSED for node in checked.nodes)
        if level == LEVELS[0]:
            refused_1_0 = refused
    ran = len(checked.nodes) - len(judgement.unseen)
    counts = Counts.of(checked, refused_1_0=refused_1_0, ran=ran, executions=runs.executions, measured=measured([path]))
    return CheckedFile(opset, checked, counts, tuple(dict.fromkeys(wrong)))


def check_generated() -> Counts:
    """Check a model of 2 GB with its weights inside. It is not run. `ci/heavy weights` measures its nodes."""
    with tempfile.TemporaryDirectory(prefix="dmlgather-large-") as folder:
        path = Path(folder, "large.onnx")
        write_large(path, 2_000_000_000)
        refused = sum(node.verdict is Verdict.REFUSED for node in check_model(path, LEVELS[0]).nodes)
        checked = check_model(path, LEVELS[-1])
        return Counts.of(checked, refused_1_0=refused, ran=0, executions=0, measured=measured([path]))


def _close(found: Any, expected: Any) -> bool:
    """Return True if outputs are equal apart from the rounding of sums in another order."""
    if found.shape != expected.shape or found.dtype != expected.dtype:
        return False
    if found.dtype.kind != "f":
        return np.array_equal(found, expected)
    return np.allclose(found, expected, 1e-3, 1e-3, equal_nan=True)
