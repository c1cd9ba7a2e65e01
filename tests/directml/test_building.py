"""Descriptors built from arrays. Judges: NumPy's indexing, the operators' documented pseudocode, random legal descriptors."""

from __future__ import annotations

import random
import re
from typing import Any

import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import dmlgather as dg
from dmlgather.directml import OPERATORS
from dmlgather.directml.fields import wire_name
from tests import seeds
from tests.directml.making import make

SEEDS = st.integers(0, 2**64 - 1)
X = np.arange(60, dtype=np.float32).reshape(3, 4, 5)


class OnlyDLPack:
    """An array that shows nothing but DLPack."""

    def __init__(self, array: NDArray[Any]) -> None:
        self._array = array

    def __dlpack__(self, **options: Any) -> Any:
        return self._array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._array.__dlpack_device__()


def test_every_operator_is_built() -> None:
    assert [operator.name for operator in OPERATORS.values() if not hasattr(operator.desc, "of")] == []


def built(desc: dg.OperatorDesc, **stated: Any) -> dg.OperatorDesc:
    """The descriptor anew, of its tensors and its fields by their own names."""
    of: Any = desc.operator.desc.of  # type: ignore[attr-defined] # which the test above finds
    fields = {name: value for name, value in desc if not name.endswith("tensor") and name != "dimension_count"}
    return of(*(desc.tensor(name) for name in desc.operator.inputs), **fields, **stated)  # type: ignore[no-any-return]


@given(SEEDS.map(random.Random))
def test_a_legal_descriptor_is_what_its_parts_build(rng: random.Random) -> None:
    desc, _ = make(rng)
    target = desc.tensor("output_tensor")
    count = {} if desc.operator.name in ("DEPTH_TO_SPACE1", "SPACE_TO_DEPTH1") else {"dimension_count": target.rank}
    assert built(desc, output=target, **count) == desc
    packed = built(desc, **count).tensor("output_tensor")
    assert (packed.data_type, packed.strides) == (target.data_type, None)
    if desc.operator.name != "SLICE1":  # whose output may be smaller
        assert packed.sizes == target.sizes


def indices(rng: np.random.Generator, shape: tuple[int, ...], size: int) -> NDArray[Any]:
    return rng.integers(-size, size, shape).astype(rng.choice(["int32", "int64"]))


def shapes(least: int, most: int) -> Any:
    return st.lists(st.integers(1, 4), min_size=least, max_size=most).map(tuple)


def runs(desc: dg.OperatorDesc, *arrays: Any, result: NDArray[Any]) -> None:
    """The descriptor is legal, takes the arrays of which it was built, and gives NumPy's result behind leading 1s."""
    assert dg.validate(desc).ok
    found = dg.compile(desc)(*arrays)
    ones = found.ndim - result.ndim
    assert found.shape == (1,) * ones + result.shape
    assert found.tobytes() == result.tobytes()


@given(shapes(1, 4), shapes(0, 3), SEEDS, st.data())
def test_gather_takes(shape: tuple[int, ...], of_indices: tuple[int, ...], seed: int, data: st.DataObject) -> None:
    rng = np.random.default_rng(seed)
    x, axis = rng.random(shape), data.draw(st.integers(-len(shape), len(shape) - 1))
    ids = indices(rng, of_indices, shape[axis])
    runs(dg.GatherOperatorDesc.of(x, ids, axis), x, ids, result=np.take(x, ids, axis))


@given(shapes(1, 4), SEEDS, st.data())
def test_gather_elements_takes_along_the_axis(shape: tuple[int, ...], seed: int, data: st.DataObject) -> None:
    rng = np.random.default_rng(seed)
    x, axis = rng.random(shape), data.draw(st.integers(0, len(shape) - 1))
    ids = indices(rng, (*shape[:axis], data.draw(st.integers(1, 5)), *shape[axis + 1 :]), shape[axis])
    runs(dg.GatherElementsOperatorDesc.of(x, ids, axis), x, ids, result=np.take_along_axis(x, ids.astype(np.int64), axis))


