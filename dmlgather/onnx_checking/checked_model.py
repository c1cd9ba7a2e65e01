"""The result of checking a model: its gathers and slices, each with its tensors and its verdict."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pydantic import Field

from dmlgather.directml.findings import FileProblem, LocatedFinding
from dmlgather.directml.types import FeatureLevelField
from dmlgather.onnx_checking.related_operators import Relative
from dmlgather.record import Record
from dmlgather.wording import counted

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dmlgather.dialects.problem import Problem


def left_out(value: object) -> bool:
    """Whether a field is left out of JSON: it is about a provider, and the check is not."""
    return value is None


class Verdict(enum.StrEnum):
    """Whether DirectML takes a node at the feature level of the check."""

    TAKEN = "taken"
    """DirectML takes it as `taken` says; where sizes are unknown, under the conditions in `provided`."""
    REFUSED = "refused"
    """DirectML does not take it: the node's findings of severity error say why."""
    UNKNOWN = "unknown"
    """The model does not say enough: the node's findings of severity warning say what is missing."""
    HOST = "host"
    """DirectML's caller computes it on the CPU: its result reaches only shapes, bounds and conditions."""
    UNREACHED = "unreached"
    """No run of the model reaches it."""


class Provider(enum.StrEnum):
    """A program that runs ONNX models on DirectML, and prepares their nodes in its own way."""

    ONNXRUNTIME_DIRECTML = "onnxruntime-directml"


class ProviderVerdict(enum.StrEnum):
    """What a provider does with a node."""

    FUSED = "fused"
    """It runs on DirectML, fused with its neighbours."""
    SINGLE = "single"
    """It runs on DirectML by itself, which cuts the graph."""
    ADAPTER = "adapter"
    """It runs on DirectML if the adapter has its data types, else on the CPU."""
    TYPE = "type"
    """It runs on the CPU: the provider has no kernel for its data type or version."""
    SHAPE = "shape"
    """It runs on the CPU on purpose, as part of the arithmetic of shapes."""
    FOLDED = "folded"
    """It is computed before nodes are placed: all that it reads is known."""
    FAILS = "fails"
    """The session cannot be created, or the run fails."""
    NO_KERNEL = "no kernel"
    """Nothing runs it, so that the session cannot be created."""
    DIFFERS = "differs"
    """It runs on DirectML, and gives something else than on the CPU."""
    UNCLEAR = "unclear"
    """What is known of it contradicts itself."""
    UNKNOWN = "unknown"
    """The model does not say enough."""


class Certainty(enum.StrEnum):
    """How certain it is what a provider does."""

    READ = "read"
    """It is written in the provider's source, or in its tests."""
    INFERRED = "inferred"
    """It follows from these by reasoning."""
    UNKNOWN = "unknown"
    """Only a run on Windows can tell."""


class CheckedTensor(Record):
    """One input or output of a node, as far as it is known before the model runs."""

    role: str
    """The operator's name for it: "data", "indices", "starts", "output"."""

    name: str
    """The model's name for it; empty for an attribute."""

    type: str | None
    """ONNX's name of the data type: "float", "int64"; none where it is not known."""

    shape: tuple[int | str | None, ...] | None
    """Size of each dimension: a number, a symbolic name, or none where it is not known. None where the rank is not known."""

    values: tuple[int | str, ...] | None = None
    """The values, where they determine the shape of the output and are known: numbers, or names of sizes."""


class DirectMLForm(Record):
    """How DirectML takes a node."""

    level: FeatureLevelField
    """The feature level."""

    operators: tuple[str, ...]
    """The DirectML operators, in the order in which they run: "SLICE1"."""

    types: dict[str, str] = Field({})
    """The described data type of each tensor whose type in the model differs, by role: {"indices": "UINT32"}. The caller
    converts indices; data keep their bits.
    """


class SizeMaker(Record):
    """The node that gives a size which no input of the model states."""

    place: str
    """Its place, as that of a node that is judged."""

    operator: str
    """Its operator."""

    text: str
    """What the size is: "the number of elements that NonZero 'found' finds"."""

    from_data: bool
    """Whether the size depends on data, so that only a run shows it: the node counts elements, or takes a shape or a size that
    depends on data.
    """


class SizeCondition(Record):
    """A condition on unknown sizes: that a size, or a sum of sizes, lies in a range."""

    text: str
    """The condition in words, as `provided` has it: "past + seq >= 7"."""

    size: str
    """The size: the name of a symbol as the model has it, or an expression of several: "N", "past + seq"."""

    at_least: int
    """The least that it may be."""

    at_most: int | None = None
    """The most that it may be; none where nothing limits it."""

    symbols: tuple[str, ...]
    """The names of the unknown sizes in it, as the model has them."""

    terms: dict[str, int] | None
    """By the name of each unknown size, its factor in the sum; none where the size is no such sum."""

    makers: dict[str, SizeMaker] = Field({})
    """By the name of an unknown size that no input of the model states, the node that gives it."""

    @property
    def from_data(self) -> bool:
        """Whether a size in it depends on data."""
        return any(maker.from_data for maker in self.makers.values())


class ProviderNode(Record):
    """What a provider does with a node."""

    verdict: ProviderVerdict
    """What it does, in one word."""

    text: str
    """What it does, in words, and why."""

    certainty: Certainty
    """How certain that is."""

    source: str
    """Where to look, with keys that `dmlgather rule` explains for the codes of the provider: "[ORT-PARTITION]"."""

    part: int | None = None
    """The number of the part of the graph that it belongs to on DirectML, from 1: nodes of one part are fused. None where it is
    not known to run there.
    """

    codes: tuple[str, ...] = ()
    """The codes of the node's findings that the verdict follows from."""


