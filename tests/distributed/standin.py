"""An array type that is neither NumPy's nor CuPy's, and that refuses to become NumPy's."""

from __future__ import annotations

import sys
from typing import Any

import dask.array as da
import numpy as np
from numpy.typing import NDArray

from tests.distributed.counted import Chunks, computed_chunks


class Standin:
    """What dask and DLPack need of an array, over memory of NumPy's; everything else, `__array__` above all, fails."""

    __module__ = "standin"  # a library of that name, in which its `from_dlpack` is looked for

    def __init__(self, values: NDArray[Any]) -> None:
        self._values = values

    @property
    def shape(self) -> tuple[int, ...]:
        return self._values.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        return self._values.dtype

    @property
    def ndim(self) -> int:
        return self._values.ndim

    @property
    def nbytes(self) -> int:
        return self._values.nbytes

    def tobytes(self) -> bytes:
        return self._values.tobytes()

    def __getitem__(self, where: Any) -> Standin:
        return Standin(self._values[where])

    def reshape(self, *shape: Any) -> Standin:
        return Standin(self._values.reshape(*shape))

    def astype(self, dtype: Any, **options: Any) -> Standin:
        return Standin(self._values.astype(dtype, **options))

    def __dlpack__(self, **options: Any) -> Any:
        return self._values.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._values.__dlpack_device__()

    def __reduce__(self) -> Any:
        return made, (self._values,)

    def __array_namespace__(self, api_version: str | None = None) -> Any:
        return sys.modules["standin"]

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError("a stand-in was turned into NumPy")

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if function is not np.concatenate:  # by which dask puts chunks together
            return NotImplemented
        return Standin(np.concatenate([each._values for each in args[0]], *args[1:], **kwargs))


def made(values: NDArray[Any]) -> Standin:
    """The stand-in over NumPy's memory; unlike its class, found by its name in another process."""
    return Standin(values)


def from_dlpack(array: Any) -> Standin:
    return Standin(np.from_dlpack(array))


sys.modules["standin"] = sys.modules[__name__]


def table_of(values: NDArray[Any], chunks: Chunks) -> da.Array:
    return da.from_array(values, chunks=chunks).map_blocks(made, meta=Standin(np.empty((0,) * values.ndim, values.dtype)))


def assert_stays(result: da.Array, expected: NDArray[Any]) -> None:
    """Assert that all chunks of a result are stand-ins, and that it has these elements."""
    assert type(result._meta) is Standin
    assert {type(chunk) for chunk in computed_chunks(result)} == {Standin}
    whole = result.compute()
    assert (type(whole), whole.shape, whole.tobytes()) == (Standin, expected.shape, expected.tobytes())
