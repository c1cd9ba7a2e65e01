// Inner loops of plans without lookups, for the instruction set that the compiler's flags name; ISA is the suffix of its name.
#include "copy_loops.h"

#include "turned.h"
#include "vectors.h"

enum { STREAMED = 2048 };  // bytes of the shortest row whose lines may bypass the cache

INLINE void copy_runs(char *out, const char *in, const copy_box *box, int streams) {
    const copy_box b = *box;
    for (int64_t i = 0; i < b.n0; i++)
        for (int64_t j = 0; j < b.n1; j++) copy_run(out + i * b.out0 + j * b.out1, in + i * b.in0 + j * b.in1, b.unit, streams);
    END_STREAM(streams);
}
static void run(char *out, const char *in, const copy_box *box) { copy_runs(out, in, box, 0); }
static void streamed_run(char *out, const char *in, const copy_box *box) { copy_runs(out, in, box, 1); }

// Units of `part` bytes, or (two) of up to twice as many: as two parts that overlap.
INLINE void copy_units(char *out, const char *in, const copy_box *box, int64_t part, int two) {
    const copy_box b = *box;
    for (int64_t i = 0; i < b.n0; i++)
        for (int64_t j = 0; j < b.n1; j++) {
            char *to = out + i * b.out0 + j * b.out1;
            const char *from = in + i * b.in0 + j * b.in1;
            memcpy(to, from, part);
            if (two) memcpy(to + b.unit - part, from + b.unit - part, part);
            APART();
        }
}
#define UNITS(part)                                                                                                \
    static void whole##part(char *out, const char *in, const copy_box *box) { copy_units(out, in, box, part, 0); } \
    static void parts##part(char *out, const char *in, const copy_box *box) { copy_units(out, in, box, part, 1); }
UNITS(1) UNITS(2) UNITS(4) UNITS(8) UNITS(16) UNITS(32)

// For units of any size and any steps.
static copy_loop *loop_for_units(int64_t unit) {
    static copy_loop *const whole[] = {whole1, whole2, whole4, whole8, whole16, whole32, parts32};
    static copy_loop *const parts[] = {parts1, parts2, parts4, parts8, parts16, parts32};
    if (unit > 64) return run;
    return (is_power(unit) ? whole : parts)[63 - __builtin_clzll((uint64_t)unit)];
}

// Windows: WINDOW bytes of output at a time, `count` groups of bytes, each byte picked from one of few loads. A group is a unit, or a short
// row of `inner` units, in1 apart; groups are `step` apart in the source. need: so many must be left for a window, so that nothing outside
// the box is read or written. low, span: where the source bytes of a window start, and how many they are. pick: for each byte of the output
// its place in that load; 0x80: not there.
typedef struct {
    int64_t unit, inner, in1, group, step, groups, rows, out0, in0, count, need, low, span, loads, at[4];
    window pick[4];
    enum { UNKNOWN, FITS, NOT } state;
} shuffle;
_Static_assert(sizeof(shuffle) <= KEPT_BYTES, "a shuffle fits into what is kept of a box");

INLINE window picked(window v, window pick) {
#if defined(__AVX512VBMI__)
    return (window)_mm512_maskz_permutexvar_epi8(~_mm512_movepi8_mask((__m512i)pick), (__m512i)pick, (__m512i)v);
#elif defined(__SSSE3__)
    return (window)_mm_shuffle_epi8((__m128i)v, (__m128i)pick);
#elif defined(__aarch64__)
    return (window)vqtbl1q_u8((uint8x16_t)v, (uint8x16_t)pick);
#else
    return v | pick;  // never called
#endif
}

