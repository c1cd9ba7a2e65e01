#include <stddef.h>

#include "engine.h"

// The fields of NumPy's array object (PyArrayObject_fields).
typedef struct {
    intptr_t references;
    const void *type;
    const char *data;
    int rank;
    const int64_t *sizes, *strides;
    const void *base, *element_type;
    int flags;
} array_object;

enum { WRITEABLE = 0x400, MOST_ARRAYS = 3 };

static python_functions python;

void dmlgather_use(const python_functions *given) { python = *given; }

// Returns 1 if the array has this form. Sets *low and *high to the start and the end of its elements' memory.
static int fits(const array_object *array, const array_form *form, uintptr_t *low, uintptr_t *high) {
    if (array->type != python.array_type || array->element_type != form->element_type || array->rank != form->rank) return 0;
    for (int64_t d = 0; d < form->rank; ++d)
        if (array->sizes[d] != form->steps[d] || array->strides[d] != form->steps[form->rank + d]) return 0;
    *low = (uintptr_t)array->data + (uintptr_t)form->start;
    *high = *low + (uintptr_t)form->bytes;
    return 1;
}

void *dmlgather_call(void *self, void *const *arrays, intptr_t count) {
    const fast_path *const call = (const fast_path *)python.bytes_of(self);
    const int64_t *form = call->forms;
    uintptr_t low[MOST_ARRAYS], high[MOST_ARRAYS];
    if (count != call->count) return python.truth(0);
    for (intptr_t i = 0; i < count; ++i) {
        if (!fits(arrays[i], (const array_form *)form, &low[i], &high[i])) return python.truth(0);
        form += sizeof(array_form) / sizeof *form + 2 * (size_t)((const array_form *)form)->rank;
    }
    const intptr_t out = count - 1;
    if (!(((const array_object *)arrays[out])->flags & WRITEABLE)) return python.truth(0);
    for (intptr_t i = 0; i < out; ++i)
        if (low[i] < high[out] && low[out] < high[i]) return python.truth(0);
    void *const state = call->small ? NULL : python.unlock();
    const int64_t bad = dmlgather_run(call->program, (void *)low[0], out > 1 ? (void *)low[1] : NULL, (void *)low[out]);
    if (state) python.lock(state);
    return python.truth(bad < 0);
}
