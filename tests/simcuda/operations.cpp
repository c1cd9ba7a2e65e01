// What instructions of registers do, by the PTX ISA's descriptions.
#include <map>

#include "warp.h"

namespace {

template <class T> struct Traits {
    using Unsigned = std::make_unsigned_t<T>;
    using Wide = std::conditional_t<std::is_signed_v<T>, s64, u64>;
    using Widest = std::conditional_t<std::is_signed_v<T>, s128, u128>;
    static constexpr u32 width = 8 * sizeof(T);
};

// Arithmetic of whole numbers wraps: it is done without signs, and in 32 bits at least, since C++ would take narrow ones as
// signed.
template <class T> auto number(u64 bits) {
    if constexpr (is_float<T>)
        return value_of<T>(bits);
    else if constexpr (sizeof(T) < 4)
        return static_cast<u32>(static_cast<T>(bits));
    else
        return static_cast<std::make_unsigned_t<T>>(bits);
}

template <class T> u64 high_half(u64 a, u64 b) {
    using Widest = typename Traits<T>::Widest;
    return bits_of(
        static_cast<T>((static_cast<Widest>(value_of<T>(a)) * static_cast<Widest>(value_of<T>(b))) >> Traits<T>::width));
}

template <class T> u64 wide_product(u64 a, u64 b) {
    using Wide = typename Traits<T>::Wide;
    return static_cast<u64>(static_cast<Wide>(value_of<T>(a))) * static_cast<u64>(static_cast<Wide>(value_of<T>(b)));
}

template <class T> T fused(T a, T b, T c) {
    if constexpr (std::is_same_v<T, float>)
        return std::fmaf(a, b, c);
    else
        return static_cast<T>(std::fma(static_cast<double>(a), static_cast<double>(b), static_cast<double>(c)));
}

// The one that is no NaN, where the other is; -0 is less than +0.
template <class T> T lesser(T a, T b) {
    if constexpr (is_float<T>) {
        if (a != a) return b;
        if (b != b) return a;
        if (a == b) return std::signbit(static_cast<double>(a)) ? a : b;
    }
    return a < b ? a : b;
}

template <class T> T greater(T a, T b) {
    if constexpr (is_float<T>) {
        if (a != a) return b;
        if (b != b) return a;
        if (a == b) return std::signbit(static_cast<double>(a)) ? b : a;
    }
    return a > b ? a : b;
}

// Shifts by the width of the type or more shift everything out.
template <class T> T shifted_left(u64 value, u32 count) {
    return count < Traits<T>::width ? static_cast<T>(static_cast<typename Traits<T>::Unsigned>(value) << count) : T{0};
}

template <class T> T shifted_right(T value, u32 count) {
    constexpr u32 most = Traits<T>::width - 1;
    if (count <= most) return static_cast<T>(value >> count);
    return std::is_signed_v<T> ? static_cast<T>(value >> most) : T{0};
}

u64 funnel(u64 low, u64 high) { return high << 32 | static_cast<u32>(low); }

u64 permuted(u64 bytes, u64 selector) {
    u64 result = 0;
    for (int i = 0; i < 4; ++i) {
        const u64 choice = selector >> 4 * i & 15;
        u64 byte = bytes >> 8 * (choice & 7) & 255;
        if (choice & 8) byte = byte & 128 ? 255 : 0;
        result |= byte << 8 * i;
    }
    return result;
}

template <class T> u64 with_bits(u64 from, u64 into, u64 position, u64 length) {
    position &= 255;
    length &= 255;
    if (position >= Traits<T>::width || length == 0) return into;
    const u64 mask = (length >= 64 ? ~u64{0} : (u64{1} << length) - 1) << position;
    return (into & ~mask) | (from << position & mask);
}

// `length` bits from `position` on, as a T of their own sign; those beyond the type repeat its highest.
template <class T> T bits_from(T value, u64 position, u64 length) {
    position &= 255;
    length &= 255;
    if (length == 0) return 0;
    const T shifted = shifted_right(value, static_cast<u32>(position));
    if (length >= Traits<T>::width) return shifted;
    const u32 rest = Traits<T>::width - static_cast<u32>(length);
    return shifted_right(shifted_left<T>(static_cast<u64>(shifted), rest), rest);
}

u64 by_table(u64 a, u64 b, u64 c, u64 table) {
    u64 result = 0;
    for (int row = 0; row < 8; ++row) {
        if (table >> row & 1) result |= (row & 4 ? a : ~a) & (row & 2 ? b : ~b) & (row & 1 ? c : ~c);
    }
    return result;
}

u64 reversed(u64 value, u32 width) {
    u64 result = 0;
    for (u32 bit = 0; bit < width; ++bit) result |= (value >> bit & 1) << (width - 1 - bit);
    return result;
}

u64 leading_zeros(u64 value, u32 width) { return static_cast<u64>(std::countl_zero(value)) - (64 - width); }

// Operations of each lane on its own. a, b, c, d: the sources' bits; x, y, z: as the numbers that they are; n, m, k: as unsigned
// ones or floating-point ones, for arithmetic.
#define OPERATION(NAME, RESULT)                                                                                         \
    template <class T> struct NAME {                                                                                    \
        using Number = T;                                                                                               \
        static u64 of([[maybe_unused]] u64 a, [[maybe_unused]] u64 b, [[maybe_unused]] u64 c, [[maybe_unused]] u64 d) { \
            [[maybe_unused]] const T x = value_of<T>(a), y = value_of<T>(b), z = value_of<T>(c);                        \
            [[maybe_unused]] const auto n = number<T>(a), m = number<T>(b), k = number<T>(c);                           \
            return RESULT;                                                                                              \
        }                                                                                                               \
    };
OPERATION(Add, bits_of(static_cast<T>(n + m)))
OPERATION(Subtract, bits_of(static_cast<T>(n - m)))
OPERATION(Multiply, bits_of(static_cast<T>(n * m)))
OPERATION(MultiplyHigh, high_half<T>(a, b))
OPERATION(MultiplyWide, wide_product<T>(a, b))
OPERATION(MultiplyAdd, bits_of(static_cast<T>(n * m + k)))
OPERATION(MultiplyAddHigh, bits_of(static_cast<T>(number<T>(high_half<T>(a, b)) + k)))
OPERATION(MultiplyAddWide, wide_product<T>(a, b) + c)
OPERATION(Fused, bits_of(fused<T>(x, y, z)))
OPERATION(DivideFloats, bits_of(static_cast<T>(x / y)))
OPERATION(Minimum, bits_of(lesser<T>(x, y)))
OPERATION(Maximum, bits_of(greater<T>(x, y)))
OPERATION(Negate, bits_of(static_cast<T>(-n)))
OPERATION(NegateWhole, bits_of(static_cast<T>(0 - n)))
OPERATION(Absolute, bits_of(static_cast<T>(std::signbit(static_cast<double>(x)) ? -x : x)))
OPERATION(AbsoluteWhole, bits_of(static_cast<T>(x < 0 ? 0 - n : n)))
OPERATION(Root, bits_of(static_cast<T>(std::sqrt(static_cast<std::conditional_t<std::is_same_v<T, f16>, float, T>>(x)))))
OPERATION(Reciprocal, bits_of(static_cast<T>(1 / x)))
OPERATION(ReciprocalRoot, bits_of(static_cast<T>(1 / std::sqrt(static_cast<double>(x)))))
OPERATION(Exponential, bits_of(static_cast<T>(std::exp2(static_cast<double>(x)))))
OPERATION(Logarithm, bits_of(static_cast<T>(std::log2(static_cast<double>(x)))))
OPERATION(Sine, bits_of(static_cast<T>(std::sin(static_cast<double>(x)))))
OPERATION(Cosine, bits_of(static_cast<T>(std::cos(static_cast<double>(x)))))
OPERATION(Tangent, bits_of(static_cast<T>(std::tanh(static_cast<double>(x)))))
OPERATION(CopySign, bits_of(static_cast<T>(std::copysign(y, x))))
OPERATION(And, a & b)
OPERATION(Or, a | b)
OPERATION(Xor, a ^ b)
OPERATION(Not, (std::is_same_v<T, bool> ? a ^ 1 : ~a))
OPERATION(ShiftLeft, bits_of(shifted_left<T>(a, static_cast<u32>(b))))
OPERATION(ShiftRight, bits_of(shifted_right<T>(x, static_cast<u32>(b))))
OPERATION(FunnelLeft, funnel(a, b) << (c & 31) >> 32)
OPERATION(FunnelRight, funnel(a, b) >> (c & 31))
OPERATION(FunnelLeftClamped, static_cast<u32>(c) < 32 ? funnel(a, b) << static_cast<u32>(c) >> 32 : a)
OPERATION(FunnelRightClamped, funnel(a, b) >> std::min(static_cast<u32>(c), u32{32}))
OPERATION(Permute, permuted(funnel(a, b), c))
OPERATION(InsertBits, with_bits<T>(a, b, c, d))
OPERATION(ExtractBits, bits_of(bits_from<T>(x, b, c)))
OPERATION(CountOnes, static_cast<u64>(std::popcount(bits_of(x))))
OPERATION(LeadingZeros, leading_zeros(bits_of(x), Traits<T>::width))
OPERATION(ReverseBits, reversed(a, Traits<T>::width))
OPERATION(ByTable, by_table(a, b, c, d))
OPERATION(Equal, x == y)
OPERATION(NotEqual, !(x != x || y != y) && x != y)
OPERATION(Less, x < y)
OPERATION(LessEqual, x <= y)
OPERATION(Greater, x > y)
OPERATION(GreaterEqual, x >= y)
OPERATION(EqualOrNan, !(x < y) && !(x > y))
OPERATION(NotEqualOrNan, x != y)
OPERATION(LessOrNan, !(x >= y))
OPERATION(LessEqualOrNan, !(x > y))
OPERATION(GreaterOrNan, !(x <= y))
OPERATION(GreaterEqualOrNan, !(x < y))
OPERATION(Numbers, x == x && y == y)
OPERATION(SomeNan, x != x || y != y)
#undef OPERATION

// Of numbers that are float32, those that are too small for all digits become 0 of their sign.
template <class T> Lanes flushed(Lanes numbers) {
    if constexpr (std::is_same_v<T, float>) {
        for (u64& each : numbers) {
            if (!(each & 0x7f800000)) each &= 0x80000000;
        }
    }
    return numbers;
}

template <class Operation> Lanes computed(Warp& warp, const Instruction& in, u32 mask, int sources) {
    using Number = typename Operation::Number;
    const Lanes* from[4];
    Lanes copies[4];
    for (int each = 0; each < 4; ++each) {
        from[each] = &warp.read(in.source[each < sources && in.source[each] != NONE ? each : 0], mask);
        if (in.flushes) from[each] = &(copies[each] = flushed<Number>(*from[each]));
    }
    Lanes out;
    for (int lane = 0; lane < LANES; ++lane) {
        out[lane] = Operation::of((*from[0])[lane], (*from[1])[lane], (*from[2])[lane], (*from[3])[lane]);
    }
    return out;
}

// Makes floating-point arithmetic round in a direction.
class Directed {
public:
    explicit Directed(const Instruction& in) : changed(in.direction != FE_TONEAREST) {
        if (changed) std::fesetround(in.direction);
    }
    ~Directed() {
        if (changed) std::fesetround(FE_TONEAREST);
    }

private:
    bool changed;
};

template <class Operation> void each(Warp& warp, const Instruction& in, u32 mask) {
    const Directed directed(in);
    const Lanes out = computed<Operation>(warp, in, mask, 4);
    warp.write(in.result[0], mask, in.flushes ? flushed<typename Operation::Number>(out) : out);
}

template <class Operation> void compare(Warp& warp, const Instruction& in, u32 mask) {
    Lanes yes = computed<Operation>(warp, in, mask, 2), no;
    for (int lane = 0; lane < LANES; ++lane) no[lane] = !yes[lane];
    if (in.join != Join::None) {
        const Lanes& other = warp.read(in.source[2], mask);
        const auto joined = [&](u64 value, u64 with) {
            with = (with & 1) ^ in.negates;
            return in.join == Join::And ? value & with : in.join == Join::Or ? value | with : value ^ with;
        };
        for (int lane = 0; lane < LANES; ++lane) {
            yes[lane] = joined(yes[lane], other[lane]);
            no[lane] = joined(no[lane], other[lane]);
        }
    }
    for (int lane = 0; lane < LANES; ++lane) yes[lane] *= static_cast<u64>(in.offset);
    warp.write(in.result[0], mask, yes);
    warp.write(in.result[1], mask, no);
}

template <class T, bool REMAINDER> void divide(Warp& warp, const Instruction& in, u32 mask) {
    const Lanes &a = warp.needed(in.source[0], mask), &b = warp.needed(in.source[1], mask);
    Lanes out = {};
    for (int lane = 0; lane < LANES; ++lane) {
        if (!(mask >> lane & 1)) continue;
        const T n = value_of<T>(a[lane]), d = value_of<T>(b[lane]);
        if (d == 0) throw Failure{Fault::DivisionByZero, lane};
        const bool negates = std::is_signed_v<T> && d == static_cast<T>(-1);  // the smallest number would overflow
        if constexpr (REMAINDER)
            out[lane] = negates ? 0 : bits_of(static_cast<T>(n % d));
        else
            out[lane] = negates ? 0 - bits_of(n) : bits_of(static_cast<T>(n / d));
    }
    warp.write(in.result[0], mask, out);
}
template <class T> void divide_whole(Warp& warp, const Instruction& in, u32 mask) { divide<T, false>(warp, in, mask); }
template <class T> void remainder_of(Warp& warp, const Instruction& in, u32 mask) { divide<T, true>(warp, in, mask); }

// The value that is not selected need not be set.
void select(Warp& warp, const Instruction& in, u32 mask) {
    const Lanes& choice = warp.read(in.source[2], mask);
    u32 first = 0;
    for (int lane = 0; lane < LANES; ++lane) first |= static_cast<u32>(choice[lane] & 1) << lane;
    const Lanes &a = warp.read(in.source[0], mask & first), &b = warp.read(in.source[1], mask & ~first);
    Lanes out;
    for (int lane = 0; lane < LANES; ++lane) out[lane] = first >> lane & 1 ? a[lane] : b[lane];
    warp.write(in.result[0], mask, out);
}

template <class To, class From> void convert(Warp& warp, const Instruction& in, u32 mask) {
    const Directed directed(in);
    const Lanes& source = warp.read(in.source[0], mask);
    const Lanes from = in.flushes ? flushed<From>(source) : source;
    Lanes out;
    for (int lane = 0; lane < LANES; ++lane)
        out[lane] = bits_of(converted<To>(value_of<From>(from[lane]), in.rounding, in.saturates));
    warp.write(in.result[0], mask, in.flushes ? flushed<To>(out) : out);
}

template <class T> constexpr Type TYPE = Type::Predicate;
template <> constexpr Type TYPE<u8> = Type::U8;
template <> constexpr Type TYPE<u16> = Type::U16;
template <> constexpr Type TYPE<u32> = Type::U32;
template <> constexpr Type TYPE<u64> = Type::U64;
template <> constexpr Type TYPE<s8> = Type::S8;
template <> constexpr Type TYPE<s16> = Type::S16;
template <> constexpr Type TYPE<s32> = Type::S32;
template <> constexpr Type TYPE<s64> = Type::S64;
template <> constexpr Type TYPE<f16> = Type::F16;
template <> constexpr Type TYPE<float> = Type::F32;
template <> constexpr Type TYPE<double> = Type::F64;
template <> constexpr Type TYPE<bf16> = Type::BF16;

template <class...> struct Types {};
using Whole = Types<u16, u32, u64, s16, s32, s64>;
using Narrow = Types<u16, u32, s16, s32>;
using Floats = Types<f16, float, double>;
using Bits = Types<bool, u16, u32, u64>;
using Signed = Types<s16, s32, s64>;
using Numeric = Types<u8, u16, u32, u64, s8, s16, s32, s64, f16, float, double, bf16>;

typedef Handler (*Chooser)(Type);

template <template <class> class Operation, class... T> Handler chosen(Type type, Types<T...>) {
    Handler found = nullptr;
    ((found = type == TYPE<T> ? each<Operation<T>> : found), ...);
    return found;
}

template <template <class> class Operation, class List> Handler of(Type type) { return chosen<Operation>(type, List{}); }

// One operation for whole numbers, another for floating-point ones.
template <template <class> class Operation, template <class> class OfFloats = Operation> Handler any(Type type) {
    const Handler found = of<Operation, Whole>(type);
    return found ? found : of<OfFloats, Floats>(type);
}

template <class... T> Handler compared_with(std::string_view name, Type type, Types<T...>) {
    Handler found = nullptr;
    const auto test = [&]<template <class> class Operation>(std::string_view one, std::string_view other = "") {
        if (name == one || name == other) ((found = type == TYPE<T> ? compare<Operation<T>> : found), ...);
    };
    test.template operator()<Equal>("eq");
    test.template operator()<NotEqual>("ne");
    test.template operator()<Less>("lt", "lo");
    test.template operator()<LessEqual>("le", "ls");
    test.template operator()<Greater>("gt", "hi");
    test.template operator()<GreaterEqual>("ge", "hs");
    test.template operator()<EqualOrNan>("equ");
    test.template operator()<NotEqualOrNan>("neu");
    test.template operator()<LessOrNan>("ltu");
    test.template operator()<LessEqualOrNan>("leu");
    test.template operator()<GreaterOrNan>("gtu");
    test.template operator()<GreaterEqualOrNan>("geu");
    test.template operator()<Numbers>("num");
    test.template operator()<SomeNan>("nan");
    return found;
}

template <class To, class... From> Handler conversion_from(Type from, Types<From...>) {
    Handler found = nullptr;
    ((found = from == TYPE<From> ? convert<To, From> : found), ...);
    return found;
}

template <class... To> Handler conversion_to(Type to, Type from, Types<To...>) {
    Handler found = nullptr;
    ((found = to == TYPE<To> ? conversion_from<To>(from, Numeric{}) : found), ...);
    return found;
}

template <class... T> Handler divided(Type type, bool remainder, Types<T...>) {
    Handler found = nullptr;
    ((found = type == TYPE<T> ? (remainder ? remainder_of<T> : divide_whole<T>) : found), ...);
    return found;
}

Handler divide_any(Type type) {
    const Handler whole = divided(type, false, Whole{});
    return whole ? whole : of<DivideFloats, Floats>(type);
}

struct Row {
    int sources;
    Chooser choose;
};

const std::map<std::string_view, Row> TABLE = {
    {"add", {2, any<Add>}},
    {"sub", {2, any<Subtract>}},
    {"mul", {2, any<Multiply>}},
    {"mul.hi", {2, of<MultiplyHigh, Whole>}},
    {"mul.wide", {2, of<MultiplyWide, Narrow>}},
    {"mad", {3, any<MultiplyAdd, Fused>}},
    {"mad.hi", {3, of<MultiplyAddHigh, Whole>}},
    {"mad.wide", {3, of<MultiplyAddWide, Narrow>}},
    {"fma", {3, of<Fused, Floats>}},
    {"div", {2, divide_any}},
    {"rem", {2, [](Type type) { return divided(type, true, Whole{}); }}},
    {"min", {2, any<Minimum>}},
    {"max", {2, any<Maximum>}},
    {"neg", {1, any<NegateWhole, Negate>}},
    {"abs", {1, [](Type type) { return type >= Type::F16 ? of<Absolute, Floats>(type) : of<AbsoluteWhole, Signed>(type); }}},
    {"sqrt", {1, of<Root, Floats>}},
    {"rcp", {1, of<Reciprocal, Floats>}},
    {"rsqrt", {1, of<ReciprocalRoot, Floats>}},
    {"ex2", {1, of<Exponential, Floats>}},
    {"lg2", {1, of<Logarithm, Floats>}},
    {"sin", {1, of<Sine, Floats>}},
    {"cos", {1, of<Cosine, Floats>}},
    {"tanh", {1, of<Tangent, Floats>}},
    {"copysign", {2, of<CopySign, Types<float, double>>}},
    {"and", {2, of<And, Bits>}},
    {"or", {2, of<Or, Bits>}},
    {"xor", {2, of<Xor, Bits>}},
    {"not", {1, of<Not, Bits>}},
    {"shl", {2, of<ShiftLeft, Whole>}},
    {"shr", {2, of<ShiftRight, Whole>}},
    {"shf.l", {3, of<FunnelLeft, Types<u32>>}},
    {"shf.r", {3, of<FunnelRight, Types<u32>>}},
    {"shf.l.clamp", {3, of<FunnelLeftClamped, Types<u32>>}},
    {"shf.r.clamp", {3, of<FunnelRightClamped, Types<u32>>}},
    {"prmt", {3, of<Permute, Types<u32>>}},
    {"bfi", {4, of<InsertBits, Types<u32, u64>>}},
    {"bfe", {3, of<ExtractBits, Types<u32, u64, s32, s64>>}},
    {"popc", {1, of<CountOnes, Types<u32, u64>>}},
    {"clz", {1, of<LeadingZeros, Types<u32, u64>>}},
    {"brev", {1, of<ReverseBits, Types<u32, u64>>}},
    {"lop3", {4, of<ByTable, Types<u32>>}},
    {"selp", {3, [](Type type) -> Handler { return type == Type::Predicate || type == Type::BF16 ? nullptr : select; }}},
};

}  // namespace

