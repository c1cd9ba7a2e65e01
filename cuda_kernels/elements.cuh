// Elements are opaque bits of 1, 2, 4, 8 or 16 bytes.
#pragma once
#include "arguments.cuh"

constexpr int VECTOR = 16;  // bytes of the widest element

// Bytes from the start of the aligned vector that contains the address.
__device__ __forceinline__ u32 misalignment(const char* at) { return reinterpret_cast<u64>(at) & (VECTOR - 1); }

template <int Bytes> struct ElementOf;
template <> struct ElementOf<1> { typedef u8 type; };
template <> struct ElementOf<2> { typedef u16 type; };
template <> struct ElementOf<4> { typedef u32 type; };
template <> struct ElementOf<8> { typedef u64 type; };
template <> struct ElementOf<16> { typedef uint4 type; };

template <int Bytes> using Element = typename ElementOf<Bytes>::type;

// Nothing writes to the input meanwhile, so loads can use the read-only path.
template <int Bytes> __device__ __forceinline__ Element<Bytes> load(const char* at) {
    return __ldg(reinterpret_cast<const Element<Bytes>*>(at));
}

// The output is written once and not read, so streaming stores leave the caches to the input.
template <int Bytes> __device__ __forceinline__ void store(char* at, Element<Bytes> value) {
    __stcs(reinterpret_cast<Element<Bytes>*>(at), value);
}

template <int Bytes> __device__ __forceinline__ Element<Bytes> fill_value(const u32 (&fill)[4]) {
    if constexpr (Bytes == 16) {
        return make_uint4(fill[0], fill[1], fill[2], fill[3]);
    } else if constexpr (Bytes == 8) {
        return static_cast<u64>(fill[1]) << 32 | fill[0];
    } else {
        return static_cast<Element<Bytes>>(fill[0]);
    }
}

__device__ __forceinline__ u32 swap_halves(u32 word) { return word << 16 | word >> 16; }

// Returns the 16 bytes with their lanes of `Lane` bytes in reverse order, or unchanged if Lane is 0.
template <int Lane, typename T> __device__ __forceinline__ T reversed(T v) {
    if constexpr (Lane == 0) {
        return v;
    } else if constexpr (Lane == 8) {
        return make_uint4(v.z, v.w, v.x, v.y);
    } else if constexpr (Lane == 4) {
        return make_uint4(v.w, v.z, v.y, v.x);
    } else if constexpr (Lane == 2) {
        return make_uint4(swap_halves(v.w), swap_halves(v.z), swap_halves(v.y), swap_halves(v.x));
    } else {
        static_assert(Lane == 1, "lanes are 1, 2, 4 or 8 bytes");
        return make_uint4(__byte_perm(v.w, 0, 0x0123), __byte_perm(v.z, 0, 0x0123), __byte_perm(v.y, 0, 0x0123),
                          __byte_perm(v.x, 0, 0x0123));
    }
}
