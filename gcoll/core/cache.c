/*
 * gcoll/core/cache.c - from a call to its plan: choice of the algorithm, planning, and the cache of both by
 * shape.
 *
 * The list is kept with the latest used first, so that a loop over a few operations finds each after a few
 * comparisons of hashes. What nobody holds is dropped from the end when the list is full.
 */
#include <string.h>

#include "gcoll/core/core_internal.h"

static uint64_t hash_call(const gcoll_call *call) {
    uint64_t hash =
        UINT64_C(0xcbf29ce484222325); /* FNV-1a over the fields, not byte by byte: the text is mostly empty */
    const uint32_t fields[] = {call->collective, call->type,     call->op,          call->root,
                               call->buffers,    call->in_place, call->commutative, call->needs};
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++)
        hash = (hash ^ fields[i]) * UINT64_C(0x100000001b3);
    hash = (hash ^ call->count) * UINT64_C(0x100000001b3);
    for (const char *at = call->algorithm; *at; at++)
        hash = (hash ^ (uint8_t)*at) * UINT64_C(0x100000001b3);
    return hash;
}

/* ---- Planning ----------------------------------------------------------------------------- */

static gcoll_status check_claims(const gcoll_call *call, const gcoll_choice *choice,
                                 const gcoll_problem *problem) {
    uint32_t lacking = call->needs & ~gcoll_algorithm_claims(choice->algorithm, problem);
    if (lacking & GCOLL_CLAIM_ORDERED)
        return gcoll_error(
            GCOLL_ERR_UNSUPPORTED,
            "algorithm: %s does not keep rank order, which an operation that does not commute needs; "
            "take auto or sorted_linear_tree",
            choice->algorithm->name);
    if (lacking & GCOLL_CLAIM_RANK_IDENTICAL)
        return gcoll_error(
            GCOLL_ERR_UNSUPPORTED,
            "algorithm: results of %s with these options may differ between ranks in the last bits, "
            "but options.rank_identical is set",
            choice->algorithm->name);
    return GCOLL_OK;
}

static gcoll_status choose(gcoll_context *context, const gcoll_call *call, gcoll_problem *problem,
                           gcoll_choice *choice) {
    const size_t type_bytes = gcoll_type_size((gcoll_type)call->type);
    const gcoll_needs needs = {.claims = call->needs};
    const char *text = call->algorithm[0] ? call->algorithm : NULL;
    gcoll_status status = gcoll_choice_parse(NULL, text, problem->collective, choice);
    if (status != GCOLL_OK)
        return status;
    if (!choice->algorithm) {
        status = gcoll_choose(NULL, problem, type_bytes, &needs, &context->cost, choice, NULL, NULL);
        if (status != GCOLL_OK)
            return status;
    } else {
        gcoll_choice_resolve(problem, type_bytes, &needs, &context->cost, choice);
    }
    memcpy(problem->option, choice->option, sizeof problem->option);
    problem->segment = choice->segment_bytes / type_bytes;
    if (choice->segment_bytes > 0 && problem->segment == 0)
        problem->segment = 1; /* less than an element: an element */
    return check_claims(call, choice, problem);
}

static gcoll_status plan(gcoll_context *context, gcoll_cache_entry *entry) {
    const gcoll_call *call = &entry->call;
    gcoll_problem problem = {.collective = (gcoll_collective)call->collective,
                             .rank = context->rank,
                             .size = context->size,
                             .root = call->root,
                             .buffers = call->buffers,
                             .in_place = call->in_place != 0,
                             .average = call->op == GCOLL_AVG && call->collective == GCOLL_ALLREDUCE,
                             .count = call->count};
    gcoll_status status = choose(context, call, &problem, &entry->choice);
    if (status != GCOLL_OK)
        return status;
    status = gcoll_plan_create(entry->choice.algorithm, &problem, &entry->plan);
    if (status != GCOLL_OK)
        return status;
    gcoll_choice_format(&entry->choice, entry->algorithm, sizeof entry->algorithm);
    gcoll_fingerprint_make(call, &entry->choice, &entry->fingerprint);
    gcoll_log(context, GCOLL_LOG_DEBUG, "planned %s of %llu %s: %s, %u steps",
              gcoll_collective_name(problem.collective), (unsigned long long)call->count,
              gcoll_type_name((gcoll_type)call->type), entry->algorithm, entry->plan->step_count);
    return GCOLL_OK;
}

/* ---- The cache ---------------------------------------------------------------------------- */

static void drop(gcoll_context *context, gcoll_cache_entry *entry) {
    gcoll_run *idle = entry->idle;
    entry->idle = NULL;
    gcoll_run_destroy(idle);
    gcoll_plan_destroy(entry->plan);
    gcoll_release(context, entry, sizeof *entry);
}

/* Frees the entry used longest ago that only its idle run holds. */
static void make_room(gcoll_context *context) {
    gcoll_cache_entry **victim = NULL;
    for (gcoll_cache_entry **link = &context->cache; *link; link = &(*link)->next)
        if ((*link)->users == ((*link)->idle ? 1u : 0u))
            victim = link;
    if (!victim)
        return;
    gcoll_cache_entry *entry = *victim;
    *victim = entry->next;
    context->cache_count--;
    drop(context, entry);
}

gcoll_status gcoll_cache_get(gcoll_context *context, const gcoll_call *call, gcoll_cache_entry **out) {
    uint64_t hash = hash_call(call);
    for (gcoll_cache_entry **link = &context->cache; *link; link = &(*link)->next) {
        gcoll_cache_entry *entry = *link;
        if (entry->hash != hash || memcmp(&entry->call, call, sizeof *call) != 0)
            continue;
        *link = entry->next;
        entry->next = context->cache;
        context->cache = entry;
        entry->users++;
        *out = entry;
        return GCOLL_OK;
    }
    gcoll_cache_entry *entry = gcoll_allocate(context, sizeof *entry);
    if (!entry)
        return GCOLL_ERR_NO_MEMORY;
    memset(entry, 0, sizeof *entry);
    entry->call = *call;
    entry->hash = hash;
    gcoll_status status = plan(context, entry);
    if (status != GCOLL_OK) {
        gcoll_release(context, entry, sizeof *entry);
        return status;
    }
    if (context->cache_count >= GCOLL_CACHE_ENTRIES)
        make_room(context);
    entry->next = context->cache;
    context->cache = entry;
    context->cache_count++;
    entry->users = 1;
    *out = entry;
    return GCOLL_OK;
}

void gcoll_cache_put(gcoll_cache_entry *entry) {
    entry->users--;
}

void gcoll_cache_clear(gcoll_context *context) {
    while (context->cache) {
        gcoll_cache_entry *entry = context->cache;
        context->cache = entry->next;
        drop(context, entry);
    }
    context->cache_count = 0;
}
