"""ci/heavy optimised [--record] [TEXT…]: prove that the models index alike before and after onnxruntime's optimisations.

Three forms of each model: level basic without the optimisers that compute floating-point results in another way, level basic, and
level extended. TEXT: only models whose name, "PACKAGE/FILE", contains one of these texts. --record: write optimised.json anew.
Exit code 1: a form is called different, which it is not, or a verdict is not the recorded one; 2: a wheel cannot be fetched.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import onnx
from pydantic import TypeAdapter

import dmlgather as dg
from tests.onnx.optimising import REWRITING, graph_of, optimised
from tests.real_models.inputs import inputs
from tests.real_models.listed import ListedModel, fetched

RECORD = Path(__file__).with_name("optimised.json")

FORMS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "basic, same arithmetic": ("basic", REWRITING),
    "basic": ("basic", ()),
    "extended": ("extended", ()),
}
"""The level of each form, and the optimisers that it leaves out."""

Verdicts = dict[str, str]
"""The verdict of each form, with the step that stops a proof; "no graph" where sizes follow only when the model runs."""


def main(argv: list[str]) -> int:
    """The exit code."""
    parser = argparse.ArgumentParser(
        prog="ci/heavy optimised", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("texts", nargs="*", metavar="TEXT")
    parser.add_argument("--record", action="store_true")
    options = parser.parse_args(argv)
    known = TypeAdapter(dict[str, Verdicts])
    recorded = known.validate_json(RECORD.read_bytes()) if RECORD.exists() else {}
    found: dict[str, Verdicts] = {}
    for package, model in fetched(options.texts, "ci/heavy optimised"):
        name = package.name_of(model)
        found[name] = verdicts(model, package.path(model.member))
        print(f"{name}: {'; '.join(f'{form}: {verdict}' for form, verdict in found[name].items())}", flush=True)
    if options.record:
        RECORD.write_bytes(known.dump_json(recorded | found, indent=1) + b"\n")
    for form in FORMS:
        counts = Counter(row[form].partition(":")[0] for row in found.values())
        print(f"{form}: {', '.join(f'{count} {verdict}' for verdict, count in counts.most_common())}")
    changed = [] if options.record else [name for name, row in found.items() if row != recorded.get(name)]
    wrong = [name for name, row in found.items() if any(verdict.startswith("different") for verdict in row.values())]
    for name in changed:
        print(f"{name}: recorded was {recorded.get(name)}")
    return 1 if changed or wrong else 0


def verdicts(model: ListedModel, path: Path) -> Verdicts:
    """The verdict of each form of a model."""
    proto = onnx.load(path)
    feeds = inputs(model, proto.graph, 1)
    try:
        graph = graph_of(proto, feeds)
    except ValueError:
        return dict.fromkeys(FORMS, "no graph")
    found = {}
    for form, (level, without) in FORMS.items():
        try:
            other = graph_of(optimised(proto, feeds, level, without), feeds)
        except ValueError:
            found[form] = "no graph"
            continue
        result = dg.equivalent(graph, other)
        found[form] = f"{result.verdict}: {result.step}" if result.step else result.verdict
    return found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
