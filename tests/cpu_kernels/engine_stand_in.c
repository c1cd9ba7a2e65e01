// A stand-in for the CPU engine: it tells what it was given, by the names that engine.h gives the words.
#include "arrays.c"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef STATED
#define STATED INTERFACE
#endif

enum { ROOM = 1 << 16 };

struct program {
    int64_t answer;  // what runs return
    char text[ROOM];
};

static int64_t freed;
static bound_call last;
static int held;

int PyGILState_Check(void) __attribute__((weak));  // of the Python that loads this

static const int64_t *list(char *text, const char *name, const int64_t *words, int64_t count) {
    sprintf(text + strlen(text), "%s", name);
    for (int64_t at = 0; at < count; at++) sprintf(text + strlen(text), " %lld", (long long)words[at]);
    strcat(text, "\n");
    return words + count;
}

#define TELL(field) list(made->text, #field, (const int64_t *)&head->field, (int64_t)(sizeof head->field / sizeof(int64_t)))

program *dmlgather_prepare(const int64_t *plan, int64_t words) {
    const plan_head *head = (const plan_head *)plan;
    if (head->loops == NEON) return NULL;
    program *made = calloc(1, sizeof *made);
    made->answer = head->policy == RAISE ? 7 : -1;
    TELL(rank), TELL(lookups), TELL(element_bytes), TELL(index_bytes), TELL(index_signed), TELL(policy), TELL(in_extent);
    TELL(index_extent), TELL(out_extent), TELL(in_offset), TELL(out_offset), TELL(fill), TELL(threads), TELL(block_units), TELL(loops);
    const int64_t *rest = list(made->text, "shape", (const int64_t *)(head + 1), head->rank);
    rest = list(made->text, "out_strides", rest, head->rank);
    rest = list(made->text, "in_strides", rest, head->rank);
    for (int64_t number = 0; number < head->lookups; number++) {
        rest = list(made->text, "lookup", rest, 4);
        rest = list(made->text, "index_strides", rest, head->rank);
    }
    return rest == plan + words ? made : NULL;
}

void dmlgather_free(program *made) {
    freed++;
    free(made);
}

int64_t dmlgather_run(const program *made, const void *data, const void *indices, void *out) {
    last = (bound_call){made, data, indices, out};
    held = PyGILState_Check && PyGILState_Check();
    return made->answer;
}

int64_t dmlgather_run_bound(const bound_call *call) { return dmlgather_run(call->program, call->data, call->indices, call->out); }

int64_t dmlgather_interface(void) { return STATED; }
const char *dmlgather_describe(const program *made) { return made->text; }

DMLGATHER_API const bound_call *last_call(void) { return &last; }
DMLGATHER_API int lock_held(void) { return held; }
DMLGATHER_API int64_t frees(void) { return freed; }
