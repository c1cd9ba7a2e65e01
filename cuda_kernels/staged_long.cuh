// The gather of staged.cuh for long rows: shared memory holds only one or two. The whole block moves one row at a time. It
// resolves the indices of all its columns before the first row, and keeps the positions of their elements in shared memory, after
// the row: 2 bytes each, or 4 bytes if a row has more than 2^16 elements. A block of 1024 threads has as many loads in flight as
// four blocks of the other kernels.
//
// A thread stores at least 4 bytes at a time. The units of a row are counted from a line boundary, even if the row begins after it in
// the output, so that each request fills whole sectors. dimension[0].size: number of blocks that share a row. dimension[0].index_step:
// the step between columns. dimension[0].out_step: bytes from the first column of a block to that of the next block.
#pragma once
#include "staged.cuh"

constexpr int LONG_BLOCK = 1024;     // threads per block of these kernels
constexpr int STORE_LINE = 128;      // units are counted from a multiple of this
constexpr int RESOLVED_AT_ONCE = 4;  // indices that a thread loads before it resolves them

template <int Bytes> constexpr int UNIT = Bytes < 4 ? 4 : Bytes;  // bytes of a store

template <int Bytes> constexpr int UNITS = Bytes == 1 ? 4 : 8;  // units that a thread gathers before it stores them

// Writes the positions of the columns' elements, in elements from the start of a row. Under FILL and RAISE, a bad index becomes the
// position of the fill value. Reports bad indices.
template <int Bytes, int IndexBytes, typename Place>
__device__ __forceinline__ void place_columns(const Arguments& a, const char* from, u32 count, Place* places) {
    const s32 step = a.dimension[0].index_step[0];
    const u32 fill = (a.staging.slot_bytes - VECTOR) / Bytes;
    bool all_good = true;
#pragma unroll 1
    for (u32 c = threadIdx.x; c < count; c += RESOLVED_AT_ONCE * LONG_BLOCK) {
        Index<IndexBytes> index[RESOLVED_AT_ONCE];
#pragma unroll
        for (int k = 0; k < RESOLVED_AT_ONCE; ++k) {
            index[k] = load_index<IndexBytes>(advance(from, min(c + k * LONG_BLOCK, count - 1), step));
        }
#pragma unroll
        for (int k = 0; k < RESOLVED_AT_ONCE; ++k) {
            const Position position = resolve<IndexBytes>(index[k], a.lookup[0]);
            all_good = all_good && position.good;
            const u32 place = position.good || !a.checked ? position.value : fill;
            if (c + k * LONG_BLOCK < count) places[c + k * LONG_BLOCK] = static_cast<Place>(place);
        }
    }
    if (all_good || !a.first_bad) return;
#pragma unroll 1
    for (u32 c = threadIdx.x; c < count; c += LONG_BLOCK) {
        const char* const where = advance(from, c, step);
        if (!resolve<IndexBytes>(load_index<IndexBytes>(where), a.lookup[0]).good) report(a, where, IndexBytes / 4 + 1);
    }
}

// Combines the columns of a unit, the first column lowest.
template <int Bytes> __device__ __forceinline__ Element<UNIT<Bytes>> unit_of(const Element<Bytes> (&lane)[UNIT<Bytes> / Bytes]) {
    if constexpr (Bytes == 1) {
        return __byte_perm(__byte_perm(lane[0], lane[1], 0x0040), __byte_perm(lane[2], lane[3], 0x0040), 0x5410);
    } else if constexpr (Bytes == 2) {
        return __byte_perm(lane[0], lane[1], 0x5410);
    } else {
        return lane[0];
    }
}

// Gathers Count units of a row, LONG_BLOCK units apart. `at`: points to the position of the first unit's first column.
template <int Count, int Bytes, typename Place>
__device__ __forceinline__ void gather_units(const char* row, const Place* at, char* out) {
    constexpr int lanes = UNIT<Bytes> / Bytes;
    u32 place[Count][lanes];
#pragma unroll
    for (int u = 0; u < Count; ++u) {
#pragma unroll
        for (int k = 0; k < lanes; ++k) place[u][k] = at[u * LONG_BLOCK * lanes + k];
    }
#pragma unroll
    for (int u = 0; u < Count; ++u) {
        Element<Bytes> lane[lanes];
#pragma unroll
        for (int k = 0; k < lanes; ++k) lane[k] = staged<Bytes>(row, place[u][k] * Bytes);
        store<UNIT<Bytes>>(out + u * LONG_BLOCK * UNIT<Bytes>, unit_of<Bytes>(lane));
    }
}

