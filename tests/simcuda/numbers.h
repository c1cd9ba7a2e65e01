// Numbers as registers hold them: 64 bits a lane, of which an instruction reads the low ones.
#pragma once
#include <bit>
#include <cfenv>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

typedef std::uint8_t u8;
typedef std::uint16_t u16;
typedef std::uint32_t u32;
typedef std::uint64_t u64;
typedef std::int8_t s8;
typedef std::int16_t s16;
typedef std::int32_t s32;
typedef std::int64_t s64;
typedef __int128 s128;
typedef unsigned __int128 u128;
typedef _Float16 f16;
struct bf16 {
    u16 bits;
};

template <class T> constexpr bool is_float = std::is_same_v<T, float> || std::is_same_v<T, double> || std::is_same_v<T, f16>;

// The low bits of a register as a T.
template <class T> T value_of(u64 bits) {
    if constexpr (std::is_same_v<T, float>)
        return std::bit_cast<float>(static_cast<u32>(bits));
    else if constexpr (std::is_same_v<T, double>)
        return std::bit_cast<double>(bits);
    else if constexpr (std::is_same_v<T, f16>)
        return std::bit_cast<f16>(static_cast<u16>(bits));
    else if constexpr (std::is_same_v<T, bf16>)
        return bf16{static_cast<u16>(bits)};
    else if constexpr (std::is_same_v<T, bool>)
        return bits & 1;
    else
        return static_cast<T>(bits);
}

// What a register gets: signed numbers are extended, since it may be wider than the type.
template <class T> u64 bits_of(T value) {
    if constexpr (std::is_same_v<T, float>)
        return std::bit_cast<u32>(value);
    else if constexpr (std::is_same_v<T, double>)
        return std::bit_cast<u64>(value);
    else if constexpr (std::is_same_v<T, f16>)
        return std::bit_cast<u16>(value);
    else if constexpr (std::is_same_v<T, bf16>)
        return value.bits;
    else if constexpr (std::is_signed_v<T>)
        return static_cast<u64>(static_cast<s64>(value));
    else
        return value;
}

inline float float_of(bf16 value) { return std::bit_cast<float>(static_cast<u32>(value.bits) << 16); }

// The nearest bfloat16, ties to even. A float between both would round twice, so its last bit keeps whether something is lost.
inline bf16 bf16_of(long double value) {
    if (value != value) return {0x7fff};
    const float near = static_cast<float>(value);
    u32 bits = std::bit_cast<u32>(near);
    if (std::isinf(near)) return {static_cast<u16>(bits >> 16)};
    if (static_cast<long double>(near) != value) {
        if (std::fabs(static_cast<long double>(near)) > std::fabs(value)) --bits;
        bits |= 1;
    }
    return {static_cast<u16>((bits + 0x7fff + (bits >> 16 & 1)) >> 16)};
}

enum class Rounding : u8 { Default, Nearest, Zero, Down, Up };  // to whole numbers

inline double rounded(double value, Rounding how) {
    switch (how) {
        case Rounding::Nearest: return std::nearbyint(value);
        case Rounding::Zero: return std::trunc(value);
        case Rounding::Down: return std::floor(value);
        case Rounding::Up: return std::ceil(value);
        default: return value;
    }
}

// A conversion: numbers beyond the range of whole numbers become its ends, and NaN becomes 0. Whole numbers wrap unless they
// saturate; floating-point ones saturate to 0 … 1.
template <class To, class From> To converted(From value, Rounding how, bool saturates) {
    if constexpr (std::is_same_v<From, bf16>) {
        return converted<To>(float_of(value), how, saturates);
    } else if constexpr (std::is_same_v<To, bf16>) {
        return bf16_of(static_cast<long double>(value));
    } else if constexpr (is_float<From> && !is_float<To>) {
        const double whole = rounded(static_cast<double>(value), how);
        const To least = std::numeric_limits<To>::min(), most = std::numeric_limits<To>::max();
        if (whole != whole) return 0;
        if (whole <= static_cast<double>(least)) return least;
        return whole >= static_cast<double>(most) ? most : static_cast<To>(whole);
    } else if constexpr (is_float<From> && is_float<To>) {
        const To result =
            how == Rounding::Default ? static_cast<To>(value) : static_cast<To>(rounded(static_cast<double>(value), how));
        if (!saturates) return result;
        return !(result >= To{0}) ? To{0} : result > To{1} ? To{1} : result;
    } else if constexpr (!is_float<From> && !is_float<To>) {
        if (!saturates) return static_cast<To>(value);
        const s128 wide = value, least = std::numeric_limits<To>::min(), most = std::numeric_limits<To>::max();
        return static_cast<To>(wide < least ? least : wide > most ? most : wide);
    } else {
        return static_cast<To>(value);
    }
}
