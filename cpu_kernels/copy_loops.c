// Inner loops of plans without lookups, for the instruction set of the compiler's flags. ISA is the suffix of its functions.
#include "copy_loops.h"

#include "picked.h"
#include "turned.h"
#include "vectors.h"

INLINE void copy_runs(char *out, const char *in, const copy_box *box, int streams) {
    const copy_box b = *box;
    for (int64_t i = 0; i < b.n0; i++)
        for (int64_t j = 0; j < b.n1; j++) copy_run(out + i * b.out0 + j * b.out1, in + i * b.in0 + j * b.in1, b.unit, streams);
    END_STREAM(streams);
}
static void run(char *out, const char *in, const copy_box *box) { copy_runs(out, in, box, 0); }
static void streamed_run(char *out, const char *in, const copy_box *box) { copy_runs(out, in, box, 1); }

// Copies units of `part` bytes. two: copies longer units, of at most 2 * part bytes, as two parts that may overlap.
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
// Functions are aligned because a short loop takes twice as long at some offsets in a cache line.
#define ALIGNED static __attribute__((aligned(LINE)))
#define UNITS(part)                                                                                                 \
    ALIGNED void whole##part(char *out, const char *in, const copy_box *box) { copy_units(out, in, box, part, 0); } \
    ALIGNED void parts##part(char *out, const char *in, const copy_box *box) { copy_units(out, in, box, part, 1); }
UNITS(1) UNITS(2) UNITS(4) UNITS(8) UNITS(16) UNITS(32)

// Returns the loop for units of any size with any steps.
static copy_loop *loop_for_units(int64_t unit) {
    static copy_loop *const whole[] = {whole1, whole2, whole4, whole8, whole16, whole32, parts32};
    static copy_loop *const parts[] = {parts1, parts2, parts4, parts8, parts16, parts32};
    if (unit > 64) return run;
    return (is_power(unit) ? whole : parts)[63 - __builtin_clzll((uint64_t)unit)];
}

#define TURNED(name, unit, bits, streams)                                                   \
    ALIGNED void name##unit(char *out, const char *in, const copy_box *b) {                \
        copy_transposed(out, in, NULL, b, unit, turn##bits, STEPS, streams);               \
    }
#define TRANSPOSED(name, streams)                                                           \
    TURNED(name, 1, 8, streams) TURNED(name, 2, 16, streams)                                \
    TURNED(name, 4, 32, streams) TURNED(name, 8, 64, streams)                               \
    static copy_loop *const name[] = {name##1, name##2, name##4, name##8};
TRANSPOSED(transposed, 0) TRANSPOSED(streamed_transposed, 1)

// Copies in tiles that stay in the cache: for boxes with the source's short step in the outer dimension, and without a faster loop.
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
    if (b.piece) return (copy_choice){"picked", streams ? streamed_picked : picked};
    if (b.unit > 64) return b.unit >= STREAMED_RUN && streams ? (copy_choice){"streamed run", streamed_run} : (copy_choice){"run", run};
    if (b.n0 > 3 && b.n1 > 3 && magnitude(b.in0) < LINE && magnitude(b.in1) >= LINE) {
        if (b.unit > 8 || !is_power(b.unit) || magnitude(b.in0) != b.unit || b.out1 != b.unit) return (copy_choice){"tiled", tiled};
        if (b.n0 * b.unit >= 16 && b.n1 * b.unit >= 16)
            return (copy_choice){"transposed", (streams ? streamed_transposed : transposed)[__builtin_ctzll((uint64_t)b.unit)]};
    }
    return (copy_choice){is_power(b.unit) ? "strided" : "short run", loop_for_units(b.unit)};
}