@given(shapes(1, 4), shapes(0, 3), SEEDS, st.data())
def test_gather_nd_indexes_by_tuples(shape: tuple[int, ...], of_tuples: tuple[int, ...], seed: int, data: st.DataObject) -> None:
    rng = np.random.default_rng(seed)
    components = data.draw(st.integers(1, len(shape)))
    x = rng.random(shape)
    ids = np.stack([rng.integers(-size, size, of_tuples) for size in shape[:components]], axis=-1)
    result = x[tuple(np.moveaxis(ids, -1, 0))]
    for kind in (dg.GatherNDOperatorDesc, dg.GatherND1OperatorDesc):
        runs(kind.of(x, ids), x, ids, result=result)
    with_batch = np.stack([x] * 2)
    runs(
        dg.GatherND1OperatorDesc.of(with_batch, np.stack([ids] * 2), batch_dimension_count=1),
        with_batch,
        np.stack([ids] * 2),
        result=np.stack([result] * 2),
    )


@given(shapes(1, 4), SEEDS, st.data())
def test_slices_go_to_the_end(shape: tuple[int, ...], seed: int, data: st.DataObject) -> None:
    x = np.random.default_rng(seed).random(shape)
    offsets = [data.draw(st.integers(0, size - 1)) for size in shape]
    strides = [data.draw(st.integers(1, 5)) for _ in shape]
    result = x[tuple(slice(offset, None, stride) for offset, stride in zip(offsets, strides, strict=True))]
    runs(dg.SliceOperatorDesc.of(x, offsets, strides=strides), x, result=result)
    runs(dg.Slice1OperatorDesc.of(x, input_window_offsets=offsets, input_window_strides=strides), x, result=result)
    sizes = [data.draw(st.integers(1, size)) for size in result.shape]
    runs(dg.SliceOperatorDesc.of(x, offsets, sizes, strides), x, result=result[tuple(map(slice, sizes))])
    runs(dg.SliceOperatorDesc.of(x), x, result=x)
    backwards = [-stride for stride in strides]
    runs(dg.Slice1OperatorDesc.of(x, input_window_strides=backwards), x, result=x[tuple(slice(None, None, s) for s in backwards)])


@pytest.mark.parametrize("order", ["DEPTH_COLUMN_ROW", dg.DepthSpaceOrder.COLUMN_ROW_DEPTH, 1])
def test_blocks(order: Any) -> None:
    x = seeds.numpy_rng().random((2, 8, 3, 2))
    to_space = dg.DepthToSpace1OperatorDesc.of(x, 2, order)
    space = dg.compile(to_space)(x)
    assert space.tobytes() == to_space.operator.reference(to_space, x).tobytes()
    to_depth = dg.SpaceToDepth1OperatorDesc.of(space, block_size=2, order=order)
    assert dg.compile(to_depth)(space).tobytes() == x.tobytes()
    assert dg.compile(dg.DepthToSpace1OperatorDesc.of(x[0], 2))(x[0]).shape == (1, 2, 6, 4)


def test_whatever_states_sizes_and_type_is_taken() -> None:
    ids = np.array([2, 0])
    expected = dg.GatherOperatorDesc.of(X, ids)
    data = [OnlyDLPack(X), jnp.asarray(X), X.T.copy().T, ((3, 4, 5), "float32"), ([3, 4, 5], np.float32), ((3, 4, 5), "FLOAT32")]
    data += [dg.BufferTensorDesc(data_type=np.float32, sizes=X.shape), (np.array(X.shape), jnp.float32)]
    for each in data:
        assert dg.GatherOperatorDesc.of(each, ids) == expected
    for each in (OnlyDLPack(ids), ((2,), "int64"), dg.BufferTensorDesc(data_type="INT64", sizes=(1, 2))):
        assert dg.GatherOperatorDesc.of(X, each, index_dimensions=1) == expected
    scalar = dg.GatherOperatorDesc.of(X, np.int64(2))
    assert dg.compile(scalar)(X, np.int64(2)).tobytes() == X[2].tobytes()
    mask = X > 30
    assert dg.compile(dg.SliceOperatorDesc.of(mask))(mask).view(bool).tobytes() == mask.tobytes()


