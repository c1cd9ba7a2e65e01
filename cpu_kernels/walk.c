#include <assert.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "pool.h"
#include "program.h"

// One block of one call.
typedef struct {
    const program *p;
    const char *data, *indices;
    char *out;
    int64_t *lo, *n;  // first position of the block along each dimension, and number of positions
    char *offsets;
    uint8_t *bad;     // under FILL, 1 for each offset with an index out of bounds
    int64_t smallest; // under RAISE, smallest offset of a bad index
    char *strip;      // a packed copy of columns of the source; NULL: none, or no memory
    const char *stripped;  // address of these columns in the source
    int64_t columns;       // number of these columns
    plane plane;           // the dimensions of the copy loop's box
    int outer;             // the last dimension that is not inside the box's units
    int single;            // 1 if picking did not pay for an earlier block, because most blocks have the same indices
} block_work;

#ifndef NDEBUG
// Returns 1 if n0 x n1 units from `start` on lie inside the extent.
static int inside(int64_t start, int64_t n0, int64_t step0, int64_t n1, int64_t step1, int64_t unit, int64_t extent) {
    const int64_t a = (n0 - 1) * step0, b = (n1 - 1) * step1;
    return start + (a < 0 ? a : 0) + (b < 0 ? b : 0) >= 0 && start + (a > 0 ? a : 0) + (b > 0 ? b : 0) + unit <= extent;
}
#endif

// ---- Indices --------------------------------------------------------------------------------------------------------------------------

// Records the bad indices of a run: in `bad` under FILL, in `smallest` under RAISE.
static void note_bad(block_work *w, const lookup *k, int64_t start, int64_t step, int64_t n, int64_t place) {
    const program *const p = w->p;
    uint8_t *const bad = w->bad + place;
    if (p->policy == RAISE) memset(bad, 0, (size_t)n);
    p->loops->mark[p->index_type](bad, w->indices + start * p->index_bytes, step, n, &k->bounds);
    for (int64_t i = 0; i < n && p->policy == RAISE; ++i)
        if (bad[i] && start + i * step < w->smallest) w->smallest = start + i * step;
}

// Resolves the indices of the block. Returns 1 if any is bad. noting: records the bad indices instead.
static int walk_indices(block_work *w, int noting) {
    const program *const p = w->p;
    int64_t at[p->first + 1], n = w->n[p->first], place = 0;
    for (int d = p->first + 1; d <= p->looked; ++d) n *= p->dims[d].size;
    memset(at, 0, sizeof at);
    for (int bad = 0;;) {
        for (int number = 0; number < p->lookup_count; ++number) {
            const lookup *const k = &p->lookups[number];
            int64_t start = k->offset;
            for (int d = 0; d <= p->looked; ++d) start += (w->lo[d] + (d < p->first ? at[d] : 0)) * k->strides[d];
            bounds b = k->bounds;
            if (w->strip) b.step = p->strip;
            assert(inside(start, 1, 0, n, k->strides[p->looked], 1, p->index_extent));
            if (noting)
                note_bad(w, k, start, k->strides[p->looked], n, place);
            else
                bad |= p->loops->resolve[p->wide][p->index_type](w->offsets + place * (p->wide ? 8 : 4), w->indices + start * p->index_bytes,
                                                                 k->strides[p->looked], n, &b, p->pattern, number > 0);
        }
        int d = p->first - 1;
        for (; d >= 0; --d) {
            if (!p->dims[d].moved) continue;
            place += p->dims[d].place;
            if (++at[d] < w->n[d]) break;
            place -= at[d] * p->dims[d].place;
            at[d] = 0;
        }
        if (d < 0) return bad;
    }
}

// ---- Elements -------------------------------------------------------------------------------------------------------------------------

static int64_t size_of(const block_work *w, int d) { return d < 0 ? 1 : w->n[d]; }
static int64_t out_of(const block_work *w, int d) { return d < 0 ? 0 : w->p->dims[d].out; }
static int64_t in_of(const block_work *w, int d) { return d < 0 ? 0 : w->p->dims[d].in; }

