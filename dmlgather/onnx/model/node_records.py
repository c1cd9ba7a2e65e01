"""What a report says of a node: its place, inputs and outputs as far as they are known, and its verdict."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from dmlgather.dialects.checked_model import CheckedNode, CheckedTensor, Verdict
from dmlgather.dialects.verdicts import Judged
from dmlgather.onnx.model.walking import NodeSite, NodeValue
from dmlgather.onnx.problems.nodes import BOUNDS, INPUTS
from dmlgather.onnx.problems.operators import version_of


def described(site: NodeSite, judged: Judged) -> CheckedNode:
    """The node with what is known of it and its verdict."""
    try:
        version = version_of(site.node.op_type, site.opset).since
    except ValueError:
        version = None
    return CheckedNode(
        place=site.place,
        graph=site.graph,
        name=site.node.name,
        index=site.index,
        operator=site.node.op_type,
        opset=site.opset,
        version=version,
        inputs=tuple(_inputs(site)),
        attributes=integers(site),
        outputs=tuple(_tensor("output", given) for given in site.outputs),
        verdict=judged.verdict,
        taken=judged.taken,
        lowest=judged.lowest,
        missing=tuple(finding.path for finding in judged.findings) if judged.verdict is Verdict.UNKNOWN else (),
        provided=judged.provided,
    )


def _inputs(site: NodeSite) -> Iterator[CheckedTensor]:
    roles = INPUTS[site.node.op_type]
    for number, given in enumerate(site.inputs):
        if given.name:
            yield _tensor(roles[number] if number < len(roles) else f"input {number}", given)
    for attribute in site.node.attribute:
        if attribute.name in BOUNDS and not attribute.ref_attr_name:
            values = tuple(attribute.ints)
            yield CheckedTensor(role=attribute.name, name="", type="int64", shape=(len(values),), values=values)


def _tensor(role: str, given: NodeValue) -> CheckedTensor:
    known = role in BOUNDS and isinstance(given.value, np.ndarray) and given.value.dtype.kind in "iu"
    values = tuple(int(value) for value in given.value.reshape(-1)) if known and isinstance(given.value, np.ndarray) else None
    return CheckedTensor(role=role, name=given.name, type=given.type.name, shape=given.type.shape, values=values)


def integers(site: NodeSite) -> dict[str, int]:
    """The attributes that are one integer."""
    return {
        attribute.name: attribute.i
        for attribute in site.node.attribute
        if attribute.HasField("i") and not attribute.ref_attr_name
    }
