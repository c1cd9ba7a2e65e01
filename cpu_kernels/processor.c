#include "processor.h"

#include <stdatomic.h>
#include <stddef.h>

enum { UNKNOWN_CACHE = 16 << 20 };  // bytes of the last cache that are assumed if the processor does not report them

#if defined(__x86_64__)
#include <cpuid.h>

// Returns the widest instruction set of the processor, if the system saves its registers. __builtin_cpu_supports cannot be used: compiled
// by zig, it always returns 0.
static enum isa widest_loops(void) {
    const unsigned avx2 = bit_AVX2 | bit_BMI | bit_BMI2, avx512 = bit_AVX512F | bit_AVX512BW | bit_AVX512DQ | bit_AVX512VL;
    unsigned a, b, c, d, kept, high;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_OSXSAVE)) return BASELINE;
    __asm__("xgetbv" : "=a"(kept), "=d"(high) : "c"(0));
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || (kept & 0x6) != 0x6 || (b & avx2) != avx2) return BASELINE;
    return (kept & 0xE0) == 0xE0 && (b & avx512) == avx512 && c & bit_AVX512VBMI ? AVX512 : AVX2;
}

// Finds the bytes of the last cache, and the number of CPUs that share it. The leaves of Intel and AMD list caches from the first level on.
static void read_last_cache(int64_t *bytes, int64_t *sharing) {
    static const unsigned leaves[] = {4, 0x8000001D};
    unsigned a, b, c, d;
    for (int leaf = 0; leaf < 2 && !*bytes; ++leaf)
        for (unsigned i = 0; __get_cpuid_count(leaves[leaf], i, &a, &b, &c, &d) && a & 0x1F; ++i) {
            *bytes = (int64_t)((b >> 22) + 1) * ((b >> 12 & 0x3FF) + 1) * ((b & 0xFFF) + 1) * ((int64_t)c + 1);
            *sharing = (a >> 14 & 0xFFF) + 1;
        }
}
#else
static void read_last_cache(int64_t *bytes, int64_t *sharing) { (void)bytes, (void)sharing; }
#endif

int64_t last_cache(int cpus) {
    static _Atomic int64_t known, sharers;  // read once, because CPUID takes long under a hypervisor
    int64_t bytes = atomic_load(&known), sharing = atomic_load(&sharers);
    if (!bytes || !sharing) {
        bytes = 0, sharing = 1;
        read_last_cache(&bytes, &sharing);
        if (!bytes) bytes = UNKNOWN_CACHE;
        atomic_store(&known, bytes), atomic_store(&sharers, sharing);
    }
    return cpus < sharing ? bytes / sharing * cpus : bytes;
}

const loops *choose_loops(int64_t wanted) {
#if defined(__x86_64__)
    const enum isa widest = widest_loops();
    const int avx2 = widest != BASELINE, avx512 = widest == AVX512;
    if (wanted == AVX512 || (wanted == BEST && avx512)) return avx512 ? &loops_avx512 : NULL;
    if (wanted == AVX2 || (wanted == BEST && avx2)) return avx2 ? &loops_avx2 : NULL;
    return wanted == BEST || wanted == BASELINE ? &loops_baseline : NULL;
#elif defined(__aarch64__)
    return wanted == BEST || wanted == NEON ? &loops_neon : NULL;
#else
    return wanted == BEST || wanted == BASELINE ? &loops_baseline : NULL;
#endif
}
