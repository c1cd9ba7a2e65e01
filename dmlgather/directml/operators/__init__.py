"""The declarations of all supported operators."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from dmlgather.directml.operators.depth_space import DEPTH_TO_SPACE1, SPACE_TO_DEPTH1
from dmlgather.directml.operators.gather import GATHER, GATHER_ELEMENTS
from dmlgather.directml.operators.gather_nd import GATHER_ND, GATHER_ND1
from dmlgather.directml.operators.operator import Operator
from dmlgather.directml.operators.slices import SLICE, SLICE1

_DECLARED = (GATHER, GATHER_ELEMENTS, GATHER_ND, GATHER_ND1, SLICE, SLICE1, DEPTH_TO_SPACE1, SPACE_TO_DEPTH1)

OPERATORS: Mapping[str, Operator] = MappingProxyType({operator.type: operator for operator in _DECLARED})
"""All operators by their names in DML_OPERATOR_TYPE: "DML_OPERATOR_GATHER"."""


def operator_named(name: object) -> Operator:
    """Return the operator named "GATHER" or "DML_OPERATOR_GATHER". Raises ValueError for an unknown name."""
    full = name if isinstance(name, str) and name.startswith("DML_OPERATOR_") else f"DML_OPERATOR_{name}"
    operator = OPERATORS.get(full)
    if operator is None:
        known = ", ".join(operator.name for operator in _DECLARED)
        raise ValueError(f"unknown operator {name!r}; known operators are {known}")
    return operator
