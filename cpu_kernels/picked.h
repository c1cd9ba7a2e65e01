// Copies of pieces: bytes are picked from vectors of the source and combined.
#pragma once

#include "copy_loops.h"
#include "vectors.h"

// picked returns the picked bytes of `from`; bytes that are NOT_HERE are undefined. with_picked inserts the picked bytes of `from` in `v`.
typedef uint8_t vector16 __attribute__((vector_size(16)));
typedef uint8_t vector64 __attribute__((vector_size(64)));
#if defined(__SSSE3__)
INLINE vector16 picked16(vector16 from, vector16 pick) { return (vector16)_mm_shuffle_epi8((__m128i)from, (__m128i)pick); }
#elif defined(__aarch64__)
INLINE vector16 picked16(vector16 from, vector16 pick) { return (vector16)vqtbl1q_u8((uint8x16_t)from, (uint8x16_t)pick); }
#endif
#if defined(__SSSE3__) || defined(__aarch64__)
INLINE vector16 with_picked16(vector16 v, vector16 from, vector16 pick) { return v | picked16(from, pick); }  // NOT_HERE gives 0
#endif
#if defined(__AVX512VBMI__)
INLINE vector64 picked64(vector64 from, vector64 pick) { return (vector64)_mm512_permutexvar_epi8((__m512i)pick, (__m512i)from); }
INLINE vector64 with_picked64(vector64 v, vector64 from, vector64 pick) {
    return (vector64)_mm512_mask_permutexvar_epi8((__m512i)v, ~_mm512_movepi8_mask((__m512i)pick), (__m512i)pick, (__m512i)from);
}
#endif

// Copies whole pieces, window by window, in the order of the output. streams: past the cache, for pieces with few windows only.
typedef void pick_loop(char *out, const char *in, const copy_box *, const piece *, int streams);

// Callers pass constants for `loads`, and for `windows` of few##width, so that its pick vectors stay in registers.
#define PICK_WINDOW(width)                                                                                                   \
    INLINE vector##width window##width(const char *in, const int64_t *at, const vector##width *pick, const int loads) {      \
        vector##width v = {0}, from;                                                                                         \
        for (int k = 0; k < loads; ++k) {                                                                                    \
            memcpy(&from, in + at[k], width);                                                                                \
            v = k ? with_picked##width(v, from, pick[k]) : picked##width(from, pick[k]);                                     \
        }                                                                                                                    \
        return v;                                                                                                            \
    }                                                                                                                        \
    INLINE void many##width(char *out, const char *in, const copy_box *b, const piece *p, const int loads) {                 \
        for (int64_t i = 0; i < b->n0; ++i)                                                                                  \
            for (int64_t j = 0; j < b->n1; ++j)                                                                              \
                for (const piece_window *w = p->window; w < p->window + p->windows; ++w) {                                   \
                    vector##width pick[PIECE_LOADS];                                                                         \
                    for (int k = 0; k < loads; ++k) memcpy(&pick[k], w->pick[k], width);                                     \
                    const vector##width v = window##width(in + i * b->in0 + j * b->in1, w->at, pick, loads);                 \
                    memcpy(out + i * b->out0 + j * b->out1 + w->out, &v, width);                                             \
                }                                                                                                            \
    }                                                                                                                        \
    INLINE void few##width(char *out, const char *in, const copy_box *box, const piece *p, const int windows, const int loads,\
                           int streams) {                                                                                    \
        const copy_box b = *box;                                                                                             \
        vector##width pick[FEW_PICKS];                                                                                       \
        int64_t at[FEW_PICKS], place[FEW_WINDOWS];                                                                           \
        for (int w = 0; w < windows; ++w) {                                                                                  \
            place[w] = p->window[w].out;                                                                                     \
            for (int k = 0; k < loads; ++k) {                                                                                \
                memcpy(&pick[w * loads + k], p->window[w].pick[k], width);                                                   \
                at[w * loads + k] = p->window[w].at[k];                                                                      \
            }                                                                                                                \
        }                                                                                                                    \
        for (int64_t i = 0; i < b.n0; ++i)                                                                                   \
            for (int64_t j = 0; j < b.n1; ++j)                                                                               \
                for (int w = 0; w < windows; ++w) {                                                                          \
                    const vector##width v = window##width(in + i * b.in0 + j * b.in1, at + w * loads, pick + w * loads, loads);\
                    char *const to = out + i * b.out0 + j * b.out1 + place[w];                                               \
                    streams ? stream(to, &v, width) : (void)memcpy(to, &v, width);                                           \
                }                                                                                                            \
    }
