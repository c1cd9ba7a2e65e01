#include "gather_loops.h"

#include <string.h>

#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#define TEXT_(a) #a
#define TEXT(a) TEXT_(a)
#define INLINE static inline __attribute__((always_inline))

// ---- Indices become offsets ---------------------------------------------------------------------------------------------------------

typedef enum { SET, FROM_PATTERN, ADD } start_kind;

// A value as `math`, in which it is bounded. An unsigned value that does not fit becomes the maximum, which is out of bounds as well.
#define SAME(v, most) (v)
#define LESSER(v, most) ((v) < (most) ? (v) : (most))

// `step` and `start` are constants where this is expanded, so that each combination becomes a vectorised loop of its own.
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

// Narrow offsets are used only where limit and wrap fit into 32 bits too.
RESOLVE(narrow_i8, int8_t, int32_t, int32_t, SAME, 0)
RESOLVE(narrow_i16, int16_t, int32_t, int32_t, SAME, 0)
RESOLVE(narrow_i32, int32_t, int32_t, int32_t, SAME, 0)
RESOLVE(narrow_i64, int64_t, int64_t, int32_t, SAME, 0)
RESOLVE(narrow_u8, uint8_t, int32_t, int32_t, SAME, 0)
RESOLVE(narrow_u16, uint16_t, int32_t, int32_t, SAME, 0)
RESOLVE(narrow_u32, uint32_t, int32_t, int32_t, LESSER, INT32_MAX)
RESOLVE(narrow_u64, uint64_t, int64_t, int32_t, LESSER, INT64_MAX)
RESOLVE(wide_i8, int8_t, int64_t, int64_t, SAME, 0)
RESOLVE(wide_i16, int16_t, int64_t, int64_t, SAME, 0)
RESOLVE(wide_i32, int32_t, int64_t, int64_t, SAME, 0)
RESOLVE(wide_i64, int64_t, int64_t, int64_t, SAME, 0)
RESOLVE(wide_u8, uint8_t, int64_t, int64_t, SAME, 0)
RESOLVE(wide_u16, uint16_t, int64_t, int64_t, SAME, 0)
RESOLVE(wide_u32, uint32_t, int64_t, int64_t, SAME, 0)
RESOLVE(wide_u64, uint64_t, int64_t, int64_t, LESSER, INT64_MAX)

#define MARK(name, type, fit)                                                                                  \
    static void name(uint8_t *bad, const void *from, int64_t step, int64_t n, const bounds *b) {               \
        const type *index = from;                                                                              \
        for (int64_t i = 0; i < n; ++i) {                                                                      \
            int64_t v = (int64_t)fit(index[i * step], INT64_MAX);                                              \
            v += v < 0 ? b->wrap : 0;                                                                          \
            bad[i] |= v < 0 || v >= b->limit;                                                                  \
        }                                                                                                      \
    }

MARK(mark_i8, int8_t, SAME)
MARK(mark_i16, int16_t, SAME)
MARK(mark_i32, int32_t, SAME)
MARK(mark_i64, int64_t, SAME)
MARK(mark_u8, uint8_t, SAME)
MARK(mark_u16, uint16_t, SAME)
MARK(mark_u32, uint32_t, SAME)
MARK(mark_u64, uint64_t, LESSER)

// ---- Units are loaded from offsets ----------------------------------------------------------------------------------------------------

// Memory at any address, of any type.
#define MEMORY(bytes) __attribute__((vector_size(bytes), aligned(1), may_alias))
typedef uint8_t __attribute__((may_alias)) bytes1;
typedef uint16_t __attribute__((aligned(1), may_alias)) bytes2;
typedef uint32_t __attribute__((aligned(1), may_alias)) bytes4;
typedef uint64_t __attribute__((aligned(1), may_alias)) bytes8;
typedef uint8_t MEMORY(16) bytes16;
typedef uint8_t MEMORY(32) bytes32;
typedef uint8_t MEMORY(64) bytes64;

enum { LINE = 64, AHEAD = 1024 };

#if defined(__x86_64__)
#include <immintrin.h>
INLINE void store_past_cache(char *to, const void *line) {  // a whole line
    for (int i = 0; i < 4; ++i) _mm_stream_si128((__m128i *)to + i, _mm_loadu_si128((const __m128i *)line + i));
}
INLINE void order_stores(void) { _mm_sfence(); }
#else
INLINE void store_past_cache(char *to, const void *line) { memcpy(to, line, LINE); }
INLINE void order_stores(void) {}
#endif

INLINE void copy_run(char *restrict to, const char *restrict in, int64_t n) {
    for (int64_t at = 0; at < n - LINE; at += LINE) *(bytes64 *)(to + at) = *(const bytes64 *)(in + at);
    *(bytes64 *)(to + n - LINE) = *(const bytes64 *)(in + n - LINE);
}

