// Slices and gathers in launch form: thread dimensions, and one walked dimension, along which a thread moves UNROLL elements.
//
// The walked dimension of size n is cut into chunks of `full` <= n / UNROLL elements. The thread at chunk coordinate c < full
// moves elements c, c + full, c + 2 full, ..., so neighbouring threads access neighbouring memory. Each remaining element has its
// own thread, at chunk coordinates from `full` on. Loads of a walking thread have no guards. With guards, the compiler would
// interleave index loads and payload loads, and payload loads would wait for indices that they do not need.
#pragma once
#include "elements.cuh"
#include "lookup.cuh"

// Elements that a walking thread moves. Invariant: a thread resolves its indices once for its whole walk. Narrow elements need
// more loads in flight. Wide elements, and indices that are live until the end, need more registers.
template <int Lookups, int Bytes, bool Checked, bool Invariant>
constexpr int UNROLL = !Invariant && Lookups > 2 && Bytes == 16 ? 2 : (Invariant ? Bytes <= 4 : Bytes <= 2 && Lookups == 1 && !Checked) ? 8 : 4;

// True if the kernel reads the policy from its arguments.
template <int Lookups> constexpr bool TOLD = Lookups > 2;

template <int Lookups> struct Addresses {
    const char* in;
    char* out;
    const char* index[Lookups ? Lookups : 1];
};

template <int Dimensions, int Lookups>
__device__ __forceinline__ u32 locate(const Arguments& a, u32 thread, Addresses<Lookups>& to) {
    to.in = a.in + a.in_offset;
    to.out = a.out + a.out_offset;
#pragma unroll
    for (int k = 0; k < Lookups; ++k) to.index[k] = a.indices + lookup_of(a, k).offset;
    u32 rest = thread, chunk = 0;
#pragma unroll
    for (int d = 0; d < Dimensions; ++d) {
        const Dimension& dim = dimension_of(a, d);
        const u32 quotient = d + 1 < Dimensions ? divide(rest, dim.multiplier, dim.shift) : 0;
        const u32 at = rest - quotient * dim.size;
        rest = quotient;
        if (d == 0 || a.chunk == d) chunk = at;
        to.in = advance(to.in, at, dim.in_step);
        to.out = advance(to.out, at, dim.out_step);
#pragma unroll
        for (int k = 0; k < Lookups; ++k) to.index[k] = advance(to.index[k], at, index_step_of(a, d, k));
    }
    return chunk;
}

// Called only if an index is bad: loads the thread's indices again and reports the bad ones.
template <int Count, int Lookups, int IndexBytes>
__device__ __forceinline__ void report_bad(const Arguments& a, const Addresses<Lookups>& from) {
    for (int k = 0; k < Lookups; ++k) {
        const char* at = from.index[k];
        for (int u = 0; u < Count; ++u, at += lookup_of(a, k).walk) {
            if (!resolve<IndexBytes>(load_index<IndexBytes>(at), lookup_of(a, k)).good) report(a, at, IndexBytes / 4 + 1);
        }
    }
}

// Looks up Sets elements of a thread. `source`: bytes that the lookups add to the input's address. `good`: all indices of the
// element are valid. All index loads come first, then the arithmetic.
template <int Sets, int Lookups, int IndexBytes>
__device__ __forceinline__ void look_up(
    const Arguments& a, const Addresses<Lookups>& from, s64 (&source)[Sets], bool (&good)[Sets]) {
    Index<IndexBytes> index[Lookups ? Lookups : 1][Sets];
#pragma unroll
    for (int k = 0; k < Lookups; ++k) {
        const char* at = from.index[k];
#pragma unroll
        for (int u = 0; u < Sets; ++u, at += lookup_of(a, k).walk) index[k][u] = load_index<IndexBytes>(at);
    }
#pragma unroll
    for (int u = 0; u < Sets; ++u) {
        source[u] = 0;
        good[u] = true;
#pragma unroll
        for (int k = 0; k < Lookups; ++k) {
            const Position position = resolve<IndexBytes>(index[k][u], lookup_of(a, k));
            source[u] = advance(source[u], position.value, static_cast<s32>(lookup_of(a, k).in_step));
            good[u] = good[u] && position.good;
        }
    }
}

// Moves Count elements: first all index loads, then all payload loads, then all stores.
template <int Count, int Lookups, int Bytes, int IndexBytes, bool Checked, bool Invariant, int Lane>
__device__ __forceinline__ void move(const Arguments& a, const Addresses<Lookups>& from) {
    constexpr int Sets = Invariant ? 1 : Count;
    s64 source[Sets];
    bool good[Sets];
    look_up<Sets, Lookups, IndexBytes>(a, from, source, good);
    Element<Bytes> value[Count];
    const char* in = from.in;
#pragma unroll
    for (int u = 0; u < Count; ++u, in += a.in_walk) value[u] = load<Bytes>(in + source[Invariant ? 0 : u]);
    char* out = from.out;
    bool all_good = true;
#pragma unroll
    for (int u = 0; u < Count; ++u, out += a.out_walk) {
        if constexpr (Checked) {
            if (!good[Invariant ? 0 : u] && (!TOLD<Lookups> || a.checked)) value[u] = fill_value<Bytes>(a.fill);
            all_good = all_good && good[Invariant ? 0 : u];
        }
        store<Bytes>(out, reversed<Lane>(value[u]));
    }
    if constexpr (Checked) {
        if (!all_good && a.first_bad) report_bad<Sets, Lookups, IndexBytes>(a, from);
    }
}

template <int Dimensions, int Lookups, int Bytes, int IndexBytes, bool Checked, bool Invariant, int Lane = 0>
__device__ __forceinline__ void copy(const Arguments& a) {
    constexpr int Unroll = UNROLL<Lookups, Bytes, Checked, Invariant>;
    const u32 thread = blockIdx.x * BLOCK + threadIdx.x;
    if (thread >= a.threads) return;
    Addresses<Lookups> from;
    const u32 chunk = locate<Dimensions, Lookups>(a, thread, from);
    if (chunk < a.full) {
        move<Unroll, Lookups, Bytes, IndexBytes, Checked, Invariant, Lane>(a, from);
    } else {
        from.in += (Unroll - 1) * a.in_walk;
        from.out += (Unroll - 1) * a.out_walk;
#pragma unroll
        for (int k = 0; k < Lookups; ++k) from.index[k] += (Unroll - 1) * lookup_of(a, k).walk;
        move<1, Lookups, Bytes, IndexBytes, Checked, Invariant, Lane>(a, from);
    }
}

// Each use of these macros is one line of a .cu file and one variant of dmlgather/backends/cuda/variants.py.
#define ENTRY extern "C" __global__ void __launch_bounds__(BLOCK, 4)
#define COPY(name, dimensions, bytes) \
    ENTRY name(const Arguments a) { copy<dimensions, 0, bytes, 4, false, true>(a); }
#define REVERSE(name, dimensions, lane) \
    ENTRY name(const Arguments a) { copy<dimensions, 0, 16, 4, false, true, lane>(a); }
#define GATHER(name, dimensions, lookups, bytes, index_bytes, checked, invariant) \
    ENTRY name(const Arguments a) { copy<dimensions, lookups, bytes, index_bytes, checked, invariant>(a); }
