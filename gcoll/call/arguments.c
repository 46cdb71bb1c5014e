/*
 * gcoll/call/arguments.c - checks the arguments of a public collective call and fills in gcoll_arguments:
 * the call that selects the plan, and the buffers that the run uses.
 */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gcoll/base/hash.h"
#include "gcoll/call/call.h"

/* ---- Collectives -------------------------------------------------------------------------- */

/* The output holds one block of the input. */
static bool output_is_smaller(gcoll_collective collective) {
    return collective == GCOLL_REDUCE_SCATTER || collective == GCOLL_SCATTER;
}

/* ---- Options ------------------------------------------------------------------------------ */

#define OPTIONS_INIT(name)                                                                                   \
    void gcoll_##name##_options_init(gcoll_##name##_options *options) {                                      \
        memset(options, 0, sizeof *options);                                                                 \
        options->struct_size = sizeof *options;                                                              \
    }
OPTIONS_INIT(collective)
OPTIONS_INIT(allreduce)
OPTIONS_INIT(broadcast)
OPTIONS_INIT(barrier)

/* The fields that the public option structs of all collectives share. */
struct options {
    const char *algorithm;
    const gcoll_user_op *user_op;
    int same;
    uint64_t memory_limit_bytes;
    const void *const *inputs;
    void *const *outputs;
    uint32_t buffers;
    const gcoll_memory *memory;
    int64_t timeout_ms;
    int counts_at_root;
    gcoll_done_fn done;
    void *done_arg;
    int keep_input, uniform, order;
    double prescale, postscale;
    const char *codec;
};

static gcoll_status read_allreduce(const void *given, struct options *options) {
    gcoll_allreduce_options own = {0};
    gcoll_status status =
        gcoll_options_read(&own, sizeof own, offsetof(gcoll_allreduce_options, memory_limit_bytes), given);
    *options = (struct options){.algorithm = own.algorithm,
                                .user_op = own.user_op,
                                .same = own.same,
                                .memory_limit_bytes = own.memory_limit_bytes,
                                .inputs = own.inputs,
                                .outputs = own.outputs,
                                .buffers = own.buffers,
                                .memory = own.memory,
                                .timeout_ms = own.timeout_ms,
                                .done = own.done,
                                .done_arg = own.done_arg,
                                .keep_input = own.keep_input,
                                .uniform = own.uniform,
                                .order = own.order,
                                .prescale = own.prescale,
                                .postscale = own.postscale,
                                .codec = own.codec};
    return status;
}

static gcoll_status read_broadcast(const void *given, struct options *options) {
    gcoll_broadcast_options own = {0};
    gcoll_status status =
        gcoll_options_read(&own, sizeof own, offsetof(gcoll_broadcast_options, memory_limit_bytes), given);
    *options = (struct options){.algorithm = own.algorithm,
                                .memory_limit_bytes = own.memory_limit_bytes,
                                .outputs = own.buffers,
                                .buffers = own.buffer_count,
                                .memory = own.memory,
                                .timeout_ms = own.timeout_ms,
                                .done = own.done,
                                .done_arg = own.done_arg,
                                .uniform = own.uniform,
                                .codec = own.codec};
    return status;
}

/* Reads gcoll_collective_options: for collectives without an option struct of their own, and for all
 * collectives when called through the general form. */
static gcoll_status read_general(const gcoll_given *given, bool takes_several, struct options *options) {
    gcoll_collective_options own = {0};
    gcoll_status status =
        gcoll_options_read(&own, sizeof own, offsetof(gcoll_collective_options, memory), given->options);
    if (status == GCOLL_OK && !takes_several && (own.buffers > 0 || own.inputs || own.outputs))
        return gcoll_error(GCOLL_ERR_INVALID, "options.%s: is set, but %s takes one buffer a rank",
                           own.buffers > 0 ? "buffers"
                           : own.inputs    ? "inputs"
                                           : "outputs",
                           gcoll_collective_name(given->collective));
    *options = (struct options){.algorithm = given->algorithm ? given->algorithm : own.algorithm,
                                .user_op = own.user_op,
                                .same = own.same,
                                .memory_limit_bytes = own.memory_limit_bytes,
                                .inputs = own.inputs,
                                .outputs = own.outputs,
                                .buffers = own.buffers,
                                .memory = own.memory,
                                .timeout_ms = given->timeout_ms != 0 ? given->timeout_ms : own.timeout_ms,
                                .counts_at_root = own.counts_at_root,
                                .done = own.done,
                                .done_arg = own.done_arg,
                                .keep_input = own.keep_input,
                                .uniform = own.uniform,
                                .order = own.order,
                                .prescale = own.prescale,
                                .postscale = own.postscale,
                                .codec = own.codec};
    return status;
}

static gcoll_status read_options(const gcoll_given *given, struct options *options) {
    if (given->is_general)
        return read_general(given,
                            given->collective == GCOLL_ALLREDUCE || given->collective == GCOLL_BROADCAST ||
                                given->collective == GCOLL_REDUCE_SCATTER,
                            options);
    if (given->collective == GCOLL_ALLREDUCE)
        return read_allreduce(given->options, options);
    if (given->collective == GCOLL_BROADCAST)
        return read_broadcast(given->options, options);
    if (given->collective == GCOLL_BARRIER) {
        gcoll_barrier_options own = {0};
        gcoll_status status =
            gcoll_options_read(&own, sizeof own, offsetof(gcoll_barrier_options, timeout_ms), given->options);
        *options = (struct options){.algorithm = own.algorithm,
                                    .timeout_ms = own.timeout_ms,
                                    .done = own.done,
                                    .done_arg = own.done_arg,
                                    .uniform = own.uniform};
        return status;
    }
    return read_general(given, given->collective == GCOLL_REDUCE_SCATTER, options);
}

