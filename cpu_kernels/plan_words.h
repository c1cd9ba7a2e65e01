// The words of a plan, and the check that the plan is safe.
#pragma once

#include "engine.h"

__extension__ typedef __int128 wide_int;

typedef struct {
    const plan_head *head;
    const int64_t *shape, *out_strides, *in_strides, *lookups;
} plan_view;

// Returns the words of a lookup: index_offset, limit, wrap, in_stride, index_strides.
static inline const int64_t *lookup_words(const plan_view *plan, int64_t number) {
    return plan->lookups + number * (4 + plan->head->rank);
}

int moves(const plan_view *, int64_t axis);         // returns 1 if a lookup moves along the axis
int is_empty(const plan_view *);                    // returns 1 if the output is empty
int looks_into_nothing(const plan_view *);          // returns 1 if a lookup has limit 0

// Returns 1 if all fields agree and every address that the plan can form lies in its extent.
int read_plan(const int64_t *words, int64_t count, plan_view *);
