"""The table of OpenVINO's layers: a row for each one that is known.

Evaluating constants, finding the host's arithmetic, making steps of graphs and inferring shapes of other layers read these rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dmlgather.dialects.element_arithmetic import applied
from dmlgather.dialects.problem import TensorType, check_axes
from dmlgather.dialects.sizes import KEPT_ELEMENTS
from dmlgather.openvino.model import layer_rules as rules
from dmlgather.openvino.model.ir_layers import Layer
from dmlgather.openvino.model.layer_calls import LayerCall
from dmlgather.openvino.model.translated_layer import TranslatedLayer
from dmlgather.openvino.problems.data_types import TYPES

Steps = Callable[[TranslatedLayer], "tuple[str, ...] | None"]

# Steps and shapes that need a graph.


def blocks(call: TranslatedLayer) -> tuple[str, ...] | None:
    """DepthToSpace and SpaceToDepth, of any number of spatial dimensions: a reshape, a transpose and a reshape."""
    size, shape = call.integer("block_size"), call.tensor.shape
    spatial, mode = len(shape) - 2, call.text("mode")
    if spatial < 1 or size < 1 or mode not in ("blocks_first", "depth_first"):
        return None
    first, rows = mode == "blocks_first", range(spatial)
    if call.layer.type == "DepthToSpace":
        channels, spread = shape[1] // size**spatial, [size] * spatial
        split = [shape[0], *(spread if first else [channels]), *([channels] if first else spread), *shape[2:]]
        block, depth, at = (1, 1 + spatial, 2 + spatial) if first else (2, 1, 2 + spatial)
        order = [0, depth, *(each for row in rows for each in (at + row, block + row))]
        result = [shape[0], channels, *(each * size for each in shape[2:])]
    else:
        split = [*shape[:2], *(each for whole in shape[2:] for each in (whole // size, size))]
        outer, inner = [2 + 2 * row for row in rows], [3 + 2 * row for row in rows]
        order = [0, *([*inner, 1] if first else [1, *inner]), *outer]
        result = [shape[0], shape[1] * size**spatial, *(each // size for each in shape[2:])]
    graph = call.graph
    apart = graph.reshaped(f"{call.name}: blocks apart", call.data, split)
    turned = graph.transposed(f"{call.name}: blocks in place", apart, order)
    return (graph.reshaped(call.name, turned, result, output=call.output),)


def converted(call: TranslatedLayer) -> tuple[str, ...] | None:
    """Convert, between integers and bools, and where it changes nothing."""
    return _as_type(call, call.text("destination_type"))


def converted_like(call: TranslatedLayer) -> tuple[str, ...] | None:
    """To the type of the second input."""
    return _as_type(call, TYPES.name_of(call.graph.types[call.input(1)].dtype))


def _as_type(call: TranslatedLayer, name: str) -> tuple[str, ...] | None:
    if name not in TYPES.names:
        return None
    dtype = TYPES.dtype_of(name)
    if dtype == call.tensor.dtype:
        return (call.data,)
    if dtype.kind not in "biu" or call.tensor.dtype.kind not in "biu":
        return None
    return (call.graph.elementwise(call.name, "cast", dtype, call.data, output=call.output),)


def same_shape(call: TranslatedLayer) -> tuple[int, ...] | None:
    """Of the first input."""
    return call.types[0].shape


def broadcast_shape(call: TranslatedLayer) -> tuple[int, ...] | None:
    """Of all inputs together."""
    return call.broadcast_shape if call.broadcasts else None


def reduced_shape(call: TranslatedLayer) -> tuple[int, ...] | None:
    """Of the first input, without the axes of the second one."""
    axes = call.numbers(1)
    if not axes:
        return None
    dropped, keeps = check_axes("axes", axes, call.types[0].rank, "data"), call.flag("keep_dims", False)
    return tuple(1 if at in dropped else size for at, size in enumerate(call.types[0].shape) if keeps or at not in dropped)


def product_shape(call: TranslatedLayer) -> tuple[int, ...] | None:
    """Of a product of matrices."""
    return _product(call, *call.types) if all(tensor.rank >= 2 for tensor in call.types) else None


def _product(call: TranslatedLayer, left: TensorType, right: TensorType) -> tuple[int, ...]:
    rows = left.shape[-1 if call.flag("transpose_a", False) else -2]
    columns = right.shape[-2 if call.flag("transpose_b", False) else -1]
    return (*np.broadcast_shapes(left.shape[:-2], right.shape[:-2]), rows, columns)


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerRow:
    """A row of the table: what is known of a layer's type. What it does not say does not follow.

    run: the output, or a list of several, of arrays of numbers and names. moves: the numbers of the inputs in whose place values
    of a graph may stand; None for all. elements: an element of the output, from `Computing` and the elements of the inputs at one
    place. from_types: whether its input is a shape.

    steps: whether graphs have it, as steps that follow from `run` or `elements`. step: adds the steps where these rules are not
    enough. any_type: whether graphs have `elements` on floating-point numbers as well. shape: the shape of the output, where
    graphs do not have it.

    host: the numbers of the inputs that decide shapes, bounds, axes, counts or conditions. unread: the inputs of which only type
    or shape matters. changing: whether inputs do not decide the result.
    """

    run: rules.Rule | None = None
    moves: tuple[int, ...] | None = ()
    elements: Callable[..., Any] | None = None
    from_types: bool = False
    steps: bool = False
    step: Steps | None = None
    any_type: bool = False
    shape: Callable[[TranslatedLayer], tuple[int, ...] | None] | None = None
    host: tuple[int, ...] = ()
    unread: tuple[int, ...] = ()
    changing: bool = False


Rows = Mapping[str, LayerRow]


def moving(run: rules.Rule, *, moves: tuple[int, ...] | None = (0,), **columns: Any) -> LayerRow:
    """A row that moves elements."""
    return LayerRow(run=run, moves=moves, **{"steps": True, **columns})


def computing(elements: Callable[..., Any], count: int = 2, *, steps: bool = True, **columns: Any) -> LayerRow:
    """A row that computes elements of so many inputs. Other columns: of the row, or of its rule."""
    own = {name: columns.pop(name) for name in ("conditions", "most", "divides") if name in columns}
    row: dict[str, Any] = {"run": rules.computed(elements, count, **own), "shape": broadcast_shape, **columns}
    return LayerRow(elements=elements, steps=steps, **row)


def each(row: LayerRow, *names: str) -> Rows:
    """Layers of which the same is known."""
    return dict.fromkeys(names, row)


SAME = LayerRow(shape=same_shape)
REDUCTION = LayerRow(shape=reduced_shape, host=(1,))
NUMBERS: Mapping[str, Any] = {"steps": False, "shape": same_shape}

LAYERS: Rows = {
    "Broadcast": moving(rules.broadcast, host=(1, 2)),
    "Concat": moving(rules.concat, moves=None),
    "Gather": moving(rules.gather, host=(2,)),
    "Identity": LayerRow(step=lambda call: (call.data,), steps=True),
    "Reshape": moving(rules.reshape, host=(1,)),
    "Slice": moving(rules.sliced, host=(1, 2, 3, 4)),
    "Split": moving(rules.split, host=(1,)),
    "Squeeze": moving(rules.squeeze, host=(1,)),
    "StridedSlice": moving(rules.sliced, host=(1, 2, 3)),
    "Transpose": moving(rules.transpose, host=(1,)),
    "Unsqueeze": moving(rules.unsqueeze, host=(1,)),
    "VariadicSplit": moving(rules.variadic_split, host=(1, 2)),
    **each(LayerRow(step=blocks, steps=True), "DepthToSpace", "SpaceToDepth"),
    "Convert": LayerRow(run=rules.converted, step=converted, steps=True, shape=same_shape),
    "ConvertLike": LayerRow(run=rules.converted_like, step=converted_like, steps=True, shape=same_shape, unread=(1,)),
    "Range": LayerRow(run=rules.ranged, host=(0, 1, 2)),
    "ShapeOf": LayerRow(run=rules.shape_of, from_types=True, unread=(0,)),
    "Abs": computing(applied("absolute"), 1, **NUMBERS),
    "Add": computing(applied("add")),
    "Ceiling": computing(applied("ceil"), 1, **NUMBERS),
    "Divide": LayerRow(run=rules.divided, shape=broadcast_shape),
    "Equal": computing(applied("equal")),
    "Floor": computing(applied("floor"), 1, **NUMBERS),
    "FloorMod": computing(applied("remainder"), divides=True),
    "Greater": computing(applied("greater")),
    "GreaterEqual": computing(applied("greater_equal")),
    "Less": computing(applied("less")),
    "LessEqual": computing(applied("less_equal")),
    "LogicalAnd": computing(applied("and"), conditions=2, shape=None),
    "LogicalNot": computing(applied("not"), 1, conditions=1, shape=None),
    "LogicalOr": computing(applied("or"), conditions=2, shape=None),
    "LogicalXor": computing(applied("not_equal"), conditions=2, shape=None),
    "Maximum": computing(applied("maximum")),
    "Minimum": computing(applied("minimum")),
    "Mod": computing(applied("truncate_remainder"), divides=True, steps=False),
    "Multiply": computing(applied("multiply")),
    "Negative": computing(applied("negative"), 1, shape=same_shape),
    "NotEqual": computing(applied("not_equal")),
    "Select": computing(applied("where"), 3, conditions=1, most=KEPT_ELEMENTS, any_type=True),
    "Subtract": computing(applied("subtract")),
    "ReduceMax": replace(REDUCTION, run=rules.reduction("maximum")),
    "ReduceMin": replace(REDUCTION, run=rules.reduction("minimum")),
    "ReduceProd": replace(REDUCTION, run=rules.reduction("multiply")),
    "ReduceSum": replace(REDUCTION, run=rules.reduction("add")),
    **each(REDUCTION, "ReduceL1", "ReduceL2", "ReduceLogicalAnd", "ReduceLogicalOr", "ReduceMean"),
    "MatMul": LayerRow(shape=product_shape),
    **each(LayerRow(shape=broadcast_shape), "Power", "SquaredDifference"),
    # The names are those of files: "ReLU" where Python has "Relu".
    **each(SAME, "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "BatchNormInference", "Clamp", "Cos", "Cosh", "Elu", "Erf"),
    **each(SAME, "Exp", "FakeQuantize", "GRN", "Gelu", "GroupNormalization", "HSigmoid", "HSwish", "HardSigmoid", "IsFinite"),
    **each(SAME, "IsInf", "IsNaN", "LRN", "Log", "LogSoftmax", "Mish", "PReLU", "ReLU", "Round", "Selu", "Sigmoid", "Sign"),
    **each(SAME, "Sin", "Sinh", "SoftMax", "SoftPlus", "SoftSign", "Sqrt", "Swish", "Tan", "Tanh"),
    **each(replace(SAME, host=(1,)), "CumSum", "MVN", "NormalizeL2"),
    **each(LayerRow(host=(1,)), "AdaptiveAvgPool", "AdaptiveMaxPool", "OneHot", "Tile", "TopK"),
    **each(LayerRow(host=(1, 2)), "Col2Im", "DFT", "IDFT", "IRDFT", "RDFT", "Roll"),
    **each(LayerRow(host=(1, 2, 3)), "BatchToSpace", "Interpolate", "Pad", "SpaceToBatch"),
    **each(LayerRow(host=(2,)), "ConvolutionBackpropData", "GroupConvolutionBackpropData"),
    **each(LayerRow(host=(0, 1)), "Loop", "PriorBox", "PriorBoxClustered"),
    **each(LayerRow(host=(3,)), "ScatterElementsUpdate", "ScatterUpdate"),
    **each(LayerRow(host=(2, 3, 4, 5)), "NonMaxSuppression", "SliceScatter"),
    "Eye": LayerRow(host=(0, 1, 2)),
    "If": LayerRow(host=(0,)),
    "STFT": LayerRow(host=(2, 3)),
    "RandomUniform": LayerRow(host=(0,), changing=True),
    **each(LayerRow(changing=True), "Assign", "Multinomial", "ReadValue"),
}
"""By the layer's type. Source: the operations' pages in OpenVINO's documentation."""

UNKNOWN = LayerRow()
"""Of which nothing is known."""


def row_of(layer: Layer) -> LayerRow:
    """The row of a layer; nothing is known of an extension's."""
    return LAYERS.get(layer.type, UNKNOWN) if layer.opset.lower().startswith("opset") else UNKNOWN


def evaluated(row: LayerRow, call: LayerCall) -> list[np.ndarray[Any, Any]]:
    """The outputs of a layer whose row has `run`. ValueError where it has another number of them."""
    assert row.run is not None, f"{call.layer.type} has a rule"
    found = row.run(call)
    results = found if isinstance(found, list) else [found]
    if len(results) != len(call.layer.outputs):
        raise ValueError(f"it has {len(call.layer.outputs)} outputs, expected {len(results)}")
    return results
