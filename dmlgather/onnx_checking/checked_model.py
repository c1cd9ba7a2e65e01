"""The result of `check_model`: the nodes of a model, with verdicts."""

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
    """DirectML can run the node, with the operators in `CheckedNode.taken`. If sizes are unknown, this holds under the
    conditions in `provided`.
    """
    REFUSED = "refused"
    """DirectML cannot run the node. The node's findings of severity error say why."""
    UNKNOWN = "unknown"
    """Facts about the node are missing. Its findings of severity warning name them."""
    HOST = "host"
    """The node is a shape computation: its result is used only as a shape, a bound or a condition. So DirectML's caller
    computes it on the CPU.
    """
    UNREACHED = "unreached"
    """No run of the model reaches the node."""


class Provider(enum.StrEnum):
    """A program that runs ONNX models on DirectML. Its own rules decide which nodes run there."""

    ONNXRUNTIME_DIRECTML = "onnxruntime-directml"


class ProviderVerdict(enum.StrEnum):
    """The verdict of a provider on a node, in one word."""

    FUSED = "fused"
    """The node runs on DirectML, fused with its neighbours."""
    SINGLE = "single"
    """The node runs on DirectML, but not fused with its neighbours. It splits the graph."""
    ADAPTER = "adapter"
    """The node runs on DirectML if the adapter supports its data types, else on the CPU."""
    TYPE = "type"
    """The node runs on the CPU, because the provider has no kernel for its data type or version."""
    SHAPE = "shape"
    """The node runs on the CPU on purpose, because it belongs to a shape computation."""
    FOLDED = "folded"
    """onnxruntime computes the result before it places nodes (constant folding), because it depends only on constants or known
    shapes.
    """
    FAILS = "fails"
    """The session cannot be created, or the run fails."""
    NO_KERNEL = "no kernel"
    """No provider has a kernel for the node, so the session cannot be created."""
    DIFFERS = "differs"
    """The node runs on DirectML, and its result differs from the result of the CPU provider."""
    UNCLEAR = "unclear"
    """The node runs on DirectML, but the sources contradict each other about its result."""
    UNKNOWN = "unknown"
    """The model lacks facts that decide what the provider does, for example a data type."""


class Certainty(enum.StrEnum):
    """How certain a provider's verdict on a node is."""

    READ = "read"
    """The provider's source, or one of its tests, states the verdict."""
    INFERRED = "inferred"
    """The verdict follows from the provider's source, but neither the source nor a test states it."""
    UNKNOWN = "unknown"
    """Only a run on Windows would show whether the verdict is right."""


class CheckedTensor(Record):
    """One input or output of a node, with the facts that are known before the model runs."""

    role: str
    """The operator's name for the tensor: "data", "indices", "starts", "output"."""

    name: str
    """The model's name for the tensor. Empty for an attribute."""

    type: str | None
    """ONNX's name of the data type: "float", "int64". None if the data type is not known."""

    shape: tuple[int | str | None, ...] | None
    """Size of each dimension: a number, a symbolic name, or None for an unknown size. The whole shape is None if the rank is
    not known.
    """

    values: tuple[int | str, ...] | None = None
    """The elements of a Slice's starts, ends, axes or steps, if they are known: numbers, or names of sizes. None for other
    tensors.
    """


class DirectMLForm(Record):
    """The DirectML operators that run a node at a feature level."""

    level: FeatureLevelField
    """The feature level."""

    operators: tuple[str, ...]
    """The DirectML operators, in execution order: "SLICE1"."""

    types: dict[str, str] = Field({})
    """Data types in the descriptors that differ from the model's types, by role: {"indices": "UINT32"}. The caller converts
    indices to this type. Data keeps its bits.
    """


class SizeMaker(Record):
    """The node that makes an unknown size. For example, a NonZero makes the number of elements that it finds. No node makes the
    sizes of the model's inputs.
    """

    place: str
    """The node's place, in the form of `CheckedNode.place`."""

    operator: str
    """The node's operator."""

    text: str
    """The meaning of the size: "the number of elements that NonZero 'found' finds"."""

    from_data: bool
    """True if the size depends on the elements of data, so it is known only after a run. The node counts elements, or reads a
    shape or a size that depends on data.
    """


class SizeCondition(Record):
    """A condition on unknown sizes: a size, or a sum of sizes, must lie in a range."""

    text: str
    """The condition in words, as in `provided`: "past + seq >= 7"."""

    size: str
    """The size that must lie in the range: a name in the model, or an expression of several names: "N", "past + seq"."""

    at_least: int
    """The minimum of the size."""

    at_most: int | None = None
    """The maximum of the size. None if it has no upper limit."""

    symbols: tuple[str, ...]
    """The names of the unknown sizes in the condition, as in the model."""

    terms: dict[str, int] | None
    """The coefficient of each unknown size in the sum, by name: {"past": 1, "seq": 1}. None if the size is not a linear sum."""

    makers: dict[str, SizeMaker] = Field({})
    """The nodes that make unknown sizes of the condition, by name of the size. Sizes of the model's inputs have no entry."""

    @property
    def from_data(self) -> bool:
        """Return True if a size in the condition is known only after a run, because it depends on data."""
        return any(maker.from_data for maker in self.makers.values())


