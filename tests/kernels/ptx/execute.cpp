// What each instruction does, by the PTX ISA's descriptions.
#include "warp.h"

namespace {

u32 bytes_of(Type type) { return 1u << (static_cast<u32>(type) & 3); }

template <typename T> u64 widened(T value) {
    if constexpr (std::is_signed_v<T>) return static_cast<u64>(static_cast<s64>(value));
    return value;
}

template <typename T> using Unsigned = std::make_unsigned_t<T>;

// Shifts by the width of the type or more shift everything out.
template <typename T> T shifted_left(T value, u32 count) {
    return count < 8 * sizeof(T) ? static_cast<T>(static_cast<Unsigned<T>>(value) << count) : T{0};
}

template <typename T> T shifted_right(T value, u32 count) {
    const u32 most = 8 * sizeof(T) - 1;
    if (count <= most) return static_cast<T>(value >> count);
    return std::is_signed_v<T> ? static_cast<T>(value >> most) : T{0};
}

u32 permuted(u32 low, u32 high, u32 selector) {
    const u64 bytes = static_cast<u64>(high) << 32 | low;
    u32 result = 0;
    for (int i = 0; i < 4; ++i) {
        const u32 choice = selector >> 4 * i & 15;
        u32 byte = static_cast<u32>(bytes >> 8 * (choice & 7) & 255);
        if (choice & 8) byte = byte & 128 ? 255 : 0;
        result |= byte << 8 * i;
    }
    return result;
}

template <typename T> T with_bits(T from, T into, u32 position, u32 length) {
    constexpr u32 width = 8 * sizeof(T);
    position &= 255;
    length &= 255;
    if (position >= width || length == 0) return into;
    const u64 ones = length >= 64 ? ~u64{0} : (u64{1} << length) - 1;
    const u64 mask = ones << position;
    return static_cast<T>((static_cast<u64>(into) & ~mask) | (static_cast<u64>(from) << position & mask));
}

template <typename T> T high_half(T a, T b) {
    using Wide = std::conditional_t<std::is_signed_v<T>, __int128, unsigned __int128>;
    return static_cast<T>((static_cast<Wide>(a) * static_cast<Wide>(b)) >> 8 * sizeof(T));
}

}  // namespace

template <typename F> void Warp::typed(Type type, F use) {
    switch (type) {
        case Type::U8: return use(u8{});
        case Type::U16: return use(u16{});
        case Type::U32: return use(u32{});
        case Type::U64: return use(u64{});
        case Type::S8: return use(s8{});
        case Type::S16: return use(s16{});
        case Type::S32: return use(s32{});
        case Type::S64: return use(s64{});
    }
}

// result(a, b, c), the sources as T, for each lane in `mask`.
template <typename T, typename F> void Warp::each(const Instruction& in, u32 mask, F result) {
    const Lanes* source[3];
    for (int i = 0; i < 3; ++i) source[i] = &read(in.source[i] == NONE ? in.source[0] : in.source[i], mask);
    Lanes out;
    for (int lane = 0; lane < LANES; ++lane) out[lane] = widened(result((*source[0])[lane], (*source[1])[lane], (*source[2])[lane]));
    write(in.result[0], mask, out);
}

