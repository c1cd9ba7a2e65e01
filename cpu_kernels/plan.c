#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pool.h"
#include "plan_words.h"
#include "processor.h"
#include "program.h"

// ---- From elements to bytes -----------------------------------------------------------------------------------------------------------

// A dimension of size 1 may have any step.
static int64_t in_bytes(int64_t count, int64_t step, int64_t unit) { return count > 1 ? step * unit : 0; }

// Return 1 if addresses of the source or of the output are formed. Otherwise, offsets and steps may be any numbers.
static int reads(const program *p) { return p->kind == COPY || p->kind == UNITS; }
static int writes(const program *p) { return reads(p) || p->kind == CONSTANT; }

static void describe_work(program *p, const plan_view *plan) {
    const plan_head *head = plan->head;
    const int empty = is_empty(plan), nowhere = looks_into_nothing(plan);
    p->kind = !head->lookups ? COPY : UNITS;
    if (empty || (nowhere && head->policy == RAISE)) p->kind = head->policy == RAISE && head->lookups ? CHECK : NOTHING;
    else if (nowhere) p->kind = CONSTANT;
    p->lookup_count = p->kind == CONSTANT ? 0 : (int)head->lookups;
    for (int k = 0; k < p->lookup_count; ++k) {
        const int64_t *words = lookup_words(plan, k);
        p->lookups[k].bounds = (bounds){words[1], words[2], reads(p) ? in_bytes(words[1], words[3], head->element_bytes) : 0};
        p->lookups[k].offset = words[0];
    }
    p->unit = head->element_bytes, p->policy = head->policy, p->index_bytes = head->index_bytes;
    p->in_offset = reads(p) ? head->in_offset * p->unit : 0;
    p->out_offset = writes(p) ? head->out_offset * p->unit : 0;
    p->in_extent = head->in_extent * p->unit, p->index_extent = head->index_extent, p->out_extent = head->out_extent * p->unit;
    if (head->lookups) p->index_type = (head->index_signed ? 0 : 4) + __builtin_ctzll((uint64_t)p->index_bytes);
    for (int i = 0; i < LINE; ++i) p->fill[i] = ((const char *)head->fill)[i % head->element_bytes];
}

static void push_dim(program *p, dim d, const plan_view *plan, int64_t axis) {
    for (int k = 0; k < p->lookup_count; ++k) p->lookups[k].strides[p->rank] = axis < 0 ? 0 : lookup_words(plan, k)[4 + axis];
    p->dims[p->rank++] = d;
}

static void describe_dims(program *p, const plan_view *plan) {
    const int64_t rank = plan->head->rank;
    p->looked = -1;
    int looked = 0;
    for (int64_t d = 0; d < rank; ++d) looked |= p->lookup_count && moves(plan, d);
    if (p->lookup_count && !looked) p->looked = p->rank, push_dim(p, (dim){.size = 1, .moved = 1}, plan, -1);
    for (int64_t d = 0; d < rank; ++d) {
        dim one = {.size = plan->shape[d]};
        one.out = writes(p) ? in_bytes(one.size, plan->out_strides[d], p->unit) : 0;
        one.in = reads(p) ? in_bytes(one.size, plan->in_strides[d], p->unit) : 0;
        one.moved = p->lookup_count && moves(plan, d);
        if (p->kind == CONSTANT) one.in = one.out;  // nothing is read, so only the output must be contiguous below
        if (p->kind == CHECK && !one.moved) one.size = 1;
        if (one.size == 1) continue;  // at most 62 dimensions remain; walk.c has arrays for them on the stack
        if (one.size == 0) p->kind = NOTHING;
        if (one.moved) p->looked = p->rank;
        push_dim(p, one, plan, d);
    }
    while (p->rank && p->rank - 1 > p->looked && p->kind != CHECK) {
        const dim last = p->dims[p->rank - 1];
        if (last.size > 1 && (last.out != p->unit || last.in != p->unit)) break;
        p->unit *= last.size;
        --p->rank;
    }
    if (p->unit >= LINE) push_dim(p, (dim){.size = p->unit, .out = 1, .in = 1}, plan, -1), p->unit = 1, p->run = 1;
    if (!p->rank) push_dim(p, (dim){.size = 1}, plan, -1);
    if (p->kind == UNITS && p->looked < p->rank - 1) p->kind = p->run && p->looked == p->rank - 2 ? RUNS : INNER;
}

