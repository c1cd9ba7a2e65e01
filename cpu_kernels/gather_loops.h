// Inner loops with lookups, in two phases: indices become offsets, and units are loaded from these. The second loop is so short that the
// processor keeps many cache misses in flight. Compiled once per instruction set.
#pragma once

#include "copy_loops.h"

// Offsets are bytes of the source: int32_t, or int64_t if 32 bits are not enough ("wide"). A run is a sequence of indices with one step.

typedef struct {
    int64_t limit, wrap;
    int64_t step;  // bytes of the source per unit of the value
} bounds;

// Writes the offsets of a run: the clamped index times bounds.step, plus pattern[i] or, if `add`, the old offset. Returns 1 if an index is
// out of bounds. index_step counts indices.
typedef int resolve_loop(void *offsets, const void *index, int64_t index_step, int64_t n, const bounds *, const void *pattern, int add);

// Sets bad[i] if index i is out of bounds.
typedef void mark_loop(uint8_t *bad, const void *index, int64_t index_step, int64_t n, const bounds *);

// n0 rows of n1 units each. Steps are in bytes; place0 is the step of the offsets from row to row, in offsets.
typedef struct {
    int64_t unit;
    int64_t n0, n1;
    int64_t out0, out1;
    int64_t in0, place0;
} load_box;

// Copies the unit at base + row * in0 + offsets[row * place0 + column] to every position.
typedef void load_loop(char *out, const char *base, const void *offsets, const load_box *);

// Single units with adjacent indices, one index per unit. step: bytes of the source per unit of the index's value. in: bytes of the source
// per position. ahead: distance in bytes at which indices are prefetched.
typedef struct {
    int64_t limit, step, in, ahead;
    int streams;
} direct_run;

// Copies the unit at from + index * step + position * in to every position, up to a group with an index that is not in 0 … limit - 1.
// Returns the number of copied units.
typedef int64_t direct_loop(char *out, const char *from, const void *indices, int64_t n, const direct_run *);

enum { INDEX_TYPES = 8 };  // int8 … int64, then uint8 … uint64

typedef struct {
    const char *name;
    int64_t window;  // bytes of the widest vector that pieces are made of; 0: none
    choose_copy_loop *choose_copy;
    load_loop *(*choose_load)(const load_box *, int wide, int streams);
    direct_loop *(*choose_direct)(const direct_run *, int64_t unit, int64_t index_bytes);  // NULL: none
    resolve_loop *resolve[2][INDEX_TYPES];  // narrow, wide
    mark_loop *mark[INDEX_TYPES];
} loops;

extern const loops loops_baseline, loops_avx2, loops_avx512, loops_neon;