static void copy_dims(const block_work *w, int d, char *out, const char *in, const copy_box *box, copy_loop *loop) {
    const program *const p = w->p;
    while (d <= w->outer && (d == w->plane.row || d == w->plane.column)) ++d;
    if (d > w->outer) {
        assert(inside(out - w->out, box->n0, box->out0, box->n1, box->out1, box->unit, p->out_extent));
        const int64_t low = box->piece ? box->piece->low : 0, starts = box->piece ? box->n1 - box->piece->positions + 1 : box->n1;
        const int64_t span = box->piece ? box->piece->span : box->unit;
        (void)p, (void)low, (void)starts, (void)span;
        assert(starts > 0 && inside(in + low - w->data, box->n0, box->in0, starts, box->in1, span, p->in_extent));
        loop(out, in, box);
        return;
    }
    for (int64_t i = 0; i < w->n[d]; ++i) copy_dims(w, d + 1, out + i * p->dims[d].out, in + i * p->dims[d].in, box, loop);
}

// Returns the box of the copy loop within the block.
static copy_box box_of(block_work *w) {
    const program *const p = w->p;
    const int picks = p->piece && w->n[p->pieces.column] >= p->piece->positions;
    w->plane = picks ? p->pieces : p->units;
    w->outer = picks ? p->pieces.column : p->rank - 1 - p->run;
    const int row = w->plane.row, column = w->plane.column;
    return (copy_box){
        .piece = picks ? p->piece : NULL,
        .unit = picks ? p->dims[column].out : p->run ? w->n[p->rank - 1] : p->unit,
        .n0 = size_of(w, row), .out0 = out_of(w, row), .in0 = in_of(w, row),
        .n1 = size_of(w, column), .out1 = out_of(w, column), .in1 = in_of(w, column),
    };
}

static const char *address(const block_work *w, const char *in, int64_t place) {
    return in + (w->p->wide ? ((const int64_t *)w->offsets)[place] : ((const int32_t *)w->offsets)[place]);
}

// For INNER: copies the dimensions inside program.looked for each index.
static void copy_parts(const block_work *w, int d, char *out, const char *in, int64_t place, const copy_box *box, copy_loop *loop) {
    const dim *const one = &w->p->dims[d];
    for (int64_t i = 0; i < w->n[d]; ++i, place += one->place, out += one->out) {
        if (d == w->p->looked) copy_dims(w, d + 1, out, address(w, in, place), box, loop);
        else copy_parts(w, d + 1, out, in + i * one->in, place, box, loop);
    }
}

enum { LEAST_PICKED = 32 };  // least rows for which picking pays

static int64_t source_extent(const block_work *w) {
    return w->strip ? w->p->strip * w->p->lookups[0].bounds.limit : w->p->in_extent;
}

// Copies rows that share their indices, each as one piece, and returns 1. Returns 0 if single units cost less.
static int pick_units(block_work *w, char *out, const char *in, const char *offsets, const load_box *box) {
    const program *const p = w->p;
    if (w->single || box->place0 || box->n0 < LEAST_PICKED || box->out1 != box->unit || box->unit > 8) return 0;
    piece *const one = looked_piece(offsets, p->wide, box->n1, box->unit, box->n0, p->loops->window, 1);
    w->single = !one;
    if (!one) return 0;
    const copy_box rows = {box->unit, box->n0, box->n1, box->out0, box->out1, box->in0, 0, one};
    p->loops->choose_copy(&rows, 0).run(out, in, &rows);
    free(one);
    return 1;
}

static void load_dims(block_work *w, int d, char *out, const char *in, int64_t place, const load_box *box, load_loop *loop) {
    if (d >= w->p->first - 1) {
        assert(inside(out - w->out, box->n0, box->out0, box->n1, box->out1, box->unit, w->p->out_extent));
        const char *const source = w->strip ? w->strip : w->data;
        const int64_t extent = source_extent(w);
        (void)source, (void)extent;
        for (int64_t i = 0; i < box->n0 * box->n1; ++i)
            assert(inside(address(w, in + i / box->n1 * box->in0, place + i / box->n1 * box->place0 + i % box->n1) - source, 1, 0, 1, 0, box->unit, extent));
        const char *const offsets = w->offsets + place * (w->p->wide ? 8 : 4);
        if (!pick_units(w, out, in, offsets, box)) loop(out, in, offsets, box);
        return;
    }
    const dim *const one = &w->p->dims[d];
    for (int64_t i = 0; i < w->n[d]; ++i) load_dims(w, d + 1, out + i * one->out, in + i * one->in, place + i * one->place, box, loop);
}

static void fill_item(const program *p, char *out, int64_t n) {
    for (; n >= LINE; n -= LINE, out += LINE) memcpy(out, p->fill, LINE);
    memcpy(out, p->fill, (size_t)n);
}

