"""NumPy's index expressions, such as x[:, ids, ::-1], as functions on arrays, as plans and as DirectML descriptors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dmlgather.package import lazy_names

if TYPE_CHECKING:
    from dmlgather.numpy.index_expression import IndexExpression, index

__all__ = ["IndexExpression", "index"]

__getattr__, __dir__ = lazy_names(__name__, {"IndexExpression": "index_expression", "index": "index_expression"})