class ProviderSummary(Record):
    """How many nodes of a model a provider runs where."""

    provider: Provider
    """The provider."""

    text: str
    """All of it in a line."""

    directml: int
    """Nodes on DirectML."""

    parts: int
    """Parts of the graph that these are in, at least: nodes outside the family may cut it further."""

    either: int
    """Nodes that the adapter decides about."""

    converted: int = 0
    """Those of them that would be on DirectML with int32 indices, whatever the adapter."""

    cpu: int
    """Nodes on the CPU."""

    shapes: int
    """Those of them that are there on purpose, as part of the arithmetic of shapes."""

    folded: int
    """Nodes that are computed before nodes are placed."""

    fails: int
    """Nodes at which the session or the run fails."""

    differs: int
    """Nodes on DirectML that give something else than on the CPU."""

    unclear: int
    """Nodes on DirectML of which what is known contradicts itself."""

    unknown: int
    """Nodes of which the model does not say enough."""

    @classmethod
    def of(cls, provider: Provider, counts: Mapping[str, int]) -> ProviderSummary:
        """Return the summary with the text of its counts, by field."""
        return cls(**counts, provider=provider, text=_provider_text(counts))

    @classmethod
    def total(cls, summaries: Sequence[ProviderSummary]) -> ProviderSummary:
        """Return the sum of one or more summaries of a provider."""
        names = cls.model_fields.keys() - {"provider", "text"}
        return cls.of(summaries[0].provider, {name: sum(getattr(each, name) for each in summaries) for name in names})


def _provider_text(counts: Mapping[str, int]) -> str:
    """Return counts of `ProviderSummary` in a line; each node is counted once, and those in brackets are parts."""

    def part(**words: str) -> str:
        shown = ", ".join(f"{counts[name]} {text}" for name, text in words.items() if counts[name])
        return f" ({shown})" if shown else ""

    on_device = f"{counted(counts['directml'], 'node')} on DirectML{part(differs='unlike the CPU', unclear='unclear')}"
    if counts["either"]:
        converted = part(converted="always with int32 indices")
        on_device += f" and {counts['either']} where the adapter takes them{converted}"
    if counts["parts"]:
        on_device += f", in {counted(counts['parts'], 'part')} or more"
    on_cpu = f"{counts['cpu']} on the CPU{part(shapes='of shapes')}"
    rest = {"folded": "computed beforehand", "fails": "fails" if counts["fails"] == 1 else "fail", "unknown": "unknown"}
    return ", ".join([on_device, on_cpu, *(f"{counts[name]} {what}" for name, what in rest.items() if counts[name])])


class CheckedNode(Record):
    """One gather or slice in a model."""

    place: str
    """Its place, unique in its file: "If_0.then_branch/If_3.else_branch/Slice_7". It is the subject of the node's findings."""

    graph: str
    """The graph that it is in: "If_0.then_branch/If_3.else_branch", "domain:Function"; empty for the main graph."""

    name: str
    """Its name in the model; empty where it has none."""

    index: int
    """Its position in the graph, counted from 0."""

    operator: str
    """ONNX's operator: "Slice"."""

    opset: int
    """The version of the operator set."""

    version: int | None
    """The operator's version in that operator set; none where the set does not have the operator."""

    inputs: tuple[CheckedTensor, ...]
    """Its inputs, without optional inputs that it does not have."""

    attributes: dict[str, int | tuple[int, ...]] = Field({})
    """Its attributes that are known integers, or lists of them: {"axis": 1}."""

    outputs: tuple[CheckedTensor, ...]
    """Its outputs."""

    verdict: Verdict
    """Whether DirectML takes it at the feature level of the check."""

    taken: DirectMLForm | None = None
    """How DirectML takes it at that level; none unless it does."""

    lowest: DirectMLForm | None = None
    """How DirectML takes it at the lowest level that takes it; none where no level does, or it is not known."""

    missing: tuple[str, ...] = ()
    """Where the verdict is unknown: the inputs that are not known well enough: "data", "ends"."""

    provided: tuple[str, ...] = ()
    """Conditions on unknown sizes: "N >= 1", "past + seq >= 1". Otherwise a tensor would be empty, which no level takes, or a
    bound that is an unknown size would lie outside of its axis.
    """

    conditions: tuple[SizeCondition, ...] = ()
    """Those of `provided` that are about sizes, with the names of the sizes apart: a name may have any characters."""

    reason: str | None = None
    """Where the verdict is unreached: why no run of the model reaches it."""

    provider: ProviderNode | None = Field(None, exclude_if=left_out)
    """What the provider that the check is about does with it; left out without one, and where no run reaches the node or it reads
    what is not defined.
    """


@dataclass(frozen=True, eq=False)
class KnownCall:
    """What a node computes, where all its types and sizes are known. values: the inputs whose elements are known, by role."""

    problem: Problem
    values: Mapping[str, NDArray[Any]] = field(default_factory=dict)


@dataclass(frozen=True)
class CheckedModel:
    """The content of a model file, and what is wrong with it.

    opsets: the version of each operator set that it imports, by domain ("" is ONNX's own). others: the number of nodes of
    each other operator, which are not judged. relatives: those of the others that are close to the family. calls: what the nodes
    compute that are known well enough, by place. provider: what the provider does that the check is about.
    """

    file: str
    opsets: dict[str, int] = field(default_factory=dict)
    nodes: tuple[CheckedNode, ...] = ()
    others: dict[str, int] = field(default_factory=dict)
    findings: tuple[LocatedFinding, ...] = ()
    problems: tuple[FileProblem, ...] = ()
    relatives: tuple[Relative, ...] = ()
    calls: dict[str, KnownCall] = field(default_factory=dict)
    provider: ProviderSummary | None = None
