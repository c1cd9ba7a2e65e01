// A prepared plan: in bytes, cut into blocks, and with inner loops.
#pragma once

#include "engine.h"
#include "gather_loops.h"

typedef struct {
    int64_t size, block, blocks;  // positions of the dimension; positions of a block; number of blocks
    int64_t out, in;              // bytes per step
    int64_t place;                // step in the block's array of offsets; 0 if no lookup moves along the dimension
    int moved;                    // 1 if a lookup moves along the dimension
} dim;

typedef struct {
    bounds bounds;
    int64_t offset;    // of the first index, in indices
    int64_t *strides;  // per dimension, in indices
} lookup;

typedef enum {
    NOTHING,  // writes and checks nothing
    CHECK,    // only checks indices, under RAISE
    CONSTANT, // every element is the fill value
    COPY,     // no lookup
    UNITS,    // copies a unit per index
    RUNS,     // copies a run of at least LINE bytes, the innermost dimension, per index
    INNER,    // copies several dimensions with their own steps per index
} work_kind;

typedef struct {
    int column, row;  // the inner and the outer dimension; -1: none
} plane;

enum {
    LINE = 64,
    MOST_OFFSETS = 4096,  // of a block, so that its offsets and indices stay in the L1 cache
};

struct program {
    work_kind kind;
    int rank, lookup_count;
    dim *dims;         // by falling output step
    int *order;        // the order of dimensions in which blocks are numbered, slowest first
    lookup *lookups;
    int64_t *strides;  // of all lookups
    int64_t unit;      // bytes of the innermost item; 1 if the innermost dimension is a run
    int run;           // 1 if the innermost dimension is a run of bytes
    int looked, first; // looked: the innermost dimension along which lookups move. Indices of first … looked are resolved in one run
    plane units;       // the dimensions of a copy loop's box
    piece *piece;      // blocks that are large enough are copied by pieces; NULL: blocks are copied by units
    plane pieces;      // the dimensions of the box of a copy by pieces
    int64_t in_offset, out_offset;
    int64_t in_extent, index_extent, out_extent;  // in bytes, indices, bytes; for assertions
    int64_t policy, index_bytes;
    int index_type;    // index into loops.resolve and loops.mark
    int wide, streams; // wide: offsets have 64 bits. streams: the output bypasses the cache
    int64_t strip;     // bytes of a row of the strip, a packed copy of the source columns of a block; 0: no strip
    int64_t blocks_of_strip;  // consecutive blocks with the same strip
    direct_loop *direct; // copies units in one phase while indices are in range; NULL: all indices are resolved first
    void *pattern;     // offsets that the dimensions of a run add; NULL for none
    char fill[LINE];   // the fill value, repeated
    const loops *loops;
    int64_t blocks;
    int threads;
    char text[160];
};

// Returns the arguments of p->direct. strips: 1 if the source is a strip.
direct_run direct_run_of(const program *, int strips);

// Returns the smallest offset of a bad index under RAISE, else INT64_MAX.
int64_t execute_blocks(const program *, const char *data, const char *indices, char *out, int64_t first, int64_t last);
