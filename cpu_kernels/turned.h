// Transposed copies: tiles of a cache line on both sides, turned in registers.
#pragma once

#include "copy_loops.h"
#include "vectors.h"

// Transposed: tiles of a cache line on both sides. A tile's source rows are read whole, once, and its output rows written whole, once:
// with steps of a power of two they all fall into the same few sets of the cache.
#if defined(__clang__) || __GNUC__ >= 12
#define SHUFFLED(type, a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define SHUFFLED(type, a, b, ...) __builtin_shuffle(a, b, (type){__VA_ARGS__})
#endif
// turn##bits: transposes a square of units in registers; its rows are a line apart. Interleaving the halves log2 times does it.
#define TURN(bits, low, high)                                                          \
    typedef uint##bits##_t lanes##bits __attribute__((vector_size(16)));               \
    INLINE void turn##bits(char *out, const char *in) {                                \
        enum { N = 128 / bits };                                                       \
        lanes##bits a[N], b[N];                                                        \
        for (int i = 0; i < N; i++) memcpy(&a[i], in + i * LINE, 16);                  \
        for (int done = 1; done < N; done *= 2) {                                      \
            for (int i = 0; i < N; i++)                                                \
                b[i] = i % 2 ? SHUFFLED(lanes##bits, a[i / 2], a[i / 2 + N / 2], high) \
                             : SHUFFLED(lanes##bits, a[i / 2], a[i / 2 + N / 2], low); \
            for (int i = 0; i < N; i++) a[i] = b[i];                                   \
        }                                                                              \
        for (int i = 0; i < N; i++) memcpy(out + i * LINE, &a[i], 16);                 \
    }
#define LIST(...) __VA_ARGS__
TURN(8, LIST(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23), LIST(8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31))
TURN(16, LIST(0, 8, 1, 9, 2, 10, 3, 11), LIST(4, 12, 5, 13, 6, 14, 7, 15))
TURN(32, LIST(0, 4, 1, 5), LIST(2, 6, 3, 7))
TURN(64, LIST(0, 2), LIST(1, 3))

// A row of a tile, in the parts in which it was just stored: a wider load would wait until those stores have left the store buffer.
INLINE void copy_row(char *out, const char *in, int streams) {
    for (int64_t i = 0; i < LINE; i += 16) {
        streams ? stream(out + i, in + i, 16) : (void)memcpy(out + i, in + i, 16);
        APART();
    }
}
// Rows of the source lie in1 apart, or at offsets: NARROW ones of 32 bits, or WIDE_ONES of 64. The steps of the other dimension are a unit.
typedef enum { STEPS, NARROW, WIDE_ONES } row_places;
INLINE const char *row_of(const char *in, const copy_box *b, const void *offsets, row_places places, int64_t j) {
    return in + (places == STEPS ? j * b->in1 : places == NARROW ? ((const int32_t *)offsets)[j] : ((const int64_t *)offsets)[j]);
}
INLINE void copy_transposed(char *out, const char *in, const void *offsets, const copy_box *box, const int64_t unit,
                            void turn(char *, const char *), row_places places, int streams) {
    const int64_t tile = LINE / unit, part = 16 / unit;
    char from[64 * LINE] __attribute__((aligned(64))), to[64 * LINE] __attribute__((aligned(64)));
    copy_box b = *box;
    if (b.in0 < 0) in += (b.n0 - 1) * b.in0, out += (b.n0 - 1) * b.out0, b.out0 = -b.out0;
    const int64_t head = b.out0 % LINE ? 0 : (int64_t)(-(uintptr_t)out & (LINE - 1));  // bytes up to whole lines, in all rows alike
    streams = streams && b.out0 % LINE == 0 && head % unit == 0;
    memset(from, 0, tile * LINE);
    for (int64_t j = 0, height; j < b.n1; j += height) {
        height = least(b.n1 - j, j || head < unit ? tile : head / unit);
        for (int64_t i = 0; i < b.n0; i += tile) {
            const int64_t width = least(b.n0 - i, tile);
            char *target = out + i * b.out0 + j * unit;
            for (int64_t k = 0; k < height; k++) {
                const char *source = row_of(in, &b, offsets, places, j + k) + i * unit;
                if (i + tile < b.n0) __builtin_prefetch(source + LINE);
                if (width == tile) copy_row(from + k * LINE, source, 0);
                else copy_part(from + k * LINE, source, width * unit);
            }
            for (int64_t y = 0; y < width; y += part)
                for (int64_t x = 0; x < height; x += part) turn(to + y * LINE + x * unit, from + x * LINE + y * unit);
            for (int64_t k = 0; k < width; k++)
                if (height == tile) copy_row(target + k * b.out0, to + k * LINE, streams);
                else copy_part(target + k * b.out0, to + k * LINE, height * unit);
        }
    }
    END_STREAM(streams);
}
