// Inner loops of plans without lookups (and of what lies inside one lookup). Compiled once per instruction set.
#pragma once

#include <stdint.h>

// A two-dimensional copy of n0 x n1 units of `unit` bytes. Steps are in bytes, between units; they may be negative, and those of the
// source 0. Source and output never overlap.
typedef struct {
    int64_t unit;
    int64_t n0, n1;
    int64_t out0, out1;
    int64_t in0, in1;
} copy_box;

typedef void copy_loop(char *out, const char *in, const copy_box *box);

typedef struct {
    const char *name;  // "run", "streamed run", "short run", "reversed", "every n-th", "strided", "transposed"
    copy_loop *run;
} copy_choice;

// The loop for boxes of these unit and steps; n0 and n1 are those of a whole block, or more. streams: whether the output is so large
// that its lines should bypass the cache.
typedef copy_choice choose_copy_loop(const copy_box *box, int streams);

choose_copy_loop choose_copy_baseline, choose_copy_avx2, choose_copy_avx512, choose_copy_neon;