static gcoll_status check_flag(const char *name, int given) {
    if (given == 0 || given == 1)
        return GCOLL_OK;
    return gcoll_error(GCOLL_ERR_INVALID, "options.%s: is %d; allowed are 0 and 1", name, given);
}

gcoll_status gcoll_same_check(int same) {
    if (same >= GCOLL_SAME_DEFAULT && same <= GCOLL_SAME_NOWHERE)
        return GCOLL_OK;
    return gcoll_error(GCOLL_ERR_INVALID, "options.same: is %d; allowed are 0 (default) to %d (nowhere)",
                       same, (int)GCOLL_SAME_NOWHERE);
}

bool gcoll_order_matters(gcoll_type type, gcoll_op op) {
    return op == GCOLL_USER ||
           (gcoll_type_is_floating(type) && (op == GCOLL_SUM || op == GCOLL_PRODUCT || op == GCOLL_AVG));
}

gcoll_status gcoll_order_check(int order) {
    if (order >= GCOLL_ORDER_DEFAULT && order <= GCOLL_ORDER_LEFT)
        return GCOLL_OK;
    return gcoll_error(GCOLL_ERR_INVALID, "options.order: is %d; allowed are 0 (default) to %d (left)", order,
                       (int)GCOLL_ORDER_LEFT);
}

/* Records which claims the algorithm must make so that options.same and options.order hold. Bits can differ
 * between ranks only in an allreduce, as other reductions put each element on one rank. They can differ
 * between runs in every reduction. */
static gcoll_status set_bits(gcoll_call *call, const gcoll_context *context, const struct options *given) {
    const gcoll_same same =
        given->same != GCOLL_SAME_DEFAULT ? (gcoll_same)given->same : context->settings.same;
    const gcoll_order order =
        given->order != GCOLL_ORDER_DEFAULT ? (gcoll_order)given->order : context->settings.order;
    const uint32_t tree = gcoll_order_claim(order);
    gcoll_status status = gcoll_same_check(given->same);
    if (status == GCOLL_OK)
        status = gcoll_order_check(given->order);
    if (status != GCOLL_OK || !gcoll_collective_reduces((gcoll_collective)call->collective) ||
        !gcoll_order_matters((gcoll_type)call->type, (gcoll_op)call->op))
        return status;
    call->needs |= tree;
    if (tree && call->op == GCOLL_USER) /* which may see on which side an operand stands */
        call->needs |= GCOLL_CLAIM_ORDERED;
    if (call->collective == GCOLL_ALLREDUCE && (tree || same != GCOLL_SAME_NOWHERE))
        call->needs |= GCOLL_CLAIM_RANK_IDENTICAL;
    /* A tree is the same in all runs, whatever the algorithm is chosen by. */
    if (same == GCOLL_SAME_IN_RUNS && !tree)
        call->needs |= GCOLL_CLAIM_RUN_IDENTICAL;
    return GCOLL_OK;
}

static gcoll_status set_algorithm(gcoll_call *call, const char *text) {
    if (!text)
        return GCOLL_OK;
    if (!text[0])
        return gcoll_error(GCOLL_ERR_INVALID,
                           "options.algorithm: is ''; allowed are NULL and auto, which leave it to gcoll, or "
                           "the name of an algorithm");
    if (strlen(text) >= sizeof call->algorithm)
        return gcoll_error(GCOLL_ERR_INVALID, "options.algorithm: has %zu bytes; allowed are up to %zu",
                           strlen(text), sizeof call->algorithm - 1);
    snprintf(call->algorithm, sizeof call->algorithm, "%s", text);
    return GCOLL_OK;
}

static gcoll_status set_own_elements(gcoll_call *call, uint32_t bytes) {
    if (bytes > GCOLL_MAX_ELEMENT_BYTES)
        return gcoll_error(GCOLL_ERR_INVALID, "options.user_op->element_bytes: is %u; allowed are 0 to %u",
                           bytes, GCOLL_MAX_ELEMENT_BYTES);
    if (call->type != GCOLL_UINT8)
        return gcoll_error(
            GCOLL_ERR_INVALID,
            "type: is %s, but options.user_op->element_bytes is %u; allowed is uint8 (or element_bytes 0)",
            gcoll_type_name((gcoll_type)call->type), bytes);
    call->element_bytes = bytes;
    return GCOLL_OK;
}

static gcoll_status set_user_op(gcoll_arguments *arguments, const struct options *options) {
    gcoll_call *call = &arguments->call;
    if (!gcoll_collective_reduces((gcoll_collective)call->collective))
        return GCOLL_OK;
    if (call->op != GCOLL_USER)
        return gcoll_op_check((gcoll_type)call->type, (gcoll_op)call->op);
    if (!options->user_op || !options->user_op->reduce)
        return gcoll_error(GCOLL_ERR_INVALID,
                           "options.user_op: is NULL or has no function, but op is GCOLL_USER");
    arguments->user_op = options->user_op;
    call->commutative = options->user_op->commutative ? 1 : 0;
    if (!call->commutative)
        call->needs |= GCOLL_CLAIM_ORDERED;
    return options->user_op->element_bytes > 0 ? set_own_elements(call, options->user_op->element_bytes)
                                               : GCOLL_OK;
}

