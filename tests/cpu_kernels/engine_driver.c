// engine_driver FILE: runs the cases of a file (tests/cpu_kernels/cases.py writes it) in buffers of exact size and compares every byte.
//
// It prints the number of each case before the case runs, and behind it what the engine says of the program, so that a crash names its
// case. Exit code 1 at the first case that is wrong, with the reason on standard error.
//
// A sanitizer watches what lies around memory of malloc. Other builds put a page without access before and behind each buffer.
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { SANITIZED = 1 };
#else
enum { SANITIZED = 0 };
#endif

enum {
    PAGE = 4096,
    LINE = 64,
    AT_END = LINE,        // as the address of a buffer: it ends where its memory ends
    EITHER = 2,
    LARGE = 1 << 28,      // bytes from which a buffer is sparse: only its parts and the pages that were touched are looked at
    SLACK = 0xA5,         // what lies before and behind a buffer in its memory
    MOST_CALLERS = 8,
};

// ---- The file -------------------------------------------------------------------------------------------------------------------------

typedef struct {
    int64_t words, stated;  // words of the plan, and how many dmlgather_prepare is told
    int64_t accepted;       // whether dmlgather_prepare must return a program; EITHER: it may
    int64_t callers;        // threads that call at once; 0: nobody runs the program
    int64_t ambiguous;      // whether positions share addresses, so that the output depends on their order
    int64_t returned;       // by dmlgather_run
} case_head;

// A buffer is bytes at an address (modulo LINE, or AT_END), all zero but for its parts: offset, bytes and content of each.
typedef struct {
    int64_t bytes, at, parts;
    const char *first;
} buffer;

typedef struct {
    int64_t offset, bytes;
    const char *content;
} part;

static const char *cursor;

static const char *take(int64_t bytes) {
    const char *const taken = cursor;
    cursor += (bytes + 7) / 8 * 8;
    return taken;
}

static part take_part(const char **at) {
    part p;
    memcpy(&p, *at, 16);
    p.content = *at + 16;
    *at = p.content + (p.bytes + 7) / 8 * 8;
    return p;
}

static buffer take_buffer(void) {
    buffer b;
    memcpy(&b, take(24), 24);
    b.first = cursor;
    for (int64_t i = 0; i < b.parts; ++i) take_part(&cursor);
    return b;
}

// ---- Buffers --------------------------------------------------------------------------------------------------------------------------

typedef struct {
    char *start, *base;  // of what was allocated; of the buffer
    size_t length;       // allocated
} memory;

static void *require(void *allocated) {
    if (!allocated || allocated == MAP_FAILED) fprintf(stderr, "no memory\n"), exit(2);
    return allocated;
}