// ---- Blocks ---------------------------------------------------------------------------------------------------------------------------

enum {
    BLOCK_BYTES = 128 << 10,
    SHARE_BYTES = 256 << 10,   // least bytes for which waking a thread pays
    STRIP_BYTES = 512 << 10,   // a strip of this size stays in the L2 cache
    MOST_STRIP = 8 << 20,      // most bytes of a thread's strip
    STRIPS_BYTES = 64 << 20,   // most bytes of the strips of all threads
    LEAST_LINES = 4,           // least cache lines of a row of a strip
    STREAM_BYTES = 8 << 20,    // least bytes of an output that bypasses the cache
    STREAM_RUN = 512,          // least bytes of its runs
    STREAM_UNITS = 256,        // least bytes of its rows of single units
    CACHE_PARTS = 2,           // single units bypass the cache if they need more than this fraction of it: a half
    LONGEST_RUN = 256 << 10,
    LARGEST_ELEMENT = 16,
    SHORTEST_DIRECT = 16,
    INDICES_AHEAD = 2 << 10,
};

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }
static int64_t magnitude(int64_t a) { return a < 0 ? -a : a; }
static int64_t step(const program *p, int d) { return magnitude(p->dims[d].in); }

// Returns the bytes of a strip's row, or 0. A strip is a packed copy of some columns of the source. It pays if each block reads
// neighbouring columns in many rows, and the next blocks read the same columns. Rows of a table are often a power of two apart, and caches
// hold few lines at such distances.
static int64_t strip_bytes(const program *p) {
    if (p->kind != UNITS || p->lookup_count != 1 || p->looked < 1) return 0;
    const dim *const last = &p->dims[p->looked];
    const bounds *const b = &p->lookups->bounds;
    int64_t rows = 1, lines = STRIP_BYTES / b->limit / LINE;
    for (int d = p->looked - 1; d >= 0 && !p->dims[d].in; --d) rows *= p->dims[d].size;
    if (last->in != p->unit || last->size * p->unit < LINE || magnitude(b->step) < LINE || rows < b->limit / 4) return 0;
    if (lines < LEAST_LINES) lines = p->unit < 4 ? 1 : LEAST_LINES;  // with a narrow strip, few adjacent indices are read at once
    if (lines > LEAST_LINES) lines = (lines - 1) | 1;  // odd, so that rows are not a power of two apart
    lines = least(lines, (last->size * p->unit + LINE - 1) / LINE | (lines > LEAST_LINES));
    return lines * LINE <= least(MOST_STRIP, STRIPS_BYTES / pool_cpus()) / b->limit ? lines * LINE : 0;
}

static copy_box whole_box(const program *p) {
    copy_box box = {.unit = p->run ? p->dims[p->rank - 1].block : p->unit, .n0 = 1, .n1 = 1};
    const int column = p->units.column, row = p->units.row;
    if (column >= 0) box.n1 = p->dims[column].size, box.out1 = p->dims[column].out, box.in1 = p->dims[column].in;
    if (row >= 0) box.n0 = p->dims[row].size, box.out0 = p->dims[row].out, box.in0 = p->dims[row].in;
    return box;
}

// Returns the bytes of a run that one block copies: whole elements.
static int64_t run_block(int64_t size, int64_t block_units) {
    if (block_units) return least(size, least(size, block_units) / LARGEST_ELEMENT * LARGEST_ELEMENT + LARGEST_ELEMENT);
    return size <= LONGEST_RUN ? size : BLOCK_BYTES;
}

// Finds the sizes of a block that is looked up and transposed, along the source's rows and along the output's rows. They stay 0 without a
// transposition, and with a strip.
static void turned_block(const program *p, int64_t block[2]) {
    const dim *const row = &p->dims[p->looked - 1], *const last = &p->dims[p->looked];
    if (p->kind != UNITS || p->looked < 1 || p->strip || row->moved || row->in != p->unit || last->out != p->unit || p->unit > 8) return;
    const copy_box box = {.unit = p->unit, .n0 = row->size, .n1 = last->size, .in0 = p->unit, .in1 = LINE};
    best_block(&box, block);
}

