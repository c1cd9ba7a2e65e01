"""dg.index: NumPy's spelling of what is taken from an array."""

from __future__ import annotations

from typing import Any

from dmlgather.numpy.index_expression import IndexExpression


class _Index:
    """Index expressions in NumPy's spelling: `dg.index[:, ids, ::-1]` is an `IndexExpression`, which a call applies to an array.

    An entry is what NumPy takes: an integer, a slice, `...`, None, a list or array of integers, a mask. An index array may be
    replaced by a placeholder, a pair (shape, dtype), where only a plan or a descriptor is wanted. What follows the brackets makes
    a chain, which runs fused.

    >>> ids = np.array([2, 0])
    >>> dg.index[:, ids, ::-1](np.arange(12).reshape(2, 3, 2)).tolist()
    [[[5, 4], [1, 0]], [[11, 10], [7, 6]]]
    >>> dg.index[:, ids][..., ::2].transpose(1, 0)(np.arange(12).reshape(2, 6)).tolist()
    [[2, 8]]
    """

    def __getitem__(self, key: Any) -> IndexExpression:
        """The expression of x[key].

        Raises IndexError, ValueError and OverflowError for entries that NumPy refuses for every array; TypeError for masks that
        are placeholders or lie on a GPU.
        """
        return IndexExpression(())[key]

    def __repr__(self) -> str:
        return "dg.index"


index = _Index()
"""See `_Index`."""