static memory allocate(const buffer *b) {
    memory m;
    if (SANITIZED && b->bytes < LARGE) {
        const size_t before = (size_t)b->at % LINE;
        m.length = before + (size_t)b->bytes;
        void *start = NULL;
        if (posix_memalign(&start, LINE, m.length)) require(NULL);
        m.start = start;
        m.base = m.start + before;
    } else {
        m.length = ((size_t)b->at % LINE + (size_t)b->bytes + PAGE - 1) / PAGE * PAGE;
        char *const guarded = require(mmap(NULL, m.length + 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
        m.start = guarded + PAGE;
        if (m.length && mprotect(m.start, m.length, PROT_READ | PROT_WRITE)) require(NULL);
        m.base = b->at == AT_END ? m.start + m.length - b->bytes : m.start + b->at;
    }
    if (b->bytes < LARGE) memset(m.start, SLACK, m.length);
    if (b->bytes < LARGE) memset(m.base, 0, (size_t)b->bytes);
    return m;
}

static void release(memory *m, const buffer *b) {
    if (SANITIZED && b->bytes < LARGE) free(m->start);
    else munmap(m->start - PAGE, m->length + 2 * PAGE);
}

static void write_parts(const memory *m, const buffer *b) {
    const char *at = b->first;
    for (int64_t i = 0; i < b->parts; ++i) {
        const part p = take_part(&at);
        memcpy(m->base + p.offset, p.content, (size_t)p.bytes);
    }
}

// The offset of the first byte that is not `right`'s, nor `other`'s if there is such a buffer (its parts are those of `right`); -1: none.
// A sparse buffer is all zero afterwards.
static int64_t first_wrong(const memory *m, const buffer *right, const buffer *other) {
    const char *at = right->first, *also = other ? other->first : NULL;
    for (int64_t i = 0; i < right->parts; ++i) {
        const part p = take_part(&at);
        const char *const second = other ? take_part(&also).content : p.content;
        char *const found = m->base + p.offset;
        if (memcmp(found, p.content, (size_t)p.bytes))
            for (int64_t k = 0; k < p.bytes; ++k)
                if (found[k] != p.content[k] && found[k] != second[k]) return p.offset + k;
        if (right->bytes >= LARGE) memset(found, 0, (size_t)p.bytes);
    }
    const int sparse = right->bytes >= LARGE;
    const size_t pages = m->length / PAGE;
    unsigned char *const touched = sparse ? require(malloc(pages)) : NULL;
    if (sparse && mincore(m->start, m->length, touched)) require(NULL);
    for (size_t k = 0; sparse && k < pages; ++k)
        for (size_t i = 0; (touched[k] & 1) && i < PAGE; ++i)
            if (m->start[k * PAGE + i]) return (int64_t)(k * PAGE + i);
    free(touched);
    for (char *c = m->start; !sparse && c < m->start + m->length; c = c + 1 == m->base ? m->base + right->bytes : c + 1)
        if ((c < m->base || c >= m->base + right->bytes) && (unsigned char)*c != SLACK) return c - m->base;
    return -1;
}

// ---- Cases ----------------------------------------------------------------------------------------------------------------------------

typedef struct {
    const program *program;
    const case_head *head;
    const buffer *data, *indices, *out, *expected;
    const memory *in, *index;
} job;

static void fail(const char *what, int64_t found, int64_t right) {
    fprintf(stderr, "%s: %lld, expected %lld\n", what, (long long)found, (long long)right);
    exit(1);
}

// Runs the program by both functions. What RAISE leaves behind is incomplete: each byte is what it was or what CLAMP writes.
static void *call(void *shared) {
    const job *const j = shared;
    memory out = allocate(j->out);
    const void *const indices = j->indices->bytes ? j->index->base : NULL;
    for (int bound = 0; bound < 2; ++bound) {
        write_parts(&out, j->out);
        const bound_call all = {j->program, j->in->base, indices, out.base};
        const int64_t returned = bound ? dmlgather_run_bound(&all) : dmlgather_run(j->program, j->in->base, indices, out.base);
        if (returned != j->head->returned) fail("returned", returned, j->head->returned);
        const int64_t wrong = j->head->ambiguous ? -1 : first_wrong(&out, j->expected, returned < 0 ? NULL : j->out);
        if (wrong != -1) fail("byte of the output that is wrong", wrong, -1);
    }
    release(&out, j->out);
    return NULL;
}

static void run_program(job *j) {
    memory in = allocate(j->data), index = allocate(j->indices);
    write_parts(&in, j->data);
    write_parts(&index, j->indices);
    j->in = &in;
    j->index = &index;
    pthread_t others[MOST_CALLERS];
    for (int64_t i = 1; i < j->head->callers; ++i)
        if (pthread_create(&others[i], NULL, call, j)) require(NULL);
    call(j);
    for (int64_t i = 1; i < j->head->callers; ++i) pthread_join(others[i], NULL);
    if (first_wrong(&in, j->data, NULL) != -1) fail("the input was written", 1, 0);
    if (first_wrong(&index, j->indices, NULL) != -1) fail("the indices were written", 1, 0);
    release(&in, j->data);
    release(&index, j->indices);
}

static void run_case(void) {
    case_head head;
    memcpy(&head, take(sizeof head), sizeof head);
    const size_t bytes = (size_t)head.words * 8;
    int64_t *const words = require(malloc(bytes));  // exact, and gone before the program runs
    memcpy(words, take((int64_t)bytes), bytes);
    program *const p = dmlgather_prepare(words, head.stated);
    memset(words, 0xFF, bytes);
    free(words);
    if (!!p != head.accepted && head.accepted != EITHER) fail("accepted", !!p, head.accepted);
    if (p) printf(" %s", dmlgather_describe(p));
    fflush(stdout);
    const buffer data = take_buffer(), indices = take_buffer(), out = take_buffer(), expected = take_buffer();
    job j = {p, &head, &data, &indices, &out, &expected, NULL, NULL};
    if (p && head.callers) run_program(&j);
    dmlgather_free(p);
}

int main(int count, char **arguments) {
    const int file = count == 2 ? open(arguments[1], O_RDONLY) : -1;
    struct stat about;
    if (file < 0 || fstat(file, &about) || !about.st_size) return fprintf(stderr, "usage: engine_driver FILE\n"), 2;
    cursor = require(mmap(NULL, (size_t)about.st_size, PROT_READ, MAP_PRIVATE, file, 0));
    const char *const end = cursor + about.st_size;
    for (int number = 0; cursor < end; ++number) {
        printf("%s%d", number ? "\n" : "", number);
        fflush(stdout);
        run_case();
    }
    return printf("\n"), 0;
}
