// Runs of bytes at any alignment: contiguous on both sides, with no lookup along the way, but with lengths, steps or pointers
// that are not multiples of 16. Output vectors are aligned; each is shifted together from the two aligned input vectors that
// hold its bytes. The shift belongs to the run: it is where the run starts in the input, less where it starts in the output.
//
// Runs come in groups of 1 << extent[0]. A group has the threads that walk, run after run, then those of its other vectors,
// vector after vector: so that the threads of a warp do the same. Vectors of a run count from the one that holds its first
// output byte. The thread at chunk c < full walks vectors c + 1, c + 1 + full, ..., which are whole wherever the run starts.
// dimension[0]: threads of a group; dimension[1]: of a run's walk; the others count runs. in_walk and out_walk are 16 full.
#pragma once
#include "copy.cuh"

constexpr int SPAN_UNROLL = 4;

// 16 of the 32 bytes (x, y), from byte `shift` < 16 on.
__device__ __forceinline__ uint4 joined(uint4 x, uint4 y, u32 shift) {
    const bool two = shift & 8, one = shift & 4;
    const u32 a0 = two ? x.z : x.x, a1 = two ? x.w : x.y, a2 = two ? y.x : x.z;
    const u32 a3 = two ? y.y : x.w, a4 = two ? y.z : y.x, a5 = two ? y.w : y.y;
    const u32 b0 = one ? a1 : a0, b1 = one ? a2 : a1, b2 = one ? a3 : a2, b3 = one ? a4 : a3, b4 = one ? a5 : a4;
    const u32 bits = 8 * (shift & 3);
    return make_uint4(__funnelshift_r(b0, b1, bits), __funnelshift_r(b1, b2, bits), __funnelshift_r(b2, b3, bits),
                      __funnelshift_r(b3, b4, bits));
}

// `count` > 0 bytes from `from` on lie within this aligned vector and the one that `last` says: the same, or the next.
struct Cover {
    const char* first;
    const char* last;
};

__device__ __forceinline__ Cover cover(const char* from, u32 count) {
    const char* end = from + count - 1;
    return {from - misalignment(from), end - misalignment(end)};
}

// Whether the input has the vectors; at its ends they may stick out.
__device__ __forceinline__ bool readable(const Arguments& a, const char* first, const char* last) {
    return first >= a.in && last + VECTOR <= a.in + a.in_bytes;
}

// Stores the lowest Bytes of `value` where they are wanted, and leaves the rest of it.
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

// Stores the lowest `count` < 16 bytes of `value`, which lie within one vector: pieces that grow until they are aligned, then
// pieces that shrink.
__device__ __forceinline__ void store_bytes(char* to, uint4 value, u32 count) {
    piece<1>(to, value, count, misalignment(to) & 1);
    piece<2>(to, value, count, (misalignment(to) & 2) && count >= 2);
    piece<4>(to, value, count, (misalignment(to) & 4) && count >= 4);
    piece<8>(to, value, count, count & 8);
    piece<4>(to, value, count, count & 4);
    piece<2>(to, value, count, count & 2);
    piece<1>(to, value, count, count & 1);
}

// Byte by byte, where the input has not all of the vectors.
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

// One vector of which the run has `count` > 0 bytes, the first of them at `to`.
__device__ __forceinline__ void move_part(const Arguments& a, const char* from, char* to, u32 count, bool good) {
    const Cover at = cover(from, count);
    uint4 value;
    if (!good) {
        value = fill_value<VECTOR>(a.fill);  // at any start of an element: it repeats
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

// Each vector of `x` becomes the one that starts 4 Words + shift % 4 bytes into it and goes on in `y`.
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

// SPAN_UNROLL whole vectors: every load, then every store. Vector u lies within the one at `from` + u walks and the next. The
// threads of a warp mostly move one run, so that they take one branch; selecting words costs every vector 11 instructions.
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

// Where a thread is: its run's addresses, and its first vector of it. False where a last group has no such run.
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

// Dimensions: of the run and of the runs, two or three.
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
    const s64 start = static_cast<s64>(vector) * VECTOR - lead;  // of the vector within the run
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
