// A warp: 32 lanes with an instruction pointer each. Lanes at the same instruction execute it together. The lanes furthest behind
// run first, so that lanes that parted meet again where the compiler laid out their common code.
#pragma once
#include <algorithm>

#include "launch.h"

class Warp {
public:
    enum class Stop { Finished, AtBarrier };

    Warp(const Launch& launch, GlobalMemory& global, SharedMemory& shared)
        : global(global),
          shared(shared),
          launch(launch),
          kernel(launch.kernel),
          values(kernel.registers.size()),
          set(values.size()),
          local(LANES * kernel.local_bytes) {
        for (std::size_t r = 0; r < values.size(); ++r) {
            const Register& reg = kernel.registers[r];
            if (reg.initial == Initial::Constant)
                values[r].fill(reg.value);
            else if (reg.initial != Initial::Unset)
                special.push_back(r);
        }
    }

    void begin(const u32* block, u32 number) {
        first_thread = number * LANES;
        const u32 threads = std::min(launch.threads() - first_thread, u32{LANES});
        alive = running = threads == LANES ? ~u32{0} : (u32{1} << threads) - 1;
        now = {0, alive, false};
        waiting.clear();
        executed = 0;
        for (std::size_t r = 0; r < set.size(); ++r) set[r] = kernel.registers[r].initial == Initial::Unset ? 0 : ~u32{0};
        for (const std::size_t r : special) {
            for (u32 lane = 0; lane < LANES; ++lane) values[r][lane] = initial(kernel.registers[r], block, lane);
        }
        std::fill(local.begin(), local.end(), u8{0xCD});
    }

    // Runs to the next barrier or to the end.
    Stop run() {
        for (;;) {
            if (!choose()) return Stop::Finished;
            const Instruction& in = kernel.code[static_cast<std::size_t>(now.at)];
            const u32 mask = guarded(in);
            if (in.control == Control::Collective && !gathered(in, mask)) continue;
            if (++executed > launch.most_instructions) fail(Fault::TooLong);
            kernel.executed[static_cast<std::size_t>(now.at)] += mask != 0 || in.control == Control::Branch;
            if (launch.totals) {
                ++launch.totals->instructions;
                launch.totals->thread_instructions += static_cast<u64>(std::popcount(mask));
            }
            switch (in.control) {
                case Control::Branch: branch(in, mask); continue;
                case Control::Barrier:
                    if (mask != alive || now.lanes != alive) fail(Fault::BarrierMissed, std::countr_zero(alive & ~mask));
                    ++now.at;
                    return Stop::AtBarrier;
                case Control::Return:
                    now.lanes &= ~mask;
                    running &= ~mask;
                    for (Group& group : waiting) group.blocked = false;  // they may have waited for these
                    break;
                case Control::Collective: shared.begin_phase_of(first_thread); [[fallthrough]];
                default:
                    valueless = 0;
                    if (mask) in.run(*this, in, mask);
            }
            ++now.at;
        }
    }

    s32 at() const { return now.at; }
    u32 thread(int lane) const { return first_thread + static_cast<u32>(lane); }

    // What an instruction reads for the lanes in `mask`. A result that is computed of registers without a value has none.
    const Lanes& read(s32 number, u32 mask) {
        if (launch.copies_unset) {
            valueless |= mask & ~set[static_cast<std::size_t>(number)];
            return values[static_cast<std::size_t>(number)];
        }
        return needed(number, mask);
    }

    // The same, where a value must be there: of addresses and predicates.
    const Lanes& needed(s32 number, u32 mask) const {
        const std::size_t r = static_cast<std::size_t>(number);
        if (const u32 missing = mask & ~set[r]) throw Failure{Fault::RegisterUnset, std::countr_zero(missing), 0, 0, number};
        return values[r];
    }

    void write(s32 number, u32 mask, const Lanes& value) {
        if (number == NONE) return;
        const std::size_t r = static_cast<std::size_t>(number);
        const u64 width = kernel.registers[r].mask;
        Lanes& to = values[r];
        if (mask == ~u32{0}) {
            for (int lane = 0; lane < LANES; ++lane) to[lane] = value[lane] & width;
        } else {
            for (int lane = 0; lane < LANES; ++lane) to[lane] = mask >> lane & 1 ? value[lane] & width : to[lane];
        }
        set[r] = (set[r] | mask) & ~(mask & valueless);
    }

    const u8* parameter(int lane, u64 address, u32 size) const {
        if (address > kernel.parameter_bytes || size > kernel.parameter_bytes - address)
            throw Failure{Fault::BeyondParameters, lane, address, size};
        return launch.parameters + address;
    }

