// What the processor has: instruction sets, caches.
#pragma once

#include "engine.h"
#include "gather_loops.h"

// The loops for an instruction set (enum isa); NULL where this machine lacks it.
const loops *choose_loops(int64_t wanted);

// Bytes of the last cache, or of the share of it that so many CPUs have.
int64_t last_cache(int cpus);