/* Reads options.codec; device memory is found later. The call must have its order: a codec rounds partial
 * sums, so several ranks can keep none. One rank encodes nothing. size: the number of ranks. */
static gcoll_status set_codec(gcoll_call *call, uint32_t size, const gcoll_given *given, const char *text) {
    gcoll_codec codec;
    gcoll_status status = gcoll_codec_parse(text, &codec);
    if (status != GCOLL_OK || !gcoll_codec_is_set(&codec))
        return status;
    if (!gcoll_collective_takes_codec(given->collective))
        return gcoll_error(
            GCOLL_ERR_UNSUPPORTED,
            "options.codec: is '%s' for %s; allowed are allreduce, reduce_scatter, allgather and broadcast",
            text, gcoll_collective_name(given->collective));
    if (given->type != GCOLL_FLOAT32)
        return gcoll_error(GCOLL_ERR_UNSUPPORTED, "options.codec: is '%s' for type %s; allowed is float32",
                           text, gcoll_type_name(given->type));
    if (gcoll_collective_reduces(given->collective) && given->op != GCOLL_SUM && given->op != GCOLL_AVG)
        return gcoll_error(GCOLL_ERR_UNSUPPORTED, "options.codec: is '%s' for op %s; allowed are sum and avg",
                           text, gcoll_op_name(given->op));
    if (size > 1 && gcoll_call_order(call) != GCOLL_ORDER_ANY)
        return gcoll_error(GCOLL_ERR_UNSUPPORTED,
                           "options.codec: is '%s' with options.order %s; allowed is one of the two", text,
                           gcoll_order_name(gcoll_call_order(call)));
    if (given->lists_input || given->lists_output)
        return gcoll_error(
            GCOLL_ERR_UNSUPPORTED,
            "options.codec: is '%s', but the vector is a list of buffers; allowed is one buffer", text);
    call->codec = codec;
    return GCOLL_OK;
}

/* ---- Factors ------------------------------------------------------------------------------ */

/* The types that compute with the factor as it is; all others round it to float32. */
static bool takes_double(gcoll_type type) {
    return type == GCOLL_FLOAT64 || type == GCOLL_COMPLEX128;
}

static gcoll_status check_factor(const char *name, double factor, const gcoll_given *given) {
    const double size = fabs(factor), least = takes_double(given->type) ? DBL_MIN : FLT_MIN,
                 most = takes_double(given->type) ? DBL_MAX : FLT_MAX;
    if (factor == 0)
        return GCOLL_OK;
    if (!gcoll_collective_reduces(given->collective))
        return gcoll_error(GCOLL_ERR_INVALID, "options.%s: is %g, but %s reduces nothing; allowed is 0", name,
                           factor, gcoll_collective_name(given->collective));
    if (!gcoll_type_is_floating(given->type))
        return gcoll_error(GCOLL_ERR_INVALID,
                           "options.%s: is %g, but type is %s; allowed is 0, or a type of floating-point or "
                           "complex numbers",
                           name, factor, gcoll_type_name(given->type));
    if (size >= least && size <= most)
        return GCOLL_OK;
    return gcoll_error(
        GCOLL_ERR_INVALID,
        "options.%s: is %g; allowed for %s are 0 (none) and numbers of %g to %g, of either sign", name,
        factor, gcoll_type_name(given->type), least, most);
}

/* Records the factors. If there is but one contribution, no step works on a result, so that the input gets
 * both. */
static gcoll_status set_factors(gcoll_arguments *arguments, const gcoll_context *context,
                                const gcoll_given *given, const struct options *options) {
    gcoll_call *call = &arguments->call;
    const uint32_t buffers = options->buffers > 0 ? options->buffers : 1;
    gcoll_status status = check_factor("prescale", options->prescale, given);
    if (status == GCOLL_OK)
        status = check_factor("postscale", options->postscale, given);
    if (status != GCOLL_OK)
        return status;
    arguments->factors[0] = options->prescale;
    if (options->postscale == 0)
        return GCOLL_OK;
    memcpy(&call->postscale, &options->postscale, sizeof call->postscale);
    if (context->size == 1 && buffers == 1)
        arguments->factors[options->prescale != 0 ? 1 : 0] = options->postscale;
    return GCOLL_OK;
}

/* Turns the checked call into the one that runs on the multiple of the input. That lies in the output, where
 * it has the size of the input, and the call is in place; else in memory of the run's own. */
static gcoll_status adapt_to_factors(gcoll_arguments *arguments, const gcoll_context *context) {
    gcoll_call *call = &arguments->call;
    if (call->places != 0 && (arguments->factors[0] != 0 || call->postscale != 0))
        return gcoll_error(GCOLL_ERR_UNSUPPORTED,
                           "options.%s: is set, but a buffer lies in device memory; allowed are buffers in "
                           "host memory",
                           call->postscale != 0 ? "postscale" : "prescale");
    arguments->was_in_place = call->in_place != 0;
    if (arguments->factors[0] == 0)
        return GCOLL_OK;
    call->in_list = 0;
    if (call->collective == GCOLL_REDUCE_SCATTER && call->in_place)
        call->out_list = 0; /* which is that of the inputs */
    call->in_place = call->collective == GCOLL_ALLREDUCE ||
                     (call->collective == GCOLL_REDUCE && call->root == context->rank);
    return GCOLL_OK;
}

/* ---- Sizes -------------------------------------------------------------------------------- */

