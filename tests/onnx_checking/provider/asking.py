"""What a check says that is about onnxruntime's DirectML provider."""

from __future__ import annotations

from pathlib import Path

import onnx

from dmlgather.onnx_checking.check import check_model
from dmlgather.onnx_checking.checked_model import CheckedModel, Provider, ProviderNode, ProviderSummary
from tests.onnx_checking.modelling import saved


def asked(folder: Path, model: str | onnx.ModelProto) -> CheckedModel:
    """The check of a model, which goes through a file in `folder`."""
    found = check_model(saved(folder, model), provider=Provider.ONNXRUNTIME_DIRECTML)
    assert not found.problems
    return found


def nodes_of(model: CheckedModel) -> dict[str, ProviderNode]:
    """What the provider does with the nodes, by place."""
    return {node.place: node.provider for node in model.nodes if node.provider is not None}


def only(model: CheckedModel) -> ProviderNode:
    """What the provider does with the only node."""
    (node,) = nodes_of(model).values()
    return node


def summary(model: CheckedModel) -> ProviderSummary:
    """How many nodes it runs where."""
    assert model.provider is not None
    return model.provider


def codes(model: CheckedModel) -> set[str]:
    """The codes of the findings about the provider."""
    return {finding.code for finding in model.findings if finding.code.startswith("ORT")}
