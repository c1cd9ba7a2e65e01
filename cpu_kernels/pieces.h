// Pieces: short stretches of the output that lie side by side in it, although their bytes come from several places of the source. All
// pieces of a plan are alike, so what is picked from where is worked out once.
#pragma once

#include <stdint.h>

enum { PIECE_BYTES = 512, PIECE_LOADS = 8, WIDEST_WINDOW = 64 };

// A dimension of the output: its positions, and bytes per step of output and source.
typedef struct {
    int64_t size, out, in;
} piece_dim;

// As many bytes of a piece as a vector has: what is picked from vectors of the source.
typedef struct {
    int64_t out;                                 // where they begin in the piece
    int64_t at[PIECE_LOADS];                     // where vectors are loaded, from the source's `low` on
    uint8_t pick[PIECE_LOADS][WIDEST_WINDOW];    // for each byte its place in that vector; NOT_HERE: it is in another one
} piece_window;
enum { NOT_HERE = 0x80 };

typedef struct {
    int64_t positions;      // of the outermost dimension, which takes several pieces
    int64_t bytes, width;   // of a piece and of a window; the last window may overlap the one before
    int64_t low, span;      // of the source: from a piece's first unit to its lowest byte, and from that to its highest
    int64_t windows, loads; // how many there are; vectors of the source for each
    piece_window window[];
} piece;

// Whether all that the windows of a piece pick is kept in registers.
enum { FEW_WINDOWS = 4, FEW_PICKS = 9 };
static inline int are_few(int64_t windows, int64_t loads) { return windows <= FEW_WINDOWS && windows * loads <= FEW_PICKS; }

// The cheapest piece of an output, whose innermost dimension is the last one, in vectors of at most `widest` bytes (0: there are none).
// *column becomes its outermost dimension. NULL where units are better moved one by one, which costs `cost` for each, or for want of memory.
piece *best_piece(const piece_dim *dims, int rank, int64_t unit, int64_t widest, double cost, int *column);

// The piece of the n units that lie side by side in a row of output, and at these offsets (wide: of 64 bits) in the source: alike in so many
// rows. NULL as above.
piece *looked_piece(const void *offsets, int wide, int64_t n, int64_t unit, int64_t rows, int64_t widest, double cost);
