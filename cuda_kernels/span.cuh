// Spans: runs of bytes at any alignment. A run is contiguous in the input, and has the same indices everywhere. In the output, the
// runs follow one another without gaps. The output is cut into aligned vectors of 16 bytes. Neighbouring threads store
// neighbouring vectors, so every request of a warp fills whole lines.
//
// A warp moves a chunk of the output, `steps` x 512 bytes; each of its threads moves every 32nd vector. A vector is made, by a
// shift, from the two aligned input vectors that contain its bytes. If a run ends inside the vector, its other bytes are made from
// two more input vectors, at the start of the next run. A chunk inside one run takes a short path: one lookup, one shift.
// dimension[0].size: bytes of a run, at least 32 and less than 2^30. dimension[1], dimension[2]: the runs.
#pragma once
#include "copy.cuh"

constexpr int SPAN_UNROLL = 4;  // the short path is for chunks with this many steps
constexpr int LINE = 128;       // chunks start at a multiple of this
constexpr int WARP_BYTES = 32 * VECTOR;

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

// Returns a vector with the low `count` bytes of `low`, 0 < count <= 16, and the other bytes of `high`.
__device__ __forceinline__ uint4 merged(uint4 low, uint4 high, u32 count) {
    // __byte_perm selects byte n of `high` by digit n + 4, and byte n of `low` by digit n: 0x7654 - 0x0044 = 0x7610 for count = 2.
    const u64 fours = 0x4444444444444444 >> (64 - 4 * count);
    const u32 first = static_cast<u32>(fours), second = static_cast<u32>(fours >> 32);
    return make_uint4(__byte_perm(low.x, high.x, 0x7654 - (first & 0xffff)), __byte_perm(low.y, high.y, 0x7654 - (first >> 16)),
                      __byte_perm(low.z, high.z, 0x7654 - (second & 0xffff)), __byte_perm(low.w, high.w, 0x7654 - (second >> 16)));
}

// Returns true if the aligned vector at `first` and the next one lie inside the input, which may start and end inside a vector.
__device__ __forceinline__ bool readable(const Arguments& a, const char* first) {
    return static_cast<u64>(first - a.in) <= static_cast<u64>(a.in_bytes) - 2 * VECTOR;
}

// Bytes low ... high - 1 of a vector. Its byte 0 is at address `from`. The other bytes are undefined.
struct Part {
    const char* from;
    u32 low, high;
};

// The aligned input vectors that contain a part.
struct Pair {
    uint4 x, y;
};

__device__ __forceinline__ Pair load_pair(const Part& part) {
    const u32 shift = misalignment(part.from);
    const char* const first = part.from - shift;
    Pair pair = {};
    if (shift + part.low < VECTOR) pair.x = load<VECTOR>(first);
    if (shift + part.high > VECTOR) pair.y = load<VECTOR>(first + VECTOR);
    return pair;
}

// Loads a part byte by byte into the first vector of a pair, so that `joined` takes it with shift 0.
__device__ __forceinline__ Pair load_bytes(const Part& part) {
    Pair pair = {};
#pragma unroll 1
    for (u32 byte = part.high; byte > 0; --byte) {
        pair.x = make_uint4(pair.x.x << 8, __funnelshift_r(pair.x.x, pair.x.y, 24), __funnelshift_r(pair.x.y, pair.x.z, 24),
                            __funnelshift_r(pair.x.z, pair.x.w, 24));
        if (byte > part.low) pair.x.x |= load<1>(part.from + byte - 1);
    }
    return pair;
}

__device__ __forceinline__ uint4 load_part(const Arguments& a, const Part& part) {
    const u32 shift = misalignment(part.from);
    if (!readable(a, part.from - shift)) return load_bytes(part).x;
    const Pair pair = load_pair(part);
    return joined(pair.x, pair.y, shift);
}

// Returns the high 64 bits of the product, or a number that is smaller by 1 or 2, because carries of the low products are dropped.
__device__ __forceinline__ u64 multiply_high(u64 x, u64 y) {
    const u64 x0 = static_cast<u32>(x), x1 = x >> 32, y0 = static_cast<u32>(y), y1 = y >> 32;
    return x1 * y1 + (x1 * y0 >> 32) + (x0 * y1 >> 32);
}