template <typename T> void Warp::compute(const Instruction& in, u32 mask) {
    using U = Unsigned<T>;
    // Products of 16-bit numbers would be promoted to int, which may overflow.
    using Factor = std::conditional_t<(sizeof(T) < 4), u32, U>;
    using Wide = std::conditional_t<std::is_signed_v<T>, s64, u64>;
    const auto low = [](u64 a, u64 b) { return static_cast<T>(static_cast<Factor>(a) * static_cast<Factor>(b)); };
    const auto wide = [](u64 a, u64 b) {
        return static_cast<u64>(static_cast<Wide>(static_cast<T>(a))) * static_cast<u64>(static_cast<Wide>(static_cast<T>(b)));
    };
    switch (in.op) {
        case Op::Add: return each<T>(in, mask, [](u64 a, u64 b, u64) { return static_cast<T>(a + b); });
        case Op::Sub: return each<T>(in, mask, [](u64 a, u64 b, u64) { return static_cast<T>(a - b); });
        case Op::Mul: return each<T>(in, mask, [=](u64 a, u64 b, u64) { return low(a, b); });
        case Op::MulHi: return each<T>(in, mask, [](u64 a, u64 b, u64) { return high_half(static_cast<T>(a), static_cast<T>(b)); });
        case Op::MulWide: return each<T>(in, mask, [=](u64 a, u64 b, u64) { return wide(a, b); });
        case Op::Mad: return each<T>(in, mask, [=](u64 a, u64 b, u64 c) { return static_cast<T>(static_cast<u64>(low(a, b)) + c); });
        case Op::MadWide: return each<T>(in, mask, [=](u64 a, u64 b, u64 c) { return wide(a, b) + c; });
        case Op::Min: return each<T>(in, mask, [](u64 a, u64 b, u64) { return std::min(static_cast<T>(a), static_cast<T>(b)); });
        case Op::Max: return each<T>(in, mask, [](u64 a, u64 b, u64) { return std::max(static_cast<T>(a), static_cast<T>(b)); });
        case Op::Neg: return each<T>(in, mask, [](u64 a, u64, u64) { return static_cast<T>(0 - a); });
        case Op::Not: return each<T>(in, mask, [](u64 a, u64, u64) { return static_cast<T>(~a); });
        case Op::NotPredicate: return each<T>(in, mask, [](u64 a, u64, u64) { return a ^ 1; });
        case Op::And: return each<T>(in, mask, [](u64 a, u64 b, u64) { return static_cast<T>(a & b); });
        case Op::Or: return each<T>(in, mask, [](u64 a, u64 b, u64) { return static_cast<T>(a | b); });
        case Op::Xor: return each<T>(in, mask, [](u64 a, u64 b, u64) { return static_cast<T>(a ^ b); });
        case Op::Shl:
            return each<T>(in, mask, [](u64 a, u64 b, u64) { return shifted_left(static_cast<T>(a), static_cast<u32>(b)); });
        case Op::Shr:
            return each<T>(in, mask, [](u64 a, u64 b, u64) { return shifted_right(static_cast<T>(a), static_cast<u32>(b)); });
        case Op::FunnelLeft:
            return each<T>(in, mask, [](u64 a, u64 b, u64 c) { return static_cast<u32>((b << 32 | static_cast<u32>(a)) << (c & 31) >> 32); });
        case Op::FunnelRight:
            return each<T>(in, mask, [](u64 a, u64 b, u64 c) { return static_cast<u32>((b << 32 | static_cast<u32>(a)) >> (c & 31)); });
        case Op::Permute:
            return each<T>(in, mask, [](u64 a, u64 b, u64 c) {
                return permuted(static_cast<u32>(a), static_cast<u32>(b), static_cast<u32>(c));
            });
        case Op::Move: return each<T>(in, mask, [](u64 a, u64, u64) { return static_cast<T>(a); });
        case Op::Equal: return each<T>(in, mask, [](u64 a, u64 b, u64) -> u64 { return static_cast<T>(a) == static_cast<T>(b); });
        case Op::NotEqual: return each<T>(in, mask, [](u64 a, u64 b, u64) -> u64 { return static_cast<T>(a) != static_cast<T>(b); });
        case Op::Less: return each<T>(in, mask, [](u64 a, u64 b, u64) -> u64 { return static_cast<T>(a) < static_cast<T>(b); });
        case Op::LessEqual: return each<T>(in, mask, [](u64 a, u64 b, u64) -> u64 { return static_cast<T>(a) <= static_cast<T>(b); });
        case Op::Greater: return each<T>(in, mask, [](u64 a, u64 b, u64) -> u64 { return static_cast<T>(a) > static_cast<T>(b); });
        case Op::GreaterEqual: return each<T>(in, mask, [](u64 a, u64 b, u64) -> u64 { return static_cast<T>(a) >= static_cast<T>(b); });
        case Op::Div:
        case Op::Rem: {
            const Lanes &a = read(in.source[0], mask), &b = read(in.source[1], mask);
            Lanes out = {};
            for (int lane = 0; lane < LANES; ++lane) {
                if (!(mask >> lane & 1)) continue;
                const T n = static_cast<T>(a[lane]), d = static_cast<T>(b[lane]);
                if (d == 0) fail(Fault::DivisionByZero, lane);
                const bool negates = std::is_signed_v<T> && d == static_cast<T>(-1);  // the smallest number would overflow
                if (in.op == Op::Div) out[lane] = negates ? 0 - widened(n) : widened(static_cast<T>(n / d));
                else out[lane] = negates ? 0 : widened(static_cast<T>(n % d));
            }
            return write(in.result[0], mask, out);
        }
        case Op::InsertBits: {
            const Lanes &a = read(in.source[0], mask), &b = read(in.source[1], mask), &c = read(in.source[2], mask), &d = read(in.source[3], mask);
            Lanes out;
            for (int lane = 0; lane < LANES; ++lane) {
                const U bits = with_bits(static_cast<U>(a[lane]), static_cast<U>(b[lane]), static_cast<u32>(c[lane]), static_cast<u32>(d[lane]));
                out[lane] = bits;
            }
            return write(in.result[0], mask, out);
        }
        case Op::Select: {
            // The value that is not selected need not be set.
            const Lanes& choice = read(in.source[2], mask);
            u32 first = 0;
            for (int lane = 0; lane < LANES; ++lane) first |= static_cast<u32>(choice[lane] & 1) << lane;
            const Lanes &a = read(in.source[0], mask & first), &b = read(in.source[1], mask & ~first);
            Lanes out;
            for (int lane = 0; lane < LANES; ++lane) out[lane] = widened(static_cast<T>(first >> lane & 1 ? a[lane] : b[lane]));
            return write(in.result[0], mask, out);
        }
        case Op::Convert:
            return typed(in.from, [&](auto zero) {
                using From = decltype(zero);
                each<T>(in, mask, [](u64 a, u64, u64) { return static_cast<T>(static_cast<From>(a)); });
            });
        case Op::Pack: {
            Lanes out = {};
            const u32 bits = 8 * sizeof(T) / static_cast<u32>(in.parts);
            const u64 ones = (u64{1} << bits) - 1;  // a constant has 64 bits
            for (int part = 0; part < in.parts; ++part) {
                const Lanes& from = read(in.source[part], mask);
                for (int lane = 0; lane < LANES; ++lane) out[lane] |= (from[lane] & ones) << bits * part;
            }
            return write(in.result[0], mask, out);
        }
        case Op::Unpack: {
            const u32 bits = 8 * sizeof(T) / static_cast<u32>(in.parts);
            const Lanes from = read(in.source[0], mask);
            for (int part = 0; part < in.parts; ++part) {
                Lanes out;
                for (int lane = 0; lane < LANES; ++lane) out[lane] = from[lane] >> bits * part;
                write(in.result[part], mask, out);
            }
            return;
        }
        default: return access(in, mask);
    }
}

