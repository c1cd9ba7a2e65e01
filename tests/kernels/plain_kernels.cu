// Two ways to write a gather or a slice without thinking about memory, to compare our kernels' traffic with. Not shipped.
//
// naive: one element a thread. The coordinates come out of the thread's number by divisions by run-time values.
// row: a warp moves one row (the innermost dimension, contiguous on both sides), each lane one element at a time.
typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long s64;

struct Dimension {
    u32 size;
    s64 in_step, out_step, index_step[2];  // bytes
};

struct Lookup {
    s64 offset, in_step, wrap;
};

// plain_kernels.py packs the same bytes.
struct Arguments {
    const char* in;
    const char* indices;
    char* out;
    u32 count;  // elements; row kernel: rows
    Dimension dimension[4];  // fastest first
    Lookup lookup[2];
};

template <int Bytes> struct ElementOf;
template <> struct ElementOf<1> { typedef unsigned char type; };
template <> struct ElementOf<2> { typedef unsigned short type; };
template <> struct ElementOf<4> { typedef u32 type; };
template <> struct ElementOf<8> { typedef u64 type; };

struct At {
    const char* in;
    char* out;
};

template <int First, int Dimensions, int Lookups> __device__ __forceinline__ At locate(const Arguments& a, u32 number) {
    At to = {a.in, a.out};
    s64 index[2] = {a.lookup[0].offset, a.lookup[1].offset};
#pragma unroll
    for (int d = First; d < Dimensions; ++d) {
        const u32 at = d + 1 < Dimensions ? number % a.dimension[d].size : number;
        if (d + 1 < Dimensions) number /= a.dimension[d].size;
        to.in += at * a.dimension[d].in_step;
        to.out += at * a.dimension[d].out_step;
#pragma unroll
        for (int k = 0; k < Lookups; ++k) index[k] += at * a.dimension[d].index_step[k];
    }
#pragma unroll
    for (int k = 0; k < Lookups; ++k) {
        s64 value = *reinterpret_cast<const s64*>(a.indices + index[k]);
        if (value < 0) value += a.lookup[k].wrap;
        to.in += value * a.lookup[k].in_step;
    }
    return to;
}

template <int Dimensions, int Lookups, int Bytes> __device__ __forceinline__ void naive(const Arguments& a) {
    typedef typename ElementOf<Bytes>::type Element;
    const u32 thread = blockIdx.x * blockDim.x + threadIdx.x;
    if (thread >= a.count) return;
    const At to = locate<0, Dimensions, Lookups>(a, thread);
    *reinterpret_cast<Element*>(to.out) = *reinterpret_cast<const Element*>(to.in);
}

template <int Dimensions, int Lookups, int Bytes> __device__ __forceinline__ void row(const Arguments& a) {
    typedef typename ElementOf<Bytes>::type Element;
    const u32 number = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
    if (number >= a.count) return;
    const At to = locate<1, Dimensions, Lookups>(a, number);
    for (u32 i = threadIdx.x % 32; i < a.dimension[0].size; i += 32) {
        reinterpret_cast<Element*>(to.out)[i] = reinterpret_cast<const Element*>(to.in)[i];
    }
}

#define PLAIN(name, kind, dimensions, lookups, bytes) \
    extern "C" __global__ void name(const Arguments a) { kind<dimensions, lookups, bytes>(a); }
