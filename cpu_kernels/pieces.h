// Pieces: short contiguous parts of the output with bytes from several places of the source. All pieces of a plan pick their bytes at the
// same relative places, which are computed once.
#pragma once

#include <stdint.h>

enum { PIECE_BYTES = 512, PIECE_LOADS = 8, WIDEST_WINDOW = 64 };

// A dimension of the output: its positions, and bytes per step of output and source.
typedef struct {
    int64_t size, out, in;
} piece_dim;

// A vector of a piece. Its bytes are picked from vectors of the source.
typedef struct {
    int64_t out;                                 // its offset in the piece
    int64_t at[PIECE_LOADS];                     // offsets of the vectors that are loaded, relative to the source's `low`
    uint8_t pick[PIECE_LOADS][WIDEST_WINDOW];    // for each byte, its place in the loaded vector; NOT_HERE: it is in another vector
} piece_window;
enum { NOT_HERE = 0x80 };

typedef struct {
    int64_t positions;      // positions of the outermost dimension that a piece spans
    int64_t bytes, width;   // bytes of a piece, and of a window; the last window may overlap the previous window
    int64_t low, span;      // in the source: offset of a piece's lowest byte from its first unit; bytes from the lowest to the highest
    int64_t windows, loads; // number of windows; vectors of the source per window
    piece_window window[];
} piece;

// Returns 1 if all pick vectors of a piece fit in registers.
enum { FEW_WINDOWS = 4, FEW_PICKS = 9 };
static inline int are_few(int64_t windows, int64_t loads) { return windows <= FEW_WINDOWS && windows * loads <= FEW_PICKS; }

// Returns the cheapest piece of an output, in vectors of at most `widest` bytes. *column becomes its outermost dimension. The innermost
// dimension is last in `dims`. Returns NULL if moving units one by one, at `cost` each, is cheaper, or if memory is exhausted.
piece *best_piece(const piece_dim *dims, int rank, int64_t unit, int64_t widest, double cost, int *column);

// Returns the piece of n units that are adjacent in a row of output. offsets: those of the units in the source, the same in `rows` rows.
// Returns NULL like best_piece.
piece *looked_piece(const void *offsets, int wide, int64_t n, int64_t unit, int64_t rows, int64_t widest, double cost);