static void cut(program *p, int64_t block_units) {
    const int64_t target = block_units ? block_units : most(1, BLOCK_BYTES / p->unit);
    const int64_t offsets = least(block_units ? block_units : MOST_OFFSETS, p->wide ? MOST_OFFSETS / 2 : MOST_OFFSETS);
    const int64_t shared = p->piece && p->pieces.row >= 0 ? rows_that_share_lines(p->dims[p->pieces.row].size, p->dims[p->pieces.row].in) : 1;
    int64_t units = 1, places = 1, best[2] = {1, 1}, turned[2] = {0, 0};
    if (!block_units) turned_block(p, turned);
    for (int d = p->rank - 1; d >= 0; --d) {
        dim *const one = &p->dims[d];
        int64_t room = most(1, target / units / (d > p->pieces.row ? shared : 1));
        if (p->run && d == p->rank - 1) room = run_block(one->size, block_units);
        if (d == p->units.column && !p->piece && !block_units) {
            const copy_box box = whole_box(p);
            best_block(&box, best);
            room = best[1];
        }
        if (d == p->units.row && !p->piece && !block_units) room = best[0];
        if (d == p->looked && p->strip) room = least(room, p->strip / p->unit);
        if (d < p->looked && p->strip && one->in) room = 1;
        if (d == p->looked - 1 && turned[0]) room = turned[0];
        if (d == p->looked && turned[1]) room = turned[1];
        if (one->moved) room = least(room, most(1, offsets / places));
        one->block = most(1, least(one->size, room));
        one->blocks = (one->size + one->block - 1) / one->block;
        one->place = one->moved ? places : 0;
        units *= one->block;
        if (one->moved) places *= one->block;
    }
    p->blocks = 1;
    for (int d = 0; d < p->rank; ++d) p->order[d] = d, p->blocks *= p->dims[d].blocks;
    p->blocks_of_strip = 1;
    if (p->strip)
        for (int d = p->looked; d > 0 && !p->dims[d - 1].in; --d) {
            p->order[d] = d - 1, p->order[d - 1] = p->looked;
            p->blocks_of_strip *= p->dims[d - 1].blocks;
        }
}

// ---- Offsets --------------------------------------------------------------------------------------------------------------------------

static int needs_wide(const program *p) {
    wide_int reach = 0;
    for (int k = 0; k < p->lookup_count; ++k) {
        const bounds *b = &p->lookups[k].bounds;
        if (b->limit > INT32_MAX || b->wrap > INT32_MAX || magnitude(b->step) > INT32_MAX) return 1;
        reach += (wide_int)(b->limit - 1) * magnitude(b->step);
    }
    for (int d = 0; d <= p->looked; ++d)
        if (p->dims[d].moved) reach += (wide_int)(p->dims[d].size - 1) * magnitude(p->dims[d].in);
    return reach > INT32_MAX;
}

// Returns 1 if dimension `d` and the run inside it are like one dimension, for lookups and output.
static int continues(const program *p, int d) {
    const dim *one = &p->dims[d], *inner = &p->dims[d + 1];
    int whole = one->moved && inner->block == inner->size && one->out == inner->size * inner->out && p->kind != INNER;
    for (int k = 0; k < p->lookup_count; ++k) whole &= p->lookups[k].strides[d] == inner->size * p->lookups[k].strides[d + 1];
    return whole;
}

// The source is the input, or a strip.
direct_run direct_run_of(const program *p, int strips) {
    const lookup *const k = &p->lookups[0];
    const int64_t ahead = p->strip ? 2 * k->strides[p->looked - 1] * p->index_bytes : INDICES_AHEAD;  // the row after the next
    return (direct_run){k->bounds.limit, strips ? p->strip : k->bounds.step, p->dims[p->looked].in, ahead, p->streams};
}

// Returns the direct loop, or NULL. It takes adjacent units with adjacent indices, one index for each unit.
static direct_loop *direct_of(const program *p) {
    if (p->kind != UNITS || p->lookup_count != 1 || p->dims[p->looked].out != p->unit || p->lookups[0].strides[p->looked] != 1) return NULL;
    for (int d = 0; d <= p->looked; ++d)
        if (!p->dims[d].moved || (d == p->looked && p->dims[d].size < SHORTEST_DIRECT)) return NULL;
    const direct_run run = direct_run_of(p, p->strip != 0);
    return p->loops->choose_direct(&run, p->unit, p->index_bytes);
}