static gcoll_status check_bytes(uint64_t count, uint32_t element_bytes) {
    uint64_t bytes;
    if (!gcoll_mul_u64(count, element_bytes, &bytes) || bytes > PTRDIFF_MAX)
        return gcoll_error(GCOLL_ERR_INVALID, "count: is %llu; %u-byte elements exceed the address space",
                           (unsigned long long)count, element_bytes);
    return GCOLL_OK;
}

/* Turns the counts into offsets, and adds them to the hash. */
static gcoll_status set_offsets(const uint64_t *counts, const char *name, uint32_t size, uint64_t *offsets,
                                uint64_t *hash) {
    if (!counts)
        return gcoll_error(GCOLL_ERR_INVALID, "%s: is NULL", name);
    offsets[0] = 0;
    for (uint32_t rank = 0; rank < size; rank++) {
        if (__builtin_add_overflow(offsets[rank], counts[rank], &offsets[rank + 1]))
            return gcoll_error(GCOLL_ERR_INVALID,
                               "%s[%u]: is %llu; the sum of the counts up to it exceeds 64 bits", name, rank,
                               (unsigned long long)counts[rank]);
        *hash = gcoll_hash_word(*hash, counts[rank]);
        *hash ^= *hash >> 29;
    }
    return GCOLL_OK;
}

static bool all_equal(const uint64_t *counts, uint32_t size) {
    for (uint32_t rank = 1; rank < size; rank++)
        if (counts[rank] != counts[0])
            return false;
    return true;
}

/* Makes room for so many offsets, which all calls share. */
static gcoll_status make_offsets_room(gcoll_calls *calls, size_t room) {
    if (room <= calls->offsets_room)
        return GCOLL_OK;
    uint64_t *offsets = realloc(calls->offsets, room * sizeof *offsets);
    if (!offsets)
        return gcoll_error(GCOLL_ERR_NO_MEMORY, "counts: no memory for %zu of them", room);
    calls->offsets = offsets;
    calls->offsets_room = room;
    return GCOLL_OK;
}

/* Where only the root knows all blocks, another rank takes those of others to be empty. */
static gcoll_status set_own_offsets(const uint64_t *count, const gcoll_context *context, uint64_t *offsets,
                                    uint64_t *hash) {
    if (!count)
        return gcoll_error(GCOLL_ERR_INVALID, "counts: is NULL");
    for (uint32_t rank = 0; rank <= context->size; rank++)
        offsets[rank] = rank > context->rank ? *count : 0;
    *hash = gcoll_hash_word(*hash, *count);
    return GCOLL_OK;
}

/* Records the block sizes. Equal blocks make the same call as the form without counts. Alltoall and counts at
 * the root are the exceptions, because the blocks of other ranks may differ. */
static gcoll_status set_blocks(gcoll_arguments *arguments, gcoll_context *context, const gcoll_given *given) {
    const uint32_t size = context->size;
    const bool two = given->collective == GCOLL_ALLTOALL;
    const size_t entries = (size_t)size + 1;
    gcoll_call *call = &arguments->call;
    uint64_t hash = GCOLL_HASH_START;
    gcoll_status status = make_offsets_room(context->calls, 2 * entries);
    if (status != GCOLL_OK)
        return status;
    uint64_t *offsets = context->calls->offsets, *recv_offsets = context->calls->offsets + entries;
    if (call->counts_at_root && context->rank != given->root)
        status = set_own_offsets(given->counts, context, offsets, &hash);
    else
        status = set_offsets(given->counts, two ? "send_counts" : "counts", size, offsets, &hash);
    if (status == GCOLL_OK && two)
        status = set_offsets(given->recv_counts, "recv_counts", size, recv_offsets, &hash);
    if (status == GCOLL_OK && two && given->counts[context->rank] != given->recv_counts[context->rank])
        status = gcoll_error(GCOLL_ERR_INVALID,
                             "recv_counts[%u]: is %llu, but send_counts[%u] is %llu; allowed is one "
                             "value for both, as this rank receives what it sends to itself",
                             context->rank, (unsigned long long)given->recv_counts[context->rank],
                             context->rank, (unsigned long long)given->counts[context->rank]);
    if (status == GCOLL_OK && two)
        status = check_bytes(recv_offsets[size], call->element_bytes);
    if (status != GCOLL_OK)
        return status;
    call->count = offsets[size];
    if (!two && !call->counts_at_root && all_equal(given->counts, size))
        return GCOLL_OK;
    call->blocks_hash = hash ? hash : 1;
    arguments->blocks.offsets = offsets;
    arguments->blocks.recv_offsets = two ? recv_offsets : NULL;
    return GCOLL_OK;
}

/* The vector of an allreduce as a list of buffers. */
static gcoll_status set_entries(gcoll_call *call, gcoll_context *context, const gcoll_given *given) {
    uint64_t hash = GCOLL_HASH_START;
    if (given->entries > GCOLL_MAX_LIST)
        return gcoll_error(GCOLL_ERR_INVALID, "entries: is %u; allowed are 0 to %u", given->entries,
                           GCOLL_MAX_LIST);
    gcoll_status status = make_offsets_room(context->calls, (size_t)given->entries + 1);
    if (status == GCOLL_OK && given->entries == 0)
        context->calls->offsets[0] = 0; /* an empty list needs no counts */
    else if (status == GCOLL_OK)
        status = set_offsets(given->counts, "counts", given->entries, context->calls->offsets, &hash);
    if (status != GCOLL_OK)
        return status;
    call->count = context->calls->offsets[given->entries];
    call->blocks_hash = hash ? hash : 1;
    return GCOLL_OK;
}

