"""Calls that the auxiliary operators refuse: by which exception, and which facts the message holds."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from onnx import AttributeProto, NodeProto, TensorProto, helper, numpy_helper

from dmlgather.onnx_checking.following.operators import compute
from tests.dialects.refusals import Refusals, check_refused, each_of


def node_of(operator: str, inputs: int = 1, **attributes: Any) -> NodeProto:
    return helper.make_node(operator, ["data", "second", "third"][:inputs], ["y"], **attributes)


def computed(operator: str, opset: int, *inputs: Any, **attributes: Any) -> Any:
    """Computes a node on these inputs, called later."""
    return lambda: compute(node_of(operator, len(inputs), **attributes), opset, list(inputs))


def axes(*values: int) -> np.ndarray[Any, Any]:
    return np.array(values, np.int64)


DATA = np.ones((2, 1, 3), np.float32)
BFLOAT16 = np.ones(2, ml_dtypes.bfloat16)
INT4 = np.ones(2, ml_dtypes.int4)
SPARSE = helper.make_sparse_tensor(
    numpy_helper.from_array(np.ones(1, np.float32), "v"), numpy_helper.from_array(np.zeros(1, np.int64), "i"), [4]
)
REFUSED: Refusals = {
    ValueError: {
        "axes has 0, but dimension 0 of data has size 2, not 1": computed("Squeeze", 13, DATA, axes(0)),
        "axes is (1, -2), which names an axis of data (rank 3)": computed("Squeeze", 13, DATA, axes(1, -2)),
        "axes[0] is 3, but data has rank 3: expected -3 … 2": computed("Squeeze", 13, DATA, axes(3)),
        "axes[0] is -2, but Squeeze-1 ...opset 11": computed("Squeeze", 1, DATA, axes=[-2]),
        "Squeeze-13 has no attribute 'axes': it has none; it takes axes as an input": computed("Squeeze", 13, DATA, axes=[1]),
        "the node has 2 inputs (data, second), but Squeeze-11 takes 1: data": computed("Squeeze", 11, DATA, axes(1)),
        "axes has shape [1, 1], but Squeeze-13 takes one dimension: reshape to [-1]": computed(
            "Squeeze", 13, DATA, axes(1).reshape(1, 1)
        ),
        "axes is (0, -5), which names an axis of the result (rank 5)": computed("Unsqueeze", 13, DATA, axes(0, -5)),
        "axes[0] is 4, but the result has rank 4: expected -4 … 3": computed("Unsqueeze", 13, DATA, axes(4)),
        "axes[0] is -1, but Unsqueeze-1 ...opset 11": computed("Unsqueeze", 1, DATA, axes=[-1]),
        "attribute axes is missing: Unsqueeze-11 requires it": computed("Unsqueeze", 11, DATA),
        "the node has 1 input (data), but Unsqueeze-13 takes 2: data, axes": computed("Unsqueeze", 13, DATA),
        "data has shape [2, 1, 3], 6 elements, and shape is [4, 2], which has 8 elements": computed(
            "Reshape", 5, DATA, axes(4, 2)
        ),
        "data...shape is [4, -1]: the product of the other sizes is 4, ...divide 6": computed("Reshape", 5, DATA, axes(4, -1)),
        "data...shape is [-1, -1]: at most one entry may be -1": computed("Reshape", 5, DATA, axes(-1, -1)),
        "shape[0] is -2, expected a size, 0 for data's size, or -1": computed("Reshape", 5, DATA, axes(-2, 3)),
        "shape[3] is 0, which copies data's size in dimension 3, but ...[2, 1, 3]": computed(
            "Reshape", 5, DATA, axes(6, 1, 1, 0)
        ),
        "data...[0, -1]: -1 is ambiguous, because another size is 0": computed("Reshape", 5, DATA[:0], axes(0, -1)),
        "data has shape [2, 1, 3], 6 elements, and shape is [0, 6], which has 0 elements": computed(
            "Reshape", 14, DATA, axes(0, 6), allowzero=1
        ),
        "Reshape-13 has no attribute 'allowzero': it has none": computed("Reshape", 13, DATA, axes(6), allowzero=1),
        "shape has shape [], but Reshape-13 takes one dimension: reshape to [-1]": computed("Reshape", 13, DATA, np.array(6)),
        "perm is [0, 0, 1], but data has rank 3: expected a permutation of [0, 1, 2]": computed(
            "Transpose", 13, DATA, perm=[0, 0, 1]
        ),
        "perm is [0, -1, 1], but data has rank 3: expected a permutation of [0, 1, 2]": computed(
            "Transpose", 13, DATA, perm=[0, -1, 1]
        ),
        "perm is [1, 0], but data has rank 3: expected a permutation of [0, 1, 2]": computed("Transpose", 13, DATA, perm=[1, 0]),
        "Shape-13 has no attribute 'start': it has none": computed("Shape", 13, DATA, start=1),
        "attribute 'to' is 99, which is no data type of TensorProto": computed("Cast", 13, DATA, to=99),
        "attribute 'to' is 'REAL', which is no data type of TensorProto": computed("Cast", 1, DATA, to="REAL"),
        "opset is 0, but Cast exists from opset 1 on": computed("Cast", 0, DATA, to=1),
        "attribute to is missing: Cast-13 requires it": computed("Cast", 13, DATA),
        "Constant-13 takes exactly one of value, sparse_value, value_float, ...; the node has none": computed("Constant", 13),
        "Constant-13 takes exactly one of ...; the node has value_": computed("Constant", 13, value_int=1, value_float=1.0),
        "the node has 1 input (data), but Constant-13 takes 0": computed("Constant", 13, DATA, value_int=1),
    },
    TypeError: {
        "axes has type int32, but Squeeze-13 takes int64": computed("Squeeze", 13, DATA, np.array([1], np.int32)),
        "data has type int64, but Reshape-1 takes double, float, float16": computed("Reshape", 1, axes(1), shape=[6]),
        "attribute perm has type 1, but Transpose-13 takes INTS (7)": computed("Transpose", 13, DATA, perm=1.5),
        "data has type bfloat16, but Transpose-1 takes bool, double, float, float16, int16": computed("Transpose", 12, BFLOAT16),
        "data has type int4, but Identity-19 takes": computed("Identity", 20, INT4),
        "data has type bfloat16, but Cast-9 takes bool, double": computed("Cast", 12, BFLOAT16, to=TensorProto.FLOAT),
        "attribute 'to' is bfloat16, but Cast-9 takes bool, double": computed("Cast", 12, DATA, to=TensorProto.BFLOAT16),
        "Cast to string is not supported; it converts between bool, int8": computed("Cast", 13, DATA, to=TensorProto.STRING),
        "Cast from string is not supported": computed("Cast", 13, np.array(["1"], object), to=TensorProto.FLOAT),
        "Cast to float8e5m2 is not supported": computed("Cast", 19, DATA, to=TensorProto.FLOAT8E5M2),
        "Cast from int4 is not supported": computed("Cast", 21, INT4, to=TensorProto.FLOAT),
        "attribute 'to' is complex64, but Cast-13 takes": computed("Cast", 13, DATA, to=TensorProto.COMPLEX64),
        "data has type complex128, but Cast-13 takes": computed("Cast", 13, DATA.astype(complex), to=TensorProto.FLOAT),
        "sparse_value holds a sparse tensor, which is not supported": computed("Constant", 13, sparse_value=SPARSE),
        "value has type int64, but Constant-1 takes double, float, float16": computed(
            "Constant", 1, value=numpy_helper.from_array(axes(1))
        ),
    },
}


@each_of(REFUSED)
def test_refusals_say_what_and_why(call: Any, error: type[Exception], message: str) -> None:
    check_refused(call, error, message)


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
