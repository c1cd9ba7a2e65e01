#include "gather_loops.h"

#include "direct.h"
#include "turned.h"
#include "vectors.h"

// ---- From indices to offsets --------------------------------------------------------------------------------------------------------

// Indices that may be misaligned.
#define ANY(type, bits) typedef type##bits##_t any_##type##bits __attribute__((aligned(1), may_alias));
ANY(int, 8) ANY(int, 16) ANY(int, 32) ANY(int, 64) ANY(uint, 8) ANY(uint, 16) ANY(uint, 32) ANY(uint, 64)

typedef enum { SET, FROM_PATTERN, ADD } start_kind;

// Convert a value to the type `math`. An unsigned value that does not fit becomes the maximum, which is out of bounds, too.
#define SAME(v, most) (v)
#define LESSER(v, most) ((v) < (most) ? (v) : (most))

// Callers pass constants for `step` and `start`, so that each combination becomes a vectorised loop of its own.
#define RESOLVE(name, type, math, offset, fit, most)                                                                              \
    INLINE int name##_run(offset *restrict to, const type *restrict index, int64_t step, int64_t n, const bounds *b,              \
                          const offset *restrict pattern, start_kind start) {                                                     \
        const math wrap = (math)b->wrap, last = (math)(b->limit - 1);                                                             \
        const offset in_step = (offset)b->step;                                                                                   \
        math over = 0;                                                                                                            \
        for (int64_t i = 0; i < n; ++i) {                                                                                         \
            math v = (math)fit(index[i * step], most);                                                                            \
            v += v < 0 ? wrap : 0;                                                                                                \
            const math bounded = v < 0 ? 0 : v > last ? last : v;                                                                 \
            over |= v ^ bounded;                                                                                                  \
            to[i] = (start == SET ? 0 : start == ADD ? to[i] : pattern[i]) + (offset)bounded * in_step;                           \
        }                                                                                                                         \
        return over != 0;                                                                                                         \
    }                                                                                                                             \
    INLINE int name##_start(void *to, const type *index, int64_t step, int64_t n, const bounds *b, const void *pattern, int add) { \
        return add       ? name##_run(to, index, step, n, b, 0, ADD)                                                              \
               : pattern ? name##_run(to, index, step, n, b, pattern, FROM_PATTERN)                                               \
                         : name##_run(to, index, step, n, b, 0, SET);                                                             \
    }                                                                                                                             \
    static int name(void *to, const void *index, int64_t step, int64_t n, const bounds *b, const void *pattern, int add) {        \
        return step == 1   ? name##_start(to, index, 1, n, b, pattern, add)                                                       \
               : step == 2 ? name##_start(to, index, 2, n, b, pattern, add)                                                       \
                           : name##_start(to, index, step, n, b, pattern, add);                                                   \
    }

#define MARK(name, type, fit)                                                                                  \
    static void name(uint8_t *bad, const void *from, int64_t step, int64_t n, const bounds *b) {               \
        const type *index = from;                                                                              \
        for (int64_t i = 0; i < n; ++i) {                                                                      \
            int64_t v = (int64_t)fit(index[i * step], INT64_MAX);                                              \
            v += v < 0 ? b->wrap : 0;                                                                          \
            bad[i] |= v < 0 || v >= b->limit;                                                                  \
        }                                                                                                      \
    }