class ProviderNode(Record):
    """The verdict of a provider on a node, with reasons."""

    verdict: ProviderVerdict
    """The provider's verdict in one word."""

    text: str
    """The verdict in words, with its reason."""

    certainty: Certainty
    """The certainty of the verdict."""

    source: str
    """Keys of the documents that support the verdict: "[ORT-PARTITION]". `dmlgather rule` explains them for the provider's
    codes.
    """

    part: int | None = None
    """The number of the part of the graph with the node, from 1. DirectML runs the graph in parts, and fuses the nodes of a
    part. None if it is not known that the node runs on DirectML.
    """

    codes: tuple[str, ...] = ()
    """The codes of the findings that decide the verdict."""

    sometimes: bool = False
    """True if the node fails, or gives a different result, for some sizes only."""


class ProviderSummary(Record):
    """Counts of the judged nodes in a model, by what the provider does with them, and the number of parts of the graph."""

    provider: Provider
    """The provider."""

    text: str
    """The counts in one line of text."""

    directml: int
    """Nodes on DirectML."""

    parts: int
    """The minimum number of parts of the graph that run on DirectML. Nodes that are not judged may split the graph further."""

    either: int
    """Nodes that run on DirectML or on the CPU, depending on the data types that the adapter supports."""

    converted: int = 0
    """Nodes that every adapter would run on DirectML if their indices were int32. `either` counts them too."""

    cpu: int
    """Nodes on the CPU."""

    shapes: int
    """Nodes on the CPU on purpose, because they belong to shape computations. `cpu` counts them too."""

    folded: int
    """Nodes that onnxruntime computes before it places nodes (constant folding)."""

    fails: int
    """Nodes that make the creation of the session fail, or make the run fail."""

    sometimes: int = 0
    """Nodes that make only some runs fail. `fails` counts them too."""

    unloaded: int = 0
    """Nodes in a model that onnxruntime refuses to load. `fails` counts them too."""

    differs: int
    """Nodes on DirectML with a result that differs from the result on the CPU. `directml` counts them too."""

    unclear: int
    """Nodes on DirectML with an unclear result, because the sources contradict each other. `directml` counts them too."""

    unknown: int
    """Nodes that lack facts in the model, so it is not known where they run."""

    @classmethod
    def of(cls, provider: Provider, counts: Mapping[str, int]) -> ProviderSummary:
        """Return a summary with these counts, by field name, and write its text."""
        return cls(**counts, provider=provider, text=_provider_text(counts))

    @classmethod
    def total(cls, summaries: Sequence[ProviderSummary]) -> ProviderSummary:
        """Add one or more summaries of the same provider."""
        names = cls.model_fields.keys() - {"provider", "text"}
        return cls.of(summaries[0].provider, {name: sum(getattr(each, name) for each in summaries) for name in names})


def _provider_text(counts: Mapping[str, int]) -> str:
    """Describe the counts in one line. A number in parentheses is included in the number before it."""

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
    """A gather, Slice, DepthToSpace or SpaceToDepth in a model, with DirectML's verdict on it."""

    place: str
    """The node's path, unique in the file: "If_0.then_branch/If_3.else_branch/Slice_7". Findings about the node have it as
    subject.
    """

    graph: str
    """The path of the node's graph: "If_0.then_branch/If_3.else_branch", "domain:Function". Empty for the main graph."""

    name: str
    """The node's name in the model. Empty if it has none."""

    index: int
    """The node's position in its graph, from 0."""

    operator: str
    """ONNX's operator: "Slice"."""

    opset: int
    """The version of the operator set."""

    version: int | None
    """The version of the operator in this operator set: 13 for a Slice in opset 17. None if the operator set lacks the
    operator.
    """

    inputs: tuple[CheckedTensor, ...]
    """The node's inputs. Omitted optional inputs are left out."""

    attributes: dict[str, int | tuple[int, ...]] = Field({})
    """The node's attributes with a known integer, or a list of integers: {"axis": 1}."""

    outputs: tuple[CheckedTensor, ...]
    """The node's outputs."""

    verdict: Verdict
    """DirectML's verdict at the feature level of the check."""

    taken: DirectMLForm | None = None
    """The DirectML operators that run the node at the feature level of the check. None if DirectML does not take the node."""

    lowest: DirectMLForm | None = None
    """The DirectML operators that run the node at the lowest possible feature level. None if no level takes the node, or the
    level is not known.
    """

    missing: tuple[str, ...] = ()
    """The inputs that are not known well enough, for the verdict `unknown`: "data", "ends"."""

    provided: tuple[str, ...] = ()
    """Conditions on unknown sizes under which the verdict holds: "N >= 1", "past + seq >= 1". For other sizes, a tensor is
    empty, which no level takes, or an unknown bound lies outside its axis.
    """

    conditions: tuple[SizeCondition, ...] = ()
    """The conditions in `provided` as data. The names of sizes are separate, because a name may have any characters."""

    reason: str | None = None
    """The reason why no run of the model reaches the node, for the verdict `unreached`. None for other verdicts."""

    provider: ProviderNode | None = Field(None, exclude_if=is_none)
    """The provider's verdict on the node. Left out without a provider, and for a node that no run reaches."""


@dataclass(frozen=True, eq=False)
class KnownCall:
    """A node's operator with inputs of known types and sizes. `values`: input elements known before the run, by role."""

    problem: Problem
    values: Mapping[str, NDArray[Any]] = field(default_factory=dict)


@dataclass(frozen=True)
class CheckedModel:
    """The result of `check_model`.
    `opsets`: the imported versions, by domain ("" is ONNX's own).
    `others`: the number of nodes without a verdict, by operator.
    `problems`: the reason why the file cannot be read, otherwise empty.
    `calls`: the nodes with known types and sizes, by place.
    `symbols`: the names of unknown sizes, by place.
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
