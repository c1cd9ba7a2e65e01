// Dimensions that a kernel reads from a table in device memory: any number of them, with steps of 64 bits.
#pragma once
#include "arguments.cuh"

struct TableDimension {
    u32 size;
    u32 multiplier;
    u32 shift;
    u32 last;      // tiles: the bit that the last tile along this dimension sets in the number of its form
    s64 out_step;  // bytes
    s64 in_step;
};

static_assert(sizeof(TableDimension) == 32, "arguments.py packs TableDimension in 32 bytes");

// Takes the next coordinate out of `rest`. The fastest dimension comes first.
__device__ __forceinline__ u32 next_coordinate(u32& rest, const TableDimension& dim) {
    const u32 quotient = divide(rest, dim.multiplier, dim.shift);
    const u32 at = rest - quotient * dim.size;
    rest = quotient;
    return at;
}
