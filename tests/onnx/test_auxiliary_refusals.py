"""Calls that the auxiliary operators refuse: by which exception, and which facts the message holds."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from onnx import AttributeProto, NodeProto, TensorProto, helper, numpy_helper

from dmlgather.onnx_checking.following.operators import compute


def node_of(operator: str, inputs: int = 1, **attributes: Any) -> NodeProto:
    return helper.make_node(operator, ["data", "second", "third"][:inputs], ["y"], **attributes)


def axes(*values: int) -> np.ndarray[Any, Any]:
    return np.array(values, np.int64)


DATA = np.ones((2, 1, 3), np.float32)
BFLOAT16 = np.ones(2, ml_dtypes.bfloat16)
INT4 = np.ones(2, ml_dtypes.int4)
SPARSE = helper.make_sparse_tensor(
    numpy_helper.from_array(np.ones(1, np.float32), "v"), numpy_helper.from_array(np.zeros(1, np.int64), "i"), [4]
)

REFUSED: list[tuple[NodeProto, int, list[Any], type[Exception], str]] = [
    # squeezing and unsqueezing
    (
        node_of("Squeeze", 2),
        13,
        [DATA, axes(0)],
        ValueError,
        "axes has 0, but dimension 0 of data has size 2, not 1",
    ),
    (node_of("Squeeze", 2), 13, [DATA, axes(1, -2)], ValueError, r"axes is \(1, -2\), which names an axis of data \(rank 3\)"),
    (node_of("Squeeze", 2), 13, [DATA, axes(3)], ValueError, r"axes\[0\] is 3, but data has rank 3: expected -3 … 2"),
    (node_of("Squeeze", axes=[-2]), 1, [DATA], ValueError, r"axes\[0\] is -2, but Squeeze-1 .*opset 11"),
    (
        node_of("Squeeze", axes=[1]),
        13,
        [DATA],
        ValueError,
        "'axes' is not one of Squeeze-13, which has none; it takes axes as an input",
    ),
    (node_of("Squeeze", 2), 11, [DATA, axes(1)], ValueError, r"2 inputs \(data, second\), but Squeeze-11 takes 1: data"),
    (node_of("Squeeze", 2), 13, [DATA, np.array([1], np.int32)], TypeError, "axes has type int32, but Squeeze-13 takes int64"),
    (
        node_of("Squeeze", 2),
        13,
        [DATA, axes(1).reshape(1, 1)],
        ValueError,
        r"axes has shape \[1, 1\], but Squeeze-13 takes one dim",
    ),
    (
        node_of("Unsqueeze", 2),
        13,
        [DATA, axes(0, -5)],
        ValueError,
        r"axes is \(0, -5\), which names an axis of the result \(rank 5\)",
    ),
    (node_of("Unsqueeze", 2), 13, [DATA, axes(4)], ValueError, r"axes\[0\] is 4, but the result has rank 4: expected -4 … 3"),
    (node_of("Unsqueeze", axes=[-1]), 1, [DATA], ValueError, r"axes\[0\] is -1, but Unsqueeze-1 .*opset 11"),
    (node_of("Unsqueeze"), 11, [DATA], ValueError, "attribute axes is missing: Unsqueeze-11 requires it"),
    (node_of("Unsqueeze"), 13, [DATA], ValueError, r"1 input \(data\), but Unsqueeze-13 takes 2: data, axes"),
    # reshaping
    (
        node_of("Reshape", 2),
        5,
        [DATA, axes(4, 2)],
        ValueError,
        r"\[2, 1, 3\], 6 elements, and shape is \[4, 2\], which has 8 elem",
    ),
    (
        node_of("Reshape", 2),
        5,
        [DATA, axes(4, -1)],
        ValueError,
        r"shape is \[4, -1\]: the product of the other sizes is 4, .*divide 6",
    ),
    (node_of("Reshape", 2), 5, [DATA, axes(-1, -1)], ValueError, r"shape is \[-1, -1\]: at most one entry may be -1"),
    (node_of("Reshape", 2), 5, [DATA, axes(-2, 3)], ValueError, r"shape\[0\] is -2, expected a size, 0 for data's size, or -1"),
    (
        node_of("Reshape", 2),
        5,
        [DATA, axes(6, 1, 1, 0)],
        ValueError,
        r"shape\[3\] is 0, which copies data's size in dimension 3, but .*\[2, 1, 3\]",
    ),
    (
        node_of("Reshape", 2),
        5,
        [DATA[:0], axes(0, -1)],
        ValueError,
        r"\[0, -1\]: -1 is ambiguous, because another size is 0",
    ),
    (
        node_of("Reshape", 2, allowzero=1),
        14,
        [DATA, axes(0, 6)],
        ValueError,
        r"6 elements, and shape is \[0, 6\], which has 0 elem",
    ),
    (node_of("Reshape", 2, allowzero=1), 13, [DATA, axes(6)], ValueError, "'allowzero' is not one of Reshape-13, which has none"),
    (node_of("Reshape", 2), 13, [DATA, np.array(6)], ValueError, r"shape has shape \[\], but Reshape-13 takes one dimension"),
    (node_of("Reshape", shape=[6]), 1, [axes(1)], TypeError, "data has type int64, but Reshape-1 takes double, float, float16"),
    # transposing
    (node_of("Transpose", perm=[0, 0, 1]), 13, [DATA], ValueError, r"perm is \[0, 0, 1\], but data has rank 3: .* \[0, 1, 2\]"),
    (node_of("Transpose", perm=[0, -1, 1]), 13, [DATA], ValueError, r"perm is \[0, -1, 1\], but data has rank 3"),
    (node_of("Transpose", perm=[1, 0]), 13, [DATA], ValueError, r"perm is \[1, 0\], but data has rank 3"),
    (node_of("Transpose", perm=1.5), 13, [DATA], TypeError, r"attribute perm has type 1, but Transpose-13 takes INTS \(7\)"),
    (node_of("Shape", start=1), 13, [DATA], ValueError, "'start' is not one of Shape-13, which has none"),
    # types
    (
        node_of("Transpose"),
        12,
        [BFLOAT16],
        TypeError,
        "data has type bfloat16, but Transpose-1 takes bool, double, float, float16, int16",
    ),
    (node_of("Identity"), 20, [INT4], TypeError, "data has type int4, but Identity-19 takes"),
    (node_of("Cast", to=TensorProto.FLOAT), 12, [BFLOAT16], TypeError, "data has type bfloat16, but Cast-9 takes bool, double"),
    (
        node_of("Cast", to=TensorProto.BFLOAT16),
        12,
        [DATA],
        TypeError,
        "'to' is bfloat16, but Cast-9 takes bool, double",
    ),
    (
        node_of("Cast", to=TensorProto.STRING),
        13,
        [DATA],
        TypeError,
        "Cast to string is not supported; it converts between bool, int8",
    ),
    (node_of("Cast", to=TensorProto.FLOAT), 13, [np.array(["1"], object)], TypeError, "Cast from string is not supported"),
    (node_of("Cast", to=TensorProto.FLOAT8E5M2), 19, [DATA], TypeError, "Cast to float8e5m2 is not supported"),
    (node_of("Cast", to=TensorProto.FLOAT), 21, [INT4], TypeError, "Cast from int4 is not supported"),
    (node_of("Cast", to=TensorProto.COMPLEX64), 13, [DATA], TypeError, "attribute 'to' is complex64, but Cast-13 takes"),
    (node_of("Cast", to=TensorProto.FLOAT), 13, [DATA.astype(complex)], TypeError, "data has type complex128, but Cast-13 takes"),
    (node_of("Cast", to=99), 13, [DATA], ValueError, "attribute 'to' is 99, which is no data type of TensorProto"),
    (node_of("Cast", to="REAL"), 1, [DATA], ValueError, "attribute 'to' is 'REAL', which is no data type of TensorProto"),
    (node_of("Cast", to=1), 0, [DATA], ValueError, "opset is 0, but Cast exists from opset 1 on"),
    (node_of("Cast"), 13, [DATA], ValueError, "attribute to is missing: Cast-13 requires it"),
    # constants
    (node_of("Constant", 0), 13, [], ValueError, "exactly one of value, sparse_value, value_float, .*; the node has none"),
    (
        node_of("Constant", 0, value_int=1, value_float=1.0),
        13,
        [],
        ValueError,
        "exactly one of .*; the node has value_(int|float), ",
    ),
    (
        node_of("Constant", 0, sparse_value=SPARSE),
        13,
        [],
        TypeError,
        "sparse_value holds a sparse tensor, which is not supported",
    ),
    (
        node_of("Constant", 0, value=numpy_helper.from_array(axes(1))),
        1,
        [],
        TypeError,
        "value has type int64, but Constant-1 takes double",
    ),
    (node_of("Constant", 1, value_int=1), 13, [DATA], ValueError, r"1 input \(data\), but Constant-13 takes 0"),
]


@pytest.mark.parametrize(("node", "opset", "inputs", "kind", "facts"), REFUSED, ids=lambda item: getattr(item, "op_type", ""))
def test_refusals_say_what_and_why(node: NodeProto, opset: int, inputs: list[Any], kind: type[Exception], facts: str) -> None:
    with pytest.raises(kind, match=facts):
        compute(node, opset, inputs)


def test_attributes_of_a_function_and_data_elsewhere_are_refused() -> None:
    node = node_of("Squeeze")
    node.attribute.append(AttributeProto(name="axes", type=AttributeProto.INTS, ref_attr_name="which"))
    with pytest.raises(ValueError, match="attribute axes refers to attribute 'which' of a function"):
        compute(node, 11, [DATA])
    outside = TensorProto(data_type=TensorProto.FLOAT, dims=[2], data_location=TensorProto.EXTERNAL)
    outside.external_data.add(key="location", value="weights.bin")
    with pytest.raises(ValueError, match=r"not loaded \(weights\.bin\)"):
        compute(node_of("Constant", 0, value=outside), 13, [])
    two = node_of("Identity")
    two.output.append("z")
    with pytest.raises(ValueError, match="2 outputs, but Identity-13 gives 1"):
        compute(two, 13, [DATA])