static gcoll_status set_count(gcoll_arguments *arguments, gcoll_context *context, const gcoll_given *given) {
    gcoll_call *call = &arguments->call;
    const bool is_list = given->lists_input || given->lists_output;
    gcoll_status status = GCOLL_OK;
    if (is_list && given->collective == GCOLL_ALLREDUCE)
        status = set_entries(call, context, given);
    else if (given->has_counts)
        status = set_blocks(arguments, context, given);
    else if (!gcoll_mul_u64(given->count, gcoll_collective_has_blocks(given->collective) ? context->size : 1,
                            &call->count))
        status = gcoll_error(GCOLL_ERR_INVALID, "count: is %llu; for %u ranks that exceeds 64 bits",
                             (unsigned long long)given->count, context->size);
    return status == GCOLL_OK ? check_bytes(call->count, call->element_bytes) : status;
}

/* ---- Buffers ------------------------------------------------------------------------------ */

struct range {
    uintptr_t begin, end;
};

/* The argument that names a buffer: an argument of its own, or an entry of a list. */
struct place {
    const char *single, *list;
    bool is_listed;
    uint32_t index;
};

static int by_begin(const void *a, const void *b) {
    uintptr_t x = ((const struct range *)a)->begin, y = ((const struct range *)b)->begin;
    return (x > y) - (x < y);
}

/* The name of a buffer in messages: "input", or "options.inputs[3]". */
typedef struct buffer_name {
    char text[40];
} buffer_name;

static buffer_name name_buffer(const struct place *place) {
    buffer_name name;
    if (place->is_listed)
        snprintf(name.text, sizeof name.text, "%s[%u]", place->list, place->index);
    else
        snprintf(name.text, sizeof name.text, "%s", place->single);
    return name;
}

static gcoll_status check_buffer(const void *buffer, const struct place *place, uint64_t bytes,
                                 size_t alignment, struct range *range) {
    if (!buffer && bytes > 0)
        return gcoll_error(GCOLL_ERR_INVALID, "%s: is NULL, but count is not 0", name_buffer(place).text);
    if ((uintptr_t)buffer % alignment != 0)
        return gcoll_error(GCOLL_ERR_INVALID, "%s: %p is not aligned to its element, %zu bytes",
                           name_buffer(place).text, buffer, alignment);
    if (bytes > UINTPTR_MAX - (uintptr_t)buffer)
        return gcoll_error(GCOLL_ERR_INVALID, "count: %s would end beyond the address space",
                           name_buffer(place).text);
    range->begin = (uintptr_t)buffer;
    range->end = (uintptr_t)buffer + bytes;
    return GCOLL_OK;
}

static bool is_sorted(const struct range *ranges, size_t used) {
    for (size_t i = 1; i < used; i++)
        if (ranges[i].begin < ranges[i - 1].begin)
            return false;
    return true;
}

static gcoll_status check_overlap(struct range *ranges, size_t used) {
    if (used > 2 && !is_sorted(ranges, used)) {
        qsort(ranges, used, sizeof *ranges, by_begin);
    } else if (used == 2 && by_begin(&ranges[0], &ranges[1]) > 0) { /* the common case needs no qsort */
        const struct range first = ranges[1];
        ranges[1] = ranges[0];
        ranges[0] = first;
    }
    uintptr_t end = 0;
    for (size_t i = 0; i < used; i++) {
        if (ranges[i].begin == ranges[i].end)
            continue; /* an empty range overlaps nothing */
        if (ranges[i].begin < end)
            return gcoll_error(
                GCOLL_ERR_INVALID,
                "buffers: two of them overlap at %p; allowed, in all buffers or in none: an input "
                "that is its own output or, of different sizes, the smaller of the two at this "
                "rank's block of the larger one",
                (void *)ranges[i].begin);
        end = ranges[i].end;
    }
    return GCOLL_OK;
}

/* Room for so many ranges: the caller's few, or the context's. */
static struct range *ranges_for(gcoll_calls *calls, size_t room, struct range *few, size_t few_room) {
    if (room <= few_room)
        return few;
    if (room > calls->ranges_room) {
        void *more = realloc(calls->ranges, room * sizeof *few);
        if (!more) {
            gcoll_error(GCOLL_ERR_NO_MEMORY, "buffers: no memory to check %zu", room);
            return NULL;
        }
        calls->ranges = more;
        calls->ranges_room = room;
    }
    return calls->ranges;
}

static gcoll_status check_list(const gcoll_list *list, const char *name, const gcoll_call *call,
                               struct range *ranges, size_t *used) {
    const size_t alignment = gcoll_element_alignment(call);
    struct place place = {.list = name, .is_listed = true};
    gcoll_status status = GCOLL_OK;
    for (uint32_t k = 0; k < list->entries && status == GCOLL_OK; k++) {
        place.index = k;
        status =
            check_buffer(list->at[k], &place, (list->offsets[k + 1] - list->offsets[k]) * call->element_bytes,
                         alignment, &ranges[(*used)++]);
    }
    return status;
}

/* Checks alignment and overlap. Buffers must not overlap, because steps on them run in any order. In
 * place, an input may equal its output. */
