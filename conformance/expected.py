"""The output of a case on the CPU backend."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from conformance.case_files import POISON, StoredCase, result_bytes
from dmlgather.calls.operator import CompiledOperator
from dmlgather.calls.operator import compile as compile_operator
from dmlgather.directml import FeatureLevel, OperatorDesc
from dmlgather.directml.elements import elements


class Computed(NamedTuple):
    """The output of a case, and the operator that computed it."""

    output: NDArray[Any]
    operator: CompiledOperator


def computed(case: StoredCase, level: FeatureLevel) -> Computed:
    """Run a case on the CPU.

    Raises DescriptorError if the descriptor is not legal at `level`, ValueError if an input is too short.
    """
    operator = compile_operator(case.desc, device="cpu", level=level)
    buffer = np.full(result_bytes(case.desc), POISON, np.uint8)
    operator.run_buffers(*case.inputs, out=buffer)
    return Computed(output_of(case.desc, buffer), operator)


def output_of(desc: OperatorDesc, buffer: NDArray[np.uint8]) -> NDArray[Any]:
    """Return the output in a buffer as a contiguous array of shape Sizes."""
    tensor = desc.tensor(desc.operator.output)
    return np.ascontiguousarray(elements(buffer, tensor)).reshape(tensor.sizes)
