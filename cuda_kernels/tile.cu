// Slices that are turned in shared memory. Entry points: rows of dmlgather/backends/cuda/variants.py; `ci/kernels --write` writes this file.
#include "tile.cuh"

TILES(tiles_e1_l1_s1, 1, 1, 1)
TILES(tiles_e1_l1_s4, 1, 1, 4)
TILES(tiles_e1_l4_s1, 1, 4, 1)
TILES(tiles_e1_l4_s4, 1, 4, 4)
TILES(tiles_e2_l2_s2, 2, 2, 2)
TILES(tiles_e2_l2_s4, 2, 2, 4)
TILES(tiles_e2_l4_s2, 2, 4, 2)
TILES(tiles_e2_l4_s4, 2, 4, 4)
TILES(tiles_e4_l4_s4, 4, 4, 4)
TILES(tiles_e8_l8_s8, 8, 8, 8)
TILES(tiles_e16_l16_s16, 16, 16, 16)
