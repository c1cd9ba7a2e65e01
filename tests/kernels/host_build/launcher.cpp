// Runs a kernel on the host: thread after thread, or with one host thread per CUDA thread where it has a barrier.
#include <barrier>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include "arguments.cuh"

thread_local Coordinates blockIdx, threadIdx;
char* host_shared;

static thread_local std::barrier<>* barrier;

void __syncthreads() { barrier->arrive_and_wait(); }

typedef void (*Kernel)(Arguments);

extern "C" void host_launch(Kernel kernel, unsigned grid, const Arguments* arguments) {
    for (unsigned block = 0; block < grid; ++block) {
        for (unsigned thread = 0; thread < BLOCK; ++thread) {
            blockIdx = {block, 0, 0};
            threadIdx = {thread, 0, 0};
            kernel(*arguments);
        }
    }
}

extern "C" void host_launch_with_barrier(Kernel kernel, unsigned grid, const Arguments* arguments, unsigned shared_bytes) {
    host_shared = static_cast<char*>(malloc(shared_bytes));
    if (shared_bytes) memset(host_shared, 0xCD, shared_bytes);
    std::barrier<> inside(BLOCK), between(BLOCK);
    std::vector<std::thread> threads;
    for (unsigned thread = 0; thread < BLOCK; ++thread) {
        threads.emplace_back([=, &inside, &between] {
            barrier = &inside;
            threadIdx = {thread, 0, 0};
            for (unsigned block = 0; block < grid; ++block) {
                blockIdx = {block, 0, 0};
                kernel(*arguments);
                between.arrive_and_wait();  // shared memory belongs to the next block only when all have left this one
            }
        });
    }
    for (std::thread& thread : threads) thread.join();
    free(host_shared);
}

// Offsets of the fields of Arguments, then its size, for the test that compares them with the Python packer's.
extern "C" const size_t* host_arguments_layout() {
    static const size_t layout[] = {
        offsetof(Arguments, in),          offsetof(Arguments, indices),      offsetof(Arguments, out),
        offsetof(Arguments, first_bad),   offsetof(Arguments, table),        offsetof(Arguments, in_offset),
        offsetof(Arguments, out_offset),  offsetof(Arguments, in_walk),      offsetof(Arguments, out_walk),
        offsetof(Arguments, in_bytes),    offsetof(Arguments, run_bytes),
        offsetof(Arguments, threads),     offsetof(Arguments, full),         offsetof(Arguments, chunk_slowest),
        offsetof(Arguments, rank),        offsetof(Arguments, lookups),      offsetof(Arguments, index_shift),
        offsetof(Arguments, index_signed), offsetof(Arguments, extent),      offsetof(Arguments, checked),
        offsetof(Arguments, fill),        offsetof(Arguments, dimension),    offsetof(Arguments, lookup),
        offsetof(Arguments, staging),
        sizeof(Arguments),
    };
    return layout;
}

// The quotients that the kernels compute, for the test of the magic numbers.
extern "C" unsigned host_divide(unsigned n, unsigned multiplier, unsigned shift) { return divide(n, multiplier, shift); }