def test_arrays_are_described_packed_and_tensors_as_they_are() -> None:
    across, ids = X.transpose(2, 0, 1), np.array([4, -1])
    desc = dg.GatherOperatorDesc.of(across, ids)
    assert desc.input_tensor == dg.BufferTensorDesc(data_type="FLOAT32", sizes=(5, 3, 4))
    assert dg.compile(desc)(across, ids).tobytes() == across[ids].tobytes()
    strided = dg.BufferTensorDesc(data_type="FLOAT32", sizes=(4, 5), strides=(8, 1), total_tensor_size_in_bytes=256)
    apart = dg.BufferTensorDesc(data_type="FLOAT32", sizes=(2, 3, 5), strides=(24, 8, 1))
    desc = dg.GatherOperatorDesc.of(strided, ((2, 3), "uint32"), output=apart)
    assert desc.input_tensor == strided.model_copy(update={"sizes": (1, 4, 5), "strides": (0, 8, 1), "dimension_count": 3})
    assert desc.output_tensor == apart
    assert dg.validate(desc).ok


def test_tensors_get_as_many_dimensions_as_the_level_wants() -> None:
    desc = dg.GatherOperatorDesc.of(X[0], ((2, 3), "uint32"), axis=-1, dimension_count=4)
    assert [desc.tensor(name).sizes for name in desc.operator.tensors] == [(1, 1, 4, 5), (1, 1, 2, 3), (1, 4, 2, 3)]
    assert (desc.axis, desc.index_dimensions, str(dg.minimum_level(desc))) == (3, 2, "1_0")
    # As many as the data has, although the result would have five with its leading 1s.
    cropped = dg.GatherOperatorDesc.of(((1, 1, 4, 5), "float32"), ((2, 3), "uint32"), axis=2, dimension_count=4)
    assert cropped.output_tensor.sizes == (1, 2, 3, 5)
    cut = dg.SliceOperatorDesc.of(X[0], offsets=(1, 0), dimension_count=4)
    assert (cut.offsets, cut.sizes, cut.strides) == ((0, 0, 1, 0), (1, 1, 3, 5), (1, 1, 1, 1))
    smaller = dg.Slice1OperatorDesc.of(X[0], output=((1, 1, 2, 2), "float32"))
    assert (smaller.input_window_sizes, smaller.output_tensor.sizes) == ((1, 1, 4, 5), (1, 1, 2, 2))


@pytest.mark.parametrize(
    ("desc", "code"),
    [
        (dg.GatherOperatorDesc.of(X, ((2,), np.int8)), "DML201"),
        (dg.GatherOperatorDesc.of(((1,) * 9, "float32"), ((2,), "int64")), "DML102"),
        (dg.GatherOperatorDesc.of(X[:0], np.array([0])), "DML103"),
        (dg.GatherElementsOperatorDesc.of(X, ((3, 2, 2), "int64")), "DML401"),
        (dg.GatherND1OperatorDesc.of(X, ((2, 1), "int64"), batch_dimension_count=1), "DML505"),
        (dg.SliceOperatorDesc.of(X, offsets=(5, 0, 0), sizes=(1, 1, 1)), "DML605"),
        (dg.SliceOperatorDesc.of(X, sizes=(1, 1, 1), strides=(0, 1, 1)), "DML603"),
        (dg.DepthToSpace1OperatorDesc.of(((1, 3, 2, 2), "float32"), 2), "DML902"),
        (dg.SpaceToDepth1OperatorDesc.of(X, 8), "DML902"),
    ],
)
def test_a_descriptor_that_breaks_a_rule_is_built_and_reported(desc: dg.OperatorDesc, code: str) -> None:
    assert code in {finding.code for finding in dg.validate(desc).errors}