    u8* local_at(int lane, u64 address, u32 size) {
        address &= ~WINDOW;
        if (address > kernel.local_bytes || size > kernel.local_bytes - address)
            throw Failure{Fault::BeyondLocal, lane, address, size};
        return &local[static_cast<u64>(lane) * kernel.local_bytes + address];
    }

    GlobalMemory& global;
    SharedMemory& shared;
    u32 valueless = 0;  // the lanes for which the instruction has read a register without a value

private:
    struct Group {
        s32 at;
        u32 lanes;
        bool blocked;  // at a collective instruction that other lanes have not reached
    };

    [[noreturn]] static void fail(Fault fault, int lane = 0) { throw Failure{fault, lane}; }

    u64 initial(const Register& reg, const u32* block, u32 lane) const {
        const u32 thread = first_thread + lane;
        switch (reg.initial) {
            case Initial::Thread: {
                const u32 place[] = {thread % launch.block[0], thread / launch.block[0] % launch.block[1],
                                     thread / launch.block[0] / launch.block[1]};
                return place[reg.dimension];
            }
            case Initial::BlockSize: return launch.block[reg.dimension];
            case Initial::Block: return block[reg.dimension];
            case Initial::Grid: return launch.grid[reg.dimension];
            case Initial::WarpNumber: return first_thread / LANES;
            case Initial::LanesEqual: return u32{1} << lane;
            case Initial::LanesBelow: return (u32{1} << lane) - 1;
            default: return lane;
        }
    }

    // Makes the group that is furthest behind the current one. Returns whether there is one.
    bool choose() {
        if (waiting.empty()) return now.lanes != 0;
        if (now.lanes && now.at < next_waiting) return true;
        if (now.lanes) park(now);
        const auto behind = [](Group a, Group b) { return a.blocked != b.blocked ? b.blocked : a.at < b.at; };
        const auto first = std::min_element(waiting.begin(), waiting.end(), behind);
        if (first->blocked) fail(Fault::LanesMissing, std::countr_zero(first->lanes));
        now = *first;
        waiting.erase(first);
        remember_next();
        return true;
    }

    void park(Group group) {
        for (Group& other : waiting) {
            if (other.at == group.at) {
                other.lanes |= group.lanes;
                other.blocked &= group.blocked;
                return;
            }
        }
        waiting.push_back(group);
        remember_next();
    }

    void remember_next() {
        next_waiting = static_cast<s32>(kernel.code.size());
        for (const Group& group : waiting) {
            if (!group.blocked) next_waiting = std::min(next_waiting, group.at);
        }
    }

    // Whether all lanes that a collective instruction names have reached it. If not, those that have wait.
    bool gathered(const Instruction& in, u32 mask) {
        if (const u32 others = now.lanes & ~mask) {
            park({now.at + 1, others, false});
            now.lanes = mask;
        }
        if (!mask) return false;
        const u32 named = static_cast<u32>(needed(in.members, mask)[static_cast<std::size_t>(std::countr_zero(mask))]);
        if (!(named & running & ~mask)) return true;
        if (waiting.empty()) fail(Fault::LanesMissing, std::countr_zero(mask));
        park({now.at, now.lanes, true});
        now.lanes = 0;
        return false;
    }

    // The lanes for which the instruction's predicate holds.
    u32 guarded(const Instruction& in) {
        if (in.predicate == NONE) return now.lanes;
        const Lanes& predicate = needed(in.predicate, now.lanes);
        u32 mask = 0;
        for (int lane = 0; lane < LANES; ++lane) mask |= static_cast<u32>((predicate[lane] & 1) != in.negated) << lane;
        return mask & now.lanes;
    }

    void branch(const Instruction& in, u32 mask) {
        const u32 others = now.lanes & ~mask;
        if (in.uniform && mask && others) fail(Fault::Disagreement, std::countr_zero(others));
        if (others && mask) park({now.at + 1, others, false});
        now = mask ? Group{in.target, mask, false} : Group{now.at + 1, others, false};
    }

    const Launch& launch;
    Kernel& kernel;
    std::vector<Lanes> values;
    std::vector<u32> set;  // the lanes for which each register has a value
    std::vector<std::size_t> special;
    std::vector<u8> local;
    std::vector<Group> waiting;
    Group now = {0, 0, false};
    s32 next_waiting = 0;
    u32 alive = 0, running = 0, first_thread = 0;
    u64 executed = 0;
};
