// Runs of bytes at any alignment. A run is contiguous in input and output, and no lookup moves along it, but its length, steps
// or pointers are not multiples of 16. Output vectors are aligned. Each is combined, by a shift, from the two aligned input
// vectors that contain its bytes. The shift is the same for the whole run: the run's start in the input minus its start in the
// output.
//
// Runs form groups of 1 << extent[0]. The threads of a group are ordered so that the threads of a warp do the same work: first
// the threads that walk, run by run, then the threads for the other vectors, vector by vector. Vector 0 of a run is the one
// that contains its first output byte. The thread at chunk c < full walks vectors c + 1, c + 1 + full, ..., which are whole
// vectors wherever the run starts.
// dimension[0]: the threads of a group; dimension[1]: the threads that walk one run; the other dimensions count runs.
// in_walk and out_walk are 16 * full.
#pragma once
#include "copy.cuh"

constexpr int SPAN_UNROLL = 4;

// Returns 16 of the 32 bytes (x, y), starting at byte `shift` < 16.
__device__ __forceinline__ uint4 joined(uint4 x, uint4 y, u32 shift) {
    const bool two = shift & 8, one = shift & 4;
    const u32 a0 = two ? x.z : x.x, a1 = two ? x.w : x.y, a2 = two ? y.x : x.z;
    const u32 a3 = two ? y.y : x.w, a4 = two ? y.z : y.x, a5 = two ? y.w : y.y;
    const u32 b0 = one ? a1 : a0, b1 = one ? a2 : a1, b2 = one ? a3 : a2, b3 = one ? a4 : a3, b4 = one ? a5 : a4;
    const u32 bits = 8 * (shift & 3);
    return make_uint4(__funnelshift_r(b0, b1, bits), __funnelshift_r(b1, b2, bits), __funnelshift_r(b2, b3, bits),
                      __funnelshift_r(b3, b4, bits));
}

// The aligned vectors that contain the first and the last of `count` > 0 bytes at `from`. They are equal or neighbours.
struct Cover {
    const char* first;
    const char* last;
};

__device__ __forceinline__ Cover cover(const char* from, u32 count) {
    const char* end = from + count - 1;
    return {from - misalignment(from), end - misalignment(end)};
}

// Whether both vectors lie inside the input. At the ends of the input, a vector may extend beyond it.
__device__ __forceinline__ bool readable(const Arguments& a, const char* first, const char* last) {
    return first >= a.in && last + VECTOR <= a.in + a.in_bytes;
}

// If `wanted`, stores the lowest Bytes bytes of `value` and removes them from it.
template <int Bytes> __device__ __forceinline__ void piece(char*& to, uint4& value, u32& count, bool wanted) {
    if (!wanted) return;
    if constexpr (Bytes == 8) {
        store<8>(to, static_cast<u64>(value.y) << 32 | value.x);
    } else {
        store<Bytes>(to, static_cast<Element<Bytes>>(value.x));
    }
    value = joined(value, value, Bytes);
    to += Bytes;
    count -= Bytes;
}

// Stores the lowest `count` < 16 bytes of `value` at `to`, inside one aligned vector. The pieces first grow with the alignment
// of the address, then shrink with the bytes that are left.
__device__ __forceinline__ void store_bytes(char* to, uint4 value, u32 count) {
    piece<1>(to, value, count, misalignment(to) & 1);
    piece<2>(to, value, count, (misalignment(to) & 2) && count >= 2);
    piece<4>(to, value, count, (misalignment(to) & 4) && count >= 4);
    piece<8>(to, value, count, count & 8);
    piece<4>(to, value, count, count & 4);
    piece<2>(to, value, count, count & 2);
    piece<1>(to, value, count, count & 1);
}

// Loads byte by byte, if the input does not contain the whole vectors.
__device__ __forceinline__ uint4 load_bytes(const char* from, u32 count) {
    uint4 value = make_uint4(0, 0, 0, 0);
#pragma unroll 1
    for (u32 byte = count; byte > 0; --byte) {
        value = make_uint4(value.x << 8, __funnelshift_r(value.x, value.y, 24), __funnelshift_r(value.y, value.z, 24),
                           __funnelshift_r(value.z, value.w, 24));
        value.x |= load<1>(from + byte - 1);
    }
    return value;
}

// Moves the part of one vector that belongs to the run: `count` > 0 bytes, the first of them to `to`.
__device__ __forceinline__ void move_part(const Arguments& a, const char* from, char* to, u32 count, bool good) {
    const Cover at = cover(from, count);
    uint4 value;
    if (!good) {
        value = fill_value<VECTOR>(a.fill);  // it repeats, so it is right wherever an element starts
    } else if (readable(a, at.first, at.last)) {
        value = joined(load<VECTOR>(at.first), load<VECTOR>(at.last), misalignment(from));
    } else {
        value = load_bytes(from, count);
    }
    if (count == VECTOR) {
        store<VECTOR>(to, value);
    } else {
        store_bytes(to, value, count);
    }
}