G, E, N, B, S, W, D = (
    *(dg.GatherOperatorDesc.of, dg.GatherElementsOperatorDesc.of, dg.GatherNDOperatorDesc.of, dg.GatherND1OperatorDesc.of),
    *(dg.SliceOperatorDesc.of, dg.Slice1OperatorDesc.of, dg.DepthToSpace1OperatorDesc.of),
)
IDS = np.array([[2, 0]])


@pytest.mark.parametrize(
    ("of", "word", "meant"),
    [
        (S, "axes", "the arguments are data, offsets, sizes, strides, dimension_count, output"),
        (S, "ofsets", "did you mean offsets?"),
        (W, "offsets", "did you mean input_window_offsets?"),
        (W, "strides", "did you mean input_window_strides?"),
        (G, "axes", "did you mean axis?"),
        (B, "batch_dimensions", "did you mean batch_dimension_count?"),
        (D, "blocksize", "did you mean block_size?"),
    ],
)
def test_an_argument_that_is_none_names_the_one_that_was_meant(of: Any, word: str, meant: str) -> None:
    inputs = (X,) if of in (S, W, D) else (X, IDS)
    with pytest.raises(TypeError, match=rf"^{word} is no argument of \w+OperatorDesc\.of; {re.escape(meant)}$"):
        of(*inputs, **{word: (0, 0, 0)})


