/*
 * gcoll/plan/encode.c - the pass that makes messages carry encoded elements.
 *
 * A send becomes an ENCODE to scratch and a send from there; a receive becomes a receive to scratch and a
 * DECODE; a receive that reduces, a receive to scratch and a DECODE_REDUCE. So sums are float32, and are
 * encoded at each hop.
 *
 * Results must have the same bits on every rank. So a rank that sends an element of its result decodes what
 * it encoded to its own result, too, once the element is final: no later step but a division writes it. And
 * what was received encoded, and is sent on unchanged, is sent on as it came. If it is sent on in other
 * pieces, it is encoded again, which changes nothing (codec.h): every element was first encoded in a block
 * that begins at a multiple of codec.block of the vector (gcoll_part_begin) or, in an allgather, of a rank's
 * block. Pieces end there.
 *
 * In an allgather and a broadcast the sender's input counts as a result: it is copied to OUT first.
 *
 * The verifier proves for each plan that all ranks get the same bits.
 */
#include <stdlib.h>

#include "gcoll/plan/stage_internal.h"

/* What is known of a range of OUT[0] when a step is emitted. */
typedef struct known {
    uint32_t written; /* the latest step that wrote it, + 1; 0: none */
    bool is_decoded;  /* its elements are decoded values */
    uint32_t encoded; /* the latest step that has an encoding of elements from here on, + 1; 0: none */
    uint64_t count;   /* of these elements */
    gcoll_ref words;  /* where the encoding lies */
} known;

typedef struct pass {
    const gcoll_plan *plan;
    const gcoll_problem *problem;
    gcoll_builder *builder;
    bool keeps_result; /* the result must be the same on all ranks */
    bool joins;        /* IN is read as the part of OUT where it belongs */
    gcoll_ranges ranges;
    known *known; /* by range */
} pass;

/* ---- Places ----------------------------------------------------------------------------------------- */

static gcoll_ref place(const pass *x, gcoll_ref ref) {
    if (!x->joins || ref.space != GCOLL_IN)
        return ref;
    const uint64_t first =
        x->problem->collective == GCOLL_ALLGATHER ? gcoll_block_begin(x->problem, x->problem->rank) : 0;
    return gcoll_out(ref.index, first + ref.offset);
}

static bool is_result(const pass *x, gcoll_ref ref) {
    return x->keeps_result && ref.space == GCOLL_OUT && ref.index == 0;
}

static bool same_place(gcoll_ref a, gcoll_ref b) {
    return a.space == b.space && a.index == b.index && a.offset == b.offset;
}

/* Whether a step changes elements so that what others have of them is no longer the same. A division does the
 * same to equal bits. */
static bool rewrites(const pass *x, const gcoll_step *step) {
    return step->count > 0 && step->kind != GCOLL_STEP_SEND && step->kind != GCOLL_STEP_DIVIDE &&
           !(step->kind == GCOLL_STEP_COPY && same_place(place(x, step->dst), place(x, step->a)));
}

/* What is cut into ranges: results that are sent or written. */
static gcoll_touched touched(const void *arg, const gcoll_step *step) {
    const pass *x = arg;
    gcoll_touched found = {0};
    const bool sends = step->kind == GCOLL_STEP_SEND;
    const gcoll_ref ref = place(x, sends ? step->a : step->dst);
    if (step->count == 0 || (!sends && !rewrites(x, step)) || !is_result(x, ref))
        return found;
    found.begin[0] = ref.offset;
    found.end[0] = ref.offset + step->count;
    found.reads = sends ? 1 : 0;
    found.writes = !sends;
    return found;
}

