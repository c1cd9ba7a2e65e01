// array_calls_driver: calls on array objects and a record in memory of exactly their size, so that a sanitizer sees what is read
// beyond them. Exit code 1 at the first call that is wrong, with its number on standard error.
#include "arrays.c"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_RANK = 4, TRUE = 8, FALSE = 16 };

static int64_t runs, unlocked;
static char array_type, element_type;

int64_t dmlgather_run(const program *p, const void *data, const void *indices, void *out) {
    (void)p, (void)data, (void)indices, (void)out;
    return ++runs, -1;
}

static const char *bytes_of(void *self) { return self; }
static void *truth(long value) { return (void *)(intptr_t)(value ? TRUE : FALSE); }
static void *unlock(void) { return ++unlocked, &unlocked; }
static void lock(void *state) { --*(int64_t *)state; }

static int64_t *steps_of(int64_t rank) {
    int64_t *const steps = malloc((size_t)rank * sizeof *steps);
    for (int64_t d = 0; d < rank; ++d) steps[d] = d + 2;
    return steps;
}

static void *array_of(int rank, const char *data) {
    const array_object made = {1, &array_type, data, rank, rank ? steps_of(rank) : NULL, rank ? steps_of(rank) : NULL, NULL, &element_type, WRITEABLE};
    void *const array = malloc(offsetof(array_object, flags) + sizeof(int));  // no byte behind the last field that is read
    memcpy(array, &made, offsetof(array_object, flags) + sizeof(int));
    return array;
}

static void release(void *given) {
    const array_object *const array = given;
    free((void *)array->sizes), free((void *)array->strides), free(given);
}

// A record for `count` arrays of these ranks, of 8 bytes each.
static int64_t *record_of(int count, const int *ranks, int64_t small) {
    size_t words = sizeof(fast_path) / 8;
    for (int i = 0; i < count; ++i) words += sizeof(array_form) / 8 + 2 * (size_t)ranks[i];
    int64_t *const record = malloc(words * 8), *at = record;
    *at++ = 0, *at++ = small, *at++ = count;
    for (int i = 0; i < count; ++i) {
        *at++ = (int64_t)(intptr_t)&element_type, *at++ = ranks[i], *at++ = 0, *at++ = 8;
        for (int k = 0; k < 2 * ranks[i]; ++k) *at++ = k % ranks[i] + 2;
    }
    return record;
}

int main(void) {
    static char room[3][8];
    dmlgather_use(&(python_functions){&array_type, bytes_of, truth, unlock, lock});
    for (int number = 0; number < 2 * 2 * MOST_RANK * MOST_RANK * MOST_RANK; ++number) {
        const int small = number & 1, count = 2 + (number >> 1 & 1), kind = number >> 2;
        const int ranks[] = {kind % MOST_RANK, kind / MOST_RANK % MOST_RANK, kind / MOST_RANK / MOST_RANK};
        int64_t *const record = record_of(count, ranks, small), before = runs;
        void *arrays[MOST_ARRAYS + 1];
        for (int i = 0; i < count; ++i) arrays[i] = array_of(ranks[i], room[i]);
        int right = dmlgather_call(record, arrays, count) == truth(1) && runs == before + 1 && unlocked == 0;
        for (int i = 0; i < count; ++i) {
            void *const own = arrays[i], *const other = array_of(ranks[i] + 1, room[i]);
            arrays[i] = other;
            right = right && dmlgather_call(record, arrays, count) == truth(0);
            arrays[i] = malloc(2 * sizeof(void *));  // an object that is no array, as short as one may be
            memset(arrays[i], 0, 2 * sizeof(void *));
            right = right && dmlgather_call(record, arrays, count) == truth(0);
            free(arrays[i]), release(other);
            arrays[i] = own;
        }
        right = right && dmlgather_call(record, arrays, count - 1) == truth(0) && dmlgather_call(record, arrays, count + 1) == truth(0);
        right = right && runs == before + 1;
        for (int i = 0; i < count; ++i) release(arrays[i]);
        free(record);
        if (!right) return fprintf(stderr, "call %d\n", number), 1;
    }
    return 0;
}
