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
from dmlgather.record import Record, is_none
from dmlgather.wording import counted

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dmlgather.dialects.problem import Problem


class Verdict(enum.StrEnum):
    """DirectML's verdict on a node, at the feature level of the check."""

    TAKEN = "taken"
    """DirectML can run the node, with the operators in `taken`. If sizes are unknown, `provided` has the conditions."""
    REFUSED = "refused"
    """DirectML cannot run the node. The node's findings of severity error say why."""
    UNKNOWN = "unknown"
    """Facts about the node are missing. Its findings of severity warning name them."""
    HOST = "host"
    """A shape computation. Only shapes, bounds and conditions use its result, so DirectML's caller computes it on the CPU."""
    UNREACHED = "unreached"
    """No run of the model reaches the node."""


class Provider(enum.StrEnum):
    """A program that runs ONNX models on DirectML. It has its own rules for nodes."""

    ONNXRUNTIME_DIRECTML = "onnxruntime-directml"


class ProviderVerdict(enum.StrEnum):
    """The provider's treatment of a node."""

    FUSED = "fused"
    """The node runs on DirectML, fused with its neighbours."""
    SINGLE = "single"
    """The node runs on DirectML without fusion, and splits the graph."""
    ADAPTER = "adapter"
    """The node runs on DirectML if the adapter supports its data types, else on the CPU."""
    TYPE = "type"
    """The node runs on the CPU, because the provider has no kernel for its data type or version."""
    SHAPE = "shape"
    """The node runs on the CPU on purpose, as part of a shape computation."""
    FOLDED = "folded"
    """The node is constant-folded before nodes are placed."""
    FAILS = "fails"
    """The session cannot be created, or the run fails."""
    NO_KERNEL = "no kernel"
    """No provider has a kernel for the node, so the session cannot be created."""
    DIFFERS = "differs"
    """The node runs on DirectML, and the result differs from the CPU's."""
    UNCLEAR = "unclear"
    """The sources about the node contradict each other."""
    UNKNOWN = "unknown"
    """Facts about the node are missing in the model."""


class Certainty(enum.StrEnum):
    """The certainty of a provider's verdict."""

    READ = "read"
    """The provider's source, or one of its tests, states the verdict."""
    INFERRED = "inferred"
    """The verdict is concluded from the source."""
    UNKNOWN = "unknown"
    """Only a run on Windows would show whether the verdict is right."""


class CheckedTensor(Record):
    """One input or output of a node, with the facts that are known before the model runs."""

    role: str
    """The operator's name for it: "data", "indices", "starts", "output"."""

    name: str
    """The model's name for it; empty for an attribute."""

    type: str | None
    """ONNX's name of the data type: "float", "int64". None if it is not known."""

    shape: tuple[int | str | None, ...] | None
    """Size of each dimension: a number, a symbolic name, or None if it is not known. None if the rank is not known."""

    values: tuple[int | str, ...] | None = None
    """The known elements of a tensor that determines the output's shape: numbers, or names of sizes."""


class DirectMLForm(Record):
    """DirectML's operators for a node."""

    level: FeatureLevelField
    """The feature level."""

    operators: tuple[str, ...]
    """The DirectML operators, in execution order: "SLICE1"."""

    types: dict[str, str] = Field({})
    """The data types in the descriptors that differ from those in the model, by role: {"indices": "UINT32"}. The caller
    converts indices; the bits of data are kept.
    """


class SizeMaker(Record):
    """The node that makes a size. The node's output has this size, but no input of the model has it."""

    place: str
    """Its place, in the form of `CheckedNode.place`."""

    operator: str
    """Its operator."""

    text: str
    """The meaning of the size: "the number of elements that NonZero 'found' finds"."""

    from_data: bool
    """True if the size depends on data, so only a run shows it. The node counts elements, or reads a shape or a size that
    depends on data.
    """


class SizeCondition(Record):
    """A condition on unknown sizes: a size, or a sum of sizes, must lie in a range."""

    text: str
    """The condition in words, as in `provided`: "past + seq >= 7"."""

    size: str
    """The size: a symbol's name in the model, or an expression of several symbols: "N", "past + seq"."""

    at_least: int
    """Its minimum."""

    at_most: int | None = None
    """Its maximum. None if it has no upper limit."""

    symbols: tuple[str, ...]
    """The model's names of the unknown sizes in it."""

    terms: dict[str, int] | None
    """The factor of each unknown size in the sum, by name. None if the size is not a linear sum."""

    makers: dict[str, SizeMaker] = Field({})
    """The nodes that make unknown sizes, by name of the size. Sizes of the model's inputs are left out."""

    @property
    def from_data(self) -> bool:
        """Return True if a size in it depends on data."""
        return any(maker.from_data for maker in self.makers.values())


class ProviderNode(Record):
    """A provider's treatment of a node."""

    verdict: ProviderVerdict
    """The treatment in one word."""

    text: str
    """The treatment in words, with its reason."""

    certainty: Certainty
    """The certainty of the verdict."""

    source: str
    """Keys of the sources: "[ORT-PARTITION]". `dmlgather rule` explains them for the provider's codes."""

    part: int | None = None
    """The number, from 1, of its part of the graph on DirectML. Nodes of one part are fused. None if the node is not known to
    run on DirectML.
    """

    codes: tuple[str, ...] = ()
    """The codes of the findings that decide the verdict."""

    sometimes: bool = False
    """True if the verdict is `fails` or `differs` for some sizes only."""