@pytest.mark.parametrize(
    ("make_one", "error", "words"),
    [
        (lambda: G(X.tolist(), IDS), TypeError, r"data is of type list, expected an array, .*: wrap .* numpy.asarray\(values"),
        (lambda: G(X, 3), TypeError, "indices is of type int, expected an array"),
        (lambda: G(X, IDS / 2), TypeError, r"indices has data type FLOAT64, expected integers: convert with .astype\('int64'\)"),
        (lambda: G(np.array([["ab"]]), IDS), TypeError, r"^data: str64 is no data type of DirectML; DirectML's types are"),
        (lambda: G(X, X[:, 0, 0] > 3), TypeError, r"^indices has type bool, .* numpy.flatnonzero\(mask\) gives the indices"),
        (lambda: G(X, ((3,), "bool")), TypeError, "^indices has type bool"),
        (lambda: G(X, jnp.array([True])), TypeError, "^indices has type bool"),
        (lambda: G(np.ma.masked_array(X), IDS), TypeError, r"^data is a masked array, .*: pass data.filled\(value\)$"),
        (lambda: G(X, np.ma.masked_array([1, 2])), TypeError, r"^indices is a masked array, .* pass indices.filled\(value\)$"),
        (lambda: G(X * 1j, IDS), TypeError, r"data: complex64 is no data type of DirectML: uint64 holds its bits \(array.view"),
        (lambda: G(X.astype(">f4"), IDS), TypeError, r"data: >f4 has the other byte order: convert .* .astype\('float32'\)"),
        (lambda: G(((3,), float), IDS), TypeError, "data: float states no size: write numpy.float32 or numpy.float64"),
        (lambda: G((3, "float32"), IDS), TypeError, "its sizes are of type int, expected a list of integers"),
        (lambda: G(((3, 2.0), "float32"), IDS), TypeError, r"data.sizes\[1\] is 2.0 of type float, expected an integer"),
        (lambda: G(((3, 2**32), "float32"), IDS), ValueError, r"data.sizes\[1\] is 4294967296, expected 0 … 4294967295: split"),
        (lambda: G(X, IDS, axis=3), ValueError, r"axis is 3, expected -3 … 2: data is \{3,4,5\}"),
        (lambda: G(X, IDS, axis=1.0), TypeError, "axis is 1.0 of type float, expected an integer"),  # type: ignore[arg-type] # refused
        (lambda: E(X[0, 0, 0], IDS), ValueError, "data has no dimensions.*: reshape it to one"),
        (lambda: G(X, IDS, index_dimensions=3), ValueError, "index_dimensions is 3, expected 0 … 2: indices has 2 dimensions"),
        (lambda: G(X, IDS, dimension_count=2), ValueError, "dimension_count is 2, expected 3 … 8: a tensor has 3 dimensions"),
        (lambda: G(X, IDS, axis=1, dimension_count=3), ValueError, "dimension_count is 3, but the output has more dimensions"),
        (
            lambda: N(X[0], ((2, 3), "int64")),
            ValueError,
            r"\{2,3\} has tuples of 3 positions .* \{4,5\} has only 2 dimensions to index",
        ),
        (lambda: N(X, np.array(1)), ValueError, r"indices has \{\}: expected at least one dimension each"),
        (lambda: N(X, IDS, input_dimension_count=4), ValueError, "input_dimension_count is 4, expected 1 … 3: data has 3"),
        (
            lambda: B(X, IDS, batch_dimension_count=2),
            ValueError,
            "batch_dimension_count is 2, expected 0 … 1: each tensor needs a",
        ),
        (
            lambda: S(X, offsets=(1,)),
            ValueError,
            r"offsets has 1 entry, but data \{3,4,5\} has 3 dimensions: state one entry for each",
        ),
        (
            lambda: S(X, offsets=(-1, 0, 0)),
            ValueError,
            r"offsets\[0\] is -1, expected 0 … 4294967295: positions count from the front",
        ),
        (lambda: S(X, offsets=(3, 0, 0)), ValueError, r"offsets\[0\] is 3, expected 0 … 2: dimension 0 of data has size 3"),
        (lambda: S(X, strides=(-1, 1, 1)), ValueError, r"strides\[0\] is -1, .*: Slice1OperatorDesc walks backwards"),
        (lambda: S(X, strides=(0, 1, 1)), ValueError, r"strides\[0\] is 0, .*: use 1 to copy every element"),
        (
            lambda: S(X, output=((3, 4, 4), "float32")),
            ValueError,
            r"output has sizes \{3,4,4\}, expected \{3,4,5\}, which follow",
        ),
        (lambda: S(X, output=((3, 4, 5), "int32")), TypeError, "output has data type INT32, expected FLOAT32, the type of data"),
        (lambda: W(X, input_window_strides=(1, 1, 0)), ValueError, r"input_window_strides\[2\] is 0"),
        (lambda: W(X, output=((3, 4, 6), "float32")), ValueError, r"expected \{3,4,5\} or less"),
        (
            lambda: D(X[None, None], 2),
            ValueError,
            r"data \{1,1,3,4,5\} has 5 dimensions, expected \{batch, channels, height, width\}",
        ),
        (lambda: D(X, 0), ValueError, "block_size is 0, expected 1 …"),
        (lambda: D(X, 2, order="DCR"), ValueError, "'DCR' is ONNX's name; DirectML's is DEPTH_COLUMN_ROW"),
    ],
)
def test_arguments_that_leave_nothing_to_infer_are_refused(make_one: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        make_one()


class dtype:  # noqa: N801 - as torch calls it
    """What torch has: it prints as torch.float32."""

    __module__ = "torch"

    def __str__(self) -> str:
        return "torch.float32"


@pytest.mark.parametrize(
    "written",
    [
        "float32",
        np.float32,
        np.dtype("f4"),
        np.dtype("<f4"),
        jnp.float32,
        dtype(),
        "f4",
        "<f4",
        "single",
        "FLOAT32",
        "DML_TENSOR_DATA_TYPE_FLOAT32",
        1,
    ],
)
def test_a_data_type_is_written_as_its_library_does(written: Any) -> None:
    assert dg.DataType.parse(written) is dg.DataType.FLOAT32
    assert dg.BufferTensorDesc(data_type=written, sizes=(1,)).data_type is dg.DataType.FLOAT32


def test_every_type_by_numpy_s_name() -> None:
    for kind in dg.DataType:
        if kind.whole_bytes:
            assert dg.DataType.parse(np.dtype(kind.name.lower())) is dg.DataType.parse(kind.name.lower()) is kind
    assert dg.DataType.parse(ml_dtypes.int4) is dg.DataType.INT4
    for written in (np.bool_, "bool", np.dtype(bool)):
        assert dg.DataType.parse(written) is dg.DataType.UINT8


@pytest.mark.parametrize(
    ("written", "words"),
    [
        (
            ml_dtypes.bfloat16,
            r"bfloat16 is no data type of DirectML: uint16 holds its bits \(array.view\('uint16'\)\); .* float32, float16",
        ),
        ("bfloat16", "bfloat16 is no data type of DirectML: uint16 holds its bits"),
        ("BFLOAT16", r"bfloat16 is no data type of DirectML: uint16 holds its bits .*, uint4, int4$"),
        (">f4", r">f4 has the other byte order"),
        ("f3", r"'f3' is no DataType"),
        (jnp.float8_e4m3fn, "float8_e4m3fn is no data type of DirectML: uint8 holds its bits"),
        (np.complex128, "complex128 is no data type of DirectML; DirectML's types are float32, "),
        (str, "str is no data type of DirectML;"),
        (float, "float states no size: write numpy.float32 or numpy.float64"),
        (int, "int states no size: write numpy.int32 or numpy.int64"),
        ("int", "int states no size"),
        (np.dtype(">i2"), r">i2 has the other byte order: convert the elements with .astype\('int16'\)"),
        ("floaty", r"'floaty' is no DataType; expected one of UNKNOWN \(0\)"),
    ],
)
def test_other_types_are_refused_with_what_holds_their_bits(written: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        dg.DataType.parse(written)


def test_a_tuple_of_two_sizes_is_no_pair() -> None:
    with pytest.raises(TypeError, match=r"data is \(4, 6\): a tuple of two is read as a pair .* write \(\(4, 6\), 'float32'\)"):
        dg.SliceOperatorDesc.of((4, 6))
    with pytest.raises(ValueError, match=r"data.sizes\[1\] is -1, expected 0 … 4294967295: split a larger tensor"):
        dg.SliceOperatorDesc.of(((4, -1), "float32"))


@pytest.mark.parametrize("operator", dg.directml.OPERATORS.values(), ids=lambda operator: operator.name)
def test_a_forgotten_argument_is_reported_with_the_public_class(operator: Any) -> None:
    with pytest.raises(TypeError, match=rf"^{operator.desc.__name__}\.of\(\) missing"):
        operator.desc.of()


@pytest.mark.parametrize(
    ("written", "remedy"),
    [("float32", "did you mean FLOAT32"), ("int64", "did you mean INT64"), ("bool", "expected one of UNKNOWN")],
)
def test_files_name_types_as_directml_does(written: str, remedy: str) -> None:
    desc = dg.SliceOperatorDesc.of(X).document()
    assert dg.parse_descriptor(desc) == dg.SliceOperatorDesc.of(X)
    for name in ("input_tensor", "output_tensor"):
        other = {**desc, "desc": {**desc["desc"], wire_name(name): {"DataType": written, "Sizes": [3, 4, 5]}}}
        with pytest.raises(ValueError, match=f"'{written}' is no DataType; {remedy}"):
            dg.parse_descriptor(other)
    with pytest.raises(ValueError, match=f"'{written}' is no DataType"):
        dg.BufferTensorDesc.model_validate_json(f'{{"DataType": "{written}", "Sizes": [1]}}')
