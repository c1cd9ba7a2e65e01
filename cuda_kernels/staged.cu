// Rows that are gathered from shared memory. Entry points: rows of dmlgather/backends/cuda/variants.py; `ci/kernels --write` writes this file.
#include "staged.cuh"
#include "staged_long.cuh"

STAGED(staged_e1_i4, 1, 4)
STAGED(staged_e1_i8, 1, 8)
STAGED(staged_e2_i4, 2, 4)
STAGED(staged_e2_i8, 2, 8)
STAGED(staged_e4_i4, 4, 4)
STAGED(staged_e4_i8, 4, 8)
STAGED(staged_e8_i4, 8, 4)
STAGED(staged_e8_i8, 8, 8)
LONG(staged_e1_i4_long, 1, 4)
LONG(staged_e1_i8_long, 1, 8)
LONG(staged_e2_i4_long, 2, 4)
LONG(staged_e2_i8_long, 2, 8)
LONG(staged_e4_i4_long, 4, 4)
LONG(staged_e4_i8_long, 4, 8)
LONG(staged_e8_i4_long, 8, 4)
LONG(staged_e8_i8_long, 8, 8)
