// engine_smoke LIBRARY: loads an engine for any platform and runs a few plans with every instruction set of the machine. Exit code 0 if all
// bytes are as written here. ci/wheels runs it where Python does not: under qemu-user and Wine.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../cpu_kernels/engine.h"

#ifdef _WIN32
#include <windows.h>
#define OPEN(path) LoadLibraryA(path)
#define SYMBOL(library, name) ((void *)GetProcAddress(library, name))
#else
#include <dlfcn.h>
#define OPEN(path) dlopen(path, RTLD_NOW)
#define SYMBOL(library, name) dlsym(library, name)
#endif

enum { HEAD = sizeof(plan_head) / sizeof(int64_t), MOST_WORDS = 64, ROWS = 5000, WIDTH = 100 };

static program *(*prepare)(const int64_t *, int64_t);
static void (*release)(program *);
static int64_t (*run)(const program *, const void *, const void *, void *);
static const char *(*describe)(const program *);
static const char *const names[] = {"best", "baseline", "avx2", "avx512", "neon"};
static int64_t loops;  // enum isa, for all plans below
static int runs, failures;

static program *prepared(plan_head head, const int64_t *rest, size_t bytes) {
    int64_t words[MOST_WORDS];
    head.loops = loops;
    memcpy(words, &head, sizeof head);
    memcpy(words + HEAD, rest, bytes);
    return prepare(words, HEAD + (int64_t)(bytes / sizeof(int64_t)));
}

static void check(const char *what, plan_head head, const int64_t *rest, size_t rest_bytes, const void *data, const void *indices,
                  const void *expected, size_t bytes, int64_t result) {
    program *made = prepared(head, rest, rest_bytes);
    if (!made) {
        printf("%s, %s: refused\n", what, names[loops]);
        ++failures;
        return;
    }
    char *out = malloc(bytes + 1);
    memset(out, 0xA5, bytes + 1);
    const int64_t got = run(made, data, indices, out);
    const int same = !expected || !memcmp(out, expected, bytes);
    if (got != result || !same || (unsigned char)out[bytes] != 0xA5) {
        printf("%s, %s: returned %lld, %lld was expected; bytes %s: %s\n", what, names[loops], (long long)got, (long long)result,
               same ? "equal" : "differ", describe(made));
        ++failures;
    }
    ++runs;
    free(out);
    release(made);
}

#define CHECK(what, head, rest, data, indices, expected, bytes, result) \
    check(what, head, rest, sizeof rest, data, indices, expected, bytes, result)

static void copies(void) {
    const uint32_t data[] = {1, 2, 3, 4, 5}, reversed[] = {5, 4, 3, 2, 1};
    const plan_head backwards = {.rank = 1, .element_bytes = 4, .in_extent = 5, .out_extent = 5, .in_offset = 4};
    CHECK("reversed", backwards, ((int64_t[]){5, 1, -1}), data, NULL, reversed, sizeof reversed, -1);

    const uint8_t table[] = {1, 2, 3, 4, 5, 6}, transposed[] = {1, 4, 2, 5, 3, 6};
    const plan_head across = {.rank = 2, .element_bytes = 1, .in_extent = 6, .out_extent = 6};
    CHECK("transposed", across, ((int64_t[]){3, 2, 2, 1, 1, 3}), table, NULL, transposed, sizeof transposed, -1);

    const plan_head outside = {.rank = 1, .element_bytes = 4, .in_extent = 4, .out_extent = 5};
    if (prepared(outside, (int64_t[]){5, 1, 1}, 3 * sizeof(int64_t))) printf("a read outside the input was not refused\n"), ++failures;
}

// Indices -1, 0, 9, -9, 2 into four positions.
static void policies(void) {
    const uint16_t data[] = {10, 11, 12, 13}, clamped[] = {13, 10, 13, 10, 12}, filled[] = {13, 10, 77, 77, 12};
    const int64_t wide[] = {-1, 0, 9, -9, 2}, rest[] = {5, 1, 0, 0, 4, 4, 1, 1}, good[] = {-1, 0, 3, -4, 2};
    const int32_t narrow[] = {-1, 0, 9, -9, 2};
    plan_head head = {.rank = 1, .lookups = 1, .element_bytes = 2, .index_bytes = 8, .index_signed = 1, .policy = CLAMP};
    head.in_extent = 4, head.index_extent = 5, head.out_extent = 5;
    CHECK("clamped", head, rest, data, wide, clamped, sizeof clamped, -1);
    head.policy = RAISE;
    CHECK("raised", head, rest, data, wide, NULL, sizeof clamped, 2);
    CHECK("raised for none", head, rest, data, good, clamped, sizeof clamped, -1);
    head.policy = PROMISE;
    CHECK("promised", head, rest, data, good, clamped, sizeof clamped, -1);
    head.policy = FILL, head.index_bytes = 4;
    const uint16_t seventy_seven = 77;
    memcpy(head.fill, &seventy_seven, sizeof seventy_seven);
    CHECK("filled", head, rest, data, narrow, filled, sizeof filled, -1);
}

// Rows in reverse, by indices, on four threads.
static void threads(void) {
    static uint32_t data[ROWS][WIDTH], expected[ROWS][WIDTH], indices[ROWS];
    for (uint32_t row = 0; row < ROWS; ++row) {
        indices[row] = ROWS - 1 - row;
        for (uint32_t k = 0; k < WIDTH; ++k) data[row][k] = row * WIDTH + k, expected[row][k] = (ROWS - 1 - row) * WIDTH + k;
    }
    const plan_head head = {.rank = 2, .lookups = 1, .element_bytes = 4, .index_bytes = 4, .policy = CLAMP, .threads = 4,
                            .in_extent = ROWS * WIDTH, .index_extent = ROWS, .out_extent = ROWS * WIDTH};
    const int64_t rest[] = {ROWS, WIDTH, WIDTH, 1, 0, 1, 0, ROWS, 0, WIDTH, 1, 0};
    for (int round = 0; round < 20; ++round) CHECK("rows on threads", head, rest, data, indices, expected, sizeof expected, -1);
}

int main(int count, char **arguments) {
    if (count != 2) return fprintf(stderr, "usage: engine_smoke LIBRARY\n"), 2;
    void *library = (void *)OPEN(arguments[1]);
    if (!library) return fprintf(stderr, "engine_smoke: %s cannot be loaded\n", arguments[1]), 2;
    *(void **)&prepare = SYMBOL(library, "dmlgather_prepare");
    *(void **)&release = SYMBOL(library, "dmlgather_free");
    *(void **)&run = SYMBOL(library, "dmlgather_run");
    *(void **)&describe = SYMBOL(library, "dmlgather_describe");
    if (!prepare || !release || !run || !describe) return fprintf(stderr, "engine_smoke: %s lacks a function\n", arguments[1]), 2;

    const plan_head one = {.rank = 1, .element_bytes = 1, .in_extent = 1, .out_extent = 1};
    for (loops = BEST; loops <= NEON; ++loops) {
        program *made = prepared(one, (int64_t[]){1, 1, 1}, 3 * sizeof(int64_t));
        if (!made) continue;  // the machine lacks it; the best one always exists
        release(made);
        copies(), policies(), threads();
        printf("%s ", names[loops]);
    }
    printf("%d runs, %d failures\n", runs, failures);
    return failures || !runs;
}
