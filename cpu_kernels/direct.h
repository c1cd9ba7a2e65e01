// Copies of single units, each with its own index, in one phase, so no offsets are written. If all indices of a group are in range, they
// need no wrap or clamp. Any other group ends the loop, and the remaining units take two phases.
#pragma once

#include "gather_loops.h"
#include "vectors.h"

// Indices, read as signed integers. An unsigned index that does not fit looks out of range. This only costs time.
typedef int32_t any_index32 __attribute__((aligned(1), may_alias));
typedef int64_t any_index64 __attribute__((aligned(1), may_alias));

// An index selects one of adjacent units, in one row of the source (ALONG) or in a row for each position (ROWS). Or it selects a row, and
// the position selects one of the row's adjacent units (COLUMNS).
typedef enum { ALONG, ROWS, COLUMNS } direct_form;

INLINE int64_t index_at(const void *indices, int64_t i, int bits) {
    return bits == 64 ? ((const any_index64 *)indices)[i] : ((const any_index32 *)indices)[i];
}

// Not 0 if a lane is negative.
#if defined(__AVX512DQ__)
#define NEGATIVE64(v) _mm512_movepi64_mask((__m512i)(v))
#define NEGATIVE32(v) _mm512_movepi32_mask((__m512i)(v))
#elif defined(__AVX2__)
#define NEGATIVE64(v) _mm256_movemask_pd((__m256d)(v))
#define NEGATIVE32(v) _mm256_movemask_ps((__m256)(v))
#elif defined(__x86_64__)
#define NEGATIVE64(v) _mm_movemask_pd((__m128d)(v))
#define NEGATIVE32(v) _mm_movemask_ps((__m128)(v))
#else
#define NEGATIVE64(v) ((v)[0] < 0 || (v)[1] < 0)
#define NEGATIVE32(v) ((v)[0] < 0 || (v)[1] < 0 || (v)[2] < 0 || (v)[3] < 0)
#endif

