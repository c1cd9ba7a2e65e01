// Inner loops of plans without lookups (and of what lies inside one lookup). Compiled once per instruction set.
#pragma once

#include <stdint.h>

enum { KEPT_BYTES = 512 };

// A two-dimensional copy of n0 x n1 units of `unit` bytes. Steps are in bytes, between units; they may be negative, and those of the
// source 0. Source and output never overlap. kept: KEPT_BYTES of memory, a line's multiple, zero before the first call, where a loop keeps
// what it works out of the box, which is the same in all calls; NULL: it works it out each time.
typedef struct {
    int64_t unit;
    int64_t n0, n1;
    int64_t out0, out1;
    int64_t in0, in1;
    void *kept;
} copy_box;

typedef void copy_loop(char *out, const char *in, const copy_box *box);

typedef struct {
    const char *name;  // "run", "streamed run", "short run", "strided", "reversed", "every n-th", "repeated", "short rows", "transposed", "tiled"
    copy_loop *run;
} copy_choice;

// The loop for boxes of these unit and steps; n0 and n1 are those of a whole block, or more. streams: whether the output is so large
// that its lines should bypass the cache.
typedef copy_choice choose_copy_loop(const copy_box *box, int streams);

// Units n0 x n1 of the blocks that a box of this unit and these steps is best cut into: square where the source's short step is in0,
// so that cache lines of both sides are used whole; else whole rows of about 128 KiB, at least 2 KiB long if
// they are to stream. A unit longer than that is best cut by the caller.
static inline void best_block(const copy_box *box, int64_t block[2]) {
    const int64_t in0 = box->in0 < 0 ? -box->in0 : box->in0, in1 = box->in1 < 0 ? -box->in1 : box->in1;
    const int64_t units = (INT64_C(1) << 17) / box->unit, square = box->unit > 4 ? 256 : 512;
    const int transposed = in0 < 64 && in1 >= 64 && box->n0 > 3 && box->n1 > 3;
    block[1] = transposed ? square : box->n1 < units ? box->n1 : units > 0 ? units : 1;
    block[0] = transposed ? square : units > block[1] ? units / block[1] : 1;
}

choose_copy_loop choose_copy_baseline, choose_copy_avx2, choose_copy_avx512, choose_copy_neon;
