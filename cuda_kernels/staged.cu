// Rows that are gathered from shared memory. Entry points: rows of dmlgather/backends/cuda/variants.py; `ci/kernels --write` writes this file.
#include "staged.cuh"

STAGED(staged_e1_i4_once, 1, 4, false)
STAGED(staged_e1_i4_each, 1, 4, true)
STAGED(staged_e1_i8_once, 1, 8, false)
STAGED(staged_e1_i8_each, 1, 8, true)
STAGED(staged_e2_i4_once, 2, 4, false)
STAGED(staged_e2_i4_each, 2, 4, true)
STAGED(staged_e2_i8_once, 2, 8, false)
STAGED(staged_e2_i8_each, 2, 8, true)
STAGED(staged_e4_i4_once, 4, 4, false)
STAGED(staged_e4_i4_each, 4, 4, true)
STAGED(staged_e4_i8_once, 4, 8, false)
STAGED(staged_e4_i8_each, 4, 8, true)
STAGED(staged_e8_i4_once, 8, 4, false)
STAGED(staged_e8_i4_each, 8, 4, true)
STAGED(staged_e8_i8_once, 8, 8, false)
STAGED(staged_e8_i8_each, 8, 8, true)
