"""A gather or slice as onnxruntime's DirectML provider treats it: types, kernels, fusion, time of creation."""

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
from dmlgather.onnx_checking.sizes.expressions import Sizes
from dmlgather.onnx_checking.sizes.unknown_sizes import Named, named
from dmlgather.onnx_checking.verdicts import Judgement
from dmlgather.wording import printable

NUMBER = "0x80070057"
"""E_INVALIDARG, the error code of the provider's exceptions."""

Shape = tuple[Size, ...]


class CaseInput(NamedTuple):
    """An input of a node, with its position and the operator's name for it."""

    at: int
    role: str
    value: NodeValue


@dataclass(frozen=True)
class ProviderCase:
    """A node with the facts that decide what the provider does.
    `runtime_types`: the types in onnxruntime's graph that differ from the inferred types.
    """

    node: ModelNode
    placed: PlacedNode
    level: FeatureLevel
    judgement: Judgement
    runtime_types: Mapping[tuple[str, str], PartialType]
    model_sizes: Sizes

    @property
    def problem(self) -> Problem | None:
        """Return the operator with known types and sizes, or None."""
        return None if self.judgement.call is None else self.judgement.call.problem

    @property
    def operator(self) -> str:
        """Return the name of the node's operator."""
        return self.node.proto.op_type

    @property
    def kernel(self) -> Kernel:
        """Return the kernels of the node's operator."""
        return KERNELS[self.operator]

    @property
    def since(self) -> int | None:
        """Return the opset in which this version of the operator appeared. None if the model's opset lacks the operator."""
        return since_of(self.operator, self.node.opset)

    @cached_property
    def inputs(self) -> dict[str, CaseInput]:
        """Return the inputs that are not omitted, by role."""
        return {role: CaseInput(at, role, value) for at, (role, value) in enumerate(self.node.roles.items()) if value.name}

    @property
    def arrays(self) -> list[CaseInput]:
        """Return the inputs that the DirectML kernel reads on the device: data and indices."""
        return [each for each in self.inputs.values() if each.at not in self.kernel.host]

    @property
    def bounds(self) -> list[CaseInput]:
        """Return the inputs that the DirectML kernel reads on the CPU, such as a Slice's starts."""
        return [each for each in self.inputs.values() if each.at in self.kernel.host]

    def shape(self, role: str) -> Shape | None:
        """Return the inferred shape of an input, or None."""
        input_ = self.inputs.get(role)
        return None if input_ is None else input_.value.type.shape

    def named_shape(self, role: str) -> Named | None:
        """Return the inferred shape of an input, with names such as "data[0]" for unnamed sizes."""
        shape = self.shape(role)
        return None if shape is None else named(role, shape)

    @property
    def output(self) -> PartialType:
        """Return the output's type in onnxruntime's graph."""
        return self.graph_type(self.node.outputs[0]) if self.node.outputs else NOTHING

    @property
    def is_misled(self) -> bool:
        """Return True if the model declares a wrong output type, and onnxruntime uses it."""
        return any((self.node.graph, value.name) in self.runtime_types for value in self.node.outputs)

    def graph_type(self, value: NodeValue) -> PartialType:
        """Return the type of an input or output in onnxruntime's graph."""
        return self.runtime_types.get((self.node.graph, value.name), value.type)

    @cached_property
    def sizes(self) -> Shape | None:
        """Return the output shape that the provider computes, or None. Early kernels use the types in onnxruntime's graph."""
        if not self.is_early:
            return output_sizes(self.node)
        inputs = tuple(replace(value, type=self.graph_type(value)) for value in self.node.inputs)
        return output_sizes(replace(self.node, inputs=inputs))

    @cached_property
    def axes(self) -> Sequence[SlicedBounds]:
        """Return a Slice's bounds by axis, or () if they are unknown and for other operators."""
        data = self.shape("data")
        return (sliced(self.node, len(data)) or ()) if self.operator == "Slice" and data is not None else ()

    @property
    def data_type(self) -> str | None:
        """Return ONNX's name of the type of "data", or None."""
        return self.inputs["data"].value.type.name if "data" in self.inputs else None

    @property
    def has_kernel(self) -> bool:
        """Return True if the DirectML provider has a kernel for the version and data type."""
        return self.since in self.kernel.since and self.data_type in DIRECTML_TYPES

    @property
    def has_cpu_kernel(self) -> bool:
        """Return True if the CPU provider has a kernel for the version and data type."""
        return self.data_type in self.kernel.cpu_types.get(self.since or 0, ())

    @property
    def asked(self) -> list[str]:
        """Return the node's data types that only some adapters support."""
        names = [str(each.value.type.name) for each in self.arrays]
        return [name for name in dict.fromkeys(names) if name in ADAPTERS_TYPES]

    @property
    def asks_for_indices(self) -> bool:
        """Return True if every adapter would support the node with int32 indices."""
        return bool(self.asked) and self.data_type not in ADAPTERS_TYPES and self.operator != "GatherND"

    @property
    def runs_on_device(self) -> bool:
        """Return True if DirectML runs the node, provided that the adapter supports its data types."""
        return self.placed.home is Home.DEVICE and self.has_kernel

    @cached_property
    def cut(self) -> str:
        """Return why onnxruntime does not fuse the node with its neighbours, or "" if it does."""
        if self.placed.control:
            return f"{self.placed.control} in the graph or around it"
        for each in self.bounds:
            if each.at not in self.placed.constants:
                return f"{each.role} {printable(each.value.name)!r} is computed"
        for value in self._described:
            type_ = self.graph_type(value)
            if type_.numbers is None:
                return f"the sizes of {printable(value.name)!r} are not numbers before the run: {type_}"
        for value in self._described:
            if 0 in (self.graph_type(value).shape or ()):
                return f"{printable(value.name)!r} has a size of 0"
        return ""

    @property
    def _described(self) -> list[NodeValue]:
        return [*(each.value for each in self.arrays), *self.node.outputs[:1]]

    @property
    def is_early(self) -> bool:
        """Return True if the kernel is early: created with the session, not when the node first runs."""
        if not self.cut:
            return True
        constant = all(each.at in self.placed.constants for each in self.bounds)
        known = all(self.graph_type(value).numbers is not None for value in self._described)
        return known and constant and len(self.bounds) == (0 if self.since == 1 else len(self.kernel.host))

    @property
    def failure(self) -> str:
        """Return what happens if the provider refuses the node."""
        return f"{'the session cannot be created' if self.is_early else 'the run fails'}: {NUMBER}"