#define FEW(width, windows, loads)                                                                                           \
    static void few##width##_##windows##_##loads(char *out, const char *in, const copy_box *b, const piece *p, int streams) {\
        few##width(out, in, b, p, windows, loads, streams);                                                                  \
    }
#define MANY(width, loads)                                                                                                   \
    static void many##width##_##loads(char *out, const char *in, const copy_box *b, const piece *p, int streams) {           \
        (void)streams, many##width(out, in, b, p, loads);                                                                    \
    }
#define EACH_MANY(DO, width) DO(width, 1) DO(width, 2) DO(width, 3) DO(width, 4) DO(width, 5) DO(width, 6) DO(width, 7) DO(width, 8)
#define EACH_FEW(DO, width)                                                                                                  \
    DO(width, 1, 1) DO(width, 1, 2) DO(width, 1, 3) DO(width, 1, 4) DO(width, 1, 5) DO(width, 1, 6) DO(width, 1, 7)          \
    DO(width, 1, 8) DO(width, 2, 1) DO(width, 2, 2) DO(width, 2, 3) DO(width, 2, 4) DO(width, 3, 1) DO(width, 3, 2)          \
    DO(width, 3, 3) DO(width, 4, 1) DO(width, 4, 2)
#define MANY_ITEM(width, loads) [loads - 1] = many##width##_##loads,
#define FEW_ITEM(width, windows, loads) [windows - 1][loads - 1] = few##width##_##windows##_##loads,
#define PICKS(width)                                                                                                         \
    PICK_WINDOW(width) EACH_MANY(MANY, width) EACH_FEW(FEW, width)                                                           \
    INLINE pick_loop *loop##width(int64_t windows, int64_t loads) {                                                          \
        static pick_loop *const many[] = {EACH_MANY(MANY_ITEM, width)};                                                      \
        static pick_loop *const few[FEW_WINDOWS][PIECE_LOADS] = {EACH_FEW(FEW_ITEM, width)};                                 \
        return are_few(windows, loads) ? few[windows - 1][loads - 1] : many[loads - 1];                                      \
    }
#if defined(__SSSE3__) || defined(__aarch64__)
PICKS(16)
#endif
#if defined(__AVX512VBMI__)
PICKS(64)
#endif

INLINE pick_loop *pick_loop_of(const piece *p) {
    (void)p;
#if defined(__AVX512VBMI__)
    if (p->width == 64) return loop64(p->windows, p->loads);
#endif
#if defined(__SSSE3__) || defined(__aarch64__)
    if (p->width == 16) return loop16(p->windows, p->loads);
#endif
    return NULL;
}

enum {
    SHARED_LOADS = 256,  // loads of a row before the next row that reads the same lines is picked, so that they stay in the L1 cache
};

// Returns a box of n0 x n1 whole pieces, from a box of positions.
INLINE copy_box boxed_pieces(const copy_box *box, int64_t n0, int64_t n1, int64_t out0) {
    const piece *const p = box->piece;
    return (copy_box){box->unit, n0, n1, out0, p->bytes, box->in0, box->in1 * p->positions, p};
}

