"""What a model states of a tensor, where that contradicts what follows from the inputs of the node that gives it."""

from __future__ import annotations

from dataclasses import dataclass

from dmlgather.onnx.problems.partial_types import PartialType


@dataclass(frozen=True, slots=True)
class Contradiction:
    """Two types of one tensor.

    place: of the node that gives it. graph: the path of the graph around it. tensor: its name. operator: of the node, with its
    domain. stated: the type in the model's value_info or outputs. follows: the type by the node's inputs. kept: the type that
    onnxruntime goes on with once it has merged both.
    """

    place: str
    graph: str
    tensor: str
    operator: str
    stated: PartialType
    follows: PartialType
    kept: PartialType