// Replaces each vector of `x` by the 16 bytes of (x, y) that start at byte 4 * Words + shift % 4.
template <int Words>
__device__ __forceinline__ void join_all(uint4 (&x)[SPAN_UNROLL], const uint4 (&y)[SPAN_UNROLL], u32 shift) {
    const u32 bits = 8 * (shift & 3);
#pragma unroll
    for (int u = 0; u < SPAN_UNROLL; ++u) {
        const u32 word[8] = {x[u].x, x[u].y, x[u].z, x[u].w, y[u].x, y[u].y, y[u].z, y[u].w};
        x[u] = make_uint4(
            __funnelshift_r(word[Words], word[Words + 1], bits), __funnelshift_r(word[Words + 1], word[Words + 2], bits),
            __funnelshift_r(word[Words + 2], word[Words + 3], bits), __funnelshift_r(word[Words + 3], word[Words + 4], bits));
    }
}

// Moves SPAN_UNROLL whole vectors: all loads, then all stores. The bytes of vector u are in the vector at `from` + u * in_walk
// and the next one. The threads of a warp mostly move the same run, and then take the same branch; selecting words instead
// would cost 11 instructions per vector.
__device__ __forceinline__ void move_whole(const Arguments& a, const char* from, char* to, u32 shift, bool good) {
    uint4 first[SPAN_UNROLL], second[SPAN_UNROLL];
#pragma unroll
    for (int u = 0; u < SPAN_UNROLL; ++u, from += a.in_walk) {
        first[u] = load<VECTOR>(from);
        second[u] = load<VECTOR>(from + VECTOR);
    }
    switch (shift >> 2) {
        case 0: join_all<0>(first, second, shift); break;
        case 1: join_all<1>(first, second, shift); break;
        case 2: join_all<2>(first, second, shift); break;
        default: join_all<3>(first, second, shift);
    }
#pragma unroll
    for (int u = 0; u < SPAN_UNROLL; ++u, to += a.out_walk) {
        store<VECTOR>(to, good ? first[u] : fill_value<VECTOR>(a.fill));
    }
}

// Finds a thread's run and its first vector in the run. Returns false if the last group has no such run.
template <int Dimensions, int Lookups>
__device__ __forceinline__ bool locate_run(const Arguments& a, u32 thread, Addresses<Lookups>& to, u32& vector, bool& walks) {
    const Dimension& group = a.dimension[0];
    const Dimension& walk = a.dimension[1];
    const u32 number = divide(thread, group.multiplier, group.shift), at = thread - number * group.size;
    const u32 walking = a.full << a.extent[0], other = at - walking;
    walks = at < walking;
    const u32 walked = divide(at, walk.multiplier, walk.shift), part = other >> a.extent[0];
    vector = walks ? at - walked * walk.size + 1 : part ? part + SPAN_UNROLL * a.full : 0;
    u32 rest = (number << a.extent[0]) + (walks ? walked : other - (part << a.extent[0]));
    to.in = a.in + a.in_offset;
    to.out = a.out + a.out_offset;
#pragma unroll
    for (int k = 0; k < Lookups; ++k) to.index[k] = a.indices + a.lookup[k].offset;
#pragma unroll
    for (int d = 2; d <= Dimensions; ++d) {
        const Dimension& dim = a.dimension[d];
        const u32 quotient = d < Dimensions ? divide(rest, dim.multiplier, dim.shift) : 0;
        const u32 coordinate = rest - quotient * dim.size;
        if (d == Dimensions && rest >= dim.size) return false;
        rest = quotient;
        to.in = advance(to.in, coordinate, dim.in_step);
        to.out = advance(to.out, coordinate, dim.out_step);
#pragma unroll
        for (int k = 0; k < Lookups; ++k) to.index[k] = advance(to.index[k], coordinate, dim.index_step[k]);
    }
    return true;
}

// Dimensions: one of the run, and one or two of the runs.
template <int Dimensions, int Lookups, int IndexBytes, bool Checked> __device__ __forceinline__ void span(const Arguments& a) {
    const u32 thread = blockIdx.x * BLOCK + threadIdx.x;
    if (thread >= a.threads) return;
    Addresses<Lookups> from;
    u32 vector;
    bool walks;
    if (!locate_run<Dimensions, Lookups>(a, thread, from, vector, walks)) return;
    s64 source[1];
    bool good[1];
    look_up<1, Lookups, IndexBytes>(a, from, source, good);
    if constexpr (Checked) {
        if (!good[0] && a.first_bad) report_bad<1, Lookups, IndexBytes>(a, from);
    } else {
        good[0] = true;
    }
    const u32 lead = misalignment(from.out);
    const s64 start = static_cast<s64>(vector) * VECTOR - lead;  // offset of the vector from the run's start
    const char* in = from.in + source[0] + start;
    char* out = from.out + start;
    const u32 shift = misalignment(in);
    if (walks && readable(a, in - shift, in - shift + VECTOR + (SPAN_UNROLL - 1) * a.in_walk)) {
        move_whole(a, in - shift, out, shift, good[0]);
        return;
    }
    const u32 skipped = vector ? 0 : lead;
    s64 rest = a.run_bytes - start;
#pragma unroll 1
    for (int u = walks ? SPAN_UNROLL : 1; u > 0 && rest > 0; --u, in += a.in_walk, out += a.out_walk, rest -= a.out_walk) {
        const u32 end = rest < VECTOR ? static_cast<u32>(rest) : VECTOR;
        move_part(a, in + skipped, out + skipped, end - skipped, good[0]);
    }
}

#define SPAN(name, dimensions, lookups, index_bytes, checked) \
    ENTRY name(const Arguments a) { span<dimensions, lookups, index_bytes, checked>(a); }