// Copies rows of n1 pieces and `rest` more bytes, by one more piece that overlaps the previous piece.
INLINE void pick_rows(char *out, const char *in, const copy_box *box, const piece *p, int64_t rest, int streams) {
    pick_loop *const loop = pick_loop_of(p);
    const int64_t back = box->n1 * p->bytes + rest - p->bytes;
    const int64_t source = box->n1 * box->in1 - box->in1 + rest / box->unit * (box->in1 / p->positions);
    copy_box b = *box, one = *box;
    one.n1 = 1;
    if (p->span >= p->width) {
        loop(out, in, box, p, streams);
        if (rest) loop(out + back, in + source, &one, p, 0);
        return;
    }
    // If the source is shorter than a vector, it is copied to a buffer from which a vector can be loaded.
    char few[WIDEST_WINDOW] = {0};
    b.n0 = one.n0 = 1;
    if (b.in1) b.n1 = 1;  // if in1 is 0, all pieces of a row are the same
    for (int64_t i = 0; i < box->n0; ++i, out += b.out0, in += b.in0) {
        for (int64_t j = 0; j < box->n1; j += b.n1) {
            copy_part(few, in + j * b.in1, p->span);
            loop(out + j * b.out1, few, &b, p, streams);
        }
        if (rest && b.in1) copy_part(few, in + source, p->span);
        if (rest) loop(out + back, few, &one, p, 0);
    }
}

// Copies a box. Its units are positions of the piece's outermost dimension, and are adjacent in the output.
static void picked(char *out, const char *in, const copy_box *box) {
    const piece *const p = box->piece;
    const int64_t n1 = box->n1 / p->positions, shared = rows_that_share_lines(box->n0, box->in0);
    const int64_t rows = shared > 1 ? shared : box->n0;
    const int64_t columns = shared > 1 ? least(n1, larger(SHARED_LOADS / (p->windows * p->loads), 1)) : n1;
    for (int64_t j = 0; j < n1; j += columns)
        for (int64_t i = 0; i < box->n0; i += rows) {
            const copy_box b = boxed_pieces(box, least(rows, box->n0 - i), least(columns, n1 - j), box->out0);
            const int64_t rest = n1 - j <= columns ? box->n1 % p->positions * box->unit : 0;
            pick_rows(out + i * b.out0 + j * b.out1, in + p->low + i * b.in0 + j * b.in1, &b, p, rest, 0);
        }
}

// Copies the first, or the last, `bytes` bytes of a row: fewer than a line or a piece.
INLINE void pick_part(char *out, const char *in, const copy_box *box, int64_t bytes, int last) {
    const piece *const p = box->piece;
    const int64_t n1 = (bytes + p->bytes - 1) / p->bytes, reached = n1 * p->bytes;
    const copy_box some = boxed_pieces(box, 1, n1, 0);
    char whole[PIECE_BYTES];
    pick_rows(whole, in + (last ? (box->n1 - n1 * p->positions) * box->in1 : 0), &some, p, 0, 0);
    for (const char *from = last ? whole + reached - bytes : whole; bytes > 0; bytes -= LINE, from += LINE, out += LINE)
        copy_part(out, from, least(bytes, LINE));
}

// Writes long rows past the cache, from the first line boundary that is also the start of a position. Pieces have few windows and fill
// whole lines.
static void streamed_picked(char *out, const char *in, const copy_box *box) {
    const piece *const p = box->piece;
    const int64_t bytes = box->n1 * box->unit, lines = larger(p->bytes, LINE);
    if (bytes < STREAMED / LINE * lines || lines % LINE || lines % p->bytes || p->width != WINDOW || !are_few(p->windows, p->loads)) {
        picked(out, in, box);
        return;
    }
    copy_box row = *box;
    row.n0 = 1;
    for (int64_t i = 0; i < box->n0; ++i, out += box->out0, in += box->in0) {
        const int64_t head = -(uintptr_t)out & (LINE - 1), middle = (bytes - head) / lines * lines, rest = bytes - head - middle;
        if (head % box->unit) {
            picked(out, in, &row);
            continue;
        }
        const copy_box b = boxed_pieces(box, 1, middle / p->bytes, 0);
        const char *const first = in + p->low;
        if (head) pick_part(out, first, box, head, 0);
        pick_rows(out + head, first + head / box->unit * box->in1, &b, p, 0, 1);
        if (rest) pick_part(out + head + middle, first, box, rest, 1);
    }
    END_STREAM(1);
}
