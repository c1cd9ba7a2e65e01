"""The declared operators. All other code takes what it needs to know of an operator from its declaration."""

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
"""Every operator by its DML_OPERATOR_TYPE name: "DML_OPERATOR_GATHER"."""


def operator_named(name: object) -> Operator:
    """The operator called "GATHER" or "DML_OPERATOR_GATHER". ValueError, with the known names, for any other."""
    full = name if isinstance(name, str) and name.startswith("DML_OPERATOR_") else f"DML_OPERATOR_{name}"
    found = OPERATORS.get(full)
    if found is None:
        known = ", ".join(operator.name for operator in _DECLARED)
        raise ValueError(f"unknown operator {name!r}; known operators are {known}")
    return found
