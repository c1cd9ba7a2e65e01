// A warp: 32 lanes with an instruction pointer each. Lanes at the same instruction execute it together. The lanes furthest behind
// run first, so that lanes that parted meet again where the compiler laid out their common code.
#pragma once
#include <bit>
#include <type_traits>

#include "memory.h"

class Warp {
public:
    enum class Stop { Finished, AtBarrier };

    Warp(const Launch& launch, GlobalMemory& global, SharedMemory& shared)
        : launch(launch), kernel(*launch.kernel), global(global), shared(shared), values(kernel.register_count), set(kernel.register_count) {}

    void begin(u32 block, u32 number) {
        first_thread = number * LANES;
        const u32 threads = std::min(launch.block_size - first_thread, u32{LANES});
        alive = threads == LANES ? ~u32{0} : (u32{1} << threads) - 1;
        now = {0, alive};
        waiting.clear();
        executed = 0;
        for (s32 r = 0; r < kernel.register_count; ++r) {
            const Register& reg = kernel.registers[r];
            set[r] = reg.initial == Initial::Unset ? 0 : ~u32{0};
            for (u32 lane = 0; lane < LANES; ++lane) {
                switch (reg.initial) {
                    case Initial::Thread: values[r][lane] = first_thread + lane; break;
                    case Initial::BlockSize: values[r][lane] = launch.block_size; break;
                    case Initial::Block: values[r][lane] = block; break;
                    case Initial::Grid: values[r][lane] = launch.grid; break;
                    case Initial::Lane: values[r][lane] = lane; break;
                    default: values[r][lane] = reg.value;
                }
            }
        }
    }

    // Runs to the next barrier or to the end.
    Stop run() {
        for (;;) {
            if (!choose()) return Stop::Finished;
            const Instruction& in = kernel.code[now.at];
            if (++executed > launch.most_instructions) fail(Fault::TooLong);
            const u32 mask = guarded(in);
            kernel.executed[now.at] += mask != 0 || in.op == Op::Branch;
            if (launch.totals) {
                ++launch.totals->instructions;
                launch.totals->thread_instructions += std::popcount(mask);
            }
            if (in.op == Op::Barrier) {
                if (mask != alive || now.lanes != alive) fail(Fault::BarrierMissed, std::countr_zero(alive & ~mask));
                ++now.at;
                return Stop::AtBarrier;
            }
            if (in.op == Op::Branch) {
                branch(in, mask);
            } else if (in.op == Op::Return) {
                now.lanes &= ~mask;
                ++now.at;
            } else {
                if (mask) execute(in, mask);
                ++now.at;
            }
        }
    }

    s32 at() const { return now.at; }
    u32 thread(int lane) const { return first_thread + static_cast<u32>(lane); }

private:
    struct Group {
        s32 at;
        u32 lanes;
    };
    using Lanes = std::array<u64, LANES>;

    [[noreturn]] static void fail(Fault fault, int lane = 0) { throw Failure{fault, lane, 0, 0}; }

    // Makes the group that is furthest behind the current one. Returns whether there is one.
    bool choose() {
        if (waiting.empty()) return now.lanes != 0;
        if (now.lanes && now.at < next_waiting) return true;
        if (now.lanes) park(now);
        now = *std::min_element(waiting.begin(), waiting.end(), [](Group a, Group b) { return a.at < b.at; });
        std::erase_if(waiting, [&](Group group) { return group.at == now.at; });
        remember_next();
        return true;
    }

    void park(Group group) {
        for (Group& other : waiting) {
            if (other.at == group.at) {
                other.lanes |= group.lanes;
                return;
            }
        }
        waiting.push_back(group);
        remember_next();
    }

    void remember_next() {
        next_waiting = kernel.instructions;
        for (const Group& group : waiting) next_waiting = std::min(next_waiting, group.at);
    }

    // The lanes for which the instruction's predicate holds.
    u32 guarded(const Instruction& in) {
        if (in.predicate == NONE) return now.lanes;
        const Lanes& predicate = read(in.predicate, now.lanes);
        u32 mask = 0;
        for (int lane = 0; lane < LANES; ++lane) mask |= static_cast<u32>(predicate[lane] != static_cast<u64>(in.negated)) << lane;
        return mask & now.lanes;
    }

    void branch(const Instruction& in, u32 mask) {
        const u32 others = now.lanes & ~mask;
        if (in.uniform && mask && others) fail(Fault::Disagreement, std::countr_zero(others));
        if (others && mask) park({now.at + 1, others});
        now = mask ? Group{in.target, mask} : Group{now.at + 1, others};
    }

    const Lanes& read(s32 number, u32 mask) {
        if (const u32 missing = mask & ~set[number]) throw Failure{Fault::RegisterUnset, std::countr_zero(missing), 0, 0, number};
        return values[number];
    }

    void write(s32 number, u32 mask, const Lanes& value) {
        if (number == NONE) return;
        const u64 width = kernel.registers[number].mask;
        Lanes& to = values[number];
        if (mask == ~u32{0}) {
            for (int lane = 0; lane < LANES; ++lane) to[lane] = value[lane] & width;
        } else {
            for (int lane = 0; lane < LANES; ++lane) to[lane] = mask >> lane & 1 ? value[lane] & width : to[lane];
        }
        set[number] |= mask;
    }

    void execute(const Instruction& in, u32 mask);
    template <typename T> void compute(const Instruction& in, u32 mask);
    template <typename T, typename F> void each(const Instruction& in, u32 mask, F result);
    template <typename F> void typed(Type type, F use);
    void access(const Instruction& in, u32 mask);
    Lanes addresses(const Instruction& in, u32 mask);

    const Launch& launch;
    const Kernel& kernel;
    GlobalMemory& global;
    SharedMemory& shared;
    std::vector<Lanes> values;
    std::vector<u32> set;  // the lanes for which each register has a value
    std::vector<Group> waiting;
    Group now = {0, 0};
    s32 next_waiting = 0;
    u32 alive = 0, first_thread = 0;
    u64 executed = 0;
};
