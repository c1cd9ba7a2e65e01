// A transpose: the innermost input dimension is not the innermost output dimension. A block transposes a 32 x 32 tile in shared
// memory, so that reads and writes are both coalesced.
#pragma once
#include "elements.cuh"

constexpr int TILE = 32;
constexpr int TILE_ROWS = BLOCK / TILE;    // rows of the tile that a block moves at once
constexpr int TILE_STEPS = TILE / TILE_ROWS;

// dimension[0]: tiles along the innermost output dimension; dimension[1]: tiles along the innermost input dimension; the
// other two are batches. Steps are bytes per element, not per tile.
template <int Bytes> __device__ __forceinline__ void transpose(const Arguments& a) {
    __shared__ Element<Bytes> tile[TILE][TILE + 1];  // the odd row length spreads a column over the banks
    u32 rest = blockIdx.x, at[MAX_DIMENSIONS];
#pragma unroll
    for (int d = 0; d < MAX_DIMENSIONS; ++d) {
        const u32 quotient = divide(rest, a.dimension[d].multiplier, a.dimension[d].shift);
        at[d] = rest - quotient * a.dimension[d].size;
        rest = quotient;
    }
    const char* in = a.in + a.in_offset;
    char* out = a.out + a.out_offset;
#pragma unroll
    for (int d = 2; d < MAX_DIMENSIONS; ++d) {
        in = advance(in, at[d], a.dimension[d].in_step);
        out = advance(out, at[d], a.dimension[d].out_step);
    }
    const u32 lane = threadIdx.x % TILE, row = threadIdx.x / TILE;
    const u32 first = at[0] * TILE, second = at[1] * TILE;
    if (second + lane < a.extent[1]) {
        in = advance(in, second + lane, a.dimension[1].in_step);
#pragma unroll
        for (int step = 0; step < TILE_STEPS; ++step) {
            const u32 y = row + step * TILE_ROWS;
            if (first + y < a.extent[0]) tile[y][lane] = load<Bytes>(advance(in, first + y, a.dimension[0].in_step));
        }
    }
    __syncthreads();
    if (first + lane < a.extent[0]) {
        out = advance(out, first + lane, a.dimension[0].out_step);
#pragma unroll
        for (int step = 0; step < TILE_STEPS; ++step) {
            const u32 y = row + step * TILE_ROWS;
            if (second + y < a.extent[1]) {
                store<Bytes>(advance(out, second + y, a.dimension[1].out_step), tile[lane][y]);
            }
        }
    }
}

#define TRANSPOSE(name, bytes) \
    extern "C" __global__ void __launch_bounds__(BLOCK, 4) name(const Arguments a) { transpose<bytes>(a); }
