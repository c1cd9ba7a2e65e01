"""What `check` says of a random model that states a type wrongly, judged by what was changed and by onnxruntime."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from onnx import ModelProto

from dmlgather.directml.findings import LocatedFinding
from dmlgather.onnx.problems.partial_types import PartialType
from dmlgather.onnx_checking.following.model_nodes import find_nodes
from dmlgather.onnx_checking.reading.file import read_model
from tests.onnx_checking.modelling import checked
from tests.onnx_checking.sessions import ALL, OFF, REFUSALS, session
from tests.onnx_checking.stated_models import Change, StatedModel, changed, random_stated

CODES: Mapping[str, tuple[str, ...]] = {
    "type": ("EXP307", "EXP306"),
    "rank": ("EXP306", "EXP307"),
    "size": ("EXP306", "EXP307", "EXP308"),
    "number": ("EXP308", "EXP306", "EXP307"),
}
"""The codes of a statement that was changed so: an error if onnxruntime refuses the model, and reads that statement.

A size that is the same number in all runs may follow as an expression.
"""

REFUSES, RUNS = "onnxruntime refuses to load the model", "computes the right one"
"""What a finding says of onnxruntime, if it is sure whether the model runs."""


def judged(folder: Path, seed: int) -> tuple[str, str | None]:
    """What was changed in a model, and what is wrong about the findings: "none" where it states nothing of the kind, and "true"
    where something is found although nothing was changed.
    """
    rng = random.Random(seed)
    model = random_stated(rng)
    if findings := found(folder, model.proto):
        return "true", f"it states nothing wrong: {_said(findings)}"
    session(model.proto, OFF)
    kind = rng.choice(tuple(CODES))
    made = changed(rng, model, kind)
    if made is None:
        return "none", None
    proto, change = made
    wrong = next(_faults(folder, model, proto, change), None)
    return kind, None if wrong is None else f"{change}: {wrong}"


def found(folder: Path, model: ModelProto) -> list[LocatedFinding]:
    """The findings about what a model states of its values."""
    return [finding for finding in checked(folder, model).findings if finding.code in ("EXP306", "EXP307", "EXP308")]


def _faults(folder: Path, model: StatedModel, proto: ModelProto, change: Change) -> Iterator[str]:
    findings = found(folder, proto)
    if [finding for finding in findings if not finding.expected.startswith(f"{change.tensor!r} of type ")] or len(findings) != 1:
        yield f"found {_said(findings)}"
        return
    (finding,) = findings
    if finding.code not in CODES[change.kind]:
        yield f"has code {finding.code}"
    loads, reason = True, ""
    try:
        session(proto, OFF)
    except REFUSALS as error:
        loads, reason = False, str(error)
    if loads if REFUSES in finding.got else not loads and RUNS in finding.got:
        yield f"onnxruntime {'loads it' if loads else reason!r}, unlike {finding.got!r}"
    if loads and change.where == "graph":
        (contradiction,) = find_nodes(read_model(folder / "model.onnx")).contradictions
        yield from _kept(model, proto, change.tensor, contradiction.runtime)


def _kept(model: StatedModel, proto: ModelProto, tensor: str, kept: PartialType) -> Iterator[str]:
    """How the wrong sizes that are said to stay differ from those in onnxruntime's graph.

    It merges types again after each change that it makes to the graph, which mends some: those that stay when it optimises are
    among those that are said to stay, and these among those that stay when it does not.
    """
    shown = ModelProto()
    shown.CopyFrom(proto)
    if tensor not in (value.name for value in shown.graph.output):
        (value,) = (value for value in shown.graph.value_info if value.name == tensor)
        shown.graph.output.append(value)
        shown.graph.value_info.remove(value)
    said = _wrong(model, tensor, kept.shape)
    least, most = (_wrong(model, tensor, _shape_in_runtime(shown, tensor, level)) for level in (ALL, OFF))
    if not least <= said <= most:
        yield f"kept {kept} with the wrong sizes {sorted(said)}, unlike onnxruntime's {sorted(least)} to {sorted(most)}"


def _shape_in_runtime(model: ModelProto, tensor: str, level: Any) -> Any:
    """The shape of an output in onnxruntime's graph; none where a wrong size makes it give up as it optimises."""
    try:
        found = session(model, level)
    except REFUSALS:
        assert level == ALL
        return None
    return next(each.shape for each in found.get_outputs() if each.name == tensor)


def _wrong(model: StatedModel, tensor: str, shape: Any) -> set[tuple[int, int]]:
    """The numbers in a shape, with their places, that are not those of every run."""
    shapes = model.seen[tensor].shapes
    if len(shape or ()) != len(shapes[0]):
        return {(len(shape), -1)} if shape else set()  # onnxruntime gives a tensor of unknown shape the shape ()
    numbers = ((at, size) for at, size in enumerate(shape or ()) if isinstance(size, int))
    return {(at, size) for at, size in numbers if {each[at] for each in shapes} != {size}}


def _said(findings: list[LocatedFinding]) -> str:
    return "; ".join(f"{each.code} at {each.subject}: {each.expected}, not {each.got}" for each in findings) or "nothing"
