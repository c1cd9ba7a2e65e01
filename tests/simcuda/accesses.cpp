// Instructions that access memory, or other lanes of the warp.
#include <map>
#include <utility>

#include "warp.h"

namespace {

template <class F> void for_lanes(u32 mask, F use) {
    for (; mask; mask &= mask - 1) use(std::countr_zero(mask));
}

Lanes addresses(const Warp& warp, const Instruction& in, u32 mask) {
    const Lanes& base = warp.needed(in.source[0], mask);
    const u32 size = u32{in.bytes} * in.parts;
    Lanes to;
    for (int lane = 0; lane < LANES; ++lane) {
        to[lane] = base[lane] + static_cast<u64>(in.offset);
        if (in.space == Space::Shared) to[lane] = static_cast<u32>(to[lane]);  // they have 32 bits
        if (mask >> lane & 1 && to[lane] % size) throw Failure{Fault::Misaligned, lane, to[lane], size};
    }
    return to;
}

// The lanes whose generic address lies in a window.
u32 in_window(u32 mask, const Lanes& to, u64 window) {
    u32 found = 0;
    for_lanes(mask, [&](int lane) { found |= static_cast<u32>((to[lane] & WINDOW) == window) << lane; });
    return found;
}

// Calls use(space, lanes) for each memory that the lanes access.
template <class F> void by_space(const Instruction& in, u32 mask, const Lanes& to, F use) {
    if (in.space != Space::Generic) return use(in.space, mask);
    const u32 shared = in_window(mask, to, SHARED_WINDOW), local = in_window(mask, to, LOCAL_WINDOW),
              global = mask & ~shared & ~local;
    if (shared) use(Space::Shared, shared);
    if (local) use(Space::Local, local);
    if (global) use(Space::Global, global);
}

constexpr u64 VALUELESS = 0xA5A5A5A5A5A5A5A5;  // what is stored of a register that is not set

typedef std::array<std::array<u8, 16>, LANES> Content;  // of each lane

void count(Warp& warp, const Instruction& in, Space space, u32 mask, const Lanes& to, u32 size) {
    if (space == Space::Global) warp.global.count(in, mask, to, size);
    if (space == Space::Shared) warp.shared.count(mask, to, size);
}

// The content of a part of a vector, by lane.
template <class T> Lanes part_of(const Content& content, int part) {
    Lanes value;
    for (int lane = 0; lane < LANES; ++lane) {
        T one;
        std::memcpy(&one, &content[lane][sizeof(T) * part], sizeof one);
        value[lane] = bits_of(one);
    }
    return value;
}

Lanes part_of(const Content& content, int part, const Instruction& in) {
    switch (in.bytes) {
        case 1: return in.is_signed ? part_of<s8>(content, part) : part_of<u8>(content, part);
        case 2: return in.is_signed ? part_of<s16>(content, part) : part_of<u16>(content, part);
        case 4: return in.is_signed ? part_of<s32>(content, part) : part_of<u32>(content, part);
        default: return part_of<u64>(content, part);
    }
}

template <class T> struct Exchange {
    static T of(T, T value, T) { return value; }
};
template <class T> struct CompareAndSwap {
    static T of(T before, T expected, T value) { return before == expected ? value : before; }
};
template <class T> struct Sum {
    static T of(T before, T value, T) {
        if constexpr (is_float<T>)
            return before + value;
        else
            return static_cast<T>(static_cast<u64>(before) + static_cast<u64>(value));
    }
};
template <class T> struct Least {
    static T of(T before, T value, T) { return value < before ? value : before; }
};
template <class T> struct Most {
    static T of(T before, T value, T) { return value > before ? value : before; }
};
template <class T> struct Both {
    static T of(T before, T value, T) { return before & value; }
};
template <class T> struct Either {
    static T of(T before, T value, T) { return before | value; }
};
template <class T> struct Different {
    static T of(T before, T value, T) { return before ^ value; }
};
template <class T> struct Increment {
    static T of(T before, T most, T) { return before >= most ? 0 : before + 1; }
};
template <class T> struct Decrement {
    static T of(T before, T most, T) { return before == 0 || before > most ? most : before - 1; }
};

template <class T, class Operation> void atomically(Warp& warp, const Instruction& in, u32 mask) {
    const Lanes to = addresses(warp, in, mask), value = warp.needed(in.source[1], mask);
    const Lanes other = in.source[2] == NONE ? value : warp.needed(in.source[2], mask);
    Lanes results = {};
    by_space(in, mask, to, [&](Space space, u32 lanes) {
        for_lanes(lanes, [&](int lane) {
            u8* const at = space == Space::Shared
                               ? warp.shared.atomic(lane, warp.thread(lane), static_cast<u32>(to[lane]), sizeof(T))
                           : space == Space::Local ? warp.local_at(lane, to[lane], sizeof(T))
                                                   : warp.global.atomic(in, lane, to[lane], sizeof(T));
            T before;
            std::memcpy(&before, at, sizeof before);
            const T after = Operation::of(before, value_of<T>(value[lane]), value_of<T>(other[lane]));
            std::memcpy(at, &after, sizeof after);
            results[lane] = bits_of(before);
        });
    });
    warp.write(in.result[0], mask, results);
}

template <template <class> class Operation, class... T> Handler of(Type type) {
    Handler found = nullptr;
    const auto test = [&]<class Each>(Type of) { found = type == of ? atomically<Each, Operation<Each>> : found; };
    (test.template operator()<T>(std::is_same_v<T, u16>     ? Type::U16
                                 : std::is_same_v<T, u32>   ? Type::U32
                                 : std::is_same_v<T, u64>   ? Type::U64
                                 : std::is_same_v<T, s32>   ? Type::S32
                                 : std::is_same_v<T, s64>   ? Type::S64
                                 : std::is_same_v<T, f16>   ? Type::F16
                                 : std::is_same_v<T, float> ? Type::F32
                                                            : Type::F64),
     ...);
    return found;
}

// The lane from which each lane takes its value, and whether that is in range; out of range it keeps its own.
struct Shuffle {
    enum Mode { Up, Down, Butterfly, Index };
    template <Mode MODE> static void run(Warp& warp, const Instruction& in, u32 mask) {
        const Lanes value = warp.read(in.source[0], mask), by = warp.needed(in.source[1], mask),
                    limits = warp.needed(in.source[2], mask);
        const u32 unset = std::exchange(warp.valueless, 0);
        Lanes out = {}, valid = {};
        for_lanes(mask, [&](int lane) {
            const int step = static_cast<int>(by[lane] & 31), clamp = static_cast<int>(limits[lane] & 31);
            const int segment = static_cast<int>(limits[lane] >> 8 & 31), first = lane & segment,
                      last = first | (clamp & ~segment);
            const int from = MODE == Up          ? lane - step
                             : MODE == Down      ? lane + step
                             : MODE == Butterfly ? lane ^ step
                                                 : first | (step & ~segment);
            valid[lane] = MODE == Up ? from >= last : from <= last;
            const int taken = valid[lane] ? from : lane;
            if (!(mask >> taken & 1))
                throw Failure{Fault::LanesMissing, lane};  // what a lane that is not here would give is undefined
            out[lane] = value[taken];
            warp.valueless |= (unset >> taken & 1) << lane;
        });
        warp.write(in.result[0], mask, out);
        warp.valueless = 0;
        warp.write(in.result[1], mask, valid);
    }
};

struct Vote {
    enum Mode { Ballot, Any, All, Same };
    template <Mode MODE> static void run(Warp& warp, const Instruction& in, u32 mask) {
        const Lanes& choice = warp.needed(in.source[0], mask);
        u32 votes = 0;
        for_lanes(mask, [&](int lane) { votes |= static_cast<u32>((choice[lane] & 1) != in.negates) << lane; });
        const u64 result = MODE == Ballot ? votes
                           : MODE == Any  ? votes != 0
                           : MODE == All  ? votes == mask
                                          : votes == mask || votes == 0;
        Lanes out;
        out.fill(result);
        warp.write(in.result[0], mask, out);
    }
};

}  // namespace