// Finds the dimensions with indices that are resolved in one run, and the offsets that they add. Returns 0 if memory is exhausted.
static int make_runs(program *p) {
    int64_t run = p->dims[p->looked].block;
    int adds = p->dims[p->looked].in != 0;
    for (p->first = p->looked; p->first > 0 && continues(p, p->first - 1); adds |= p->dims[p->first].in != 0) run *= p->dims[--p->first].block;
    if (!adds || p->kind == CHECK) return 1;
    p->pattern = malloc((size_t)run * 8);
    if (!p->pattern) return 0;
    for (int64_t i = 0; i < run; ++i) {
        int64_t rest = i, sum = 0;
        for (int d = p->looked; d >= p->first; rest /= p->dims[d--].block) sum += rest % p->dims[d].block * p->dims[d].in;
        if (p->wide) ((int64_t *)p->pattern)[i] = sum;
        else ((int32_t *)p->pattern)[i] = (int32_t)sum;
    }
    return 1;
}

// ---- Programs -------------------------------------------------------------------------------------------------------------------------

// Chooses the dimensions of a copy loop's box: the innermost dimension, and that one of the others with the smallest step of the source.
static void choose_box(program *p, int first) {
    plane *const units = &p->units;
    units->column = p->rank - 1 - p->run;
    if (units->column < first) units->column = -1;
    units->row = units->column - 1;
    for (int d = units->row - 1; d >= first && !p->run; --d)
        if (step(p, d) < step(p, units->row) && step(p, d) < step(p, units->column)) units->row = d;
    if (units->row < first) units->row = -1;
}

// Returns the cost of a unit without pieces, in moves, including its share of a call. A unit of two parts costs more; a unit of a
// transposed tile costs less.
static double cost_of_unit(const program *p, const copy_box *box) {
    const int turned = !strcmp(p->loops->choose_copy(box, 0).name, "transposed"), whole = !(box->unit & (box->unit - 1));
    const double units = (double)box->n0 * (double)box->n1;
    if (turned) return (double)box->unit * (box->n1 * box->unit < LINE ? 9.0 / LINE : 3.0 / LINE) + 150 / units;
    return (box->unit >= 16 ? whole ? 1 : 1.5 : whole ? 2 : 3) + 15 / units;
}

// Chooses the piece for the dimensions from `first` on, if it costs less than units. Then chooses its box: a dimension with several pieces,
// and a dimension along which the same cache lines are read, or else the next dimension.
static void choose_piece(program *p, int first) {
    enum { MOST_RANK = 64 };
    piece_dim dims[MOST_RANK];
    const copy_box box = whole_box(p);
    if (p->run || !p->loops->window || first >= p->rank) return;
    for (int d = first; d < p->rank; ++d) dims[d - first] = (piece_dim){p->dims[d].size, p->dims[d].out, p->dims[d].in};
    p->piece = best_piece(dims, p->rank - first, p->unit, p->loops->window, cost_of_unit(p, &box), &p->pieces.column);
    if (!p->piece) return;
    p->pieces.column += first;
    p->pieces.row = p->pieces.column - 1;
    for (int d = p->pieces.row - 1; d >= first; --d)
        if (step(p, d) && step(p, d) < LINE && (step(p, d) < step(p, p->pieces.row) || !step(p, p->pieces.row))) p->pieces.row = d;
    if (p->pieces.row < first) p->pieces.row = -1;
}

// Drops the piece if it is larger than a block, because no dimension inside a piece may be cut.
static void drop_cut_piece(program *p) {
    int whole = p->piece && p->dims[p->pieces.column].block >= p->piece->positions;
    for (int d = p->pieces.column + 1; d < p->rank; ++d) whole &= p->dims[d].block == p->dims[d].size;
    if (whole) return;
    free(p->piece);
    p->piece = NULL;
}