/* The block of a rank that element `at` of an allgather's OUT belongs to. */
static uint32_t block_of(const gcoll_problem *p, uint64_t at) {
    uint32_t low = 0, high = p->size;
    while (high - low > 1) {
        const uint32_t middle = low + (high - low) / 2;
        if (gcoll_block_begin(p, middle) <= at)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* The elements from `at` on, of `left`, that are encoded together. */
static uint64_t piece(const pass *x, gcoll_ref ref, uint64_t at, uint64_t left) {
    const gcoll_problem *p = x->problem;
    if (p->collective != GCOLL_ALLGATHER || p->codec.block == 0 || !is_result(x, ref))
        return left;
    const uint64_t first = ref.offset + at;
    const uint32_t rank = block_of(p, first);
    const uint64_t begin = gcoll_block_begin(p, rank), end = gcoll_block_begin(p, rank + 1);
    uint64_t most = end - first < left ? end - first : left;
    const uint64_t inside = (first - begin) % p->codec.block;
    if (inside > 0 && p->codec.block - inside < most) /* up to where a block of the codec begins */
        most = p->codec.block - inside;
    return most;
}

/* Words of `count` encoded elements from ref on. */
static uint64_t words_of(const pass *x, gcoll_ref ref, uint64_t count) {
    uint64_t words = 0;
    for (uint64_t at = 0, here; at < count; at += here) {
        here = piece(x, ref, at, count - at);
        words += gcoll_codec_words(&x->problem->codec, here);
    }
    return words;
}

/* ---- Steps ------------------------------------------------------------------------------------------ */

/* Emits `kind` for each piece of `count` elements. ref says where the pieces end. */
static void emit_codec(const pass *x, gcoll_step step, gcoll_step_kind kind, gcoll_ref ref, gcoll_ref dst,
                       gcoll_ref a, gcoll_ref b) {
    const uint64_t count = step.count;
    uint64_t words = 0;
    step.kind = (uint8_t)kind;
    step.peer = 0;
    step.message = 0;
    for (uint64_t at = 0; at < count; at += step.count) {
        step.count = piece(x, ref, at, count - at);
        step.dst = gcoll_ref_add(dst, kind == GCOLL_STEP_ENCODE ? words : at);
        step.a = gcoll_ref_add(a, kind == GCOLL_STEP_DECODE ? words : at);
        step.b = gcoll_ref_add(b, words);
        gcoll_builder_emit(x->builder, &step, 0, step.count);
        words += gcoll_codec_words(&x->problem->codec, step.count);
    }
}

static void emit_message(const pass *x, gcoll_step step, gcoll_step_kind kind, gcoll_ref words,
                         uint64_t count) {
    step.kind = (uint8_t)kind;
    step.received_first = false;
    step.a = step.dst = step.b = words;
    gcoll_builder_emit(x->builder, &step, 0, count);
}

static void note_write(pass *x, gcoll_ref ref, uint64_t count, uint32_t step, bool is_decoded) {
    const gcoll_ranges *ranges = &x->ranges;
    if (!is_result(x, ref))
        return;
    for (uint32_t r = gcoll_ranges_find(ranges, ref.offset);
         r < ranges->count && ranges->at[r].begin < ref.offset + count; r++) {
        x->known[r].written = step + 1;
        x->known[r].is_decoded = is_decoded;
    }
}

static void note_encoding(pass *x, gcoll_ref ref, uint64_t count, uint32_t step, gcoll_ref words) {
    if (!is_result(x, ref))
        return;
    known *first = &x->known[gcoll_ranges_find(&x->ranges, ref.offset)];
    first->encoded = step + 1;
    first->count = count;
    first->words = words;
}

/* Finds an encoding of exactly these elements, as they are now. */
static bool find_encoding(const pass *x, gcoll_ref ref, uint64_t count, gcoll_ref *words) {
    const gcoll_ranges *ranges = &x->ranges;
    if (!is_result(x, ref))
        return false;
    const uint32_t first = gcoll_ranges_find(ranges, ref.offset);
    const known *at = &x->known[first];
    if (at->encoded == 0 || at->count != count)
        return false;
    for (uint32_t r = first; r < ranges->count && ranges->at[r].begin < ref.offset + count; r++)
        if (x->known[r].written > at->encoded)
            return false;
    *words = at->words;
    return true;
}

/* Whether elements are final when step `step` sends them, and some are not decoded values yet. */
static bool must_decode(const pass *x, gcoll_ref ref, uint64_t count, uint32_t step) {
    const gcoll_ranges *ranges = &x->ranges;
    bool decoded = true;
    if (!is_result(x, ref))
        return false;
    for (uint32_t r = gcoll_ranges_find(ranges, ref.offset);
         r < ranges->count && ranges->at[r].begin < ref.offset + count; r++) {
        if (ranges->at[r].last != GCOLL_NO_STEP && ranges->at[r].last > step)
            return false;
        decoded = decoded && x->known[r].is_decoded;
    }
    return !decoded;
}

static void encode_send(pass *x, const gcoll_step *step, uint32_t index) {
    const gcoll_ref a = place(x, step->a);
    const uint64_t count = words_of(x, a, step->count);
    gcoll_ref words;
    if (!find_encoding(x, a, step->count, &words)) {
        words = gcoll_plan_scratch(x->builder, count);
        emit_codec(x, *step, GCOLL_STEP_ENCODE, a, words, a, words);
        note_encoding(x, a, step->count, index, words);
        if (must_decode(x, a, step->count, index)) {
            emit_codec(x, *step, GCOLL_STEP_DECODE, a, a, words, words);
            note_write(x, a, step->count, index, true);
        }
    }
    emit_message(x, *step, GCOLL_STEP_SEND, words, count);
}

static void encode_receive(pass *x, const gcoll_step *step, uint32_t index) {
    const gcoll_ref dst = place(x, step->dst), a = place(x, step->a);
    const bool reduces = step->kind == GCOLL_STEP_RECV_REDUCE;
    const uint64_t count = words_of(x, dst, step->count);
    const gcoll_ref words = gcoll_plan_scratch(x->builder, count);
    emit_message(x, *step, GCOLL_STEP_RECV, words, count);
    if (reduces)
        emit_codec(x, *step, GCOLL_STEP_DECODE_REDUCE, dst, dst, a, words);
    else
        emit_codec(x, *step, GCOLL_STEP_DECODE, dst, dst, words, words);
    note_write(x, dst, step->count, index, !reduces);
    if (!reduces)
        note_encoding(x, dst, step->count, index, words);
}

static void emit(pass *x, uint32_t index) {
    gcoll_step step = x->plan->steps[index];
    if (step.count > 0 && step.kind == GCOLL_STEP_SEND) {
        encode_send(x, &step, index);
    } else if (step.count > 0 && gcoll_step_is_message(&step)) {
        encode_receive(x, &step, index);
    } else {
        if (rewrites(x, &step))
            note_write(x, place(x, step.dst), step.count, index, false);
        step.dst = place(x, step.dst);
        step.a = place(x, step.a);
        step.b = place(x, step.b);
        gcoll_builder_emit(x->builder, &step, 0, step.count);
    }
}

/* ---- The pass --------------------------------------------------------------------------------------- */

static void emit_all(pass *x) {
    const gcoll_problem *p = x->problem;
    if (x->joins && gcoll_problem_in_count(p) > 0 && (p->collective != GCOLL_BROADCAST || p->rank == p->root))
        gcoll_plan_copy(x->builder, place(x, gcoll_in(0, 0)), gcoll_in(0, 0), gcoll_problem_in_count(p));
    for (uint32_t i = 0; i < x->plan->step_count; i++)
        emit(x, i);
}

gcoll_status gcoll_pass_encode(const gcoll_plan *plan, gcoll_plan **encoded) {
    const gcoll_problem *p = &plan->problem;
    pass x = {.plan = plan, .problem = p};
    x.keeps_result = !gcoll_collective_has_blocks(p->collective) || p->collective == GCOLL_ALLGATHER;
    x.joins = !gcoll_collective_reduces(p->collective) && !p->in_place;
    gcoll_status status = gcoll_builder_create_like(plan, p, &x.builder);
    if (status != GCOLL_OK)
        return status;
    const bool found =
        gcoll_ranges_create(plan, gcoll_problem_space_count(p, GCOLL_OUT), touched, &x, &x.ranges);
    x.known = found ? calloc(x.ranges.count + (size_t)1, sizeof *x.known) : NULL;
    if (!x.known)
        status = gcoll_error(GCOLL_ERR_NO_MEMORY, "plan: out of memory for the ranges of %u steps",
                             plan->step_count);
    else
        emit_all(&x);
    free(x.known);
    gcoll_ranges_destroy(&x.ranges);
    if (status != GCOLL_OK) {
        gcoll_builder_destroy(x.builder);
        return status;
    }
    status = gcoll_builder_finish(x.builder, encoded);
    if (status == GCOLL_OK) {
        (*encoded)->divisor = plan->divisor;
        (*encoded)->encoded = (*encoded)->scratch - plan->scratch;
    }
    return status;
}
