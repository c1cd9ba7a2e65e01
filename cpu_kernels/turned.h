// Transposed copies: tiles of a cache line on both sides, transposed in registers.
#pragma once

#include "copy_loops.h"
#include "vectors.h"

// Each source row of a tile is read once, as a whole cache line, and each output row is written once. Lines could not be kept until a
// second access: rows that are a power of two apart share few sets of the cache.
#if defined(__AVX512BW__)
#define LOW_HALVES(bits, a, b) (wide)_mm512_unpacklo_epi##bits((__m512i)(a), (__m512i)(b))
#define HIGH_HALVES(bits, a, b) (wide)_mm512_unpackhi_epi##bits((__m512i)(a), (__m512i)(b))
#elif defined(__AVX2__)
#define LOW_HALVES(bits, a, b) (wide)_mm256_unpacklo_epi##bits((__m256i)(a), (__m256i)(b))
#define HIGH_HALVES(bits, a, b) (wide)_mm256_unpackhi_epi##bits((__m256i)(a), (__m256i)(b))
#elif defined(__x86_64__)
#define LOW_HALVES(bits, a, b) (wide)_mm_unpacklo_epi##bits((__m128i)(a), (__m128i)(b))
#define HIGH_HALVES(bits, a, b) (wide)_mm_unpackhi_epi##bits((__m128i)(a), (__m128i)(b))
#else
#if defined(__clang__) || __GNUC__ >= 12
#define SHUFFLED(type, a, b, ...) (wide)__builtin_shufflevector((type)(a), (type)(b), __VA_ARGS__)
#else
#define SHUFFLED(type, a, b, ...) (wide)__builtin_shuffle((type)(a), (type)(b), (type){__VA_ARGS__})
#endif
#define LOW8(a, b) SHUFFLED(bytes16, a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23)
#define LOW16(a, b) SHUFFLED(words2, a, b, 0, 8, 1, 9, 2, 10, 3, 11)
#define LOW32(a, b) SHUFFLED(words4, a, b, 0, 4, 1, 5)
#define LOW64(a, b) SHUFFLED(words8, a, b, 0, 2)
#define HIGH8(a, b) SHUFFLED(bytes16, a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31)
#define HIGH16(a, b) SHUFFLED(words2, a, b, 4, 12, 5, 13, 6, 14, 7, 15)
#define HIGH32(a, b) SHUFFLED(words4, a, b, 2, 6, 3, 7)
#define HIGH64(a, b) SHUFFLED(words8, a, b, 1, 3)
#define LOW_HALVES(bits, a, b) LOW##bits(a, b)
#define HIGH_HALVES(bits, a, b) HIGH##bits(a, b)
#endif
// turn##bits transposes WIDE / 16 adjacent squares of units in registers: 16 bytes of each column become a row, and rows are out0 apart. It
// interleaves the halves of each 16 bytes, log2(units) times: rows ab and cd become ac and bd. The source rows are listed in `rows`, or, if
// it is NULL, are a line apart from `in` on. `at`: offset in each row, in bytes.
typedef void turn_loop(char *out, int64_t out0, const char *in, const char *const *rows, int64_t at);
#define TURN(bits)                                                                                                     \
    INLINE void turn##bits(char *out, int64_t out0, const char *in, const char *const *rows, int64_t at) {             \
        enum { N = 128 / bits };                                                                                       \
        wide a[N], b[N];                                                                                               \
        for (int i = 0; i < N; i++) a[i] = load((rows ? rows[i] : in + i * LINE) + at);                                \
        for (int done = 1; done < N; done *= 2) {                                                                      \
            for (int i = 0; i < N; i++)                                                                                \
                b[i] = i % 2 ? HIGH_HALVES(bits, a[i / 2], a[i / 2 + N / 2]) : LOW_HALVES(bits, a[i / 2], a[i / 2 + N / 2]); \
            for (int i = 0; i < N; i++) a[i] = b[i];                                                                   \
        }                                                                                                              \
        for (int square = 0; square < WIDE / 16; square++)                                                             \
            for (int i = 0; i < N; i++) memcpy(out + (square * N + i) * out0, (const char *)&a[i] + 16 * square, 16);  \
    }