// Whether the box can be copied in windows of at least two units and at most four loads.
static int plan_shuffle(const copy_box *b, shuffle *s) {
    const int short_rows = b->n0 > 1 && b->out0 == b->n1 * b->unit && b->out0 <= WINDOW;
    if (b->out1 != b->unit || b->unit * 2 > WINDOW || (b->in1 == 0 && b->n1 * b->unit < 256 && !short_rows)) return 0;
    *s = (shuffle){.unit = b->unit, .inner = 1, .in1 = b->in1, .group = b->unit, .step = b->in1, .groups = b->n1, .rows = b->n0,
                   .out0 = b->out0, .in0 = b->in0};
    if (short_rows) s->inner = b->n1, s->group = b->out0, s->step = b->in0, s->groups = b->n0, s->rows = 1;
    s->count = WINDOW / s->group;
    int64_t place[64], high = INT64_MIN, over = 0, n = 0;  // over: bytes of a load that are not of the window
    s->low = INT64_MAX;
    for (int64_t g = 0; g < s->count; g++)
        for (int64_t u = 0; u < s->inner; u++) {
            const int64_t start = g * s->step + u * s->in1;
            s->low = least(s->low, start), high = start + s->unit > high ? start + s->unit : high;
            for (int64_t k = 0; k < s->unit; k++) place[n++] = start + k;
        }
    s->span = high - s->low;
    if ((s->inner == 1 && magnitude(s->step) > LINE) || (s->step == 0 && s->span > WINDOW)) return 0;
    if (s->span <= WINDOW) over = s->step ? WINDOW - s->span : 0, s->at[s->loads++] = s->step < 0 ? s->low - over : s->low;
    else
        for (int64_t next = s->low; next < high; s->loads++) {
            if (s->loads == 4) return 0;
            const int64_t at = least(next, high - WINDOW);
            s->at[s->loads] = at, next = high;
            for (int64_t k = 0; k < n; k++)
                if (place[k] >= at + WINDOW) next = least(next, place[k]);
        }
    for (int64_t l = 0; l < s->loads; l++) {
        uint8_t pick[sizeof(window)];
        for (int64_t k = 0; k < (int64_t)sizeof pick; k++) {
            const int64_t from = k < n ? place[k] - s->at[l] : -1;
            pick[k] = from >= 0 && from < WINDOW ? (uint8_t)from : 0x80;
        }
        memcpy(&s->pick[l], pick, sizeof pick);
    }
    if (s->step == 0) s->at[0] = 0;  // of a copy of them
    const int64_t more = over ? (over + magnitude(s->step) - 1) / magnitude(s->step) : 0;
    s->need = s->count + (more ? more : n < WINDOW);
    return 1;
}

INLINE window picked_window(const char *in, const shuffle *s, int64_t loads) {
    window v = {0}, from;
    for (int64_t l = 0; l < loads; l++) memcpy(&from, in + s->at[l], sizeof from), v |= picked(from, s->pick[l]);
    return v;
}
// Groups first to last - 1 of a row, unit by unit.
INLINE void copy_groups(char *out, const char *in, const shuffle *s, int64_t first, int64_t last) {
    const int64_t n = last - first;
    const copy_box rest = s->inner == 1 ? (copy_box){s->unit, 1, n, 0, s->group, 0, s->step, NULL}
                                        : (copy_box){s->unit, n, s->inner, s->group, s->unit, s->step, s->in1, NULL};
    loop_for_units(s->unit)(out + first * s->group, in + first * s->step, &rest);
}
INLINE void copy_windows(char *out, const char *in, const shuffle *plan, int64_t loads, int streams) {
    const shuffle s = *plan;
    window v;
#define COPY_WINDOW(put) v = picked_window(from + i * s.step, &s, loads), put(to + i * s.group, &v, sizeof v)
    for (int64_t row = 0; row < s.rows; row++) {
        char *to = out + row * s.out0, same[WINDOW ? WINDOW : 1] = {0};
        const char *source = in + row * s.in0, *from = source;
        const int64_t head = -(uintptr_t)to & (LINE - 1), bytes = s.groups * s.group;
        int64_t i = 0;
        if (s.step == 0) memcpy(same, source + s.low, s.span), from = same;
        if (streams && bytes >= STREAMED && LINE % s.group == 0 && head % s.group == 0) {
            const int64_t end = (head + (bytes - head - (s.need - s.count) * s.group) / LINE * LINE) / s.group;
            copy_groups(to, source, &s, 0, i = head / s.group);
            for (; i < end; i += s.count) COPY_WINDOW(stream);
            copy_groups(to, source, &s, i, s.groups);
            continue;
        }
        for (; i + s.need <= s.groups; i += s.count) COPY_WINDOW(memcpy);
        if (s.groups < s.count || s.need > s.count) copy_groups(to, source, &s, i, s.groups);
        else if (i < s.groups) i = s.groups - s.count, COPY_WINDOW(memcpy);
    }
    END_STREAM(streams);
}
INLINE void copy_shuffled(char *out, const char *in, const copy_box *box, int streams) {
    shuffle own = {0}, *const s = box->kept ? box->kept : &own;
    if (s->state == UNKNOWN) {
        const int fits = plan_shuffle(box, s);
        s->state = fits ? FITS : NOT;
    }
    if (s->state == NOT) loop_for_units(box->unit)(out, in, box);
    else if (s->loads == 1) copy_windows(out, in, s, 1, streams);
    else if (s->loads == 2) copy_windows(out, in, s, 2, streams);
    else if (s->loads == 3) copy_windows(out, in, s, 3, streams);
    else copy_windows(out, in, s, 4, streams);
}
static void shuffled(char *out, const char *in, const copy_box *box) { copy_shuffled(out, in, box, 0); }
static void streamed_shuffled(char *out, const char *in, const copy_box *box) { copy_shuffled(out, in, box, 1); }