// Gathers the columns of a row. Units are counted from the line in which the output begins. Columns before the first whole unit
// and after the last one are stored one by one.
template <int Bytes, typename Place>
__device__ __forceinline__ void gather_long(const char* row, const Place* places, char* out, u32 count) {
    constexpr u32 unit = UNIT<Bytes>, lanes = unit / Bytes;
    const u32 lead = static_cast<u32>(reinterpret_cast<u64>(out)) % STORE_LINE;
    const u32 begin = (lead + unit - 1) / unit, end = (lead + count * Bytes) / unit;
    const s32 before = lead / Bytes;  // columns from the start of the first line to the first column
    // A thread moves its first unit last, because only this unit may lie before `begin`. So all threads of a warp take the same loop.
    u32 i = threadIdx.x + LONG_BLOCK;
#pragma unroll 1
    for (; (i | 31) + (UNITS<Bytes> - 1) * LONG_BLOCK < end; i += UNITS<Bytes> * LONG_BLOCK) {
        gather_units<UNITS<Bytes>, Bytes>(row, places + (static_cast<s32>(i * lanes) - before), out + (static_cast<s32>(i * unit - lead)));
    }
#pragma unroll 1
    for (; i < end; i += LONG_BLOCK) {
        gather_units<1, Bytes>(row, places + (static_cast<s32>(i * lanes) - before), out + (static_cast<s32>(i * unit - lead)));
    }
    i = threadIdx.x;
    if (i >= begin && i < end) {
        gather_units<1, Bytes>(row, places + (static_cast<s32>(i * lanes) - before), out + (static_cast<s32>(i * unit - lead)));
    }
    if constexpr (lanes > 1) {
        const s32 all = static_cast<s32>(count), head = min(static_cast<s32>(begin * lanes) - before, all);
        const s32 tail = max(static_cast<s32>(end * lanes) - before, head);
        const bool first = threadIdx.x < lanes;
        const s32 column = first ? threadIdx.x : tail + static_cast<s32>(threadIdx.x - lanes);
        if (threadIdx.x < 2 * lanes && column < (first ? head : all)) {
            store<Bytes>(out + column * Bytes, staged<Bytes>(row, places[column] * Bytes));
        }
    }
}

template <int Bytes, int IndexBytes, typename Place> __device__ __forceinline__ void move_rows(const Arguments& a, char* memory) {
    const Staging& staging = a.staging;
    const u32 group = divide(blockIdx.x, a.dimension[0].multiplier, a.dimension[0].shift);
    const u32 share = a.dimension[0].out_step / Bytes, start = (blockIdx.x - group * a.dimension[0].size) * share;
    const u32 count = min(share, staging.columns - start);
    Place* const places = reinterpret_cast<Place*>(memory + staging.slot_bytes);
    const char* const from = advance(a.indices + a.lookup[0].offset, start, a.dimension[0].index_step[0]);
    place_columns<Bytes, IndexBytes>(a, from, count, places);
    if (threadIdx.x == 0) *reinterpret_cast<Element<VECTOR>*>(memory + staging.slot_bytes - VECTOR) = fill_value<VECTOR>(a.fill);
    const u32 first = group * staging.steps, last = min(first + staging.steps, a.threads);
    for (u32 row = first; row < last; ++row) {
        const Row to = locate_row(a, row);
        stage_row<Bytes>(a, to.in, threadIdx.x, memory);
        __syncthreads();
        gather_long<Bytes>(memory + misalignment(to.in), places, advance(to.out, start, Bytes), count);
        __syncthreads();
    }
}

template <int Bytes, int IndexBytes> __device__ __forceinline__ void stage_long(const Arguments& a) {
    DYNAMIC_SHARED(memory);
    if constexpr (Bytes <= 2) {
        if (a.staging.slot_bytes - VECTOR > 0xffff * Bytes) return move_rows<Bytes, IndexBytes, u32>(a, memory);
    }
    move_rows<Bytes, IndexBytes, u16>(a, memory);
}

#define LONG(name, bytes, index_bytes) \
    extern "C" __global__ void __launch_bounds__(LONG_BLOCK, 1) name(const Arguments a) { stage_long<bytes, index_bytes>(a); }
