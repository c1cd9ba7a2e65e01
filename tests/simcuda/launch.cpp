// Runs a launch, block after block, and the warps of a block from barrier to barrier.
#include "launch.h"

#include <cinttypes>
#include <cstdio>

#include "warp.h"

namespace {

std::string said(const Launch& launch, const Failure& failure) {
    const auto text = [](const char* format, auto... values) {
        char line[300];
        std::snprintf(line, sizeof line, format, values...);
        return std::string(line);
    };
    const u64 at = failure.address;
    const u32 size = failure.size;
    switch (failure.fault) {
        case Fault::Outside:
            return text("accesses %u bytes at %#" PRIx64 ", outside every buffer", size, at) + launch.memory.near(at);
        case Fault::NotReadable:
            return text("loads %u bytes at %#" PRIx64 " from a buffer that may not be read", size, at) + launch.memory.near(at);
        case Fault::NotWritable:
            return text("stores %u bytes at %#" PRIx64 " to a buffer that may not be written", size, at) + launch.memory.near(at);
        case Fault::NotAtomic:
            return text("an atomic operation at %#" PRIx64 " on a buffer that is not meant for it", at) + launch.memory.near(at);
        case Fault::Misaligned: return text("accesses %u bytes at %#" PRIx64 ", which is not a multiple of %u", size, at, size);
        case Fault::StoredTwice: return text("stores the byte at %#" PRIx64 " a second time", at) + launch.memory.near(at);
        case Fault::BeyondParameters: return text("loads %u bytes at %" PRIu64 " of the parameters, beyond their end", size, at);
        case Fault::BeyondShared: return text("accesses %u bytes at %" PRIu64 " of shared memory, beyond its end", size, at);
        case Fault::BeyondLocal: return text("accesses %u bytes at %" PRIu64 " of local memory, beyond its end", size, at);
        case Fault::SharedUnset:
            return text("loads the byte %" PRIu64 " of shared memory that no thread of the block has written", at);
        case Fault::SharedRace: {
            const std::string other = failure.other >= 0 ? text("thread %d does", failure.other) : "other threads do";
            return text("accesses the byte %" PRIu64 " of shared memory, as ", at) + other + " without a barrier between them";
        }
        case Fault::RegisterUnset:
            return "reads register " + launch.kernel.registers[static_cast<std::size_t>(failure.other)].name +
                   ", which is not set";
        case Fault::BarrierMissed: return "does not reach the barrier that other threads of the block wait at";
        case Fault::Disagreement: return "does not take a branch that all threads of the warp must take";
        case Fault::LanesMissing: return "waits for threads of its warp that never come";
        case Fault::DivisionByZero: return "divides by zero";
        case Fault::TooLong: return text("executes more than %" PRIu64 " instructions", launch.most_instructions);
        case Fault::Trap: return "traps";
        default: return "fails";
    }
}

// Runs the warps from barrier to barrier. They meet at the same one each time, or it will never be left.
void run_together(std::vector<Warp>& warps, const u32* block, SharedMemory& shared, std::size_t& current) {
    for (current = 0; current < warps.size(); ++current) warps[current].begin(block, static_cast<u32>(current));
    for (;;) {
        std::size_t finished = 0;
        for (current = 0; current < warps.size(); ++current) finished += warps[current].run() == Warp::Stop::Finished;
        if (finished == warps.size()) return;
        for (current = 0; current < warps.size(); ++current) {
            if (finished || warps[current].at() != warps[0].at()) throw Failure{Fault::BarrierMissed};
        }
        shared.begin_phase();
    }
}

}  // namespace

void run(const Launch& launch) {
    const Kernel& kernel = launch.kernel;
    GlobalMemory global(launch.memory, kernel.code.size());
    SharedMemory shared(kernel.static_shared + launch.dynamic_shared, launch.totals);
    const u32 count = (launch.threads() + LANES - 1) / LANES;
    std::vector<Warp> warps(kernel.waits ? count : 1, Warp(launch, global, shared));
    for (u64 number = launch.first_block; number < launch.last_block; ++number) {
        const u64 row = number / launch.grid[0];
        const u32 block[] = {static_cast<u32>(number % launch.grid[0]), static_cast<u32>(row % launch.grid[1]),
                             static_cast<u32>(row / launch.grid[1])};
        shared.begin_block();
        std::size_t current = 0;
        try {
            if (kernel.waits) {
                run_together(warps, block, shared, current);
            } else {
                for (u32 warp = 0; warp < count; ++warp) {
                    warps[0].begin(block, warp);
                    warps[0].run();
                }
            }
        } catch (const Failure& failure) {
            const Warp& warp = warps[std::min(current, warps.size() - 1)];
            const Instruction& in = kernel.code[std::min(static_cast<std::size_t>(warp.at()), kernel.code.size() - 1)];
            const std::string where =
                kernel.name + ", block " + std::to_string(number) + ", thread " + std::to_string(warp.thread(failure.lane));
            throw Violation(failure.fault, where + ": " + said(launch, failure) + "\n  PTX: " + in.text, in.line);
        }
        global.end_block();
        if (launch.totals) {
            launch.totals->threads += launch.threads();
            launch.totals->warps += count;
        }
    }
    global.end();
}
