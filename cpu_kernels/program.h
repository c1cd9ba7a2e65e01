// A prepared plan: in bytes, cut into blocks, with its inner loops chosen.
#pragma once

#include "engine.h"
#include "gather_loops.h"

typedef struct {
    int64_t size, block, blocks;  // positions in all and in a block; how many blocks there are
    int64_t out, in;              // bytes per step
    int64_t place;                // offsets of a block per step; 0 where no lookup moves
    int moved;                    // whether a lookup moves
} dim;

typedef struct {
    bounds bounds;
    int64_t offset;    // of the first index
    int64_t *strides;  // per dimension; both count indices
} lookup;

typedef enum {
    NOTHING,  // is written or checked
    CHECK,    // indices only, under RAISE
    CONSTANT, // every element is the fill value
    COPY,     // no lookup
    UNITS,    // a unit for each index
    RUNS,     // a run of at least LINE bytes, the innermost dimension, for each index
    INNER,    // dimensions with steps of their own for each index
} work_kind;

typedef struct {
    int column, row;  // the inner dimension and the outer one; -1: none
} plane;

enum {
    LINE = 64,
    MOST_OFFSETS = 4096,  // of a block, so that they and the indices stay in the first cache
};

struct program {
    work_kind kind;
    int rank, lookup_count;
    dim *dims;         // by falling output step
    int *order;        // dimensions in the order in which blocks follow each other, the slowest first
    lookup *lookups;
    int64_t *strides;  // of all lookups
    int64_t unit;      // bytes of the innermost item; 1 where the innermost dimension is a run
    int run;           // whether the innermost dimension is a run of bytes
    int looked, first; // the innermost dimension that lookups move along; the first of those resolved in one run
    plane units;       // the dimensions of a copy loop's box
    piece *piece;      // by which blocks are copied that hold one; NULL: units are
    plane pieces;      // the dimensions of its box
    int64_t in_offset, out_offset;
    int64_t in_extent, index_extent, out_extent;  // bytes, indices, bytes; for assertions
    int64_t policy, index_bytes;
    int index_type;    // of loops.resolve and loops.mark
    int wide, streams;
    int64_t strip;     // bytes of each row of a packed copy of the columns that a column of blocks searches; 0: none
    int64_t blocks_of_strip;
    direct_loop *direct; // copies the units of indices that are in range; NULL: all are resolved first
    void *pattern;     // what the dimensions of a run add to its offsets; NULL for nothing
    char fill[LINE];   // the fill value, repeated
    const loops *loops;
    int64_t blocks;
    int threads;
    char text[160];
};

// For p->direct. strips: whether the source is a strip.
direct_run direct_run_of(const program *, int strips);

// Executes blocks first … last-1. Returns the smallest offset of a bad index under RAISE, else INT64_MAX.
int64_t execute_blocks(const program *, const char *data, const char *indices, char *out, int64_t first, int64_t last);