Handler handler_of(std::string_view name, Type type, int& sources) {
    const auto row = TABLE.find(name);
    if (row == TABLE.end()) return nullptr;
    sources = row->second.sources;
    return row->second.choose(type);
}

Handler comparison(std::string_view name, Type type) {
    const Handler whole = compared_with(name, type, Whole{});
    return whole ? whole : compared_with(name, type, Floats{});
}

Handler conversion(Type to, Type from) { return conversion_to(to, from, Numeric{}); }

void move(Warp& warp, const Instruction& in, u32 mask) { warp.write(in.result[0], mask, warp.read(in.source[0], mask)); }

void to_shared_window(Warp& warp, const Instruction& in, u32 mask) {
    Lanes address = warp.read(in.source[0], mask);
    for (u64& each : address) each |= SHARED_WINDOW;
    warp.write(in.result[0], mask, address);
}

// A constant has 64 bits, of which a part takes its own.
void pack(Warp& warp, const Instruction& in, u32 mask) {
    Lanes out = {};
    const int bits = 8 * in.bytes;
    for (int part = 0; part < in.parts; ++part) {
        const Lanes& from = warp.read(in.source[part], mask);
        for (int lane = 0; lane < LANES; ++lane) out[lane] |= (from[lane] & ((u64{1} << bits) - 1)) << bits * part;
    }
    warp.write(in.result[0], mask, out);
}

void unpack(Warp& warp, const Instruction& in, u32 mask) {
    const Lanes from = warp.read(in.source[0], mask);
    for (int part = 0; part < in.parts; ++part) {
        Lanes out;
        for (int lane = 0; lane < LANES; ++lane) out[lane] = from[lane] >> 8 * in.bytes * part;
        warp.write(in.result[part], mask, out);
    }
}

void trap(Warp&, const Instruction&, u32 mask) { throw Failure{Fault::Trap, std::countr_zero(mask)}; }

void nothing(Warp&, const Instruction&, u32) {}