TURN(8) TURN(16) TURN(32) TURN(64)

INLINE void copy_line(char *out, const char *in) {
    for (int64_t i = 0; i < LINE; i += WIDE) store(out + i, load(in + i));
}
// Copies a row of a tile in parts of 16 bytes, like the stores just before. A wider load would wait for these stores.
INLINE void copy_row(char *out, const char *in, int streams) {
    for (int64_t i = 0; i < LINE; i += 16) {
        streams ? stream(out + i, in + i, 16) : (void)memcpy(out + i, in + i, 16);
        APART();
    }
}
enum { FEW_LINES = 16 };
// Rows of the source are in1 apart (STEPS), or at offsets of 32 bits (NARROW) or 64 bits (WIDE_ONES). Inside a row, units are adjacent.
typedef enum { STEPS, NARROW, WIDE_ONES } row_places;
INLINE const char *row_of(const char *in, const copy_box *b, const void *offsets, row_places places, int64_t j) {
    return in + (places == STEPS ? j * b->in1 : places == NARROW ? ((const int32_t *)offsets)[j] : ((const int64_t *)offsets)[j]);
}
INLINE void copy_transposed(char *out, const char *in, const void *offsets, const copy_box *box, const int64_t unit,
                            turn_loop turn, row_places places, int streams) {
    const int64_t tile = LINE / unit, part = 16 / unit;
    char from[64 * LINE] __attribute__((aligned(64))), to[64 * LINE] __attribute__((aligned(64)));
    const char *rows[FEW_LINES];
    copy_box b = *box;
    if (b.in0 < 0) in += (b.n0 - 1) * b.in0, out += (b.n0 - 1) * b.out0, b.out0 = -b.out0;
    const int64_t head = b.out0 % LINE ? 0 : (int64_t)(-(uintptr_t)out & (LINE - 1));  // bytes before the first whole line, the same in all rows
    streams = streams && b.out0 % LINE == 0 && head % unit == 0;
    memset(from, 0, tile * LINE);
    for (int64_t j = 0, height; j < b.n1; j += height) {
        height = least(b.n1 - j, j || head < unit ? tile : head / unit);
        for (int64_t i = 0; i < b.n0; i += tile) {
            const int64_t width = least(b.n0 - i, tile);
            // Load lines directly if each is one vector. With more lines, the L1 cache would evict some before they are read.
            const int at_once = (int)WIDE == (int)LINE && width == tile && height % part == 0 && height <= FEW_LINES;
            char *target = out + i * b.out0 + j * unit;
            for (int64_t k = 0; k < height; k++) {
                const char *source = row_of(in, &b, offsets, places, j + k) + i * unit;
                if (i + tile < b.n0) __builtin_prefetch(source + 2 * LINE);
                if (at_once) rows[k] = source;
                else if (width == tile) copy_line(from + k * LINE, source);
                else copy_part(from + k * LINE, source, width * unit);
            }
            if (at_once && height == part) {  // rows are stored from registers
                turn(target, b.out0, NULL, rows, 0);
                continue;
            }
            for (int64_t y = 0; y < width; y += WIDE / unit)
                for (int64_t x = 0; x < height; x += part)
                    if (at_once) turn(to + y * LINE + x * unit, LINE, NULL, rows + x, y * unit);
                    else turn(to + y * LINE + x * unit, LINE, from + x * LINE, NULL, y * unit);
            for (int64_t k = 0; k < width; k++)
                if (height == tile) copy_row(target + k * b.out0, to + k * LINE, streams);
                else copy_part(target + k * b.out0, to + k * LINE, height * unit);
        }
    }
    END_STREAM(streams);
}
