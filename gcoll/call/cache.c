/*
 * gcoll/call/cache.c - finds the plan of a call in the context's cache, or chooses the algorithm, makes the
 * plan and caches it.
 *
 * The list has the most recently used entry first. A loop over a few operations finds each after a few
 * comparisons of hashes. When the list is full, the least recently used entry that no operation holds is
 * dropped.
 */
#include <stdlib.h>
#include <string.h>

#include "gcoll/base/hash.h"
#include "gcoll/call/call.h"
#include "gcoll/tuning/tuning.h"

static inline uint64_t both(uint32_t low, uint32_t high) {
    return low | (uint64_t)high << 32;
}

static uint64_t hash_call(const gcoll_call *call) {
    const uint64_t fields[] = {
        both(call->collective, call->type),
        both(call->op, call->root),
        both(call->exchanges, call->buffers),
        both(call->needs, call->in_place),
        both(call->commutative, call->registered),
        both(call->local, call->direct),
        both(call->element_bytes, call->counts_at_root | (uint32_t)call->uniform << 16),
        both(call->in_list, call->out_list),
        call->blocks_hash,
        call->count,
        call->memory_limit,
        call->places,
        call->arrival,
        call->postscale,
        call->codec.kind | (uint64_t)call->codec.is_stochastic << 16 | (uint64_t)call->codec.block << 32,
        call->codec.seed};
    /* Hash the fields, not all bytes of the struct: the algorithm's text is mostly empty. */
    const uint64_t hash = gcoll_hash_words(GCOLL_HASH_START, fields, sizeof fields / sizeof fields[0]);
    return gcoll_hash_text(hash, call->algorithm);
}

static bool same_offsets(const uint64_t *a, const uint64_t *b, uint32_t size) {
    return !a == !b && (!a || memcmp(a, b, (size + (size_t)1) * sizeof *a) == 0);
}

static bool same_memory(const uint32_t *a, const uint32_t *b, uint32_t buffers) {
    return !a == !b && (!a || memcmp(a, b, buffers * sizeof *a) == 0);
}

static bool matches(const gcoll_cache_entry *entry, uint64_t hash, const gcoll_call *call,
                    const gcoll_blocks *blocks) {
    const gcoll_problem *problem = &entry->plan->problem;
    return entry->hash == hash && memcmp(&entry->call, call, sizeof *call) == 0 &&
           same_offsets(problem->offsets, blocks->offsets, problem->size) &&
           same_offsets(problem->recv_offsets, blocks->recv_offsets, problem->size) &&
           same_memory(problem->in_memory, blocks->in_memory, problem->buffers) &&
           same_memory(problem->out_memory, blocks->out_memory, problem->buffers);
}

/* ---- Planning ----------------------------------------------------------------------------- */

/* The scratch elements of a plan without those that staging and encoded messages add. These differ between
 * ranks, but all ranks must agree on whether a call is refused. */
static uint64_t scratch_of(const gcoll_plan *plan) {
    const uint64_t staging =
        gcoll_problem_is_staged(&plan->problem) ? gcoll_staging_bound(&plan->problem) : 0;
    const uint64_t left_out = staging + plan->encoded;
    return plan->scratch > left_out ? plan->scratch - left_out : 0;
}

/* Checks the plan against options.memory_limit_bytes. Selection relies on the scratch that `cost` states,
 * and a user's algorithm may state too little. */
static gcoll_status check_limit(const gcoll_cache_entry *entry) {
    const gcoll_call *call = &entry->call;
    const uint64_t scratch = scratch_of(entry->plan);
    uint64_t bytes;
    if (call->memory_limit == 0 ||
        (gcoll_mul_u64(scratch, call->element_bytes, &bytes) && bytes <= call->memory_limit))
        return GCOLL_OK;
    return gcoll_error(GCOLL_ERR_UNSUPPORTED,
                       "algorithm: %s needs %llu elements of scratch, but options.memory_limit_bytes is %llu",
                       entry->choice.algorithm->name, (unsigned long long)scratch,
                       (unsigned long long)call->memory_limit);
}

/* Says what the flight recorder keeps of each run of the plan. */
static gcoll_status describe(gcoll_context *context, gcoll_cache_entry *entry, double seconds) {
    const gcoll_call *call = &entry->call;
    gcoll_record_call said = {.collective = call->collective,
                              .type = call->type,
                              .op = call->op,
                              .root = call->root,
                              .element_bytes = call->element_bytes,
                              .count = call->count,
                              .seconds = seconds,
                              .algorithm = entry->algorithm,
                              .plan = entry->plan};
    said.form = (call->in_place ? GCOLL_RECORD_IN_PLACE : 0) |
                (call->in_list || call->out_list ? GCOLL_RECORD_LISTS : 0) |
                (call->places ? GCOLL_RECORD_DEVICE : 0) |
                (gcoll_call_has_own_blocks(call) ? GCOLL_RECORD_OWN_COUNTS : 0);
    gcoll_cost_parameters cost;
    gcoll_sharing sharing;
    gcoll_basis_numbers(context->basis, false, &cost, &sharing);
    const gcoll_levels *levels = gcoll_basis_levels(context->basis, false);
    gcoll_record_model(context, cost.alpha, cost.beta, levels ? levels->alpha : 0, levels ? levels->beta : 0);
    return gcoll_record_describe(context, &said, &entry->record);
}

