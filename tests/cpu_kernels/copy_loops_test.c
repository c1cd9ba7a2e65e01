// Random boxes through the copy loops of one instruction set (ISA), in buffers that end with the box, against a loop of bytes.
// usage: copy_loops_test SEED BOXES. Prints how often each loop was chosen. Exit 1: a wrong byte; 3: this processor lacks the instructions.
// Compiled for every processor: only copy_loops.c has the flags of its instruction set.
#include "copy_loops.h"
#include "pieces.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(address, bytes) ((void)(address), (void)(bytes))
#define ASAN_UNPOISON_MEMORY_REGION(address, bytes) ((void)(address), (void)(bytes))
#endif

#define JOINED(name, isa) name##_##isa
#define NAMED(name, isa) JOINED(name, isa)
#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)

extern const int64_t widest_window;  // copy_loops_window.c

static uint64_t state;

static int64_t below(int64_t n) {  // splitmix64
    uint64_t z = state += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9, z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return (int64_t)((z ^ z >> 31) % (uint64_t)n);
}
static int64_t sign(void) { return below(2) ? 1 : -1; }

// The bytes that a box touches on one side: low to high, from its first unit.
static void hull(const copy_box *b, int64_t s0, int64_t s1, int64_t *low, int64_t *high) {
    const int64_t end0 = (b->n0 - 1) * s0, end1 = (b->n1 - 1) * s1;
    *low = (end0 < 0 ? end0 : 0) + (end1 < 0 ? end1 : 0);
    *high = (end0 > 0 ? end0 : 0) + (end1 > 0 ? end1 : 0) + b->unit;
}

typedef struct {
    char *memory, *first;  // first: where the box's first unit lies
    int64_t bytes, before;
} buffer;

// Exactly the box's bytes after `before` poisoned ones, filled with random bytes or with `fill`.
static buffer make(const copy_box *b, int64_t s0, int64_t s1, int fill) {
    int64_t low, high;
    hull(b, s0, s1, &low, &high);
    buffer m = {.before = below(3) ? below(128) : 0};
    m.bytes = m.before + high - low;
    m.memory = malloc(m.bytes);
    m.first = m.memory + m.before - low;
    for (int64_t i = 0; i < m.bytes; i++) m.memory[i] = (char)(fill < 0 ? below(256) : fill);
    ASAN_POISON_MEMORY_REGION(m.memory, m.before);
    return m;
}

static copy_box random_box(void) {
    static const int64_t units[] = {1, 1, 1, 2, 2, 3, 3, 4, 4, 5, 6, 7, 8, 8, 12, 13, 16, 17, 24, 31, 32, 33, 48, 63, 64, 65, 100, 200};
    copy_box b = {.unit = units[below(28)]};
    const int shape = (int)below(10);
    b.n0 = 1 + below(shape < 3 ? 4 : shape < 6 ? 30 : 90), b.n1 = 1 + below(shape == 0 ? 1500 : shape == 3 ? 6 : shape < 6 ? 200 : 90);
    if (below(40) == 0) b.unit = 2000 + below(4000), b.n0 = 1 + below(3), b.n1 = 1 + below(3);
    const int64_t gap = below(3) ? 0 : below(70);
    b.out1 = b.unit + (below(5) ? 0 : below(20)), b.out0 = b.n1 * b.out1 + gap;
    if (below(12) == 0) b.out0 = b.unit + below(9), b.out1 = b.n0 * b.out0 + gap;
    if (below(8) == 0) b.out0 = -b.out0;
    if (below(20) == 0) b.out1 = -b.out1;
    b.in1 = below(3) ? sign() * below(6) * b.unit : below(2) ? -b.unit : sign() * below(300);
    b.in0 = below(2) ? b.n1 * (b.in1 < 0 ? -b.in1 : b.in1) + below(9) : sign() * below(200);
    if (below(3) == 0) b.in0 = sign() * (below(4) ? b.unit : below(60)), b.in1 = sign() * (b.n0 * b.unit + (below(2) ? 0 : below(100)));
    if (below(8) == 0 && b.unit <= 8) b.out0 = (b.n1 * b.unit + 63) / 64 * 64, b.out1 = b.unit;
    return b;
}

static const char *names[32];
static int64_t counts[32];

static void count(const char *name) {
    int i = 0;
    while (names[i] && strcmp(names[i], name)) i++;
    names[i] = name, counts[i]++;
}

