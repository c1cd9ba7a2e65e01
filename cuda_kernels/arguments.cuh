// The argument block that every kernel takes by value. dmlgather/backends/cuda/arguments.py packs the same bytes.
#pragma once

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef signed char s8;
typedef short s16;
typedef int s32;
typedef long long s64;

constexpr int BLOCK = 256;          // threads per block of all kernels except those for long rows
constexpr int MAX_DIMENSIONS = 6;   // most thread dimensions of the specialised kernels
constexpr int MAX_LOOKUPS = 3;
constexpr int NEAR_DIMENSIONS = 4;  // entries of Arguments::dimension; the others are in far_dimension
constexpr int NEAR_LOOKUPS = 2;     // entries of Arguments::lookup; the other is far_lookup

// A thread dimension, with steps in bytes. Coordinates are below 2^31 and steps have 32 bits, so products are computed in 64 bits.
struct Dimension {
    u32 size;
    u32 multiplier;  // quotient = (n * multiplier) >> shift for every n < 2^31
    u32 shift;
    s32 out_step;
    s32 in_step;
    s32 index_step[NEAR_LOOKUPS];
};

// A lookup. Specialised kernels use only the low 32 bits of wrap, last, below and in_step.
struct Lookup {
    s64 offset;   // bytes from the start of the index buffer
    s64 walk;     // bytes between the indices of consecutive elements of a walking thread
    s64 wrap;     // added once to a negative value
    s64 last;     // limit - 1
    s64 below;    // position of a value that is negative even after the wrap: 0, or `last` if the index type is unsigned
    s64 in_step;  // bytes of input per unit of the value
};

// Staged kernels: rows in shared memory. A team is a group of threads that loads and gathers one row at a time.
struct Staging {
    u32 columns;     // size of the innermost output dimension
    u32 row_bytes;   // bytes of a row of the input
    u32 slot_bytes;  // bytes of shared memory for a team: the vectors of its row, and one vector of the fill value
    u32 team_shift;  // a team has 1 << team_shift threads
    u32 steps;       // number of rows that a team moves, one after the other
    u32 vectors;     // 1: threads store vectors; 0: they store elements
};

// Span kernels: contiguous runs, one after the other in the output.
struct PackedRuns {
    u64 multiplier;  // byte n < 2^63 of the output belongs to run (n * multiplier >> 64) >> shift
    s64 all_bytes;   // total bytes of all runs
    u32 shift;
    u32 steps;       // number of vectors that a thread moves
};

struct Arguments {
    const char* in;       // written at every launch
    const char* indices;  // written at every launch
    char* out;            // written at every launch
    u64* first_bad;       // written at every launch: receives the smallest offset of a bad index (atomicMin); null unless RAISE
    const char* table;    // general kernels: TableDimension[rank], Lookup[lookups], s64 index_step[lookups][rank];
                          // tile kernels: TableDimension[rank], TileForm[]
    s64 in_offset;        // bytes
    s64 out_offset;
    s64 in_walk;          // bytes between consecutive elements of a walking thread
    s64 out_walk;
    u32 threads;          // tile kernels: number of tiles
    u32 full;             // a thread with a smaller chunk coordinate moves UNROLL elements; any other thread moves one
                          // tile kernels: number of tiles per block
    u32 chunk;            // number of the walked dimension
    u32 rank;             // general and tile kernels
    u32 lookups;          // general kernels
    u32 index_shift;      // general kernels: an index has 1 << index_shift bytes
    u32 index_signed;     // general kernels
    u32 checked;          // general and staged kernels, gathers with three lookups: 1 if a bad index gives the fill value
    u32 fill[4];          // the fill value, repeated to 16 bytes
    Dimension dimension[NEAR_DIMENSIONS];  // fastest first
    Lookup lookup[NEAR_LOOKUPS];
    s64 in_bytes;  // span and staged kernels: bytes of the input that may be read
    Staging staging;
    PackedRuns runs;
    // The far fields are at the end because the compiler's choice of registers depends on the offsets of the other fields.
    Dimension far_dimension[MAX_DIMENSIONS - NEAR_DIMENSIONS];
    Lookup far_lookup;
    s32 far_index_step[MAX_DIMENSIONS];
};

static_assert(sizeof(Dimension) == 28, "arguments.py packs Dimension in 28 bytes");
static_assert(sizeof(Lookup) == 48, "arguments.py packs Lookup in 48 bytes");
static_assert(sizeof(Staging) == 24, "arguments.py packs Staging in 24 bytes");
static_assert(sizeof(PackedRuns) == 24, "arguments.py packs PackedRuns in 24 bytes");
static_assert(sizeof(Arguments) == 512, "arguments.py packs Arguments in 512 bytes");

__device__ __forceinline__ const Dimension& dimension_of(const Arguments& a, int d) {
    return d < NEAR_DIMENSIONS ? a.dimension[d] : a.far_dimension[d - NEAR_DIMENSIONS];
}

__device__ __forceinline__ const Lookup& lookup_of(const Arguments& a, int k) {
    return k < NEAR_LOOKUPS ? a.lookup[k] : a.far_lookup;
}

__device__ __forceinline__ s32 index_step_of(const Arguments& a, int d, int k) {
    return k < NEAR_LOOKUPS ? dimension_of(a, d).index_step[k] : a.far_index_step[d];
}

__device__ __forceinline__ u32 divide(u32 n, u32 multiplier, u32 shift) {
    return static_cast<u32>((static_cast<u64>(n) * multiplier) >> shift);
}

// Returns base + coordinate * step, by one instruction, which the compiler does not always choose by itself.
__device__ __forceinline__ s64 advance(s64 base, u32 coordinate, s32 step) {
    s64 sum;
    asm("mad.wide.s32 %0, %1, %2, %3;" : "=l"(sum) : "r"(coordinate), "r"(step), "l"(base));
    return sum;
}

template <typename T> __device__ __forceinline__ T* advance(T* base, u32 coordinate, s32 step) {
    return reinterpret_cast<T*>(advance(reinterpret_cast<s64>(base), coordinate, step));
}
