"""Deliberate errors in the CPU engine, each noticed by a case of `noticed.json`."""

from __future__ import annotations

from tests.cpu_kernels.engines import Mutation

MUTATIONS = {
    "no lower clamp": Mutation("gather_loops.c", "const math bounded = v < 0 ? 0 : v > last", "const math bounded = v > last"),
    "no upper clamp": Mutation("gather_loops.c", "v > last ? last : v;", "v;"),
    "smallest offset: any offset": Mutation("walk.c", "if (bad[i] && start + i * step < w->smallest)", "if (bad[i])"),
    "tail of a run forgotten": Mutation("vectors.h", "    store(out + bytes - WIDE, load(in + bytes - WIDE));\n", ""),
    "always 32-bit offsets": Mutation("plan.c", "return reach > INT32_MAX;", "return 0;"),
    "unaligned extents are refused late": Mutation("plan_words.c", "s->high < extent", "s->high <= extent"),
    # Indices
    "64-bit indices cut to 32 bits": Mutation(
        "gather_loops.c", "INDEX(i64, any_int64, int64_t,", "INDEX(i64, any_int64, int32_t,"
    ),
    "unsigned 32-bit indices taken for negative": Mutation(
        "gather_loops.c", "INDEX(u32, any_uint32, int32_t, LESSER", "INDEX(u32, any_uint32, int32_t, SAME"
    ),
    "unsigned 64-bit indices taken for negative": Mutation(
        "gather_loops.c",
        "INDEX(u64, any_uint64, int64_t, LESSER, INT64_MAX, LESSER)",
        "INDEX(u64, any_uint64, int64_t, LESSER, INT64_MAX, SAME)",
    ),
    "bytes without a sign": Mutation("gather_loops.c", "INDEX(i8, any_int8,", "INDEX(i8, any_uint8,"),
    "16-bit indices without a sign": Mutation("gather_loops.c", "INDEX(i16, any_int16,", "INDEX(i16, any_uint16,"),
    "wrap forgotten": Mutation("gather_loops.c", "v += v < 0 ? wrap : 0;", "v += 0 ? wrap : 0;"),
    "wrap forgotten where bad indices are marked": Mutation("gather_loops.c", "v += v < 0 ? b->wrap : 0;", ""),
    "mark with one too many": Mutation("gather_loops.c", "bad[i] |= v < 0 || v >= b->limit;", "bad[i] |= v < 0 || v > b->limit;"),
    "mark without negatives": Mutation("gather_loops.c", "bad[i] |= v < 0 || v >= b->limit;", "bad[i] |= v >= b->limit;"),
    "mark of the last lookup alone": Mutation("gather_loops.c", "bad[i] |= v < 0", "bad[i] = v < 0"),
    "pattern not applied": Mutation("gather_loops.c", ": pattern[i]) +", ": 0) +"),
    "second lookup replaces the first": Mutation("walk.c", "p->pattern, number > 0)", "p->pattern, 0)"),
    "bad index of the last lookup alone": Mutation("walk.c", "bad |= p->loops->resolve", "bad = p->loops->resolve"),
    "step of an index taken for 1": Mutation(
        "gather_loops.c",
        ": name##_start(to, index, step, n, b, pattern, add);",
        ": name##_start(to, index, 1, n, b, pattern, add);",
    ),
    "step of a marked index taken for 1": Mutation(
        "gather_loops.c", "(int64_t)fit(index[i * step], INT64_MAX)", "(int64_t)fit(index[i], INT64_MAX)"
    ),
    "smallest offset without the start": Mutation("walk.c", "w->smallest = start + i * step;", "w->smallest = i * step;"),
    "bad marks of the block before": Mutation("walk.c", "memset(w->bad, 0, MOST_OFFSETS)", "(void)0"),
    "marks not cleared under RAISE": Mutation("walk.c", "if (p->policy == RAISE) memset(bad, 0, (size_t)n);", ""),
    "place not set back": Mutation("walk.c", "place -= at[d] * p->dims[d].place;", ""),
    "an index at the limit needs no clamp": Mutation("direct.h", "bits == 64 ? run->limit - 1", "bits == 64 ? run->limit"),
    "negative indices need no wrap": Mutation(
        "direct.h", "out |= v | ((uint##bits##_t)last - v)", "out |= (uint##bits##_t)last - v"
    ),
    "rows begun again at their first index": Mutation("walk.c", "w->lo[d] += done, w->n[d] -= done;", "w->n[d] -= done;"),
    "PROMISE is trusted": Mutation(
        "plan.c", "p->policy = head->policy,", "p->policy = head->policy == PROMISE ? FILL : head->policy,"
    ),
    # Elements
    "row step of the output forgotten": Mutation("gather_loops.c", "copy_unit(to + i * box->out1,", "copy_unit(to + i * unit,"),
    "left-over packed units forgotten": Mutation("gather_loops.c", "for (; i < n1; ++i) copy_unit", "if (0) copy_unit"),
    "an upper half of a unit too far": Mutation(
        "gather_loops.c", "memcpy(to + unit - part, last, part);", "memcpy(to + part, last, part);"
    ),
    "a packed line too far": Mutation("gather_loops.c", "i + 4 * lanes <= n1;", "i + 3 * lanes <= n1;"),
    "positions of a line walk as the first one": Mutation("direct.h", "k * (form == ALONG ? 0 :", "k * (1 ? 0 :"),
    "rows share offsets": Mutation("walk.c", ".place0 = row < 0 ? 0 : p->dims[row].place", ".place0 = 0"),
    "a class of units too short": Mutation("gather_loops.c", "unit == 1 ? 0 : 64 - __builtin", "unit == 1 ? 0 : 63 - __builtin"),
    "wide loop for narrow offsets": Mutation(
        "gather_loops.c", "[__builtin_ctzll((uint64_t)unit)][wide];", "[__builtin_ctzll((uint64_t)unit)][1];"
    ),
    "head of a streamed run forgotten": Mutation("vectors.h", "        copy_part(out, in, i);\n", "", small=True),
    "tail of a streamed run forgotten": Mutation("vectors.h", "        copy_part(out + i, in + i, bytes - i);\n", "", small=True),
    "a streamed line at no line": Mutation(
        "gather_loops.c", "const int past = streams &&", "const int past = streams ||", small=True
    ),
    "bytes before the first held unit written": Mutation(
        "gather_loops.c", "copy_part(line + start, held + start, LINE - start)", "copy_part(line, held, LINE)", small=True
    ),
    "held bytes behind the last line forgotten": Mutation(
        "gather_loops.c", "        copy_part(line + start, held + start, filled - start);\n", "", small=True
    ),
    "held bytes of a line that is not full forgotten": Mutation(
        "gather_loops.c", "if (at) memcpy(held, held + at, LINE);", "", small=True
    ),
    "a part of 3 bytes": Mutation("vectors.h", "if (bytes & 2) memcpy", "if (bytes == 2) memcpy", small=True),
    "four vectors where three are left": Mutation(
        "vectors.h", "for (wide a, b, c, d; i + 4 * WIDE <= bytes;", "for (wide a, b, c, d; i + 3 * WIDE <= bytes;"
    ),
    "offsets of the first row picked for all": Mutation("walk.c", "box->place0 || box->n0", "box->n0"),
    "columns before the first one not picked": Mutation("pieces.c", "low = least(low, at), high", "low = i ? low : at, high"),
    "fill over one element of a unit": Mutation(
        "walk.c", "fill_item(p, out, p->run ? w->n[d] : p->unit);", "fill_item(p, out, p->run ? w->n[d] : 1);"
    ),
    "fill stops at a line": Mutation("walk.c", "memcpy(out, p->fill, (size_t)n);", "(void)n;"),
    "fill where the index is good": Mutation("walk.c", "d != p->looked || w->bad[place", "d != p->looked || !w->bad[place"),
    "fill value of the wrong size": Mutation("plan.c", "[i % head->element_bytes]", "[i % 8]"),
    # Blocks
    "last block as long as the others": Mutation(
        "walk.c", "one->size - lo[d] < one->block ? one->size - lo[d] : one->block", "one->block"
    ),
    "block in the wrong place": Mutation(
        "walk.c", "rest % one->blocks * one->block : 0;", "rest % one->blocks * (one->block - 1) : 0;"
    ),
    "last block forgotten": Mutation(
        "plan.c", "(one->size + one->block - 1) / one->block", "one->size / one->block + !one->blocks * (one->size < one->block)"
    ),
    "offsets of a block beyond their memory": Mutation(
        "plan.c", "room = least(room, most(1, offsets / places))", "room = least(room, most(1, offsets))"
    ),
    "a part of a run that ends within an element": Mutation(
        "plan.c", "least(size, block_units) / LARGEST_ELEMENT * LARGEST_ELEMENT + LARGEST_ELEMENT", "block_units + 1"
    ),
    # Copies
    "a second part of a unit too late": Mutation("copy_loops.c", "from + b.unit - part, part)", "from + part, part)"),
    "a window behind its piece": Mutation("pieces.c", "least(i * width, bytes - width)", "i * width"),
    "a load behind the source": Mutation(
        "pieces.c", "const int64_t at = least(next, last);", "const int64_t at = least(next, last + width);"
    ),
    "a byte that is picked from no load": Mutation("pieces.c", "places[k] < at + width)", "places[k] < at + width - 1)"),
    "pieces of a source with fewer bytes than a vector": Mutation("picked.h", "if (p->span >= p->width) {", "if (1) {"),
    "positions behind the last piece forgotten": Mutation("picked.h", "if (rest) loop(out + back, in + source, &one, p, 0);", ""),
    "a piece of a few bytes taken for the last one": Mutation("picked.h", "if (rest && b.in1) copy_part", "if (0) copy_part"),
    "blocks that hold no piece": Mutation("walk.c", "p->piece && w->n[p->pieces.column] >= p->piece->positions", "!!p->piece"),
    "cut pieces": Mutation("plan.c", "    drop_cut_piece(p);\n", ""),
    "bytes before the first streamed line forgotten": Mutation(
        "picked.h", "if (head) pick_part(", "if (0) pick_part(", small=True
    ),
    "bytes behind the last streamed piece forgotten": Mutation(
        "picked.h", "if (rest) pick_part(", "if (0) pick_part(", small=True
    ),
    "wide offsets read as narrow ones": Mutation("gather_loops.c", "wide ? WIDE_ONES : NARROW", "NARROW"),
    "rows turned that are walked with another step": Mutation("gather_loops.c", "b->in0 == b->unit && b->place0", "b->place0"),
    "rows turned of which each has offsets of its own": Mutation("gather_loops.c", " && b->place0 == 0 &&", " &&"),
    "a tile too wide": Mutation("turned.h", "const int64_t width = least(b.n0 - i, tile);", "const int64_t width = tile;"),
    "squares of a tile from its first columns": Mutation("turned.h", "NULL, y * unit);", "NULL, 0);"),
    "the source's mirrored rows not turned": Mutation("turned.h", "b.out0 = -b.out0;", "b.out0 = b.out0;"),
    "unaligned rows past the cache": Mutation(
        "turned.h", "streams = streams && b.out0 % LINE == 0 && head % unit == 0;", "", small=True
    ),
    "first rows of tiles without the head": Mutation("turned.h", "j || head < unit ? tile : head / unit", "tile", small=True),
    "tiles that leave the last rows": Mutation("copy_loops.c", "{b.unit, least(b.n0 - i, 16),", "{b.unit, 16,"),
    "streamed lines that begin within a position": Mutation("picked.h", "if (head % box->unit) {", "if (0) {", small=True),
    "streamed pieces that fill no lines": Mutation("picked.h", "lines % LINE || lines % p->bytes || ", "", small=True),
    "row step of a box forgotten": Mutation(
        "walk.c",
        ".out0 = out_of(w, row), .in0 = in_of(w, row),\n        .n1 = size_of(w, column), .out1 = out_of",
        ".out0 = out_of(w, row), .in0 = 0,\n        .n1 = size_of(w, column), .out1 = out_of",
    ),
    "a part forgotten": Mutation("walk.c", "last = first + each + (part < more);", "last = first + each;"),
    "parts that begin too early": Mutation("walk.c", "part * each + (part < more ? part : more)", "part * each"),
    "smallest offset of the last part": Mutation("walk.c", "while (found < known &&", "while (found != INT64_MAX &&"),
    "dimensions joined in spite of their steps": Mutation("plan.c", "one->out == inner->size * inner->out && p->kind", "p->kind"),
    "runs joined in spite of their indices": Mutation(
        "plan.c", "whole &= p->lookups[k].strides[d] == inner->size * p->lookups[k].strides[d + 1];", "whole &= 1;"
    ),
    "wrap does not need 64 bits": Mutation("plan.c", "|| b->wrap > INT32_MAX ", ""),
    "steps beside lookups do not need 64 bits": Mutation("plan.c", "if (p->dims[d].moved) reach +=", "if (0) reach +="),
    "a dimension that is not contiguous joins a unit": Mutation(
        "plan.c", "(last.out != p->unit || last.in != p->unit)", "last.out != p->unit"
    ),
    # The entry
    "lookups reach nothing": Mutation("plan_words.c", "add_term(&in, lookup_words(plan, k)[1], lookup_words(plan, k)[3]);", ";"),
    "outputs reach nothing": Mutation("plan_words.c", "add_term(&out, plan->shape[d], plan->out_strides[d]);", ";"),
    "sums of 64 bits": Mutation(
        "plan_words.c",
        "const wide_int end = (wide_int)(count - 1) * step;",
        "const wide_int end = (int64_t)((uint64_t)(count - 1) * (uint64_t)step);",
    ),
    "an unsigned index may wrap": Mutation("plan_words.c", " || (wrap && !head->index_signed)", ""),
    "an axis without elements may be read": Mutation(
        "plan_words.c", "if (nowhere && head->policy != FILL && head->policy != RAISE) return 0;", ""
    ),
    # The pool
    "the last part is never taken": Mutation("pool.c", "< of->end;)", "< of->end - 1;)"),
    "parts that no thread begins with": Mutation("pool.c", "(k + 1) * parts / mine.count;", "(k + 1) * (parts / mine.count);"),
    "parts of a helper that does not come": Mutation("pool.c", "k < from->count; ++k) {", "k < 1; ++k) {"),
}
