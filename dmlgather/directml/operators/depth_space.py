"""DEPTH_TO_SPACE1 and SPACE_TO_DEPTH1: their declarations, rules, plans, and Microsoft's pseudocode in NumPy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from dmlgather.directml.descriptors import DepthToSpace1OperatorDesc, SpaceToDepth1OperatorDesc
from dmlgather.directml.operators.operator import Layouts, Operator, plan
from dmlgather.directml.rules.rule import DescriptorCase, Fault, Rule
from dmlgather.directml.rules.shared import SIZES, compare_sizes
from dmlgather.directml.rules.tensors import ELEMENT_LIMIT
from dmlgather.directml.shapes import depth_sizes, space_sizes
from dmlgather.directml.tensor import rounded_up
from dmlgather.directml.types import DepthSpaceOrder, FeatureLevel
from dmlgather.plan import IndexPlan, blocks
from dmlgather.wording import braces

if TYPE_CHECKING:
    from numpy.typing import NDArray

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


def lower_depth_to_space1(desc: DepthToSpace1OperatorDesc, layouts: Layouts) -> IndexPlan:
    """Return the plan of a DEPTH_TO_SPACE1: it copies the input to the output, after a reshape of both to equal sizes."""
    last = desc.order is DepthSpaceOrder.DEPTH_COLUMN_ROW
    depth, space = blocks(layouts["input_tensor"], layouts["output_tensor"], desc.block_size, channels_last=last)
    return plan(desc, {"input_tensor": depth, "output_tensor": space}, depth.strides)


def depth_to_space1_reference(desc: DepthToSpace1OperatorDesc, data: NDArray[Any]) -> NDArray[Any]:
    """Compute output[n, c, h, w] = input[n, (h mod B, w mod B, c), h div B, w div B], where B is BlockSize. Source: [DS1]."""
    import numpy as np

    output = np.empty(desc.output_tensor.sizes, data.dtype)
    block, channels = desc.block_size, output.shape[1]
    for n, c, h, w in np.ndindex(output.shape):
        output[n, c, h, w] = data[n, _channel(desc, channels, c, h % block, w % block), h // block, w // block]
    return output


def lower_space_to_depth1(desc: SpaceToDepth1OperatorDesc, layouts: Layouts) -> IndexPlan:
    """Return the plan of a SPACE_TO_DEPTH1: it copies the input to the output, after a reshape of both to equal sizes."""
    last = desc.order is DepthSpaceOrder.DEPTH_COLUMN_ROW
    depth, space = blocks(layouts["output_tensor"], layouts["input_tensor"], desc.block_size, channels_last=last)
    return plan(desc, {"input_tensor": space, "output_tensor": depth}, space.strides)


def space_to_depth1_reference(desc: SpaceToDepth1OperatorDesc, data: NDArray[Any]) -> NDArray[Any]:
    """Compute output[n, (h mod B, w mod B, c), h div B, w div B] = input[n, c, h, w], where B is BlockSize. Source: [SD1]."""
    import numpy as np

    output = np.empty(desc.output_tensor.sizes, data.dtype)
    block, channels = desc.block_size, data.shape[1]
    for n, c, h, w in np.ndindex(data.shape):
        output[n, _channel(desc, channels, c, h % block, w % block), h // block, w // block] = data[n, c, h, w]
    return output


def _channel(desc: DepthToSpace1OperatorDesc | SpaceToDepth1OperatorDesc, channels: int, c: int, row: int, column: int) -> int:
    """Return the channel of an element in the tensor with more channels. Source: [DSO] in `SOURCES`.

    `channels`: the number of channels of the other tensor. `c`: the channel of the element in the other tensor. `row`,
    `column`: the position of the element in its block.
    """
    if desc.order is DepthSpaceOrder.DEPTH_COLUMN_ROW:
        return (row * desc.block_size + column) * channels + c
    return (c * desc.block_size + row) * desc.block_size + column


DEPTH_TO_SPACE1 = Operator(
    name="DEPTH_TO_SPACE1",
    value=113,
    desc=DepthToSpace1OperatorDesc,
    introduced=FeatureLevel.LEVEL_2_1,
    inputs=("input_tensor",),
    rules=DEPTH_SPACE_RULES,
    output_sizes=lambda desc: space_sizes(desc.input_tensor.sizes, desc.block_size),
    lower=lower_depth_to_space1,
    reference=depth_to_space1_reference,
)

SPACE_TO_DEPTH1 = Operator(
    name="SPACE_TO_DEPTH1",
    value=114,
    desc=SpaceToDepth1OperatorDesc,
    introduced=FeatureLevel.LEVEL_2_1,
    inputs=("input_tensor",),
    rules=DEPTH_SPACE_RULES,
    output_sizes=lambda desc: depth_sizes(desc.input_tensor.sizes, desc.block_size),
    lower=lower_space_to_depth1,
    reference=space_to_depth1_reference,
)