// The chunk of the output that a warp moves.
struct Chunk {
    s64 start;  // offset in the output; negative if the output starts inside the chunk
    u32 run;    // the run that contains the chunk's start, or the run before it; 0 if `start` is negative
    s32 at;     // offset of the chunk's start from the start of `run`
};

__device__ __forceinline__ Chunk locate_chunk(const Arguments& a, u32 number, u32 lead) {
    Chunk chunk;
    chunk.start = static_cast<s64>(number) * (a.runs.steps * WARP_BYTES) - lead;
    const u64 run = multiply_high(chunk.start, a.runs.multiplier) >> a.runs.shift;
    chunk.run = chunk.start < 0 ? 0 : static_cast<u32>(run);
    chunk.at = static_cast<s32>(chunk.start) - static_cast<s32>(chunk.run * a.dimension[0].size);
    return chunk;
}

// Addresses of a run's first input byte and of its indices.
template <int Dimensions, int Lookups>
__device__ __forceinline__ Addresses<Lookups> locate_run(const Arguments& a, u32 run) {
    Addresses<Lookups> to = {a.in + a.in_offset, nullptr, {}};
#pragma unroll
    for (int k = 0; k < Lookups; ++k) to.index[k] = a.indices + a.lookup[k].offset;
    u32 rest = run;
#pragma unroll
    for (int d = 1; d < Dimensions; ++d) {
        const Dimension& dim = a.dimension[d];
        const u32 quotient = d + 1 < Dimensions ? divide(rest, dim.multiplier, dim.shift) : 0;
        const u32 coordinate = rest - quotient * dim.size;
        rest = quotient;
        to.in = advance(to.in, coordinate, dim.in_step);
#pragma unroll
        for (int k = 0; k < Lookups; ++k) to.index[k] = advance(to.index[k], coordinate, dim.index_step[k]);
    }
    return to;
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

// Moves SPAN_UNROLL vectors of one run: first all loads, then all stores. All threads of the warp take the same branch. Selecting
// words without branches would cost 11 instructions per vector.
__device__ __forceinline__ void move_inside(const Arguments& a, const char* from, char* to, u32 shift, bool good) {
    uint4 first[SPAN_UNROLL], second[SPAN_UNROLL];
#pragma unroll
    for (int u = 0; u < SPAN_UNROLL; ++u) {
        first[u] = load<VECTOR>(from + u * WARP_BYTES);
        second[u] = load<VECTOR>(from + u * WARP_BYTES + VECTOR);
    }
    switch (shift >> 2) {
        case 0: join_all<0>(first, second, shift); break;
        case 1: join_all<1>(first, second, shift); break;
        case 2: join_all<2>(first, second, shift); break;
        default: join_all<3>(first, second, shift);
    }
#pragma unroll
    for (int u = 0; u < SPAN_UNROLL; ++u) store<VECTOR>(to + u * WARP_BYTES, good ? first[u] : fill_value<VECTOR>(a.fill));
}

// Position of a byte: its run, and its offset in the run.
struct Place {
    u32 run;
    u32 at;
};

__device__ __forceinline__ Place locate(const Arguments& a, const Chunk& chunk, s32 byte) {
    const Dimension& run = a.dimension[0];
    const u32 at = static_cast<u32>(chunk.at + byte), passed = divide(at, run.multiplier, run.shift);
    return {chunk.run + passed, at - passed * run.size};
}

// The address of a run's first input byte. `good`: its indices are valid.
struct Start {
    const char* in;
    bool good;
};

template <int Dimensions, int Lookups, int IndexBytes, bool Report>
__device__ __forceinline__ Start find_run(const Arguments& a, u32 run) {
    const Addresses<Lookups> from = locate_run<Dimensions, Lookups>(a, run);
    s64 source[1];
    bool good[1];
    look_up<1, Lookups, IndexBytes>(a, from, source, good);
    if constexpr (Report) {
        if (!good[0] && a.first_bad) report_bad<1, Lookups, IndexBytes>(a, from);
    }
    return {from.in + source[0], good[0]};
}

// Moves the vector that starts at `place`. A run may end inside it.
template <int Dimensions, int Lookups, int IndexBytes, bool Checked>
__device__ __forceinline__ void move_vector(const Arguments& a, const Place& place, char* to) {
    const u32 rest = a.dimension[0].size - place.at;
    const bool two = rest < VECTOR;
    const Start run = find_run<Dimensions, Lookups, IndexBytes, Checked>(a, place.run);
    const Part part = {run.in + place.at, 0, min(rest, static_cast<u32>(VECTOR))};
    const bool whole = readable(a, part.from - misalignment(part.from));
    const Pair pair = whole ? load_pair(part) : load_bytes(part);
    uint4 tail;
    if (two) {
        const Start next = find_run<Dimensions, Lookups, IndexBytes, false>(a, place.run + 1);
        tail = load_part(a, {next.in - rest, rest, VECTOR});
        if (Checked && !next.good) tail = fill_value<VECTOR>(a.fill);
    }
    uint4 value = joined(pair.x, pair.y, whole ? misalignment(part.from) : 0);
    if (Checked && !run.good) value = fill_value<VECTOR>(a.fill);  // it repeats, so an element may start at any multiple of its size
    if (two) value = merged(value, tail, rest);
    store<VECTOR>(to, value);
}

// Moves one byte, at an end of an output that is not aligned to vectors.
template <int Dimensions, int Lookups, int IndexBytes, bool Checked>
__device__ __forceinline__ void move_byte(const Arguments& a, const Place& place, char* to) {
    const Start run = find_run<Dimensions, Lookups, IndexBytes, Checked>(a, place.run);
    const u32 fill = a.fill[0] >> 8 * (misalignment(to) & 3);  // an element has at most four bytes
    store<1>(to, Checked && !run.good ? static_cast<u8>(fill) : load<1>(run.in + place.at));
}

// Dimensions: one for the bytes of a run, and one or two for the runs.
template <int Dimensions, int Lookups, int IndexBytes, bool Checked> __device__ __forceinline__ void span(const Arguments& a) {
    const s32 lane = threadIdx.x % 32, bytes = static_cast<s32>(a.runs.steps) * WARP_BYTES;
    char* const out = a.out + a.out_offset;
    const u32 lead = static_cast<u32>(reinterpret_cast<u64>(out)) % LINE;
    const Chunk chunk = locate_chunk(a, blockIdx.x * (BLOCK / 32) + threadIdx.x / 32, lead);
    const s64 left = a.runs.all_bytes - chunk.start;
    if (left <= 0) return;
    char* const to = out + chunk.start;
    const s32 size = static_cast<s32>(a.dimension[0].size);
    if (bytes == SPAN_UNROLL * WARP_BYTES && chunk.at >= 0 && chunk.at + SPAN_UNROLL * WARP_BYTES <= size) {
        const Start run = find_run<Dimensions, Lookups, IndexBytes, Checked>(a, chunk.run);
        const char* const in = run.in + chunk.at + lane * VECTOR;
        const u32 shift = misalignment(in);
        if (readable(a, in - shift) && readable(a, in - shift + (SPAN_UNROLL - 1) * WARP_BYTES)) {
            move_inside(a, in - shift, to + lane * VECTOR, shift, !Checked || run.good);
            return;
        }
    }
    const s32 begin = chunk.start < 0 ? static_cast<s32>(lead) : 0, end = left < bytes ? static_cast<s32>(left) : bytes;
    const s32 first = (begin + VECTOR - 1) & -VECTOR, last = end & -VECTOR;  // the vectors in between are whole
#pragma unroll 1
    for (s32 at = lane * VECTOR + (lane * VECTOR < first ? WARP_BYTES : 0); at < last; at += WARP_BYTES) {
        move_vector<Dimensions, Lookups, IndexBytes, Checked>(a, locate(a, chunk, at), to + at);
    }
    if (begin == first && last == end) return;
    const s32 byte = lane < VECTOR ? begin + lane : last + lane - VECTOR;
    if (byte < (lane < VECTOR ? first : end)) {
        move_byte<Dimensions, Lookups, IndexBytes, Checked>(a, locate(a, chunk, byte), to + byte);
    }
}

#define SPAN(name, dimensions, lookups, index_bytes, checked) \
    ENTRY name(const Arguments a) { span<dimensions, lookups, index_bytes, checked>(a); }
