// Three lookups, 32-bit indices. Entry points: rows of dmlgather/backends/cuda/variants.py; `ci/kernels --write` writes this file.
#include "copy.cuh"

GATHER(gather_d3_k3_e1_i4_told_each, 3, 3, 1, 4, true, false)
GATHER(gather_d3_k3_e1_i4_told_once, 3, 3, 1, 4, true, true)
GATHER(gather_d3_k3_e2_i4_told_each, 3, 3, 2, 4, true, false)
GATHER(gather_d3_k3_e2_i4_told_once, 3, 3, 2, 4, true, true)
GATHER(gather_d3_k3_e4_i4_told_each, 3, 3, 4, 4, true, false)
GATHER(gather_d3_k3_e4_i4_told_once, 3, 3, 4, 4, true, true)
GATHER(gather_d3_k3_e8_i4_told_each, 3, 3, 8, 4, true, false)
GATHER(gather_d3_k3_e8_i4_told_once, 3, 3, 8, 4, true, true)
GATHER(gather_d3_k3_e16_i4_told_each, 3, 3, 16, 4, true, false)
GATHER(gather_d3_k3_e16_i4_told_once, 3, 3, 16, 4, true, true)