void load(Warp& warp, const Instruction& in, u32 mask) {
    const Lanes to = addresses(warp, in, mask);
    const u32 size = u32{in.bytes} * in.parts;
    Content content;
    by_space(in, mask, to, [&](Space space, u32 lanes) {
        for_lanes(lanes, [&](int lane) {
            u8* const at = content[lane].data();
            switch (space) {
                case Space::Parameter: copy(at, warp.parameter(lane, to[lane], size), size); break;
                case Space::Shared: warp.shared.load(lane, warp.thread(lane), static_cast<u32>(to[lane]), size, at); break;
                case Space::Local: copy(at, warp.local_at(lane, to[lane], size), size); break;
                default: warp.global.load(in, lane, to[lane], size, at);
            }
        });
        count(warp, in, space, lanes, to, size);
    });
    for (int part = 0; part < in.parts; ++part) warp.write(in.result[part], mask, part_of(content, part, in));
}

void store(Warp& warp, const Instruction& in, u32 mask) {
    const Lanes to = addresses(warp, in, mask);
    const u32 size = u32{in.bytes} * in.parts;
    Content content;
    for (int part = 0; part < in.parts; ++part) {
        warp.valueless = 0;
        Lanes value = warp.read(in.result[part], mask);
        for_lanes(warp.valueless, [&](int lane) { value[lane] = VALUELESS; });
        for (int lane = 0; lane < LANES; ++lane) {
            copy(&content[lane][static_cast<std::size_t>(in.bytes * part)], reinterpret_cast<const u8*>(&value[lane]), in.bytes);
        }
    }
    by_space(in, mask, to, [&](Space space, u32 lanes) {
        for_lanes(lanes, [&](int lane) {
            const u8* const at = content[lane].data();
            switch (space) {
                case Space::Shared: warp.shared.store(lane, warp.thread(lane), static_cast<u32>(to[lane]), size, at); break;
                case Space::Local: copy(warp.local_at(lane, to[lane], size), at, size); break;
                default: warp.global.store(in, lane, to[lane], size, at);
            }
        });
        count(warp, in, space, lanes, to, size);
    });
}

