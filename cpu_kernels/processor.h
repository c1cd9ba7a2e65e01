// Instruction sets and caches of the processor.
#pragma once

#include "engine.h"
#include "gather_loops.h"

// Returns the loops for an instruction set (enum isa); NULL if this machine does not have it.
const loops *choose_loops(int64_t wanted);

// Returns the bytes of the last-level cache, or the share of `cpus` CPUs.
int64_t last_cache(int cpus);