// Writes the fill value for each bad index, or to the whole output of a constant plan.
static void fill_dims(const block_work *w, int d, char *out, int64_t place) {
    const program *const p = w->p;
    if (d == p->rank - p->run) {
        assert(inside(out - w->out, 1, 0, 1, 0, p->run ? w->n[d] : p->unit, p->out_extent));
        fill_item(p, out, p->run ? w->n[d] : p->unit);
        return;
    }
    const dim *const one = &p->dims[d];
    for (int64_t i = 0; i < w->n[d]; ++i)
        if (p->kind == CONSTANT || d != p->looked || w->bad[place + i * one->place]) fill_dims(w, d + 1, out + i * one->out, place + i * one->place);
}

// ---- Blocks ---------------------------------------------------------------------------------------------------------------------------

static void move_parts(block_work *w, char *out, const char *in) {
    const program *const p = w->p;
    const copy_box box = box_of(w);
    copy_loop *const loop = p->loops->choose_copy(&box, p->streams).run;
    if (p->kind == COPY) copy_dims(w, 0, out, in, &box, loop);
    else copy_parts(w, 0, out, in, 0, &box, loop);
}

static void move_units(block_work *w, char *out, const char *in) {
    const program *const p = w->p;
    const int row = p->first - 1;
    load_box box = {
        .unit = p->kind == RUNS ? w->n[p->rank - 1] : p->unit,
        .n0 = size_of(w, row), .out0 = out_of(w, row), .in0 = in_of(w, row), .place0 = row < 0 ? 0 : p->dims[row].place,
        .n1 = w->n[p->first], .out1 = p->dims[p->looked].out,
    };
    for (int d = p->first + 1; d <= p->looked; ++d) box.n1 *= p->dims[d].size;
    load_dims(w, 0, out, in, 0, &box, p->loops->choose_load(&box, p->wide, p->streams));
}

// Copies the strip of the block's columns, unless it is that of the previous block.
static const char *strip_of(block_work *w, const char *in) {
    const program *const p = w->p;
    const int64_t columns = w->n[p->looked];
    if (w->stripped != in || w->columns < columns)  // if rows of the source overlap, a shorter block may have begun at the same address
        for (int64_t row = 0; row < p->lookups[0].bounds.limit; ++row)
            memcpy(w->strip + row * p->strip, in + row * p->lookups[0].bounds.step, (size_t)(columns * p->unit));
    w->stripped = in, w->columns = columns;
    return w->strip;
}

static void find_block(const block_work *w, char **out, const char **in) {
    const program *const p = w->p;
    *out = w->out + p->out_offset;
    *in = w->data + p->in_offset;
    for (int d = 0; d < p->rank; ++d) *out += w->lo[d] * p->dims[d].out, *in += w->lo[d] * p->dims[d].in;
}

// Copies rows from dimension `d` on, until an index is out of range. Returns 1 if none is; else it reduces the block to the remaining rows.
// alone: 1 if the block has one position along each dimension outside of `d`, so that `d` can be reduced.
static int direct_rows(block_work *w, int d, char *out, const char *in, int64_t start, int alone) {
    const program *const p = w->p;
    int64_t done = 0;
    if (d < p->looked) {
        const int64_t steps[] = {p->dims[d].out, p->dims[d].in, p->lookups[0].strides[d]};
        const int one = alone && w->n[d] == 1;
        while (done < w->n[d] && direct_rows(w, d + 1, out + done * steps[0], in + done * steps[1], start + done * steps[2], one)) ++done;
    } else {
        const direct_run run = direct_run_of(p, w->strip != NULL);
        assert(inside(start, 1, 0, w->n[d], 1, 1, p->index_extent) && inside(out - w->out, 1, 0, w->n[d], p->unit, p->unit, p->out_extent));
        assert(inside(in - (w->strip ? w->strip : w->data), run.limit, run.step, w->n[d], run.in, p->unit, source_extent(w)));
        done = p->direct(out, in, w->indices + start * p->index_bytes, w->n[d], &run);
    }
    if (done == w->n[d]) return 1;
    const int whole = d > p->first || (d == p->looked && w->strip);  // dimensions of one run, and those of a strip, are not reduced
    if (alone && !whole) w->lo[d] += done, w->n[d] -= done;
    return 0;
}

