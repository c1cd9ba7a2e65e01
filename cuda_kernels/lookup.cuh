// Lookups. A negative value is wrapped once. The value is compared at full width, and always clamped.
#pragma once
#include "arguments.cuh"

template <int Bytes> struct IndexOf;
template <> struct IndexOf<4> { typedef s32 type; typedef u32 magnitude; };
template <> struct IndexOf<8> { typedef s64 type; typedef u64 magnitude; };

template <int Bytes> using Index = typename IndexOf<Bytes>::type;

template <int Bytes> __device__ __forceinline__ Index<Bytes> load_index(const char* at) {
    return __ldg(reinterpret_cast<const Index<Bytes>*>(at));
}

struct Position {
    u32 value;  // always within 0 ... last
    bool good;  // true if the index was valid before it was clamped
};

// Requires last >= 0. An unsigned value with its top bit set is negative here. For unsigned types, wrap is 0 and `below` is
// `last`, so this value clamps to the last position. value + wrap cannot overflow, because only negative values are wrapped, and
// wrap is not negative.
template <int Bytes> __device__ __forceinline__ Position resolve(Index<Bytes> value, const Lookup& lookup) {
    typedef typename IndexOf<Bytes>::magnitude Magnitude;
    const u32 last = static_cast<u32>(lookup.last);
    value += value < 0 ? static_cast<Index<Bytes>>(lookup.wrap) : 0;
    const bool good = static_cast<Magnitude>(value) <= last;
    const u32 upper = good ? static_cast<u32>(value) : last;
    return {value < 0 ? static_cast<u32>(lookup.below) : upper, good};
}

// Loads an index of the general kernels, of any width and sign, as 64 bits.
__device__ __forceinline__ s64 load_any_index(const char* at, u32 shift, bool is_signed) {
    if (shift == 3) return __ldg(reinterpret_cast<const s64*>(at));
    u32 raw = 0;
    if (shift == 2) raw = __ldg(reinterpret_cast<const u32*>(at));
    if (shift == 1) raw = __ldg(reinterpret_cast<const u16*>(at));
    if (shift == 0) raw = __ldg(reinterpret_cast<const u8*>(at));
    const u32 unused = 32 - (8u << shift);
    const s32 extended = static_cast<s32>(raw << unused) >> unused;
    return is_signed ? static_cast<s64>(extended) : static_cast<s64>(raw);
}

// Adds the wrap to a negative value and returns whether the value is valid. If the limit is 0, no value is valid.
__device__ __forceinline__ bool wrap_and_check(s64& value, const Lookup& lookup) {
    value += value < 0 ? lookup.wrap : 0;
    return static_cast<u64>(value) < static_cast<u64>(lookup.last + 1);
}

__device__ __forceinline__ void report(const Arguments& a, const char* at, u32 shift) {
    atomicMin(a.first_bad, static_cast<u64>(at - a.indices) >> shift);
}
