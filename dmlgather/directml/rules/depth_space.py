"""DML9xx: DEPTH_TO_SPACE1 and SPACE_TO_DEPTH1."""

from __future__ import annotations

from collections.abc import Iterator

from dmlgather.directml.descriptors import DepthToSpace1OperatorDesc, SpaceToDepth1OperatorDesc
from dmlgather.directml.rules.rule import DescriptorCase, Fault, Rule
from dmlgather.directml.rules.shared import SIZES, compare_sizes
from dmlgather.directml.rules.tensors import ELEMENT_LIMIT
from dmlgather.directml.shapes import depth_sizes, space_sizes
from dmlgather.directml.tensor import rounded_up
from dmlgather.wording import braces

AnyBlocks = DepthToSpace1OperatorDesc | SpaceToDepth1OperatorDesc


def _block_size(case: DescriptorCase[AnyBlocks]) -> Iterator[Fault]:
    if case.desc.block_size == 0:
        yield Fault("BlockSize", expected="at least 1", got="0", remedy="state the height of a block; 1 gives a copy")


def _whole_blocks(case: DescriptorCase[AnyBlocks]) -> Iterator[Fault]:
    block, square = case.desc.block_size, case.desc.block_size**2
    to_space = isinstance(case.desc, DepthToSpace1OperatorDesc)
    units = {1: (square, "BlockSize · BlockSize")} if to_space else dict.fromkeys((2, 3), (block, "BlockSize"))
    for axis, (unit, name) in units.items():
        size = case.desc.input_tensor.sizes[axis]
        if size % unit:
            padded = rounded_up(size, unit)
            yield Fault(
                f"InputTensor.Sizes[{axis}]",
                expected=f"a multiple of {unit}, {name}",
                got=str(size),
                remedy=f"pad dimension {axis} of the input to {padded}, or choose another BlockSize"
                if padded <= ELEMENT_LIMIT
                else "choose a smaller BlockSize",
            )


def _output_sizes(case: DescriptorCase[AnyBlocks]) -> Iterator[Fault]:
    desc, block = case.desc, case.desc.block_size
    data, output = desc.input_tensor.sizes, desc.output_tensor.sizes
    if isinstance(desc, DepthToSpace1OperatorDesc):
        own, inverse, other = space_sizes, depth_sizes, "SPACE_TO_DEPTH1"
        reason = f"{{N, C / {block**2}, H · {block}, W · {block}}} of InputTensor"
    else:
        own, inverse, other = depth_sizes, space_sizes, "DEPTH_TO_SPACE1"
        reason = f"{{N, C · {block**2}, H / {block}, W / {block}}} of InputTensor"
    expected = own(data, block)
    remedy = f"set OutputTensor.Sizes to {braces(expected)}"
    if inverse(data, block) == output and own(output, block) == data:
        remedy += f", or use {other}, which gives the stated sizes"
    yield from compare_sizes("OutputTensor.Sizes", expected, output, reason, remedy)


_FIELDS = ("block_size",)

DEPTH_SPACE_RULES = (
    Rule("DML901", _block_size, alternatives=_FIELDS),
    Rule("DML902", _whole_blocks, needs=(*SIZES, "DML202", "DML901"), alternatives=_FIELDS),
    Rule("DML903", _output_sizes, needs=("DML902",), alternatives=_FIELDS),
)