INLINE void stream_run(char *restrict to, const char *restrict in, int64_t n) {
    *(bytes64 *)to = *(const bytes64 *)in;
    int64_t at = -(intptr_t)to & (LINE - 1);  // only whole lines pass the cache: a part of one would cost a read
    for (; at + LINE <= n; at += LINE) store_past_cache(to + at, in + at);
    *(bytes64 *)(to + n - LINE) = *(const bytes64 *)(in + n - LINE);
}

// How a unit is copied. The pairs are two copies that overlap, for units of at least half as many bytes.
typedef enum { ONE, TWO, FOUR, EIGHT, SIXTEEN, PAIR_OF_1, PAIR_OF_2, PAIR_OF_4, PAIR_OF_8, PAIR_OF_16, PAIR_OF_32, RUN, STREAM } unit_copy;

#define PAIR(type)                                                                         \
    {                                                                                      \
        const type first = *(const type *)in, last = *(const type *)(in + n - sizeof(type)); \
        *(type *)to = first;                                                               \
        *(type *)(to + n - sizeof(type)) = last;                                           \
    }                                                                                      \
    return

INLINE void copy_unit(char *restrict to, const char *restrict in, int64_t n, unit_copy how) {
    switch (how) {
        case ONE: *(bytes1 *)to = *(const bytes1 *)in; return;
        case TWO: *(bytes2 *)to = *(const bytes2 *)in; return;
        case FOUR: *(bytes4 *)to = *(const bytes4 *)in; return;
        case EIGHT: *(bytes8 *)to = *(const bytes8 *)in; return;
        case SIXTEEN: *(bytes16 *)to = *(const bytes16 *)in; return;
        case PAIR_OF_1: PAIR(bytes1);
        case PAIR_OF_2: PAIR(bytes2);
        case PAIR_OF_4: PAIR(bytes4);
        case PAIR_OF_8: PAIR(bytes8);
        case PAIR_OF_16: PAIR(bytes16);
        case PAIR_OF_32: PAIR(bytes32);
        case RUN: copy_run(to, in, n); return;
        case STREAM: stream_run(to, in, n); return;
    }
}

INLINE int64_t offset_at(const void *offsets, int64_t at, int wide) {
    return wide ? ((const int64_t *)offsets)[at] : ((const int32_t *)offsets)[at];
}

// `wide` and `how` are constants wherever these are expanded.
INLINE void load_units(char *out, const char *base, const void *offsets, const load_box *box, int wide, unit_copy how) {
    const int64_t unit = box->unit, n1 = box->n1, ahead = 1 + AHEAD / unit, lines = unit < AHEAD ? unit : AHEAD;
    for (int64_t row = 0; row < box->n0; ++row) {
        char *restrict const to = out + row * box->out0;
        const char *restrict const from = base + row * box->in0;
        const int64_t place = row * box->place0;
        for (int64_t i = 0; i < n1; ++i) {
            if (how >= RUN && i + ahead < n1) {  // fetch what a later copy will read
                const char *later = from + offset_at(offsets, place + i + ahead, wide);
                for (int64_t at = 0; at < lines; at += LINE) __builtin_prefetch(later + at);
            }
            copy_unit(to + i * box->out1, from + offset_at(offsets, place + i, wide), unit, how);
        }
    }
    if (how == STREAM) order_stores();
}

// 16 bytes of units that will lie side by side.
INLINE bytes16 gathered(const char *from, const void *offsets, int64_t i, int wide, unit_copy how) {
#define AT(type, k) *(const type *)(from + offset_at(offsets, i + k, wide))
#define FOUR_AT(type, k) AT(type, k), AT(type, k + 1), AT(type, k + 2), AT(type, k + 3)
    typedef uint16_t MEMORY(16) words2;
    typedef uint32_t MEMORY(16) words4;
    typedef uint64_t MEMORY(16) words8;
    switch (how) {
        case ONE: return (bytes16){FOUR_AT(bytes1, 0), FOUR_AT(bytes1, 4), FOUR_AT(bytes1, 8), FOUR_AT(bytes1, 12)};
        case TWO: return (bytes16)(words2){FOUR_AT(bytes2, 0), FOUR_AT(bytes2, 4)};
        case FOUR: return (bytes16)(words4){FOUR_AT(bytes4, 0)};
        case EIGHT: return (bytes16)(words8){AT(bytes8, 0), AT(bytes8, 1)};
        default: return AT(bytes16, 0);
    }
}

