// Moves of bytes by vectors. ISA, the suffix of functions, names the instruction set.
#pragma once

#include <stdint.h>
#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif
#define INLINE static inline __attribute__((always_inline))
#define JOINED(name, isa) name##_##isa
#define NAMED(name, isa) JOINED(name, isa)

// WIDE: bytes of the widest register. WINDOW: bytes of the widest register that has a byte shuffle; 0: none. LINE: bytes of a cache line.
// STREAMED, STREAMED_RUN: least bytes of a row of pieces, and of a run, that may bypass the cache.
#if defined(__AVX512VBMI__)
enum { WIDE = 64, WINDOW = 64 };
#elif defined(__AVX2__)
enum { WIDE = 32, WINDOW = 16 };
#elif defined(__SSSE3__) || defined(__aarch64__)
enum { WIDE = 16, WINDOW = 16 };
#else
enum { WIDE = 16, WINDOW = 0 };
#endif
enum { LINE = 64, STREAMED = 2048, STREAMED_RUN = 512 };

typedef uint8_t wide __attribute__((vector_size(WIDE)));
typedef uint8_t bytes16 __attribute__((vector_size(16)));
typedef uint16_t words2 __attribute__((vector_size(16)));
typedef uint32_t words4 __attribute__((vector_size(16)));
typedef uint64_t words8 __attribute__((vector_size(16)));
// Prevents the compiler from merging loads or stores of neighbouring iterations.
#define APART() __asm__ volatile("" ::: "memory")

#define READ(type, from)                     \
    ({                                       \
        type read;                           \
        memcpy(&read, from, sizeof read);    \
        read;                                \
    })
#define READ_4(type, at, k) READ(type, at(k)), READ(type, at((k) + 1)), READ(type, at((k) + 2)), READ(type, at((k) + 3))
// Sets one lane after the other, because compilers spill registers for an initialiser with many lanes.
#define LANES(vector, lane, at)                                                                               \
    ({                                                                                                        \
        vector lanes = {0};                                                                                   \
        _Pragma("GCC unroll 16") for (int k = 0; k < 16 / (int)sizeof(lane); ++k) lanes[k] = READ(lane, at(k)); \
        (bytes16)lanes;                                                                                       \
    })
// Returns 16 bytes of units, of 1 to 16 bytes each, from the addresses at(0), at(1), …
#define PACKED_16(unit, at)                                                                                   \
    ((unit) == 1   ? LANES(bytes16, uint8_t, at)                                                              \
     : (unit) == 2 ? LANES(words2, uint16_t, at)                                                              \
     : (unit) == 4 ? (bytes16)(words4){READ_4(uint32_t, at, 0)}                                                \
     : (unit) == 8 ? (bytes16)(words8){READ(uint64_t, at(0)), READ(uint64_t, at(1))}                          \
                   : READ(bytes16, at(0)))

INLINE int64_t magnitude(int64_t x) { return x < 0 ? -x : x; }
INLINE int is_power(int64_t x) { return (x & (x - 1)) == 0; }
INLINE int64_t least(int64_t x, int64_t y) { return x < y ? x : y; }
INLINE int64_t larger(int64_t x, int64_t y) { return x > y ? x : y; }
INLINE wide load(const char *in) {
    wide v;
    memcpy(&v, in, sizeof v);
    return v;
}
INLINE void store(char *out, wide v) { memcpy(out, &v, sizeof v); }

// Stores a vector past the cache, at a multiple of its size. A whole line must be streamed, without other stores to it just before or
// after. Such stores would cost ten times what streaming saves.
INLINE void stream(char *out, const void *v, int64_t bytes) {
#if defined(__AVX512F__)
    if (bytes == 64) _mm512_stream_si512((void *)out, _mm512_loadu_si512(v));
#endif
#if defined(__AVX2__)
    if (bytes == 32) _mm256_stream_si256((void *)out, _mm256_loadu_si256(v));
#endif
#if defined(__x86_64__)
    if (bytes == 16) _mm_stream_si128((void *)out, _mm_loadu_si128(v));
#else
    memcpy(out, v, bytes);
#endif
}

// Needed after streamed stores, before other threads hear that they are done.
#if defined(__x86_64__)
#define END_STREAM(streams) ((streams) ? _mm_sfence() : (void)0)
#else
#define END_STREAM(streams) ((void)0)
#endif

// Copies the bytes in parts that do not overlap.
INLINE void copy_part(char *out, const char *in, int64_t bytes) {
    for (; bytes >= 16; bytes -= 16, out += 16, in += 16) memcpy(out, in, 16);
    if (bytes & 8) memcpy(out, in, 8), out += 8, in += 8;
    if (bytes & 4) memcpy(out, in, 4), out += 4, in += 4;
    if (bytes & 2) memcpy(out, in, 2), out += 2, in += 2;
    if (bytes & 1) *out = *in;
}

// Copies a run of at least WIDE bytes. memcpy is not used: if the output is 1 to 16 bytes after the source modulo 4 KiB, the instruction
// of C libraries takes 10 to 20 times as long.
INLINE void copy_run(char *out, const char *in, int64_t bytes, int streams) {
    int64_t i = 0;
    if (streams) {
        i = -(uintptr_t)out & (LINE - 1);
        copy_part(out, in, i);
        for (const int64_t end = i + (bytes - i) / LINE * LINE; i < end; i += WIDE) stream(out + i, in + i, WIDE);
        copy_part(out + i, in + i, bytes - i);
        return;
    }
    for (wide a, b, c, d; i + 4 * WIDE <= bytes; i += 4 * WIDE) {
        a = load(in + i), b = load(in + i + WIDE), c = load(in + i + 2 * WIDE), d = load(in + i + 3 * WIDE);
        store(out + i, a), store(out + i + WIDE, b), store(out + i + 2 * WIDE, c), store(out + i + 3 * WIDE, d);
    }
    for (; i + WIDE < bytes; i += WIDE) store(out + i, load(in + i));
    store(out + bytes - WIDE, load(in + bytes - WIDE));
}