Warp::Lanes Warp::addresses(const Instruction& in, u32 mask) {
    const Lanes& base = read(in.source[0], mask);
    const u32 size = bytes_of(in.type) * static_cast<u32>(in.parts);
    const bool narrow = in.op == Op::LoadShared || in.op == Op::StoreShared;  // their addresses have 32 bits
    Lanes to;
    for (int lane = 0; lane < LANES; ++lane) {
        to[lane] = base[lane] + static_cast<u64>(in.offset);
        if (narrow) to[lane] = static_cast<u32>(to[lane]);
        if (mask >> lane & 1 && to[lane] % size) throw Failure{Fault::Misaligned, lane, to[lane], size};
    }
    return to;
}

void Warp::access(const Instruction& in, u32 mask) {
    const u32 width = bytes_of(in.type), size = width * static_cast<u32>(in.parts);
    const Lanes to = addresses(in, mask);
    const bool stores = in.op == Op::StoreGlobal || in.op == Op::StoreShared;
    if (in.op == Op::AtomicMin) {
        const Lanes value = read(in.source[1], mask);
        Lanes before = {};
        for (int lane = 0; lane < LANES; ++lane) {
            if (mask >> lane & 1) before[lane] = global.atomic_min(lane, to[lane], value[lane]);
        }
        return write(in.result[0], mask, before);
    }
    std::array<std::array<u8, 16>, LANES> bytes = {};
    for (int part = 0; part < in.parts && stores; ++part) {
        const Lanes& value = read(in.result[part], mask);
        for (int lane = 0; lane < LANES; ++lane) std::memcpy(&bytes[lane][width * part], &value[lane], width);
    }
    for (int lane = 0; lane < LANES; ++lane) {
        if (!(mask >> lane & 1)) continue;
        u8* const at = bytes[lane].data();
        switch (in.op) {
            case Op::LoadParameter:
                if (to[lane] > kernel.parameter_bytes || size > kernel.parameter_bytes - to[lane]) {
                    throw Failure{Fault::BeyondParameters, lane, to[lane], size};
                }
                std::memcpy(at, launch.parameters + to[lane], size);
                break;
            case Op::LoadGlobal: global.load(lane, to[lane], size, at); break;
            case Op::StoreGlobal: global.store(lane, to[lane], size, at); break;
            case Op::LoadShared: shared.load(lane, thread(lane), to[lane], size, at); break;
            case Op::StoreShared: shared.store(lane, thread(lane), to[lane], size, at); break;
            default: fail(Fault::Disagreement, lane);
        }
    }
    if (in.op == Op::LoadGlobal || in.op == Op::StoreGlobal) global.count(stores, mask, to.data(), size);
    if ((in.op == Op::LoadShared || in.op == Op::StoreShared) && launch.totals) shared.count(mask, to.data(), size);
    for (int part = 0; part < in.parts && !stores; ++part) {
        Lanes value = {};
        typed(in.type, [&](auto zero) {
            using T = decltype(zero);
            for (int lane = 0; lane < LANES; ++lane) {
                T one;
                std::memcpy(&one, &bytes[lane][width * part], sizeof one);
                value[lane] = widened(one);
            }
        });
        write(in.result[part], mask, value);
    }
}

void Warp::execute(const Instruction& in, u32 mask) {
    typed(in.type, [&](auto zero) { compute<decltype(zero)>(in, mask); });
}