// Few wide stores instead of many narrow ones: stores wait for their lines, and there is room for few that wait.
INLINE void load_packed(char *out, const char *base, const void *offsets, const load_box *box, int wide, int streams, unit_copy how) {
    const int64_t unit = 1 << how, lanes = 16 >> how;
    for (int64_t row = 0; row < box->n0; ++row) {
        char *restrict const to = out + row * box->out0;
        const char *restrict const from = base + row * box->in0;
        const int64_t place = row * box->place0, n1 = box->n1;
        int64_t i = 0;
        if (streams && !((intptr_t)to & (unit - 1)))
            for (; i < n1 && ((intptr_t)to + i * unit) & (LINE - 1); ++i) copy_unit(to + i * unit, from + offset_at(offsets, place + i, wide), unit, how);
        const int past = streams && !(((intptr_t)to + i * unit) & (LINE - 1));
        for (; i + 4 * lanes <= n1; i += 4 * lanes) {
            bytes16 line[4];
            for (int k = 0; k < 4; ++k) line[k] = gathered(from, offsets, place + i + k * lanes, wide, how);
            if (past) store_past_cache(to + i * unit, line);
            else memcpy(to + i * unit, line, LINE);
        }
        for (; i < n1; ++i) copy_unit(to + i * unit, from + offset_at(offsets, place + i, wide), unit, how);
    }
    if (streams) order_stores();
}

#define VARIANT(name, call)                                                                             \
    static void name(char *out, const char *base, const void *offsets, const load_box *box) { call; }
#define UNITS(name, how)                                                             \
    VARIANT(name##_narrow, load_units(out, base, offsets, box, 0, how))              \
    VARIANT(name##_wide, load_units(out, base, offsets, box, 1, how))
#define PACKED(name, how)                                                            \
    VARIANT(name##_narrow, load_packed(out, base, offsets, box, 0, 0, how))          \
    VARIANT(name##_wide, load_packed(out, base, offsets, box, 1, 0, how))            \
    VARIANT(name##_stream_narrow, load_packed(out, base, offsets, box, 0, 1, how))   \
    VARIANT(name##_stream_wide, load_packed(out, base, offsets, box, 1, 1, how))

PACKED(packed1, ONE)
PACKED(packed2, TWO)
PACKED(packed4, FOUR)
PACKED(packed8, EIGHT)
PACKED(packed16, SIXTEEN)
UNITS(apart1, ONE)
UNITS(pair1, PAIR_OF_1)
UNITS(pair2, PAIR_OF_2)
UNITS(pair4, PAIR_OF_4)
UNITS(pair8, PAIR_OF_8)
UNITS(pair16, PAIR_OF_16)
UNITS(pair32, PAIR_OF_32)
UNITS(run, RUN)
UNITS(stream, STREAM)

// In order of preference.
static const struct {
    int64_t least, most;  // bytes of a unit
    int packed, streams;  // whether the units must lie side by side, and bypass the cache
    load_loop *narrow, *wide;
} LOADS[] = {
    {1, 1, 1, 1, packed1_stream_narrow, packed1_stream_wide},
    {2, 2, 1, 1, packed2_stream_narrow, packed2_stream_wide},
    {4, 4, 1, 1, packed4_stream_narrow, packed4_stream_wide},
    {8, 8, 1, 1, packed8_stream_narrow, packed8_stream_wide},
    {16, 16, 1, 1, packed16_stream_narrow, packed16_stream_wide},
    {1, 1, 1, 0, packed1_narrow, packed1_wide},
    {2, 2, 1, 0, packed2_narrow, packed2_wide},
    {4, 4, 1, 0, packed4_narrow, packed4_wide},
    {8, 8, 1, 0, packed8_narrow, packed8_wide},
    {16, 16, 1, 0, packed16_narrow, packed16_wide},
    {1, 1, 0, 0, apart1_narrow, apart1_wide},
    {2, 2, 0, 0, pair1_narrow, pair1_wide},
    {3, 4, 0, 0, pair2_narrow, pair2_wide},
    {5, 8, 0, 0, pair4_narrow, pair4_wide},
    {9, 16, 0, 0, pair8_narrow, pair8_wide},
    {17, 32, 0, 0, pair16_narrow, pair16_wide},
    {33, 63, 0, 0, pair32_narrow, pair32_wide},
    {64, INT64_MAX, 0, 1, stream_narrow, stream_wide},
    {64, INT64_MAX, 0, 0, run_narrow, run_wide},
};

static load_loop *choose_load(const load_box *box, int wide, int streams) {
    int row = 0;
    while (box->unit < LOADS[row].least || box->unit > LOADS[row].most || (LOADS[row].packed && box->out1 != box->unit) ||
           (LOADS[row].streams && !streams))
        ++row;
    return wide ? LOADS[row].wide : LOADS[row].narrow;
}

const loops JOIN(loops_, ISA) = {
    TEXT(ISA),
    JOIN(choose_copy_, ISA),
    choose_load,
    {{narrow_i8, narrow_i16, narrow_i32, narrow_i64, narrow_u8, narrow_u16, narrow_u32, narrow_u64},
     {wide_i8, wide_i16, wide_i32, wide_i64, wide_u8, wide_u16, wide_u32, wide_u64}},
    {mark_i8, mark_i16, mark_i32, mark_i64, mark_u8, mark_u16, mark_u32, mark_u64},
};