static gcoll_status check_buffers(const gcoll_arguments *arguments, gcoll_calls *calls,
                                  const gcoll_problem *problem, const gcoll_given *given, bool is_listed) {
    const gcoll_call *call = &arguments->call;
    const size_t alignment = gcoll_element_alignment(call);
    const uint64_t in_bytes = gcoll_problem_in_count(problem) * call->element_bytes;
    const uint64_t out_bytes = gcoll_problem_space_count(problem, GCOLL_OUT) * call->element_bytes;
    struct place in = {.single = "input", .list = "options.inputs", .is_listed = is_listed};
    struct place out = {.single = "output", .list = "options.outputs", .is_listed = is_listed};
    if (problem->collective == GCOLL_BROADCAST && !given->is_general)
        out.single = "data", out.list = "options.buffers";
    else if (call->in_place && output_is_smaller(problem->collective))
        out = in;
    const gcoll_buffers *buffers = &arguments->buffers;
    struct range few[4];
    size_t used = 0;
    struct range *ranges =
        ranges_for(calls, 2 * (size_t)call->buffers + call->in_list + call->out_list, few, 4);
    if (!ranges)
        return GCOLL_ERR_NO_MEMORY;
    gcoll_status status = GCOLL_OK;
    for (uint32_t k = 0; k < call->buffers && status == GCOLL_OK; k++) {
        in.index = out.index = k;
        if (call->out_list == 0)
            status = check_buffer(buffers->out[k], &out, out_bytes, alignment, &ranges[used++]);
        if (status == GCOLL_OK && !call->in_place && call->in_list == 0)
            status = check_buffer(buffers->in[k], &in, in_bytes, alignment, &ranges[used++]);
    }
    if (status == GCOLL_OK && call->out_list > 0)
        status = check_list(&buffers->out_list, out.single == in.single ? "inputs" : "outputs", call, ranges,
                            &used);
    if (status == GCOLL_OK && call->in_list > 0)
        status = check_list(&buffers->in_list, "inputs", call, ranges, &used);
    return status == GCOLL_OK ? check_overlap(ranges, used) : status;
}

/* Whether the smaller of input and output lies in the larger one, at this rank's block. */
static bool lies_inside(const void *input, const void *output, gcoll_problem problem, size_t type_bytes) {
    problem.in_place = true;
    return (uintptr_t)input + gcoll_problem_out_shift(&problem) * type_bytes ==
           (uintptr_t)output + gcoll_problem_in_shift(&problem) * type_bytes;
}

/* Takes the buffers from the lists in the options: for allreduce, reduce_scatter and broadcast. */
static gcoll_status set_lists(gcoll_arguments *arguments, const gcoll_given *given,
                              const struct options *options, const gcoll_problem *problem) {
    gcoll_call *call = &arguments->call;
    const bool broadcasts = given->collective == GCOLL_BROADCAST;
    const bool counts_its_own = broadcasts && !given->is_general;
    const char *count_name = counts_its_own ? "options.buffer_count" : "options.buffers";
    if (options->buffers > GCOLL_MAX_BUFFERS)
        return gcoll_error(GCOLL_ERR_INVALID, "%s: is %u; allowed are 0 to %u", count_name, options->buffers,
                           GCOLL_MAX_BUFFERS);
    if (given->input || given->output)
        return gcoll_error(GCOLL_ERR_INVALID, "%s: must be NULL, as %s is %u",
                           broadcasts ? "data" : "input, output", count_name, options->buffers);
    if (broadcasts ? !options->outputs : !options->inputs)
        return gcoll_error(GCOLL_ERR_INVALID, "%s: is NULL, but %s is %u",
                           counts_its_own ? "options.buffers"
                           : broadcasts   ? "options.outputs"
                                          : "options.inputs",
                           count_name, options->buffers);
    call->buffers = options->buffers;
    call->in_place = 1;
    arguments->buffers.in = options->inputs;
    /* A caller who gives no outputs asks for the operation in place, which writes to the inputs. */
    arguments->buffers.out = options->outputs ? options->outputs : (void *const *)(uintptr_t)options->inputs;
    for (uint32_t k = 0; !broadcasts && options->outputs && k < options->buffers; k++)
        if (!lies_inside(options->inputs[k], options->outputs[k], *problem, call->element_bytes))
            call->in_place = 0;
    if (call->in_place && output_is_smaller(given->collective)) /* the output is the block inside the input */
        arguments->buffers.out = (void *const *)(uintptr_t)options->inputs;
    return GCOLL_OK;
}

/* Takes the buffers of a call that has one input and one output, and notes whether it is in place. */
static gcoll_status set_pair(gcoll_arguments *arguments, const gcoll_given *given,
                             const gcoll_problem *problem) {
    gcoll_call *call = &arguments->call;
    const gcoll_collective collective = given->collective;
    const bool here = !gcoll_collective_has_root(collective) || problem->rank == problem->root;
    const void *input = given->input;
    if (collective == GCOLL_REDUCE && here && !input)
        input = given->output;
    bool inside = lies_inside(input, given->output, *problem, call->element_bytes);
    arguments->in = input;
    arguments->out = given->output;
    switch (collective) {
    case GCOLL_ALLREDUCE:
        call->in_place = !input || input == given->output;
        break;
    case GCOLL_BROADCAST:
    case GCOLL_BARRIER:
        call->in_place = 1;
        break;
    case GCOLL_ALLTOALL:
    case GCOLL_PAIRWISE_EXCHANGE:
        if (input && input == given->output && problem->count > 0)
            return gcoll_error(GCOLL_ERR_INVALID,
                               "input, output: are the same buffer, %p; %s is not done in place", input,
                               gcoll_collective_name(collective));
        break;
    case GCOLL_REDUCE_SCATTER:
        call->in_place = inside;
        break;
    default: /* buffers that only the root needs are ignored on other ranks */
        call->in_place = here && inside;
        if (!here && collective == GCOLL_SCATTER)
            arguments->in = NULL;
        if (!here && (collective == GCOLL_REDUCE || collective == GCOLL_GATHER))
            arguments->out = NULL;
    }
    if (call->in_place && output_is_smaller(collective)) /* the output is the block inside the input */
        arguments->out = (void *)(uintptr_t)input;
    return GCOLL_OK;
}