// Narrow offsets are used only if limit and wrap fit in 32 bits, too.
#define INDEX(name, type, math, fit, most, wide_fit)                     \
    RESOLVE(narrow_##name, type, math, int32_t, fit, most)               \
    RESOLVE(wide_##name, type, int64_t, int64_t, wide_fit, INT64_MAX)    \
    MARK(mark_##name, type, wide_fit)
INDEX(i8, any_int8, int32_t, SAME, 0, SAME)
INDEX(i16, any_int16, int32_t, SAME, 0, SAME)
INDEX(i32, any_int32, int32_t, SAME, 0, SAME)
INDEX(i64, any_int64, int64_t, SAME, 0, SAME)
INDEX(u8, any_uint8, int32_t, SAME, 0, SAME)
INDEX(u16, any_uint16, int32_t, SAME, 0, SAME)
INDEX(u32, any_uint32, int32_t, LESSER, INT32_MAX, SAME)
INDEX(u64, any_uint64, int64_t, LESSER, INT64_MAX, LESSER)

// ---- From offsets to units ------------------------------------------------------------------------------------------------------------

// AHEAD: bytes that are prefetched before a copy. DENSE: most bytes that are prefetched per used byte. HELD_BYTES: bytes that are
// assembled in the L1 cache before they are written.
enum { AHEAD = 1024, DENSE = 16, HELD_BYTES = 2048 };

INLINE const char *unit_at(const char *from, const void *offsets, int64_t at, int wide) {
    return from + (wide ? ((const int64_t *)offsets)[at] : ((const int32_t *)offsets)[at]);
}

// Copies a unit of `part` bytes. two: copies a longer unit as two parts that may overlap. Part 0: copies a run. In the loops below, callers
// pass constants for `wide`, `part`, `two` and `streams`.
INLINE void copy_unit(char *to, const char *in, int64_t unit, int64_t part, int two, int streams) {
    if (!part) {
        copy_run(to, in, unit, streams);
        return;
    }
    char first[32], last[32];
    memcpy(first, in, part);
    if (two) memcpy(last, in + unit - part, part);
    memcpy(to, first, part);
    if (two) memcpy(to + unit - part, last, part);
}

INLINE void load_units(char *out, const char *base, const void *offsets, const load_box *box, int wide, int64_t part, int two, int streams) {
    const int64_t unit = box->unit, n1 = box->n1, ahead = 1 + AHEAD / unit, fetched = least(unit, AHEAD);
    for (int64_t row = 0; row < box->n0; ++row) {
        char *restrict const to = out + row * box->out0;
        const char *restrict const from = base + row * box->in0;
        const int64_t place = row * box->place0;
        for (int64_t i = 0; i < n1; ++i) {
            if (!part && i + ahead < n1)
                for (int64_t at = 0; at < fetched; at += LINE) __builtin_prefetch(unit_at(from, offsets, place + i + ahead, wide) + at);
            copy_unit(to + i * box->out1, unit_at(from, offsets, place + i, wide), unit, part, two, streams);
        }
    }
    END_STREAM(streams);
}

// Copies adjacent units of a size that does not divide a cache line. They are assembled in the L1 cache, and written past it in whole
// lines.
INLINE void load_lines(char *out, const char *base, const void *offsets, const load_box *box, int wide, int64_t part) {
    _Alignas(LINE) char held[LINE + HELD_BYTES + LINE];
    const int64_t unit = box->unit;
    for (int64_t row = 0; row < box->n0; ++row) {
        char *line = out + row * box->out0;
        const char *const from = base + row * box->in0;
        const int64_t place = row * box->place0;
        int64_t start = (uintptr_t)line & (LINE - 1), filled = start;  // held bytes begin with the line; its first bytes belong to other units
        line -= start;
        for (int64_t i = 0; i < box->n1;) {
            for (; i < box->n1 && filled < LINE + HELD_BYTES; ++i, filled += unit)
                copy_unit(held + filled, unit_at(from, offsets, place + i, wide), unit, part, 1, 0);
            int64_t at = 0;
            if (start && filled >= LINE) copy_part(line + start, held + start, LINE - start), at = LINE, start = 0;
            for (; at + LINE <= filled; at += LINE)
                for (int64_t k = 0; k < LINE; k += WIDE) stream(line + at + k, held + at + k, WIDE);
            if (at) memcpy(held, held + at, LINE);
            line += at, filled -= at;
        }
        copy_part(line + start, held + start, filled - start);
    }
    END_STREAM(1);
}

// Returns 16 bytes of units that are adjacent in the output.
INLINE bytes16 gather_16(const char *from, const void *offsets, int64_t i, int wide, int64_t unit) {
#define RESOLVED(k) unit_at(from, offsets, i + (k), wide)
    return PACKED_16(unit, RESOLVED);
}

// Uses few wide stores, because the store buffer has room for few stores that wait for their lines.
INLINE void load_packed(char *out, const char *base, const void *offsets, const load_box *box, int wide, int64_t unit, int streams) {
    const int64_t lanes = 16 / unit, n1 = box->n1, in0 = box->in0;
    // Bytes of the next row that are prefetched per line of output. The whole row is prefetched if most of its lines are needed.
    const int64_t fetched = box->n0 > 1 && in0 >= AHEAD && in0 <= DENSE * n1 * unit ? in0 * LINE / (n1 * unit) : 0;
    for (int64_t row = 0; row < box->n0; ++row) {
        char *restrict const to = out + row * box->out0;
        const char *restrict const from = base + row * in0;
        const int64_t place = row * box->place0, head = (-(uintptr_t)to & (LINE - 1)) / unit;  // units up to the next line, if a unit begins there
        int64_t i = 0;
        if (streams)
            for (; i < least(head, n1); ++i) copy_unit(to + i * unit, unit_at(from, offsets, place + i, wide), unit, unit, 0, 0);
        uintptr_t later = (uintptr_t)from + in0;  // after the last row, it is outside of the source, but only prefetched
        const int past = streams && !((uintptr_t)(to + i * unit) & (LINE - 1));
        for (bytes16 line[4]; i + 4 * lanes <= n1; i += 4 * lanes) {
            for (int64_t b = 0; b < fetched; b += LINE) __builtin_prefetch((const void *)(later + b));
            later += fetched;
#pragma GCC unroll 4
            for (int k = 0; k < 4; ++k) line[k] = gather_16(from, offsets, place + i + k * lanes, wide, unit);
            for (int k = 0; k < 4; ++k)
                past ? stream(to + i * unit + 16 * k, &line[k], 16) : (void)memcpy(to + i * unit + 16 * k, &line[k], 16);
        }
        for (; i < n1; ++i) copy_unit(to + i * unit, unit_at(from, offsets, place + i, wide), unit, unit, 0, 0);
    }
    END_STREAM(streams);
}

// Transposes units: the offsets of a row of output name rows of the source. Units are adjacent in the rows of both.
INLINE void load_turned(char *out, const char *base, const void *offsets, const load_box *box, int wide, int64_t unit,
                        turn_loop turn, int streams) {
    const copy_box turned = {.unit = unit, .n0 = box->n0, .n1 = box->n1, .out0 = box->out0, .out1 = unit, .in0 = box->in0};
    copy_transposed(out, base, offsets, &turned, unit, turn, wide ? WIDE_ONES : NARROW, streams);
}

#define VARIANT(name, call)                                                                             \
    static void name(char *out, const char *base, const void *offsets, const load_box *box) { call; }
#define UNITS(name, part, two, streams)                                                        \
    VARIANT(name##_narrow, load_units(out, base, offsets, box, 0, part, two, streams))         \
    VARIANT(name##_wide, load_units(out, base, offsets, box, 1, part, two, streams))
#define LINES(part)                                                                            \
    VARIANT(lines##part##_narrow, load_lines(out, base, offsets, box, 0, part))                \
    VARIANT(lines##part##_wide, load_lines(out, base, offsets, box, 1, part))
#define PACKED(unit)                                                                           \
    VARIANT(packed##unit##_narrow, load_packed(out, base, offsets, box, 0, unit, 0))           \
    VARIANT(packed##unit##_wide, load_packed(out, base, offsets, box, 1, unit, 0))             \
    VARIANT(streamed##unit##_narrow, load_packed(out, base, offsets, box, 0, unit, 1))         \
    VARIANT(streamed##unit##_wide, load_packed(out, base, offsets, box, 1, unit, 1))

#define TURNED(unit, bits)                                                                               \
    VARIANT(turned##unit##_narrow, load_turned(out, base, offsets, box, 0, unit, turn##bits, 0))         \
    VARIANT(turned##unit##_wide, load_turned(out, base, offsets, box, 1, unit, turn##bits, 0))           \
    VARIANT(streamed_turned##unit##_narrow, load_turned(out, base, offsets, box, 0, unit, turn##bits, 1)) \
    VARIANT(streamed_turned##unit##_wide, load_turned(out, base, offsets, box, 1, unit, turn##bits, 1))

TURNED(1, 8) TURNED(2, 16) TURNED(4, 32) TURNED(8, 64)
PACKED(1) PACKED(2) PACKED(4) PACKED(8) PACKED(16)
UNITS(one, 1, 0, 0)
UNITS(pair1, 1, 1, 0)
UNITS(pair2, 2, 1, 0)
UNITS(pair4, 4, 1, 0)
UNITS(pair8, 8, 1, 0)
UNITS(pair16, 16, 1, 0)
UNITS(pair32, 32, 1, 0)
LINES(1) LINES(2) LINES(4) LINES(8) LINES(16)
UNITS(run, 0, 0, 0)
UNITS(streamed, 0, 0, 1)

// Returns 1 if units are transposed: the offsets of a row of output name rows of the source, and all rows of output have the same offsets.
static int turns(const load_box *b) {
    return b->in0 == b->unit && b->place0 == 0 && b->n0 * b->unit >= 16 && b->n1 * b->unit >= 16;
}

static load_loop *choose_load(const load_box *box, int wide, int streams) {
#define BOTH_WIDTHS(name) {name##_narrow, name##_wide}
#define EACH_UNIT(name) {BOTH_WIDTHS(name##1), BOTH_WIDTHS(name##2), BOTH_WIDTHS(name##4), BOTH_WIDTHS(name##8)}
    static load_loop *const turned[2][4][2] = {EACH_UNIT(turned), EACH_UNIT(streamed_turned)};
    static load_loop *const packed[2][4][2] = {EACH_UNIT(packed), EACH_UNIT(streamed)};
    static load_loop *const packed_16[2][2] = {BOTH_WIDTHS(packed16), BOTH_WIDTHS(streamed16)};
    static load_loop *const runs[2][2] = {BOTH_WIDTHS(run), BOTH_WIDTHS(streamed)};
    static load_loop *const short_runs[2][7][2] = {
        {BOTH_WIDTHS(one), BOTH_WIDTHS(pair1), BOTH_WIDTHS(pair2), BOTH_WIDTHS(pair4), BOTH_WIDTHS(pair8), BOTH_WIDTHS(pair16),
         BOTH_WIDTHS(pair32)},
        {BOTH_WIDTHS(one), BOTH_WIDTHS(lines1), BOTH_WIDTHS(lines2), BOTH_WIDTHS(lines4), BOTH_WIDTHS(lines8), BOTH_WIDTHS(lines16),
         BOTH_WIDTHS(pair32)}};
    const int64_t unit = box->unit;
    if (unit >= LINE) return runs[streams][wide];
    if (box->out1 == unit && is_power(unit) && unit <= 8)
        return (turns(box) ? turned : packed)[streams][__builtin_ctzll((uint64_t)unit)][wide];
    if (box->out1 == unit && unit == 16) return packed_16[streams][wide];
    return short_runs[streams && box->out1 == unit][unit == 1 ? 0 : 64 - __builtin_clzll((uint64_t)unit - 1)][wide];
}

#define TEXT_OF(name) #name
#define TEXT(name) TEXT_OF(name)
const loops NAMED(loops, ISA) = {
    TEXT(ISA),
    WINDOW,
    NAMED(choose_copy, ISA),
    choose_load,
    choose_direct,
    {{narrow_i8, narrow_i16, narrow_i32, narrow_i64, narrow_u8, narrow_u16, narrow_u32, narrow_u64},
     {wide_i8, wide_i16, wide_i32, wide_i64, wide_u8, wide_u16, wide_u32, wide_u64}},
    {mark_i8, mark_i16, mark_i32, mark_i64, mark_u8, mark_u16, mark_u32, mark_u64},
};
