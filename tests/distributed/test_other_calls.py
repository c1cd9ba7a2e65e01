"""What the calls that take whole arrays say of tables in chunks, and of arrays of the other byte order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import dask.array as da
import numpy as np
import pytest
import zarr

import dmlgather as dg

X, IDS = np.arange(40, dtype=np.float32).reshape(10, 4), np.array([3, 3, 9])
GATHER = dg.compile(dg.GatherOperatorDesc.of(X, IDS))


@pytest.mark.parametrize("chunked", [da.from_array, zarr.array])
@pytest.mark.parametrize("call", [GATHER, dg.onnx.gather, lambda x, ids: dg.index[ids](x)])
def test_a_table_in_chunks_is_told_which_function_reads_it(chunked: Callable[[Any], Any], call: Callable[..., Any]) -> None:
    with pytest.raises(TypeError, match=r"got Array of (dask|zarr): dg\.distributed\.gather, slice and run read it in chunks"):
        call(chunked(X), IDS)
    assert dg.distributed.gather(chunked(X), IDS).compute().tobytes() == X[IDS].tobytes()


@pytest.mark.parametrize("call", [GATHER, lambda x, ids: dg.distributed.run(GATHER.desc, da.from_array(x), ids)])
def test_the_other_byte_order_is_converted_and_not_reinterpreted(call: Callable[..., Any]) -> None:
    """The remedy of the message gives the elements that are meant."""
    swapped = X.astype(">f4")
    with pytest.raises(TypeError, match=r"got >f4; it has the other byte order; convert with x\.astype\(x\.dtype\.newbyteorder"):
        call(swapped, IDS)
    assert np.asarray(call(swapped.astype(swapped.dtype.newbyteorder("=")), IDS)).tobytes() == X[IDS].tobytes()
