// The general kernels: up to 32 dimensions and lookups, any index type, steps and limits beyond 31 bits. The launch form is that
// of copy.cuh.
#pragma once
#include "elements.cuh"
#include "lookup.cuh"
#include "table.cuh"

constexpr int GENERAL_UNROLL = 4;

struct Table {
    const TableDimension* dimension;
    const Lookup* lookup;
    const s64* index_step;  // [lookups][rank]
};

__device__ __forceinline__ Table table_of(const Arguments& a) {
    const TableDimension* dimension = reinterpret_cast<const TableDimension*>(a.table);
    const Lookup* lookup = reinterpret_cast<const Lookup*>(dimension + a.rank);
    return {dimension, lookup, reinterpret_cast<const s64*>(lookup + a.lookups)};
}

__device__ __forceinline__ const char* index_address(const Arguments& a, const Table& table, u32 thread, u32 k) {
    const char* at = a.indices + table.lookup[k].offset;
    const s64* step = table.index_step + static_cast<s64>(k) * a.rank;
    u32 rest = thread;
#pragma unroll 1
    for (u32 d = 0; d < a.rank; ++d) at += next_coordinate(rest, table.dimension[d]) * step[d];
    return at;
}

// Moves Count elements, starting `skip` steps along the walk.
template <int Count, int Bytes>
__device__ __forceinline__ void general_move(
    const Arguments& a, const Table& table, u32 thread, const char* in, char* out, int skip) {
    s64 source[Count] = {};
    bool good[Count];
#pragma unroll
    for (int u = 0; u < Count; ++u) good[u] = true;
#pragma unroll 1
    for (u32 k = 0; k < a.lookups; ++k) {
        const Lookup& lookup = table.lookup[k];
        const char* index = index_address(a, table, thread, k) + skip * lookup.walk;
        s64 value[Count];
#pragma unroll
        for (int u = 0; u < Count; ++u) value[u] = load_any_index(index + u * lookup.walk, a.index_shift, a.index_signed);
#pragma unroll
        for (int u = 0; u < Count; ++u) {
            const bool valid = wrap_and_check(value[u], lookup);
            if (!valid && a.first_bad) report(a, index + u * lookup.walk, a.index_shift);
            const s64 upper = valid ? value[u] : lookup.last;
            source[u] += (value[u] < 0 ? lookup.below : upper) * lookup.in_step;
            good[u] = good[u] && valid;
        }
    }
    in += skip * a.in_walk;
    out += skip * a.out_walk;
    Element<Bytes> element[Count];
#pragma unroll
    for (int u = 0; u < Count; ++u) element[u] = load<Bytes>(in + u * a.in_walk + source[u]);
#pragma unroll
    for (int u = 0; u < Count; ++u) {
        store<Bytes>(out + u * a.out_walk, good[u] || !a.checked ? element[u] : fill_value<Bytes>(a.fill));
    }
}

template <int Bytes> __device__ __forceinline__ void general_copy(const Arguments& a) {
    const u32 thread = blockIdx.x * BLOCK + threadIdx.x;
    if (thread >= a.threads) return;
    const Table table = table_of(a);
    const char* in = a.in + a.in_offset;
    char* out = a.out + a.out_offset;
    u32 rest = thread, chunk = 0;
#pragma unroll 1
    for (u32 d = 0; d < a.rank; ++d) {
        const u32 at = next_coordinate(rest, table.dimension[d]);
        if (d == a.chunk) chunk = at;
        in += at * table.dimension[d].in_step;
        out += at * table.dimension[d].out_step;
    }
    if (chunk < a.full) {
        general_move<GENERAL_UNROLL, Bytes>(a, table, thread, in, out, 0);
    } else {
        general_move<1, Bytes>(a, table, thread, in, out, GENERAL_UNROLL - 1);
    }
}

// Only checks the indices: for RAISE with an empty output, or over an axis of size 0.
__device__ __forceinline__ void check_indices(const Arguments& a) {
    const u32 thread = blockIdx.x * BLOCK + threadIdx.x;
    if (thread >= a.threads) return;
    const Table table = table_of(a);
#pragma unroll 1
    for (u32 k = 0; k < a.lookups; ++k) {
        const char* index = index_address(a, table, thread, k);
        s64 value = load_any_index(index, a.index_shift, a.index_signed);
        if (!wrap_and_check(value, table.lookup[k])) report(a, index, a.index_shift);
    }
}

#define GENERAL(name, bytes) \
    extern "C" __global__ void __launch_bounds__(BLOCK, 4) name(const Arguments a) { general_copy<bytes>(a); }
#define CHECK(name) \
    extern "C" __global__ void __launch_bounds__(BLOCK, 4) name(const Arguments a) { check_indices(a); }