// Returns 1 if the n indices from i on are in 0 … last. Then neither the index nor last - index is negative: for last = 9, 12 gives -3.
#define IN_RANGE(bits)                                                                                                    \
    typedef int##bits##_t signed##bits __attribute__((vector_size(WIDE)));                                                \
    typedef uint##bits##_t unsigned##bits __attribute__((vector_size(WIDE)));                                             \
    INLINE int in_range##bits(const void *indices, int64_t i, int64_t n, int64_t last) {                                  \
        const any_index##bits *const index = (const any_index##bits *)indices + i;                                        \
        enum { LANES = WIDE * 8 / bits };                                                                                 \
        unsigned##bits v, out = {0};                                                                                      \
        if (n % LANES) {                                                                                                  \
            uint##bits##_t some = 0;                                                                                      \
            for (int64_t k = 0; k < n; ++k) some |= (uint##bits##_t)index[k] | ((uint##bits##_t)last - (uint##bits##_t)index[k]); \
            return !(some >> (bits - 1));                                                                                 \
        }                                                                                                                 \
        for (int64_t k = 0; k < n; k += LANES) memcpy(&v, index + k, WIDE), out |= v | ((uint##bits##_t)last - v);        \
        return !NEGATIVE##bits((signed##bits)out);                                                                        \
    }
IN_RANGE(32) IN_RANGE(64)

INLINE int in_range(const void *indices, int64_t i, int64_t n, int64_t last, int bits) {
    return bits == 64 ? in_range64(indices, i, n, last) : in_range32(indices, i, n, last);
}

// `from` is the base address of position i.
INLINE const char *named_unit(const char *from, const void *indices, int64_t i, int64_t k, const direct_run *run, int64_t unit, int bits, direct_form form) {
    return from + index_at(indices, i + k, bits) * (form == COLUMNS ? run->step : unit) + k * (form == ALONG ? 0 : form == ROWS ? run->in : unit);
}

// Returns 16 bytes of units, from position i + first on.
INLINE bytes16 named_16(const char *from, const void *indices, int64_t i, int64_t first, const direct_run *run, int64_t unit, int bits, direct_form form) {
#define UNIT(k) named_unit(from, indices, i, first + (k), run, unit, bits, form)
    if (unit == 1 && form != COLUMNS)  // units may miss the cache, so load them independently of each other
        return (bytes16){READ_4(uint8_t, UNIT, 0), READ_4(uint8_t, UNIT, 4), READ_4(uint8_t, UNIT, 8), READ_4(uint8_t, UNIT, 12)};
    return PACKED_16(unit, UNIT);
}

// Copies a cache line of output at a time. Lines that bypass the cache begin at a line boundary.
INLINE int64_t load_named(char *out, const char *from, const void *indices, int64_t n, const direct_run *given, const int64_t unit, int bits, direct_form form) {
    const direct_run of = *given, *const run = &of;
    const int64_t last = bits == 64 ? run->limit - 1 : least(run->limit - 1, INT32_MAX), lanes = 16 / unit, group = LINE / unit;
    const int64_t in = form == ALONG ? 0 : form == ROWS ? run->in : unit;
    const int64_t head = run->streams ? (int64_t)(-(uintptr_t)out & (LINE - 1)) / unit : 0;
    const int past = run->streams && !((uintptr_t)out % (uintptr_t)unit);
    int64_t i = 0;
    for (; i < n; ++i, from += in) {
        for (; i >= head && i + group <= n; i += group, from += in * group) {
            if (!in_range(indices, i, group, last, bits)) goto ended;
            for (int64_t at = 0; at < group * bits / 8; at += LINE)
                __builtin_prefetch((const char *)indices + i * (bits / 8) + run->ahead + at, 0, 0);
            bytes16 line[4];
#pragma GCC unroll 4
            for (int k = 0; k < 4; ++k) line[k] = named_16(from, indices, i, k * lanes, run, unit, bits, form);
            char *const to = out + i * unit;
            for (int k = 0; k < 4; ++k) past ? stream(to + 16 * k, &line[k], 16) : (void)memcpy(to + 16 * k, &line[k], 16);
        }
        if (i == n || !in_range(indices, i, 1, last, bits)) break;
        memcpy(out + i * unit, named_unit(from, indices, i, 0, run, unit, bits, form), unit);
    }
ended:
    END_STREAM(run->streams);
    return i;
}

#define DIRECT(unit, bits, form)                                                                                                    \
    static int64_t direct##unit##_##bits##_##form(char *out, const char *from, const void *indices, int64_t n, const direct_run *run) { \
        return load_named(out, from, indices, n, run, unit, bits, form);                                                           \
    }
#define DIRECT_FORMS(unit, bits) DIRECT(unit, bits, ALONG) DIRECT(unit, bits, ROWS) DIRECT(unit, bits, COLUMNS)
#define DIRECT_UNIT(unit) DIRECT_FORMS(unit, 32) DIRECT_FORMS(unit, 64)
DIRECT_UNIT(1) DIRECT_UNIT(2) DIRECT_UNIT(4) DIRECT_UNIT(8)

static direct_loop *choose_direct(const direct_run *run, int64_t unit, int64_t index_bytes) {
#define FORMS(unit, bits) {direct##unit##_##bits##_ALONG, direct##unit##_##bits##_ROWS, direct##unit##_##bits##_COLUMNS}
#define BOTH(unit) {FORMS(unit, 32), FORMS(unit, 64)}
    static direct_loop *const loops[4][2][3] = {BOTH(1), BOTH(2), BOTH(4), BOTH(8)};
    const direct_form form = run->step != unit ? COLUMNS : run->in ? ROWS : ALONG;
    if (unit > 8 || !is_power(unit) || index_bytes < 4 || (form == COLUMNS && run->in != unit)) return NULL;
    return loops[__builtin_ctzll((uint64_t)unit)][index_bytes == 8][form];
}
