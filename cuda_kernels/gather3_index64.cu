// Three lookups, 64-bit indices. Entry points: rows of dmlgather/backends/cuda/variants.py; `ci/kernels --write` writes this file.
#include "copy.cuh"

GATHER(gather_d3_k3_e1_i8_told_each, 3, 3, 1, 8, true, false)
GATHER(gather_d3_k3_e1_i8_told_once, 3, 3, 1, 8, true, true)
GATHER(gather_d3_k3_e2_i8_told_each, 3, 3, 2, 8, true, false)
GATHER(gather_d3_k3_e2_i8_told_once, 3, 3, 2, 8, true, true)
GATHER(gather_d3_k3_e4_i8_told_each, 3, 3, 4, 8, true, false)
GATHER(gather_d3_k3_e4_i8_told_once, 3, 3, 4, 8, true, true)
GATHER(gather_d3_k3_e8_i8_told_each, 3, 3, 8, 8, true, false)
GATHER(gather_d3_k3_e8_i8_told_once, 3, 3, 8, 8, true, true)
GATHER(gather_d3_k3_e16_i8_told_each, 3, 3, 16, 8, true, false)
GATHER(gather_d3_k3_e16_i8_told_once, 3, 3, 16, 8, true, true)