// Returns 1 if the output is written past the cache. This pays for an output that would not stay in the last cache until it is used. A copy
// of long runs gains even for smaller outputs, because the old content of the lines is not read. Stores of single units do not wait, so
// they do not gain. If each unit has its own index, the indices count, too, because they pass through the cache.
static int bypasses_cache(const program *p, int64_t bytes) {
    const dim *const inner = &p->dims[p->rank - 1];
    const int64_t indices = p->direct ? bytes / p->unit * p->index_bytes : 0;
    if (bytes < STREAM_BYTES || p->strip) return 0;  // a row of a strip has only a few lines
    if (p->run || p->piece) return p->piece || inner->block >= STREAM_RUN;
    return inner->block * p->unit >= STREAM_UNITS && bytes + indices > last_cache(pool_cpus()) / CACHE_PARTS;
}

static int lower_plan(program *p, const plan_view *plan) {
    describe_work(p, plan);
    describe_dims(p, plan);
    p->loops = choose_loops(plan->head->loops);
    if (!p->loops) return 0;
    if (p->kind == NOTHING) return 1;
    p->strip = strip_bytes(p);
    p->wide = p->lookup_count && needs_wide(p);
    p->units = p->pieces = (plane){-1, -1};
    if (p->kind == COPY || p->kind == INNER) {
        const int first = p->kind == COPY ? 0 : p->looked + 1;
        choose_box(p, first);
        choose_piece(p, first);
    }
    cut(p, plan->head->block_units);
    drop_cut_piece(p);
    int64_t bytes = p->unit;
    for (int d = 0; d < p->rank; ++d) bytes *= p->dims[d].size;
    p->direct = direct_of(p);
    p->streams = bypasses_cache(p, bytes);
    const wide_int weight = (wide_int)(bytes / p->unit) * (p->run ? 1 : p->unit + 16);
    const int64_t threads = plan->head->threads ? plan->head->threads : least(pool_cpus(), 1 + (int64_t)(weight / SHARE_BYTES));
    p->threads = (int)least(least(threads, p->blocks), INT32_MAX);
    return !p->lookup_count || make_runs(p);
}

static void write_text(program *p) {
    static const char *const names[] = {"nothing", "index checks", "constant fill", "", "looked-up units", "looked-up runs", ""};
    copy_box box = whole_box(p);
    box.piece = p->piece;
    const int copies = p->kind == COPY || p->kind == INNER;
    const long long unit = p->run ? p->dims[p->rank - 1].size : p->unit, blocks = p->blocks;
    snprintf(p->text, sizeof p->text, "%s%s%s: units of %lld byte%s, %lld block%s on %d thread%s, by the compiled engine",
             p->kind == INNER ? "looked-up parts, " : "", !copies && p->streams ? "streamed " : "",
             copies ? p->loops->choose_copy(&box, p->streams).name : names[p->kind], unit, unit == 1 ? "" : "s", blocks,
             blocks == 1 ? "" : "s", p->threads, p->threads == 1 ? "" : "s");
}

program *dmlgather_prepare(const int64_t *words, int64_t count) {
    plan_view plan;
    if (!read_plan(words, count, &plan)) return NULL;
    const size_t rank = (size_t)plan.head->rank + 2, lookups = (size_t)plan.head->lookups;  // describe_dims may add one dimension before and one after
    program *p = calloc(1, sizeof *p);
    if (!p) return NULL;
    p->dims = calloc(rank, sizeof *p->dims);
    p->order = calloc(rank, sizeof *p->order);
    p->lookups = calloc(lookups + 1, sizeof *p->lookups);
    p->strides = calloc(rank * lookups + 1, sizeof *p->strides);
    if (!p->dims || !p->order || !p->lookups || !p->strides) return dmlgather_free(p), NULL;
    for (size_t k = 0; k < lookups; ++k) p->lookups[k].strides = p->strides + k * rank;
    if (!lower_plan(p, &plan)) return dmlgather_free(p), NULL;
    write_text(p);
    return p;
}

void dmlgather_free(program *p) {
    if (!p) return;
    free(p->dims), free(p->order), free(p->lookups), free(p->strides), free(p->pattern), free(p->piece);
    free(p);
}

const char *dmlgather_describe(const program *p) { return p->text; }

int64_t dmlgather_interface(void) { return INTERFACE; }

const char *dmlgather_sources(void) { return DMLGATHER_SOURCES; }