class ProviderSummary(Record):
    """Counts of a model's nodes by the provider's treatment."""

    provider: Provider
    """The provider."""

    text: str
    """The counts as one line."""

    directml: int
    """Nodes on DirectML."""

    parts: int
    """The minimum number of graph parts on DirectML. Other nodes than gathers and slices may split the graph further."""

    either: int
    """Nodes whose device depends on the adapter."""

    converted: int = 0
    """The nodes among `either` that every adapter would run on DirectML if their indices were int32."""

    cpu: int
    """Nodes on the CPU."""

    shapes: int
    """Nodes on the CPU on purpose, as part of shape computations. `cpu` counts them too."""

    folded: int
    """Nodes that are constant-folded before nodes are placed."""

    fails: int
    """Nodes that make the session's creation, or the run, fail."""

    sometimes: int = 0
    """The nodes among `fails` that make only some runs fail."""

    unloaded: int = 0
    """The nodes among `fails` whose model onnxruntime refuses to load."""

    differs: int
    """Nodes on DirectML whose results differ from the CPU's."""

    unclear: int
    """Nodes on DirectML on which the sources contradict each other."""

    unknown: int
    """Nodes about which facts are missing in the model."""

    @classmethod
    def of(cls, provider: Provider, counts: Mapping[str, int]) -> ProviderSummary:
        """Return the summary, including its text. `counts`: the counts by name of the field."""
        return cls(**counts, provider=provider, text=_provider_text(counts))

    @classmethod
    def total(cls, summaries: Sequence[ProviderSummary]) -> ProviderSummary:
        """Return the sum of one or more summaries of a provider."""
        names = cls.model_fields.keys() - {"provider", "text"}
        return cls.of(summaries[0].provider, {name: sum(getattr(each, name) for each in summaries) for name in names})


def _provider_text(counts: Mapping[str, int]) -> str:
    """Return the counts of a `ProviderSummary` as one line. A count in brackets is a part of the count before it."""

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
    sometimes, unloaded = counts["sometimes"], counts["unloaded"]
    always = counts["fails"] - sometimes - unloaded
    rest = (
        (counts["folded"], "computed beforehand"),
        (unloaded, f"{_fail(unloaded)} because the model does not load"),
        (always, _fail(always)),
        (sometimes, f"{_fail(sometimes)} in some runs"),
        (counts["unknown"], "unknown"),
    )
    return ", ".join([on_device, on_cpu, *(f"{count} {what}" for count, what in rest if count)])


def _fail(count: int) -> str:
    return "fails" if count == 1 else "fail"


class CheckedNode(Record):
    """One gather or slice in a model."""

    place: str
    """Its place, unique in the file: "If_0.then_branch/If_3.else_branch/Slice_7". The node's findings have it as subject."""

    graph: str
    """The path of its graph: "If_0.then_branch/If_3.else_branch", "domain:Function". Empty for the main graph."""

    name: str
    """Its name in the model. Empty if it has none."""

    index: int
    """Its position in the graph, from 0."""

    operator: str
    """ONNX's operator: "Slice"."""

    opset: int
    """The version of the operator set."""

    version: int | None
    """The operator's version in the operator set. None if the operator set does not have the operator."""

    inputs: tuple[CheckedTensor, ...]
    """Its inputs, without omitted optional inputs."""

    attributes: dict[str, int | tuple[int, ...]] = Field({})
    """Its attributes with a known integer, or a list of integers: {"axis": 1}."""

    outputs: tuple[CheckedTensor, ...]
    """Its outputs."""

    verdict: Verdict
    """DirectML's verdict at the feature level of the check."""

    taken: DirectMLForm | None = None
    """DirectML's operators for it at that level. None if DirectML does not take it."""

    lowest: DirectMLForm | None = None
    """DirectML's operators for it at the lowest possible level. None if no level takes it, or it is not known."""

    missing: tuple[str, ...] = ()
    """For the verdict `unknown`: the inputs that are not known well enough: "data", "ends"."""

    provided: tuple[str, ...] = ()
    """Conditions on unknown sizes: "N >= 1", "past + seq >= 1". For other sizes, a tensor is empty, which no level takes, or an
    unknown bound lies outside its axis.
    """

    conditions: tuple[SizeCondition, ...] = ()
    """The conditions in `provided` as data. The names of sizes are separate, because a name may have any characters."""

    reason: str | None = None
    """For the verdict `unreached`: why no run of the model reaches the node."""

    provider: ProviderNode | None = Field(None, exclude_if=is_none)
    """The treatment by the provider of the check. Left out without a provider, and for a node that no run reaches."""


@dataclass(frozen=True, eq=False)
class KnownCall:
    """A node with known types and sizes, as a problem. `values`: the inputs with known elements, by role."""

    problem: Problem
    values: Mapping[str, NDArray[Any]] = field(default_factory=dict)


@dataclass(frozen=True)
class CheckedModel:
    """The content of a model file, with findings. `opsets`: the imported version of each operator set, by domain ("" is ONNX's
    own). `others`: the number of nodes of each operator whose nodes are not judged. `relatives`: related operators among
    `others`. `calls`: nodes with known types and sizes as problems, by place. `symbols`: the unknown sizes of each node, by
    place. `provider`: the summary for the provider of the check.
    """

    file: str
    opsets: dict[str, int] = field(default_factory=dict)
    nodes: tuple[CheckedNode, ...] = ()
    others: dict[str, int] = field(default_factory=dict)
    findings: tuple[LocatedFinding, ...] = ()
    problems: tuple[FileProblem, ...] = ()
    relatives: tuple[Relative, ...] = ()
    calls: dict[str, KnownCall] = field(default_factory=dict)
    symbols: dict[str, tuple[str, ...]] = field(default_factory=dict)
    provider: ProviderSummary | None = None
