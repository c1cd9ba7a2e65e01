"""A node of the family as onnxruntime's DirectML provider meets it: types, kernels, whether it is fused, when it is created."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

from dmlgather.dialects.problem import Problem
from dmlgather.directml import FeatureLevel
from dmlgather.onnx.problems.operator_versions import since_of
from dmlgather.onnx.problems.partial_types import NOTHING, PartialType, Size
from dmlgather.onnx_checking.following.model_nodes import ModelNode, NodeValue
from dmlgather.onnx_checking.provider.kernels import ADAPTERS_TYPES, DIRECTML_TYPES, KERNELS, Kernel
from dmlgather.onnx_checking.provider.placement import Home, PlacedNode
from dmlgather.onnx_checking.provider.sizes import SlicedBounds, output_sizes, sliced
from dmlgather.onnx_checking.verdicts import Judged
from dmlgather.wording import printable

NUMBER = "0x80070057"
"""What the provider's exceptions end with: E_INVALIDARG."""

Shape = tuple[Size, ...]


class CaseInput(NamedTuple):
    """An input of a node. at: its position."""

    at: int
    role: str
    value: NodeValue


@dataclass(frozen=True)
class ProviderCase:
    """A node of the family, and what its verdict follows from.

    judged: the verdict on what DirectML does. kept: by graph and name, the types of tensors that onnxruntime's graph has, where
    they are not those that follow.
    """

    site: ModelNode
    placed: PlacedNode
    level: FeatureLevel
    judged: Judged
    kept: Mapping[tuple[str, str], PartialType]

    @property
    def problem(self) -> Problem | None:
        """What the node computes, where all types and sizes are known and obey ONNX's rules."""
        return None if self.judged.call is None else self.judged.call.problem

    @property
    def operator(self) -> str:
        """The node's operator."""
        return self.site.node.op_type

    @property
    def kernel(self) -> Kernel:
        """The kernels of its operator."""
        return KERNELS[self.operator]

    @property
    def since(self) -> int | None:
        """The version of the operator; None before the first."""
        return since_of(self.operator, self.site.opset)

    @cached_property
    def inputs(self) -> dict[str, CaseInput]:
        """The inputs that it has, by role."""
        return {role: CaseInput(at, role, value) for at, (role, value) in enumerate(self.site.roles.items()) if value.name}

    @property
    def arrays(self) -> list[CaseInput]:
        """The inputs that a kernel of DirectML reads on the device."""
        return [each for each in self.inputs.values() if each.at not in self.kernel.host]

    @property
    def bounds(self) -> list[CaseInput]:
        """The inputs that it reads on the CPU."""
        return [each for each in self.inputs.values() if each.at in self.kernel.host]

    def shape(self, role: str) -> Shape | None:
        """The shape of an input that follows; None where its rank is not known, or there is no such input."""
        found = self.inputs.get(role)
        return None if found is None else found.value.type.shape

    @property
    def output(self) -> PartialType:
        """The type that onnxruntime's graph has for the output."""
        return self.graph_type(self.site.outputs[0]) if self.site.outputs else NOTHING

    @property
    def is_misled(self) -> bool:
        """Whether onnxruntime's graph has another type of the output than follows, by what the model states."""
        return any((self.site.graph, value.name) in self.kept for value in self.site.outputs)

    def graph_type(self, value: NodeValue) -> PartialType:
        """The type that onnxruntime's graph has for an input or output."""
        return self.kept.get((self.site.graph, value.name), value.type)

    @cached_property
    def sizes(self) -> Shape | None:
        """The sizes that the provider computes for the output: of what runs, or of onnxruntime's graph if it asks before."""
        if not self.is_early:
            return output_sizes(self.site)
        inputs = tuple(replace(value, type=self.graph_type(value)) for value in self.site.inputs)
        return output_sizes(replace(self.site, inputs=inputs))

    @cached_property
    def axes(self) -> Sequence[SlicedBounds]:
        """The axes of a Slice, where their bounds are known."""
        data = self.shape("data")
        return (sliced(self.site, len(data)) or ()) if self.operator == "Slice" and data is not None else ()

    @property
    def data_type(self) -> str | None:
        """ONNX's name of the type of data."""
        return self.inputs["data"].value.type.name if "data" in self.inputs else None

    @property
    def has_kernel(self) -> bool:
        """Whether the provider has a kernel for it."""
        return self.since in self.kernel.since and self.data_type in DIRECTML_TYPES

    @property
    def has_cpu_kernel(self) -> bool:
        """Whether the CPU provider has one."""
        return self.data_type in self.kernel.cpu_types.get(self.since or 0, ())

    @property
    def asked(self) -> list[str]:
        """The types that it needs of the adapter, and not every adapter has."""
        names = [str(each.value.type.name) for each in self.arrays]
        return [name for name in dict.fromkeys(names) if name in ADAPTERS_TYPES]

    @property
    def asks_for_indices(self) -> bool:
        """Return True if the node needs something of the adapter only because its indices are int64, which ONNX lets be int32."""
        return bool(self.asked) and self.data_type not in ADAPTERS_TYPES and self.operator != "GatherND"

    @property
    def runs_on_device(self) -> bool:
        """Whether DirectML runs it, if the adapter has its types."""
        return self.placed.home is Home.DEVICE and self.has_kernel

    @cached_property
    def cut(self) -> str:
        """Why it is not fused; empty where it is."""
        if self.placed.control:
            return f"{self.placed.control} in the graph or around it"
        for each in self.bounds:
            if each.at not in self.placed.constants:
                return f"{each.role} {printable(each.value.name)!r} is computed"
        for value in self._described:
            known = self.graph_type(value)
            if known.numbers is None:
                return f"{printable(value.name)!r} is {known} before it runs"
        for value in self._described:
            if 0 in (self.graph_type(value).shape or ()):
                return f"{printable(value.name)!r} has a size of 0"
        return ""

    @property
    def _described(self) -> list[NodeValue]:
        return [*(each.value for each in self.arrays), *self.site.outputs[:1]]

    @property
    def is_early(self) -> bool:
        """Whether its kernel is created with the session: it is fused, or all is known and no input is left out."""
        if not self.cut:
            return True
        constant = all(each.at in self.placed.constants for each in self.bounds)
        known = all(self.graph_type(value).numbers is not None for value in self._described)
        return known and constant and len(self.bounds) == (0 if self.since == 1 else len(self.kernel.host))

    @property
    def failure(self) -> str:
        """How it ends where the provider refuses the node."""
        return f"{'the session cannot be created' if self.is_early else 'the run fails'}: {NUMBER}"