/* ---- Lists of buffers --------------------------------------------------------------------- */

/* In place: no inputs, or each that has elements is its own output. */
static bool is_in_place(const gcoll_given *given, const uint64_t *offsets) {
    for (uint32_t k = 0; given->inputs && k < given->entries; k++)
        if (given->inputs[k] != given->outputs[k] && offsets[k + 1] > offsets[k])
            return false;
    return true;
}

static void use_lists(gcoll_arguments *arguments, const gcoll_list *in, const gcoll_list *out) {
    if (in)
        arguments->buffers.in_list = *in;
    if (out)
        arguments->buffers.out_list = *out;
    arguments->call.in_list = in ? in->entries : 0;
    arguments->call.out_list = out ? out->entries : 0;
}

/* The list of a collective with blocks has an entry for each rank. */
static gcoll_status set_block_list(gcoll_arguments *arguments, const gcoll_given *given,
                                   const gcoll_problem *problem, const uint64_t *offsets,
                                   const uint64_t *recv_offsets) {
    gcoll_call *call = &arguments->call;
    const gcoll_collective collective = given->collective;
    const bool here = !gcoll_collective_has_root(collective) || problem->rank == problem->root;
    const bool in_is_list = given->lists_input && (here || collective != GCOLL_SCATTER);
    const bool out_is_list = given->lists_output && (here || collective != GCOLL_GATHER);
    const bool in_is_block = collective == GCOLL_ALLGATHER || collective == GCOLL_GATHER;
    if ((in_is_list && !given->inputs) || (out_is_list && !given->outputs))
        return gcoll_error(GCOLL_ERR_INVALID, "%s: is NULL",
                           in_is_list && !given->inputs ? "inputs" : "outputs");
    const gcoll_list in = {given->inputs, offsets, problem->size};
    const gcoll_list out = {(const void *const *)given->outputs, recv_offsets, problem->size};
    arguments->in = given->lists_input ? NULL : given->input;
    arguments->out = given->lists_output ? NULL : given->output;
    if (in_is_block && out_is_list)
        call->in_place = given->input == given->outputs[problem->rank];
    else if (output_is_smaller(collective) && in_is_list)
        call->in_place = given->output == given->inputs[problem->rank];
    if (call->in_place) /* IN and OUT are one memory, which steps call OUT */
        use_lists(arguments, NULL, in_is_list ? &in : &out);
    else
        use_lists(arguments, in_is_list ? &in : NULL, out_is_list ? &out : NULL);
    return GCOLL_OK;
}

/* Takes the buffers of a call whose input, output or both are lists. */
static gcoll_status set_list(gcoll_arguments *arguments, gcoll_context *context, const gcoll_given *given,
                             const gcoll_problem *problem) {
    const uint32_t size = context->size;
    uint64_t *offsets = context->calls->offsets;
    arguments->buffers.in = &arguments->in;
    arguments->buffers.out = &arguments->out;
    if (given->collective != GCOLL_ALLREDUCE) {
        const bool two = given->collective == GCOLL_ALLTOALL && given->has_counts;
        gcoll_status status = make_offsets_room(context->calls, 2 * ((size_t)size + 1));
        offsets = context->calls->offsets;
        for (uint32_t rank = 0; status == GCOLL_OK && !given->has_counts && rank <= size; rank++)
            offsets[rank] = rank * given->count;
        return status == GCOLL_OK
                   ? set_block_list(arguments, given, problem, offsets, two ? offsets + size + 1 : offsets)
                   : status;
    }
    if (!given->outputs && given->entries > 0)
        return gcoll_error(GCOLL_ERR_INVALID, "outputs: is NULL");
    const gcoll_list in = {given->inputs, offsets, given->entries};
    const gcoll_list out = {(const void *const *)given->outputs, offsets, given->entries};
    arguments->call.in_place = is_in_place(given, offsets);
    use_lists(arguments, arguments->call.in_place ? NULL : &in, &out);
    return GCOLL_OK;
}

/* ---- Together ----------------------------------------------------------------------------- */

/* Refuses options.buffers beside a list: each of the two takes the place of input and output. */
static gcoll_status check_lists(const gcoll_given *given, const struct options *options) {
    if ((given->lists_input || given->lists_output) && options->buffers > 0)
        return gcoll_error(GCOLL_ERR_INVALID,
                           "options.buffers: is %u, but the call has a list of buffers; allowed is 0",
                           options->buffers);
    return GCOLL_OK;
}

static gcoll_status set_counts_at_root(gcoll_call *call, const gcoll_given *given, int is_set) {
    const bool is_one = given->collective == GCOLL_GATHER || given->collective == GCOLL_SCATTER;
    if (is_set && (!is_one || !given->has_counts))
        return gcoll_error(GCOLL_ERR_INVALID,
                           "options.counts_at_root: is set for %s%s; allowed is 0, or gather_v or scatter_v",
                           gcoll_collective_name(given->collective), given->has_counts ? "_v" : "");
    call->counts_at_root = is_set ? 1 : 0;
    return GCOLL_OK;
}

