"""The result of checking a model of any dialect: its gathers and slices, each with its tensors and its verdict."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass, field

from pydantic import Field

from dmlgather.directml.located import LocatedFinding, Problem
from dmlgather.directml.types import FeatureLevelField
from dmlgather.record import Record
from dmlgather.wording import printable


class Verdict(enum.StrEnum):
    """Whether DirectML takes a node at the level that was checked for."""

    TAKEN = "taken"
    """It does, as its `taken` says; where sizes are not known, under the conditions in `provided`."""
    REFUSED = "refused"
    """It does not: the node's findings of severity error say why."""
    UNKNOWN = "unknown"
    """The model does not say enough: the node's findings of severity warning say what is missing."""


@dataclass(frozen=True, slots=True)
class Unknown:
    """Why a value is not known before the model runs: "an input of the graph"."""

    reason: str


def typed(data_type: str | None, shape: Sequence[int | str | None] | None) -> str:
    """A data type with its sizes: "f32[2,?]", "?[...]" where neither type nor rank is known."""
    sizes = "..." if shape is None else ",".join("?" if size is None else printable(str(size)) for size in shape)
    return f"{data_type or '?'}[{sizes}]"


class CheckedTensor(Record):
    """One input or output of a node, as far as it is known before the model runs."""

    role: str
    """What the operator calls it: "data", "indices", "starts", "output"."""

    name: str
    """What the model calls it; empty for an attribute."""

    type: str | None
    """The data type, by the dialect's own name: "float", "int64"; none where it is not known."""

    shape: tuple[int | str | None, ...] | None
    """Size of each dimension: a number, a symbolic name, or none where it is not known. None where the rank is not known."""

    values: tuple[int, ...] | None = None
    """The values, where they decide the shape of the result and are known."""


class DirectMLForm(Record):
    """How DirectML takes a node."""

    level: FeatureLevelField
    """The feature level."""

    operators: tuple[str, ...]
    """The DirectML operators that do it, in the order in which they run: "SLICE1"."""

    types: dict[str, str] = Field({})
    """Tensors that are described with another data type than the model gives them, by role: {"indices": "UINT32"}. Indices are
    converted by the caller; data keep their bits.
    """


class CheckedNode(Record):
    """One node of the family in a model."""

    place: str
    """Where it is, unique in its file: "If_0.then_branch/If_3.else_branch/Slice_7". Findings have it as their subject."""

    graph: str
    """The graph around it: "If_0.then_branch/If_3.else_branch", "domain:Function"; empty for the main graph."""

    name: str
    """Its name in the model; empty where it has none."""

    index: int
    """Its position in the graph, counted from 0."""

    operator: str
    """The dialect's operator: "Slice"."""

    opset: int
    """The opset in force."""

    version: int | None
    """The operator's version in force there; none where that opset does not have the operator."""

    inputs: tuple[CheckedTensor, ...]
    """Its inputs, without those that are left out."""

    attributes: dict[str, int] = Field({})
    """Its attributes that are one integer, where they are stated and known: {"axis": 1}."""

    outputs: tuple[CheckedTensor, ...]
    """Its outputs."""

    verdict: Verdict
    """Whether DirectML takes it at the level that was checked for."""

    taken: DirectMLForm | None = None
    """How DirectML takes it at that level; none unless it does."""

    lowest: DirectMLForm | None = None
    """The lowest feature level that takes it, and how; none where no level does, or it is not known."""

    missing: tuple[str, ...] = ()
    """What is not known and would have to be, where that is the verdict: "data", "ends"."""

    provided: tuple[str, ...] = ()
    """Conditions on sizes that are not known: "N >= 1". Outside them a tensor would be empty, and no level takes that."""


@dataclass(frozen=True)
class CheckedModel:
    """What a model file holds and what is wrong with it.

    foreign: whether it is a file of another sort, as its problem says. format: the version of its format, where it has one.
    opsets: the version of each operator set that it imports, by domain ("" is the dialect's own). others: how many nodes there
    are of each operator outside the family, which are not judged.
    """

    file: str
    opsets: dict[str, int] = field(default_factory=dict)
    nodes: tuple[CheckedNode, ...] = ()
    others: dict[str, int] = field(default_factory=dict)
    findings: tuple[LocatedFinding, ...] = ()
    problems: tuple[Problem, ...] = ()
    foreign: bool = False
    format: int | None = None
