#include "pieces.h"

#include <stdlib.h>
#include <string.h>

enum { FAR = 4096 };  // loads of a piece are far apart if its source spans more bytes

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

// Finds the offset in the source of each byte of a piece, from the piece's first unit on. Returns the lowest offset; *high becomes the
// highest offset + 1.
static int64_t find_places(const piece_dim *dims, int rank, int64_t unit, int64_t positions, int64_t *places, int64_t *high) {
    int64_t bytes = unit, low = 0;
    for (int64_t k = 0; k < unit; ++k) places[k] = k;
    *high = unit;
    for (int d = rank - 1; d >= 0; --d) {
        const int64_t size = d ? dims[d].size : positions, reach = (size - 1) * dims[d].in;
        for (int64_t i = 1; i < size; ++i)
            for (int64_t k = 0; k < bytes; ++k) places[i * bytes + k] = places[k] + i * dims[d].in;
        bytes *= size;
        if (reach < 0) low += reach;
        else *high += reach;
    }
    return low;
}

// Covers the places of a window by vectors inside the source's bytes, or by one vector at its start if it is shorter than a vector. Returns
// the number of vectors; 0 if it is more than `most`.
static int64_t cover(piece_window *w, const int64_t *places, int64_t width, int64_t span, int64_t most) {
    const int64_t last = span > width ? span - width : 0;
    memset(w->pick, NOT_HERE, sizeof w->pick);
    for (int64_t loads = 0, after = -1;; ++loads) {
        int64_t next = INT64_MAX;
        for (int64_t k = 0; k < width; ++k)
            if (places[k] > after) next = least(next, places[k]);
        if (next == INT64_MAX) return loads;
        if (loads == most) return 0;
        const int64_t at = least(next, last);
        for (int64_t k = 0; k < width; ++k)
            if (places[k] > after && places[k] < at + width) w->pick[loads][k] = (uint8_t)(places[k] - at);
        w->at[loads] = at;
        after = at + width - 1;
    }
}

// Returns a piece with bytes at these places. Returns NULL if a window needs more than `most` loads, or if memory is exhausted.
static piece *make_piece(int64_t *places, int64_t bytes, int64_t positions, int64_t low, int64_t high, int64_t width, int64_t most) {
    const int64_t windows = (bytes + width - 1) / width;
    piece *const p = calloc(1, sizeof *p + (size_t)windows * sizeof *p->window);
    if (!p) return NULL;
    *p = (piece){.positions = positions, .bytes = bytes, .width = width, .low = low, .span = high - low, .windows = windows};
    for (int64_t k = 0; k < bytes; ++k) places[k] -= low;
    for (int64_t i = 0; i < windows; ++i) {
        p->window[i].out = least(i * width, bytes - width);
        const int64_t loads = cover(&p->window[i], places + p->window[i].out, width, p->span, most);
        if (!loads) return free(p), NULL;
        p->loads = loads > p->loads ? loads : p->loads;  // windows with fewer loads load vector 0 too, and pick nothing from it
    }
    return p;
}

// Returns the cost of a row of the outermost dimension, in moves of a unit. The last piece may overlap the previous piece, and is made
// separately. A load of 64 bytes mostly touches two cache lines. Many loads that are far apart often share few sets of the cache.
static double cost_of(const piece *p, const piece_dim *outermost) {
    const double pieces = (double)((outermost->size + p->positions - 1) / p->positions), again = are_few(p->windows, p->loads) ? 0 : 2;
    const double row = outermost->size % p->positions ? 4 : 1, few = p->span >= p->width ? 0 : outermost->in ? 20 * pieces : 20;
    const double load = (p->width > 16 ? 1.6 : 1.2) + again + (p->span > FAR && p->loads > 4 ? 0.8 : 0);
    return row + few + pieces * (0.25 + (double)p->windows * ((double)p->loads * load + 1 + again));
}

piece *best_piece(const piece_dim *dims, int rank, int64_t unit, int64_t widest, double cost, int *column) {
    piece *best = NULL;
    double least_cost = cost / (double)unit;  // per byte
    for (int64_t width = widest; width && !best; width = width > 16 ? 16 : 0) {
        int64_t inner = unit;
        for (int d = rank - 1; d >= 0 && dims[d].out == inner && inner <= PIECE_BYTES; inner *= dims[d--].size) {
            const int64_t most = least(dims[d].size, PIECE_BYTES / inner), low_bit = inner & -inner;
            const int64_t even = low_bit < width ? width / low_bit : 1;  // positions that fill whole windows: 16 of 3 bytes, 2 of 8 bytes
            const int64_t first = (width + inner - 1) / inner;
            const int64_t tried[] = {first, first + 1, first + 2, first + 3, even, 2 * even, 4 * even, most / even * even, most};
            const int whole = d > 0 && dims[d - 1].out == inner * dims[d].size;  // a whole dimension is tried as one position of the next
            for (size_t i = 0; i < sizeof tried / sizeof *tried; ++i) {
                const int64_t positions = tried[i], bytes = positions * inner;
                if (positions < 1 || positions > most || bytes < width || (whole && positions == dims[d].size)) continue;
                int64_t places[PIECE_BYTES], high;
                const int64_t low = find_places(dims + d, rank - d, unit, positions, places, &high);
                piece *const p = make_piece(places, bytes, positions, low, high, width, PIECE_LOADS);
                const double found = p ? cost_of(p, &dims[d]) / (double)(dims[d].size * inner) : least_cost;
                if (found < least_cost) free(best), best = p, least_cost = found, *column = d;
                else free(p);
            }
            if (dims[d].size > most) break;
        }
    }
    return best;
}

piece *looked_piece(const void *offsets, int wide, int64_t n, int64_t unit, int64_t rows, int64_t widest, double cost) {
    int64_t places[PIECE_BYTES], low = INT64_MAX, high = 0;
    const int64_t bytes = n * unit, width = bytes < widest ? 16 : widest;
    if (!widest || bytes < width || bytes > PIECE_BYTES) return NULL;
    for (int64_t i = 0; i < n; ++i) {
        const int64_t at = wide ? ((const int64_t *)offsets)[i] : ((const int32_t *)offsets)[i];
        low = least(low, at), high = at + unit > high ? at + unit : high;
        for (int64_t k = 0; k < unit; ++k) places[i * unit + k] = at + k;
    }
    if (high - low > PIECE_LOADS * width) return NULL;
    // Find the most loads that pay. This must be quick, because each block needs it.
    piece one = {.positions = n, .width = width, .span = high - low, .windows = (bytes + width - 1) / width, .loads = PIECE_LOADS};
    for (; one.loads; --one.loads) {
        const double making = (double)(bytes * (one.loads + 1)) / (double)rows;
        if (making + cost_of(&one, &(piece_dim){n, unit, 1}) < cost * (double)n) break;
    }
    return one.loads ? make_piece(places, bytes, n, low, high, width, one.loads) : NULL;
}
