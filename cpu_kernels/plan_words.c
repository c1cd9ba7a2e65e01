#include "plan_words.h"

enum { MOST_DIMS = 1 << 16 };

int moves(const plan_view *plan, int64_t axis) {
    for (int64_t k = 0; k < plan->head->lookups && plan->shape[axis] != 1; ++k)
        if (lookup_words(plan, k)[4 + axis]) return 1;
    return 0;
}

int is_empty(const plan_view *plan) {
    for (int64_t d = 0; d < plan->head->rank; ++d)
        if (!plan->shape[d]) return 1;
    return 0;
}

int looks_into_nothing(const plan_view *plan) {
    for (int64_t k = 0; k < plan->head->lookups; ++k)
        if (!lookup_words(plan, k)[1]) return 1;
    return 0;
}

// The interval of all sums of an offset and terms.
typedef struct {
    wide_int low, high;
    int fits;  // 1 if all partial sums fit in 64 bits, for any order of the terms
} span;

static void add_term(span *s, int64_t count, int64_t step) {
    const wide_int end = (wide_int)(count - 1) * step;
    if (end < 0) s->low += end;
    else s->high += end;
    if (s->low < INT64_MIN / 2 || s->high > INT64_MAX / 2) s->fits = 0, s->low = s->high = 0;
}

static int inside(const span *s, int64_t extent) { return s->fits && s->low >= 0 && s->high < extent; }

// Returns 1 if fields agree with each other, and products of sizes do not overflow.
static int fields_agree(const plan_view *plan) {
    const plan_head *head = plan->head;
    const int64_t element = head->element_bytes, index = head->index_bytes;
    if (element < 1 || element > 16 || element & (element - 1)) return 0;
    if (head->lookups ? index < 1 || index > 8 || index & (index - 1) : index != 0) return 0;
    if (head->policy < CLAMP || head->policy > PROMISE || head->threads < 0 || head->block_units < 0) return 0;
    if (head->in_extent < 0 || head->out_extent < 0 || head->index_extent < 0) return 0;
    if (head->in_extent > INT64_MAX / 2 / element || head->out_extent > INT64_MAX / 2 / element) return 0;
    if (index && head->index_extent > INT64_MAX / 2 / index) return 0;
    wide_int elements = element;
    for (int64_t d = 0; d < head->rank; ++d) {
        if (plan->shape[d] < 0) return 0;
        if (plan->shape[d] && (elements *= plan->shape[d]) > INT64_MAX / 2) return 0;
    }
    for (int64_t k = 0; k < head->lookups; ++k) {
        const int64_t limit = lookup_words(plan, k)[1], wrap = lookup_words(plan, k)[2];
        if (limit < 0 || wrap < 0 || (wrap && !head->index_signed)) return 0;
    }
    return 1;
}

// Returns 1 if every address that the plan can form lies in its extent.
static int is_safe(const plan_view *plan) {
    const plan_head *head = plan->head;
    const int empty = is_empty(plan), nowhere = looks_into_nothing(plan);
    if (!empty) {
        span in = {head->in_offset, head->in_offset, 1}, out = {head->out_offset, head->out_offset, 1};
        for (int64_t d = 0; d < head->rank; ++d) {
            if (plan->shape[d] > 1 && !plan->out_strides[d]) return 0;
            add_term(&in, plan->shape[d], plan->in_strides[d]);
            add_term(&out, plan->shape[d], plan->out_strides[d]);
        }
        for (int64_t k = 0; k < head->lookups && !nowhere; ++k) add_term(&in, lookup_words(plan, k)[1], lookup_words(plan, k)[3]);
        if (!inside(&out, head->out_extent) || (!nowhere && !inside(&in, head->in_extent))) return 0;
        if (nowhere && head->policy != FILL && head->policy != RAISE) return 0;
    }
    if ((empty && head->policy != RAISE) || (nowhere && head->policy == FILL)) return 1;  // indices are not read
    for (int64_t k = 0; k < head->lookups; ++k) {
        span index = {lookup_words(plan, k)[0], lookup_words(plan, k)[0], 1};
        for (int64_t d = 0; d < head->rank; ++d) {
            if (!moves(plan, d)) continue;
            if (!plan->shape[d]) return 1;
            add_term(&index, plan->shape[d], lookup_words(plan, k)[4 + d]);
        }
        if (!inside(&index, head->index_extent)) return 0;
    }
    return 1;
}

int read_plan(const int64_t *words, int64_t count, plan_view *plan) {
    const plan_head *head = (const plan_head *)words;
    const int64_t head_words = sizeof *head / sizeof *words, *const shape = words + head_words;
    if (count < head_words || head->rank < 0 || head->rank > MOST_DIMS || head->lookups < 0 || head->lookups > MOST_DIMS) return 0;
    if (count != head_words + 3 * head->rank + head->lookups * (4 + head->rank)) return 0;
    *plan = (plan_view){head, shape, shape + head->rank, shape + 2 * head->rank, shape + 3 * head->rank};
    return fields_agree(plan) && is_safe(plan);
}