Handler atomic(std::string_view name, Type type) {
    static const std::map<std::string_view, Handler (*)(Type)> table = {
        {"exch", of<Exchange, u32, u64>},
        {"cas", of<CompareAndSwap, u16, u32, u64>},
        {"add", of<Sum, u32, u64, s32, s64, f16, float, double>},
        {"min", of<Least, u32, u64, s32, s64>},
        {"max", of<Most, u32, u64, s32, s64>},
        {"and", of<Both, u32, u64>},
        {"or", of<Either, u32, u64>},
        {"xor", of<Different, u32, u64>},
        {"inc", of<Increment, u32>},
        {"dec", of<Decrement, u32>},
    };
    const auto row = table.find(name);
    return row == table.end() ? nullptr : row->second(type);
}

Handler collective(std::string_view name) {
    static const std::map<std::string_view, Handler> table = {
        {"bar.warp", nothing},
        {"shfl.up", Shuffle::run<Shuffle::Up>},
        {"shfl.down", Shuffle::run<Shuffle::Down>},
        {"shfl.bfly", Shuffle::run<Shuffle::Butterfly>},
        {"shfl.idx", Shuffle::run<Shuffle::Index>},
        {"vote.ballot", Vote::run<Vote::Ballot>},
        {"vote.any", Vote::run<Vote::Any>},
        {"vote.all", Vote::run<Vote::All>},
        {"vote.uni", Vote::run<Vote::Same>},
    };
    const auto row = table.find(name);
    return row == table.end() ? nullptr : row->second;
}

void active_lanes(Warp& warp, const Instruction& in, u32 mask) {
    Lanes out;
    out.fill(mask);
    warp.write(in.result[0], mask, out);
}