static void run_block(block_work *w) {
    const program *const p = w->p;
    char *out;
    const char *in;
    find_block(w, &out, &in);
    if (p->direct) {
        int64_t start = p->lookups[0].offset;
        for (int d = 0; d <= p->looked; ++d) start += w->lo[d] * p->lookups[0].strides[d];
        if (direct_rows(w, 0, out, w->strip ? strip_of(w, in) : in, start, 1)) return;
        find_block(w, &out, &in);
    }
    if (p->kind == CONSTANT) {
        fill_dims(w, 0, out, 0);
        return;
    }
    int bad = 0;
    if (p->lookup_count) {
        bad = walk_indices(w, 0) && (p->policy == FILL || p->policy == RAISE);
        if (bad) {
            if (p->policy == FILL) memset(w->bad, 0, MOST_OFFSETS);
            walk_indices(w, 1);
        }
        if (p->kind == CHECK) return;
    }
    if (p->kind == COPY || p->kind == INNER) move_parts(w, out, in);
    else move_units(w, out, w->strip ? strip_of(w, in) : in);
    if (bad && p->policy == FILL) fill_dims(w, 0, out, 0);
}

int64_t execute_blocks(const program *p, const char *data, const char *indices, char *out, int64_t first, int64_t last) {
    int64_t lo[p->rank], n[p->rank];
    _Alignas(LINE) char offsets[MOST_OFFSETS * 4];
    uint8_t bad[MOST_OFFSETS];
    block_work w = {p, data, indices, out, lo, n, offsets, bad, INT64_MAX, NULL, NULL, 0, {0, 0}, 0, 0};
    if (p->strip) w.strip = malloc((size_t)(p->strip * p->lookups[0].bounds.limit));
    for (int64_t number = first; number < last; ++number) {
        int64_t rest = number;
        for (int i = p->rank - 1; i >= 0; --i) {
            const int d = p->order[i];
            const dim *const one = &p->dims[d];
            lo[d] = one->blocks > 1 ? rest % one->blocks * one->block : 0;  // no division if not needed, because it takes as long as a short row
            n[d] = one->size - lo[d] < one->block ? one->size - lo[d] : one->block;
            if (one->blocks > 1) rest /= one->blocks;
        }
        run_block(&w);
    }
    free(w.strip);
    return w.smallest;
}

// ---- Calls ----------------------------------------------------------------------------------------------------------------------------

enum { PARTS = 16 };  // parts per thread: enough that no thread works much longer than the others

typedef struct {
    const bound_call *call;
    int64_t parts;
    _Atomic int64_t smallest;
} shared_job;

static void run_part(void *shared, int64_t part) {
    shared_job *const job = shared;
    const program *const p = job->call->program;
    const int64_t each = p->blocks / job->parts, more = p->blocks % job->parts;
    const int64_t first = part * each + (part < more ? part : more), last = first + each + (part < more);
    const int64_t found = execute_blocks(p, job->call->data, job->call->indices, job->call->out, first, last);
    int64_t known = atomic_load_explicit(&job->smallest, memory_order_relaxed);
    while (found < known && !atomic_compare_exchange_weak_explicit(&job->smallest, &known, found, memory_order_relaxed, memory_order_relaxed)) {
    }
}

// Each part copies the strips that it begins or continues, so with few strips, a part lies in one strip.
static int64_t parts_of(const program *p) {
    const int64_t most = (int64_t)p->threads * PARTS, rows = p->strip ? p->blocks_of_strip : 1, strips = p->blocks / rows;
    if (!p->strip || strips > most) return p->blocks < most ? p->blocks : most;
    const int64_t each = (p->threads * 4 + strips - 1) / strips;
    return strips * (each < rows ? each : rows);
}

int64_t dmlgather_run_bound(const bound_call *call) {
    const program *const p = call->program;
    if (p->kind == NOTHING) return -1;
    int64_t smallest;
    if (p->threads < 2) {
        smallest = execute_blocks(p, call->data, call->indices, call->out, 0, p->blocks);
    } else {
        shared_job job = {call, parts_of(p), INT64_MAX};
        pool_run(run_part, &job, job.parts, p->threads);
        smallest = atomic_load_explicit(&job.smallest, memory_order_relaxed);
    }
    return smallest == INT64_MAX ? -1 : smallest;
}

int64_t dmlgather_run(const program *program, const void *data, const void *indices, void *out) {
    const bound_call call = {program, data, indices, out};
    return dmlgather_run_bound(&call);
}
