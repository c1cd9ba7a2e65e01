// Runs a launch, block after block, and the warps of a block from barrier to barrier.
#include "warp.h"

namespace {

Outcome run_block(u32 block, std::vector<Warp>& warps, SharedMemory& shared) {
    shared.begin_block();
    for (std::size_t number = 0; number < warps.size(); ++number) warps[number].begin(block, static_cast<u32>(number));
    std::size_t current = 0;
    try {
        for (;;) {
            std::size_t finished = 0;
            for (current = 0; current < warps.size(); ++current) finished += warps[current].run() == Warp::Stop::Finished;
            if (finished == warps.size()) break;
            // Either all warps wait at the same barrier, or one will never be left.
            for (current = 0; current < warps.size(); ++current) {
                if (finished || warps[current].at() != warps[0].at()) throw Failure{Fault::BarrierMissed, 0, 0, 0};
            }
            shared.begin_phase();
        }
    } catch (const Failure& failure) {
        const Warp& warp = warps[std::min(current, warps.size() - 1)];
        return {failure.fault, warp.at(), block, warp.thread(failure.lane), failure.address, failure.size, failure.other};
    }
    return {};
}

}  // namespace

extern "C" {

Outcome ptx_launch(const Launch* launch) {
    GlobalMemory global(*launch);
    SharedMemory shared(launch->kernel->static_shared_bytes + launch->dynamic_shared_bytes, launch->totals);
    std::vector<Warp> warps((launch->block_size + LANES - 1) / LANES, Warp(*launch, global, shared));
    for (u32 block = launch->first_block; block < launch->last_block; ++block) {
        global.begin_block();
        const Outcome outcome = run_block(block, warps, shared);
        if (outcome.fault != Fault::None) return outcome;
        if (launch->totals) {
            launch->totals->threads += launch->block_size;
            launch->totals->warps += warps.size();
        }
    }
    global.end();
    return {};
}

void* ptx_sparse_new() { return new SparseBytes; }
void ptx_sparse_delete(void* bytes) { delete static_cast<SparseBytes*>(bytes); }
void ptx_sparse_forget_stores(void* bytes) { static_cast<SparseBytes*>(bytes)->forget_stores(); }
u64 ptx_sparse_stored(void* bytes) { return static_cast<SparseBytes*>(bytes)->count(); }

void ptx_sparse_write(void* bytes, u64 address, const u8* from, u64 size) {
    for (u64 i = 0; i < size; ++i) static_cast<SparseBytes*>(bytes)->store(address + i, from[i]);
    static_cast<SparseBytes*>(bytes)->forget_stores();
}

// The bytes at `count` addresses, and whether each was stored by a launch.
void ptx_sparse_read(void* bytes, const u64* addresses, u64 count, u8* to, u8* stored) {
    for (u64 i = 0; i < count; ++i) {
        to[i] = static_cast<SparseBytes*>(bytes)->load(addresses[i]);
        stored[i] = static_cast<SparseBytes*>(bytes)->stored(addresses[i]);
    }
}

u64 ptx_sizes() { return sizeof(Launch) << 32 | sizeof(Instruction) << 16 | sizeof(Buffer); }
}