static gcoll_status check_given(const gcoll_context *context, const gcoll_given *given) {
    if (gcoll_type_size(given->type) == 0)
        return gcoll_error(GCOLL_ERR_INVALID, "type: is %d; allowed are 0 to %d", (int)given->type,
                           GCOLL_TYPE_COUNT - 1);
    if (gcoll_collective_has_root(given->collective) && given->root >= context->size)
        return gcoll_error(GCOLL_ERR_INVALID, "root: is %u; allowed are 0 to %u", given->root,
                           context->size - 1);
    if (given->exchanges > GCOLL_MAX_EXCHANGES)
        return gcoll_error(GCOLL_ERR_INVALID, "exchanges: is %u; allowed are 0 to %u", given->exchanges,
                           GCOLL_MAX_EXCHANGES);
    return GCOLL_OK;
}

static gcoll_status set_call(gcoll_arguments *arguments, gcoll_context *context, const gcoll_given *given,
                             const struct options *options) {
    gcoll_call *call = &arguments->call;
    call->collective = (uint32_t)given->collective;
    call->type = (uint32_t)given->type;
    call->op = (uint32_t)given->op;
    call->root = given->root;
    call->exchanges = given->exchanges;
    call->buffers = 1;
    call->commutative = 1;
    call->element_bytes = (uint32_t)gcoll_type_size(given->type);
    call->registered = context->calls->registry.count;
    call->memory_limit = options->memory_limit_bytes;
    call->uniform = options->uniform ? 1 : 0;
    gcoll_status status = set_bits(call, context, options);
    if (status == GCOLL_OK)
        status = set_algorithm(call, options->algorithm);
    if (status == GCOLL_OK)
        status = set_user_op(arguments, options);
    if (status == GCOLL_OK)
        status = set_codec(call, context->size, given, options->codec);
    if (status == GCOLL_OK)
        status = set_counts_at_root(call, given, options->counts_at_root);
    if (status == GCOLL_OK)
        status = set_factors(arguments, context, given, options);
    return status == GCOLL_OK ? set_count(arguments, context, given) : status;
}

gcoll_status gcoll_arguments_read(gcoll_arguments *arguments, gcoll_context *context,
                                  const gcoll_given *given) {
    struct options options = {0};
    if (!context)
        return gcoll_error(GCOLL_ERR_INVALID, "context: is NULL");
    gcoll_status status = read_options(given, &options);
    if (status == GCOLL_OK)
        status = gcoll_timeout_check("options.timeout_ms", options.timeout_ms);
    if (status == GCOLL_OK)
        status = check_flag("keep_input", options.keep_input);
    if (status == GCOLL_OK)
        status = check_flag("uniform", options.uniform);
    if (status == GCOLL_OK)
        status = check_given(context, given);
    if (status == GCOLL_OK)
        status = check_lists(given, &options);
    if (status == GCOLL_OK)
        status = set_call(arguments, context, given, &options);
    if (status != GCOLL_OK)
        return status;
    gcoll_problem problem = gcoll_call_problem(context, &arguments->call, &arguments->blocks);
    if (given->lists_input || given->lists_output) {
        status = set_list(arguments, context, given, &problem);
    } else if (options.buffers > 0) {
        status = set_lists(arguments, given, &options, &problem);
    } else {
        status = set_pair(arguments, given, &problem);
        arguments->buffers.in = &arguments->in;
        arguments->buffers.out = &arguments->out;
    }
    problem.in_place = arguments->call.in_place != 0;
    arguments->timeout_ms = options.timeout_ms;
    arguments->done = options.done;
    arguments->done_arg = options.done_arg;
    arguments->keep_input = options.keep_input != 0;
    if (status == GCOLL_OK)
        status = check_buffers(arguments, context->calls, &problem, given, options.buffers > 0);
    if (status == GCOLL_OK)
        status = gcoll_memory_read(arguments, context, options.memory);
    return status == GCOLL_OK ? adapt_to_factors(arguments, context) : status;
}

gcoll_status gcoll_arguments_shape(gcoll_call *call, gcoll_context *context, gcoll_collective collective,
                                   uint64_t count, gcoll_type type, gcoll_op op, uint32_t root,
                                   const gcoll_collective_options *given) {
    gcoll_arguments arguments = {0};
    gcoll_collective_options own = {0};
    if ((unsigned)collective >= GCOLL_COLLECTIVE_COUNT)
        return gcoll_error(GCOLL_ERR_INVALID, "collective: is %u; allowed are 0 to %u", (unsigned)collective,
                           GCOLL_COLLECTIVE_COUNT - 1u);
    gcoll_status status =
        gcoll_options_read(&own, sizeof own, offsetof(gcoll_collective_options, memory), given);
    const struct options options = {.user_op = own.user_op,
                                    .same = own.same,
                                    .order = own.order,
                                    .memory_limit_bytes = own.memory_limit_bytes,
                                    .codec = own.codec};
    const gcoll_given shape = {.collective = collective,
                               .count = collective == GCOLL_BARRIER ? 0 : count,
                               .type = type,
                               .op = op,
                               .root = gcoll_collective_has_root(collective) ? root : 0};
    if (status == GCOLL_OK)
        status = check_given(context, &shape);
    if (status == GCOLL_OK)
        status = set_call(&arguments, context, &shape, &options);
    *call = arguments.call;
    return status;
}