static void check(void) {
    const copy_box whole = random_box();
    const int streams = (int)below(2);
    const copy_choice choice = NAMED(choose_copy, ISA)(&whole, streams);
    count(choice.name);
    copy_box b = whole;
    if (below(3) == 0) b.n0 = 1 + below(b.n0), b.n1 = 1 + below(b.n1);
    const buffer in = make(&b, b.in0, b.in1, -1), out = make(&b, b.out0, b.out1, 0xa5);
    for (int64_t times = 1 + below(2); times > 0; times--) choice.run(out.first, in.first, &b);

    char *expected = malloc(out.bytes);
    memset(expected, 0xa5, out.bytes);
    for (int64_t i = 0; i < b.n0; i++)
        for (int64_t j = 0; j < b.n1; j++)
            for (int64_t k = 0; k < b.unit; k++)
                expected[out.first - out.memory + i * b.out0 + j * b.out1 + k] = in.first[i * b.in0 + j * b.in1 + k];
    ASAN_UNPOISON_MEMORY_REGION(in.memory, in.before);
    ASAN_UNPOISON_MEMORY_REGION(out.memory, out.before);
    for (int64_t i = 0; i < out.bytes; i++)
        if (out.memory[i] != expected[i]) {
            printf("%s%s: unit %" PRId64 ", n %" PRId64 " x %" PRId64 ", out %" PRId64 " %" PRId64 ", in %" PRId64 " %" PRId64
                   ": byte %" PRId64 " of %" PRId64 " is wrong\n",
                   choice.name, streams ? ", streams" : "", b.unit, b.n0, b.n1, b.out0, b.out1, b.in0, b.in1, i - out.before,
                   out.bytes - out.before);
            fflush(stdout);
            _exit(1);  // not exit: what is not freed here is no leak
        }
    free(in.memory), free(out.memory), free(expected);
}

// Random pieces: dimensions of the output that lie side by side, in two more that lie apart.
static void check_pieces(void) {
    static const int64_t units[] = {1, 1, 1, 2, 2, 3, 4, 4, 6, 8, 12, 16};
    const int64_t unit = units[below(12)];
    const int rank = 1 + (int)below(4), most = rank < 3 ? 90 : 9;
    piece_dim dims[4];
    for (int64_t d = rank - 1, out = unit; d >= 0; out *= dims[d--].size) {
        const int64_t in = below(6) ? below(3) ? sign() * below(8) * unit : sign() * below(400) : 0;
        dims[d] = (piece_dim){2 + below(d ? most : 9 * most), out, in};
    }
    int column = 0;
    piece *const p = best_piece(dims, rank, unit, widest_window, 1e9, &column);
    if (!p) return;
    copy_box b = {.unit = dims[column].out, .n0 = 1 + below(5), .n1 = p->positions + below(below(3) ? 9 : 300), .piece = p};
    b.out1 = b.unit, b.in1 = dims[column].in;
    b.out0 = b.n1 * b.out1 + (below(2) ? below(100) : 0), b.in0 = below(2) ? sign() * below(40) : sign() * below(5000);
    if (below(3) == 0) b.out0 = (b.out0 + 63) / 64 * 64;
    const int streams = (int)below(2);
    count(streams ? "streamed pieces" : "pieces");
    copy_box covered = b;  // the source: as many bytes as all positions reach
    covered.unit = 1;
    int64_t low = 0, high = unit, source_low, source_high;
    for (int d = column + 1; d < rank; ++d) {
        const int64_t reach = (dims[d].size - 1) * dims[d].in;
        if (reach < 0) low += reach;
        else high += reach;
    }
    hull(&covered, b.in0, b.in1, &source_low, &source_high);
    const int64_t bytes = source_high - 1 + high - source_low - low;
    char *const memory = malloc(bytes), *const first = memory - source_low - low;
    for (int64_t i = 0; i < bytes; ++i) memory[i] = (char)below(256);
    const buffer out = make(&b, b.out0, b.out1, 0xa5);
    NAMED(choose_copy, ISA)(&b, streams).run(out.first, first, &b);

    char *expected = malloc(out.bytes);
    memset(expected, 0xa5, out.bytes);
    for (int64_t i = 0; i < b.n0; i++)
        for (int64_t j = 0; j < b.n1 * b.unit; j++) {
            int64_t from = i * b.in0 + j / b.unit * b.in1 + j % unit, rest = j % b.unit / unit;
            for (int d = rank - 1; d > column; rest /= dims[d--].size) from += rest % dims[d].size * dims[d].in;
            expected[out.first - out.memory + i * b.out0 + j] = first[from];
        }
    ASAN_UNPOISON_MEMORY_REGION(out.memory, out.before);
    for (int64_t i = 0; i < out.bytes; i++)
        if (out.memory[i] != expected[i]) {
            printf("pieces%s: byte %" PRId64 " of %" PRId64 " is wrong\n", streams ? ", streams" : "", i - out.before, out.bytes - out.before);
            fflush(stdout);
            _exit(1);
        }
    free(memory), free(out.memory), free(expected), free(p);
}

static int supported(void) {
#if defined(__x86_64__)
    const char *isa = TEXT(ISA);
    __builtin_cpu_init();
    if (!strcmp(isa, "avx2")) return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi2");
    if (!strcmp(isa, "avx512")) return __builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("avx512vl");
#endif
    return 1;
}

int main(int argc, char **argv) {
    if (argc != 3) return 2;
    if (!supported()) return 3;
    state = strtoull(argv[1], NULL, 10);
    for (int64_t i = strtoll(argv[2], NULL, 10); i > 0; i--) check(), check_pieces();
    for (int i = 0; names[i]; i++) printf("%s %" PRId64 "\n", names[i], counts[i]);
    return 0;
}
