// Inner loops without lookups. Compiled once per instruction set.
#pragma once

#include "pieces.h"

// A two-dimensional copy of n0 x n1 units of `unit` bytes, with steps in bytes. Steps may be negative, and those of the source may be 0.
// Source and output never overlap. piece: its positions are the units, and n1 is at least their number. NULL: a unit is contiguous in the
// source.
typedef struct {
    int64_t unit;
    int64_t n0, n1;
    int64_t out0, out1;
    int64_t in0, in1;
    const piece *piece;
} copy_box;

typedef void copy_loop(char *out, const char *in, const copy_box *box);

typedef struct {
    const char *name;  // "run", "streamed run", "short run", "strided", "picked", "transposed", "tiled"
    copy_loop *run;
} copy_choice;

// Returns the loop for boxes with this unit and these steps; n0 and n1 are those of a whole block. streams: the output bypasses the cache.
typedef copy_choice choose_copy_loop(const copy_box *box, int streams);

// Finds the best block sizes n0 x n1. Blocks are square if the source's short step is in0, so that cache lines of both sides are used
// completely; else they are whole rows of about 128 KiB. The caller should cut longer units.
static inline void best_block(const copy_box *box, int64_t block[2]) {
    const int64_t in0 = box->in0 < 0 ? -box->in0 : box->in0, in1 = box->in1 < 0 ? -box->in1 : box->in1;
    const int64_t units = (INT64_C(1) << 17) / box->unit, square = box->unit > 4 ? 256 : 512;
    const int transposed = in0 < 64 && in1 >= 64 && box->n0 > 3 && box->n1 > 3;
    block[1] = transposed ? square : box->n1 < units ? box->n1 : units > 0 ? units : 1;
    block[0] = transposed ? square : units > block[1] ? units / block[1] : 1;
}

// Returns how many rows of pieces read the same cache lines, and are picked together: 16 for steps of 8 bytes.
static inline int64_t rows_that_share_lines(int64_t n0, int64_t in0) {
    const int64_t step = in0 < 0 ? -in0 : in0, shared = step && step < 64 ? 128 / step : 1;
    return shared < n0 ? shared : n0;
}

choose_copy_loop choose_copy_baseline, choose_copy_avx2, choose_copy_avx512, choose_copy_neon;
