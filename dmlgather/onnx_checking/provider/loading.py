"""Models that onnxruntime refuses to load. Source: runs of onnxruntime 1.24.4 and 1.32.0 with the CPU provider."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from dmlgather.directml import Finding
from dmlgather.onnx.problems.operator_versions import NEWEST_IR_VERSION, NEWEST_OPSET
from dmlgather.onnx_checking.following.model_nodes import ModelContents
from dmlgather.onnx_checking.following.scopes import LATER_IN_MAIN
from dmlgather.onnx_checking.provider.codes import CODES
from dmlgather.wording import printable

WHEEL = "onnxruntime-directml 1.24.4, the last wheel,"
WHEEL_OPSET, WHEEL_IR_VERSION = 25, 13
"""The newest versions that the provider's last wheel loads."""


class Refusal(NamedTuple):
    """Why onnxruntime refuses to load a model. `code`: of the finding about it."""

    code: str
    reason: str


def refusal_of(contents: ModelContents) -> Refusal | None:
    """Return the first reason why onnxruntime refuses to load a model; None if none is known."""
    return next(_refusals(contents), None)


def _refusals(contents: ModelContents) -> Iterator[Refusal]:
    if contents.ir_version > NEWEST_IR_VERSION:
        yield Refusal("EXP310", f"ir_version is {contents.ir_version}")
    if (opset := contents.opsets.get("", 0)) > NEWEST_OPSET:
        yield Refusal("EXP309", f"the opset is {opset}")
    for graph in contents.repeated_names:
        if graph.called:
            yield Refusal("EXP311", f"several nodes have the name {printable(next(iter(graph.names)))!r}")
    for each in contents.undefined:
        if each.called and each.reason != LATER_IN_MAIN:  # onnxruntime sorts the nodes of the main graph
            yield Refusal("EXP304", f"{printable(each.name)!r} is {each.reason}")
    for contradiction in contents.contradictions:
        if contradiction.refused:
            name = printable(contradiction.tensor)
            yield Refusal("EXP307", f"the model states a wrong type of {name!r}")
    for place, *_ in contents.malformed:
        yield Refusal("EXP101", f"ONNX refuses the node {printable(place)!r}")


def wheel_findings(contents: ModelContents) -> Iterator[Finding]:
    """Yield a finding for each version of the model that the provider's last wheel does not load."""
    for path, version, newest, known in (
        ("opset_import", contents.opsets.get("", 0), WHEEL_OPSET, NEWEST_OPSET),
        ("ir_version", contents.ir_version, WHEEL_IR_VERSION, NEWEST_IR_VERSION),
    ):
        if newest < version <= known:
            yield CODES["ORT111"].finding(
                path,
                expected=f"at most {newest}",
                got=f"{version}, with which {WHEEL} refuses to load the model",
                remedy="export the model with an older version",
            )
