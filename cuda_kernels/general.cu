// Everything that is not specialised. Entry points: rows of dmlgather/backends/cuda/variants.py; `ci/kernels --write` writes this file.
#include "general.cuh"

GENERAL(general_e1, 1)
GENERAL(general_e2, 2)
GENERAL(general_e4, 4)
GENERAL(general_e8, 8)
GENERAL(general_e16, 16)
CHECK(check_indices_only)