#define TURNED(name, unit, bits, streams)                                                   \
    static void name##unit(char *out, const char *in, const copy_box *b) {                 \
        copy_transposed(out, in, NULL, b, unit, turn##bits, STEPS, streams);               \
    }
#define TRANSPOSED(name, streams)                                                           \
    TURNED(name, 1, 8, streams) TURNED(name, 2, 16, streams)                                \
    TURNED(name, 4, 32, streams) TURNED(name, 8, 64, streams)                               \
    static copy_loop *const name[] = {name##1, name##2, name##4, name##8};
TRANSPOSED(transposed, 0) TRANSPOSED(streamed_transposed, 1)

// Any other box whose source has its short step outside: in tiles that stay in the cache.
static void tiled(char *out, const char *in, const copy_box *box) {
    const copy_box b = *box;
    for (int64_t i = 0; i < b.n0; i += 16)
        for (int64_t j = 0; j < b.n1; j += 16) {
            const copy_box tile = {b.unit, least(b.n0 - i, 16), least(b.n1 - j, 16), b.out0, b.out1, b.in0, b.in1, NULL};
            loop_for_units(b.unit)(out + i * b.out0 + j * b.out1, in + i * b.in0 + j * b.in1, &tile);
        }
}

copy_choice NAMED(choose_copy, ISA)(const copy_box *box, int streams) {
    const copy_box b = *box;
    shuffle s;
    if (b.unit > 64) return b.unit >= STREAMED && streams ? (copy_choice){"streamed run", streamed_run} : (copy_choice){"run", run};
    if (b.n0 > 3 && b.n1 > 3 && magnitude(b.in0) < LINE && magnitude(b.in1) >= LINE) {
        if (b.unit > 8 || !is_power(b.unit) || magnitude(b.in0) != b.unit || b.out1 != b.unit) return (copy_choice){"tiled", tiled};
        if (b.n0 * b.unit >= 16 && b.n1 * b.unit >= 16)
            return (copy_choice){"transposed", (streams ? streamed_transposed : transposed)[__builtin_ctzll((uint64_t)b.unit)]};
    }
    if (b.n0 * b.n1 > 15 && plan_shuffle(box, &s)) {
        const char *name = s.inner > 1 ? "short rows" : s.step == 0 ? "repeated" : s.step == -b.unit ? "reversed" : "every n-th";
        return (copy_choice){name, streams ? streamed_shuffled : shuffled};
    }
    return (copy_choice){is_power(b.unit) ? "strided" : "short run", loop_for_units(b.unit)};
}
