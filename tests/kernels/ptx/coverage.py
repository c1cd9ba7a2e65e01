"""The instructions of the kernels' PTX that launches have executed in this process."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dmlgather.backends.cuda.variants import KernelKind, Variant
from tests.kernels.ptx.runs import AS_WRITTEN, Kernels

_NEITHER = "a rank of 0 and indices of more than 8 bytes, which no launch has; NVRTC makes code for them on compute_120"
UNREACHABLE = {
    KernelKind.GENERAL: (0, _NEITHER),
    KernelKind.CHECK: (0, _NEITHER),
}
"""Instructions of each kernel that are never executed: their greatest number on compute_90, and the reason."""


def executed(variant: Variant, kernels: Kernels = AS_WRITTEN) -> NDArray[np.bool_]:
    return kernels.module(variant).executed(variant.name) > 0


def never_executed(variant: Variant, kernels: Kernels = AS_WRITTEN) -> list[str]:
    instructions = kernels.module(variant).routine(variant.name).instructions
    lines = kernels.source_of(variant).splitlines()
    left = [instructions[number] for number in np.flatnonzero(~executed(variant, kernels))]
    return [f"{step.text}  // {lines[step.line - 1].strip()}" for step in left]