static gcoll_status plan(gcoll_context *context, gcoll_cache_entry *entry, const gcoll_blocks *blocks) {
    const gcoll_call *call = &entry->call;
    gcoll_problem problem = gcoll_call_problem(context, call, blocks);
    gcoll_planned planned = {.choice = &entry->choice};
    double seconds = -1;
    gcoll_status status = gcoll_call_choose(context, call, &problem, &entry->choice, &planned.mark, &seconds);
    if (status != GCOLL_OK)
        return status;
    status = gcoll_plan_create(entry->choice.algorithm, &problem, &entry->plan);
    if (status != GCOLL_OK)
        return status;
    gcoll_choice_format(&entry->choice, entry->algorithm, sizeof entry->algorithm);
    planned.by_hosts = problem.node;
    gcoll_fingerprint_make(context, call, &planned, &entry->fingerprint);
    gcoll_log(context, GCOLL_LOG_INFO, "%s of %llu %s: %s%s, %u steps",
              gcoll_collective_name(problem.collective), (unsigned long long)call->count,
              gcoll_type_name((gcoll_type)call->type), entry->algorithm,
              call->algorithm[0] && strcmp(call->algorithm, "auto") != 0 ? "" : " (chosen by auto)",
              entry->plan->step_count);
    status = check_limit(entry);
    return status == GCOLL_OK ? describe(context, entry, seconds) : status;
}

/* ---- The cache ---------------------------------------------------------------------------- */

static void drop(gcoll_context *context, gcoll_cache_entry *entry) {
    gcoll_run *idle = gcoll_cache_take_idle(entry);
    if (idle)
        context->calls->destroy_run(idle);
    gcoll_record_forget(context, &entry->record);
    gcoll_plan_destroy(entry->plan);
    gcoll_release(context, entry, sizeof *entry);
}

/* Frees the least recently used entry that nothing but its idle run holds. */
static void make_room(gcoll_context *context) {
    gcoll_cache_entry **victim = NULL;
    for (gcoll_cache_entry **link = &context->calls->cache; *link; link = &(*link)->next)
        if ((*link)->users == ((*link)->idle ? 1u : 0u))
            victim = link;
    if (!victim)
        return;
    gcoll_cache_entry *entry = *victim;
    *victim = entry->next;
    context->calls->cache_count--;
    drop(context, entry);
}

gcoll_status gcoll_cache_get(gcoll_context *context, const gcoll_call *call, const gcoll_blocks *blocks,
                             gcoll_cache_entry **out) {
    uint64_t hash = hash_call(call);
    for (gcoll_cache_entry **link = &context->calls->cache; *link; link = &(*link)->next) {
        gcoll_cache_entry *entry = *link;
        if (!matches(entry, hash, call, blocks))
            continue;
        *link = entry->next;
        entry->next = context->calls->cache;
        context->calls->cache = entry;
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
    gcoll_status status = plan(context, entry, blocks);
    if (status != GCOLL_OK) {
        gcoll_record_forget(context, &entry->record);
        gcoll_plan_destroy(entry->plan);
        gcoll_release(context, entry, sizeof *entry);
        return status;
    }
    if (context->calls->cache_count >= GCOLL_CACHE_ENTRIES)
        make_room(context);
    entry->next = context->calls->cache;
    context->calls->cache = entry;
    context->calls->cache_count++;
    entry->users = 1;
    *out = entry;
    return GCOLL_OK;
}

void gcoll_cache_forget(gcoll_context *context, uint64_t arrival) {
    gcoll_cache_entry **link = &context->calls->cache;
    while (*link) {
        gcoll_cache_entry *entry = *link;
        if (entry->call.arrival != arrival || entry->users != (entry->idle ? 1u : 0u)) {
            link = &entry->next;
            continue;
        }
        *link = entry->next;
        context->calls->cache_count--;
        drop(context, entry);
    }
}

/* ---- Life --------------------------------------------------------------------------------- */

void gcoll_calls_create(gcoll_context *context, void (*destroy_run)(gcoll_run *run)) {
    context->calls->destroy_run = destroy_run;
}

gcoll_status gcoll_calls_duplicate(gcoll_context *context, const gcoll_context *parent) {
    const gcoll_registry *registry = &parent->calls->registry;
    gcoll_status status = GCOLL_OK;
    for (uint32_t i = 0; i < registry->count && status == GCOLL_OK; i++)
        status = gcoll_registry_add(&context->calls->registry, registry->added[i]);
    return status;
}

void gcoll_calls_free(gcoll_context *context) {
    gcoll_calls *calls = context->calls;
    while (calls->cache) {
        gcoll_cache_entry *entry = calls->cache;
        calls->cache = entry->next;
        drop(context, entry);
    }
    free(calls->offsets);
    free(calls->ranges);
    gcoll_registry_clear(&calls->registry);
}
