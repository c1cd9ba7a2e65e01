// A launch of a kernel: what it is given, and what is said where the kernel does what it must not.
#pragma once
#include "memory.h"

struct Launch {
    Kernel& kernel;
    const u8* parameters;
    u32 grid[3], block[3];
    u32 dynamic_shared;
    u64 first_block, last_block;  // the blocks first_block <= block < last_block are executed
    u64 most_instructions;        // of one warp
    Memory& memory;
    LaunchCounts* totals;  // null: nothing is counted
    bool copies_unset;     // compilers compute with variables that have no value; it must not come to a branch or an address

    u32 threads() const { return block[0] * block[1] * block[2]; }
};

constexpr u64 MOST_INSTRUCTIONS = 100'000'000;  // of one warp; a kernel that executes more is taken for one that does not end

// What a kernel did wrong: where, and what.
struct Violation : std::runtime_error {
    Violation(Fault fault, const std::string& text, s32 line) : std::runtime_error(text), fault(fault), line(line) {}
    Fault fault;
    s32 line;  // of the CUDA source
};

// Runs blocks of a launch, one after the other. Raises Violation.
void run(const Launch& launch);
