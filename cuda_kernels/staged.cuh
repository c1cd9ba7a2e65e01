// Staged rows: a gather along the innermost output dimension with the same indices for every row, out[r, c] = in[r, index[c]].
// Direct reads would fetch a sector of 32 bytes for every element. Here, a whole row is loaded into shared memory by vectors.
//
// A block consists of teams of 2^n threads. A team gathers the block's columns from one row at a time. Each thread resolves the
// indices of its COLUMNS columns before the first row. The whole block waits at a barrier before and after gathering.
// dimension[0].size: number of blocks that share a row. dimension[0].index_step: the step between columns. dimension[1 ... 3]: the
// rows, `threads` in all.
#pragma once
#include "elements.cuh"
#include "lookup.cuh"

#define DYNAMIC_SHARED(name) \
    extern __shared__ uint4 name##_vectors[]; \
    char* const name = reinterpret_cast<char*>(name##_vectors)

constexpr int LOADS = 4;  // vectors of a row that a thread has in flight

template <int Bytes> constexpr int COLUMNS = Bytes == 8 ? 8 : 16;  // columns of a thread

// A thread's columns: its c-th column is first + c / lanes * far + c % lanes * near.
struct Columns {
    u32 first, near, far;
};

template <int Bytes> __device__ __forceinline__ u32 column_of(const Columns& columns, int c) {
    constexpr int lanes = VECTOR / Bytes;
    return columns.first + c / lanes * columns.far + c % lanes * columns.near;
}

// Hides from the compiler that the number is the same for every row. Otherwise, it would keep all values that it derives from the
// number in registers, from row to row.
__device__ __forceinline__ u32 afresh(u32 number) {
    asm volatile("" : "+r"(number));
    return number;
}

struct Row {
    const char* in;
    char* out;
};

// Addresses of a row's first input byte and first output column.
__device__ __forceinline__ Row locate_row(const Arguments& a, u32 row) {
    Row to = {a.in + a.in_offset, a.out + a.out_offset};
    u32 rest = row;
#pragma unroll
    for (int d = 1; d < NEAR_DIMENSIONS; ++d) {
        const Dimension& dim = a.dimension[d];
        const bool last = d + 1 == NEAR_DIMENSIONS || d + 1 >= static_cast<int>(a.rank);
        const u32 quotient = last ? 0 : divide(rest, dim.multiplier, dim.shift);
        const u32 at = last ? rest : rest - quotient * dim.size;
        to.in = advance(to.in, at, dim.in_step);
        to.out = advance(to.out, at, dim.out_step);
        if (last) break;
        rest = quotient;
    }
    return to;
}

// Loads adjacent indices by one instruction.
__device__ __forceinline__ void load_some(const char* at, s32 (&index)[2]) {
    const int2 two = __ldg(reinterpret_cast<const int2*>(at));
    index[0] = two.x, index[1] = two.y;
}

__device__ __forceinline__ void load_some(const char* at, s32 (&index)[4]) {
    const int4 four = __ldg(reinterpret_cast<const int4*>(at));
    index[0] = four.x, index[1] = four.y, index[2] = four.z, index[3] = four.w;
}

__device__ __forceinline__ void load_some(const char* at, s64 (&index)[2]) {
    const longlong2 two = __ldg(reinterpret_cast<const longlong2*>(at));
    index[0] = two.x, index[1] = two.y;
}

// Loads the indices of a thread's columns: by vectors if columns and indices are adjacent, and indices are aligned.
template <int Count, int Bytes, int IndexBytes>
__device__ __forceinline__ void load_indices(
    const Arguments& a, const Columns& columns, const char* from, Index<IndexBytes> (&index)[Count]) {
    constexpr int lanes = VECTOR / Bytes;
    constexpr int Some = lanes * IndexBytes < VECTOR ? lanes : VECTOR / IndexBytes;
    const s32 step = a.dimension[0].index_step[0];
    if (columns.near == 1 && step == IndexBytes && reinterpret_cast<u64>(from) % (Some * IndexBytes) == 0) {
#pragma unroll
        for (int c = 0; c < Count; c += lanes) {
            const char* const at = advance(from, min(column_of<Bytes>(columns, c), a.staging.columns - lanes), IndexBytes);
#pragma unroll
            for (int k = 0; k < lanes; k += Some) {
                Index<IndexBytes> some[Some];
                load_some(at + k * IndexBytes, some);
#pragma unroll
                for (int i = 0; i < Some; ++i) index[c + k + i] = some[i];
            }
        }
    } else {
#pragma unroll
        for (int c = 0; c < Count; ++c) {
            const u32 column = min(column_of<Bytes>(columns, c), a.staging.columns - 1);
            index[c] = load_index<IndexBytes>(advance(from, column, step));
        }
    }
}

// Finds the positions of the columns' elements in a team's slot, from the row's start on. Returns true if all indices are good.
// Under FILL and RAISE, a bad index becomes the position of the fill value, so gathering needs no check. A row may start anywhere
// in a vector, so the fill value is repeated throughout a vector of its own.
template <int Count, int Bytes, int IndexBytes>
__device__ __forceinline__ bool resolve_indices(const Arguments& a, const Columns& columns, u32 (&at)[Count]) {
    const u32 fill = a.staging.slot_bytes - VECTOR;
    Index<IndexBytes> index[Count];
    load_indices<Count, Bytes, IndexBytes>(a, columns, a.indices + a.lookup[0].offset, index);
    bool all_good = true;
#pragma unroll
    for (int c = 0; c < Count; ++c) {
        const Position position = resolve<IndexBytes>(index[c], a.lookup[0]);
        at[c] = position.good || !a.checked ? position.value * Bytes : fill;
        all_good = all_good && position.good;
    }
    return all_good;
}

// Called only if an index is bad: loads the thread's indices again and reports the bad ones.
template <int Count, int Bytes, int IndexBytes>
__device__ __forceinline__ void report_columns(const Arguments& a, const Columns& columns) {
#pragma unroll 1
    for (int c = 0; c < Count; ++c) {
        const u32 column = min(column_of<Bytes>(columns, c), a.staging.columns - 1);
        const char* const where = advance(a.indices + a.lookup[0].offset, column, a.dimension[0].index_step[0]);
        if (!resolve<IndexBytes>(load_index<IndexBytes>(where), a.lookup[0]).good) report(a, where, IndexBytes / 4 + 1);
    }
}

// Loads Count vectors of a row, i, i + team, ..., into its slot; if Guarded, only those before vector `whole`.
template <int Count, bool Guarded>
__device__ __forceinline__ void stage_some(const char* start, char* slot, u32 i, u32 team, u32 whole) {
    Element<VECTOR> vector[Count];
#pragma unroll
    for (int k = 0; k < Count; ++k) {
        const u32 at = i + k * team;
        vector[k] = load<VECTOR>(advance(start, Guarded ? min(at, whole - 1) : at, VECTOR));
    }
#pragma unroll
    for (int k = 0; k < Count; ++k) {
        const u32 at = i + k * team;
        if (!Guarded || at < whole) *reinterpret_cast<Element<VECTOR>*>(slot + at * VECTOR) = vector[k];
    }
}

// Loads the row at `from` into a team's slot, by aligned vectors. The input starts at a vector boundary. If it ends inside a
// vector, the last elements are loaded one by one.
template <int Bytes> __device__ __forceinline__ void stage_row(const Arguments& a, const char* from, u32 lane, char* slot) {
    const u32 team = 1u << a.staging.team_shift;
    const u32 skew = misalignment(from), bytes = skew + a.staging.row_bytes;
    const char* const start = from - skew;
    const u32 vectors = (bytes + VECTOR - 1) / VECTOR;
    const u32 whole = a.in + a.in_bytes - start >= static_cast<s64>(vectors) * VECTOR ? vectors : bytes / VECTOR;
    u32 i = lane;
    for (; i + (LOADS - 1) * team < whole; i += LOADS * team) stage_some<LOADS, false>(start, slot, i, team, whole);
    if (i < whole) stage_some<LOADS - 1, true>(start, slot, i, team, whole);  // at most LOADS - 1 vectors remain
    for (u32 at = whole * VECTOR + lane * Bytes; at < bytes; at += team * Bytes) {
        *reinterpret_cast<Element<Bytes>*>(slot + at) = load<Bytes>(start + at);
    }
}

template <int Bytes> __device__ __forceinline__ Element<Bytes> staged(const char* slot, u32 at) {
    return *reinterpret_cast<const Element<Bytes>*>(slot + at);
}

// Combines lanes into a vector, the first lane lowest.
template <int Bytes> __device__ __forceinline__ Element<VECTOR> joined(const Element<Bytes> (&lane)[VECTOR / Bytes]) {
    u32 word[4];
#pragma unroll
    for (int w = 0; w < 4; ++w) {
        if constexpr (Bytes == 8) {
            word[w] = static_cast<u32>(lane[w / 2] >> w % 2 * 32);
        } else if constexpr (Bytes == 4) {
            word[w] = lane[w];
        } else if constexpr (Bytes == 2) {
            word[w] = __byte_perm(lane[2 * w], lane[2 * w + 1], 0x5410);
        } else {
            const u32 low = __byte_perm(lane[4 * w], lane[4 * w + 1], 0x0040);
            const u32 high = __byte_perm(lane[4 * w + 2], lane[4 * w + 3], 0x0040);
            word[w] = __byte_perm(low, high, 0x5410);
        }
    }
    return make_uint4(word[0], word[1], word[2], word[3]);
}

// Gathers a thread's columns from its team's slot.
template <int Count, int Bytes>
__device__ __forceinline__ void gather_row(
    const Arguments& a, Columns columns, const char* slot, char* out, const u32 (&at)[Count]) {
    constexpr int lanes = VECTOR / Bytes;
    columns.first = afresh(columns.first);
    if (a.staging.vectors) {
#pragma unroll
        for (int c = 0; c < Count; c += lanes) {
            const u32 column = column_of<Bytes>(columns, c);
            if (column >= a.staging.columns) continue;
            Element<Bytes> lane[lanes];
#pragma unroll
            for (int k = 0; k < lanes; ++k) lane[k] = staged<Bytes>(slot, at[c + k]);
            store<VECTOR>(advance(out, column, Bytes), joined<Bytes>(lane));
        }
    } else {
        constexpr int Some = 8;
#pragma unroll
        for (int c = 0; c < Count; c += Some) {
            Element<Bytes> value[Some];
#pragma unroll
            for (int k = 0; k < Some; ++k) value[k] = staged<Bytes>(slot, at[c + k]);
#pragma unroll
            for (int k = 0; k < Some; ++k) {
                const u32 column = column_of<Bytes>(columns, c + k);
                if (column < a.staging.columns) store<Bytes>(advance(out, column, Bytes), value[k]);
            }
        }
    }
}

template <int Bytes, int IndexBytes> __device__ __forceinline__ void stage(const Arguments& a) {
    constexpr int Count = COLUMNS<Bytes>;
    DYNAMIC_SHARED(memory);
    const Staging& staging = a.staging;
    const u32 team = 1u << staging.team_shift, teams = BLOCK >> staging.team_shift;
    const u32 lane = threadIdx.x & (team - 1), number = threadIdx.x >> staging.team_shift;

    // Blocks that share rows have adjacent numbers, so all except the first find the rows in the L2 cache.
    const u32 group = divide(blockIdx.x, a.dimension[0].multiplier, a.dimension[0].shift);
    const u32 start = (blockIdx.x - group * a.dimension[0].size) * team * Count;
    constexpr u32 lanes = VECTOR / Bytes;
    const Columns columns = {start + (staging.vectors ? lane * lanes : lane), staging.vectors ? 1 : team, team * lanes};

    u32 at[Count];
    if (!resolve_indices<Count, Bytes, IndexBytes>(a, columns, at) && a.first_bad) {
        report_columns<Count, Bytes, IndexBytes>(a, columns);
    }

    char* const slot = memory + number * staging.slot_bytes;
    if (lane == 0) *reinterpret_cast<Element<VECTOR>*>(slot + staging.slot_bytes - VECTOR) = fill_value<VECTOR>(a.fill);
    u32 row = group * staging.steps * teams + number;
    for (u32 step = 0; step < staging.steps; ++step, row += teams) {
        Row to = {};
        if (row < a.threads) {
            to = locate_row(a, row);
            stage_row<Bytes>(a, to.in, lane, slot);
        }
        __syncthreads();
        if (row < a.threads) gather_row<Count, Bytes>(a, columns, slot + misalignment(to.in), to.out, at);
        __syncthreads();
    }
}

#define STAGED(name, bytes, index_bytes) \
    extern "C" __global__ void __launch_bounds__(BLOCK, 4) name(const Arguments a) { stage<bytes, index_bytes>(a); }
