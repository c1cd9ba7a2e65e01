// What the kernels use of CUDA C++, for a host C++20 compiler: built-in variables, types, loads and stores, a barrier.
#pragma once

#define __global__
#define __device__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __shared__ static  // one block runs at a time
#define DYNAMIC_SHARED(name) char* const name = host_shared

struct alignas(16) uint4 {
    unsigned x, y, z, w;
};
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }

struct Coordinates {
    unsigned x, y, z;
};
extern thread_local Coordinates blockIdx, threadIdx;

void __syncthreads();
extern char* host_shared;  // of exactly the launch's size

inline unsigned min(unsigned a, unsigned b) { return a < b ? a : b; }
template <typename T> T __ldg(const T* at) { return *at; }
template <typename T> void __stcs(T* at, T value) { *at = value; }

// Bytes of the pair (high, low), low first, chosen by one hexadecimal digit each.
inline unsigned __byte_perm(unsigned low, unsigned high, unsigned selector) {
    const unsigned long long pair = static_cast<unsigned long long>(high) << 32 | low;
    unsigned result = 0;
    for (int byte = 0; byte < 4; ++byte) {
        const unsigned from = selector >> (4 * byte) & 7;
        result |= static_cast<unsigned>(pair >> (8 * from) & 255) << (8 * byte);
    }
    return result;
}

// The low word of the pair (high, low) shifted right by the low five bits of `shift`.
inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
    const unsigned long long pair = static_cast<unsigned long long>(high) << 32 | low;
    return static_cast<unsigned>(pair >> (shift & 31));
}

inline unsigned long long atomicMin(unsigned long long* at, unsigned long long value) {
    unsigned long long seen = __atomic_load_n(at, __ATOMIC_RELAXED);
    while (value < seen && !__atomic_compare_exchange_n(at, &seen, value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    }
    return seen;
}
