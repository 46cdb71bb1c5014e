/* algorithms/select/registry.c - the table of algorithms, and those that users add. */
#include <stdlib.h>
#include <string.h>

#include "algorithms/algorithms.h"
#include "algorithms/planners.h"

#define ROW(name) &gcoll_##name##_algorithm,
const gcoll_algorithm *const gcoll_algorithms[] = {
#include "algorithms/table.h"
    NULL};
#undef ROW

static const gcoll_algorithm *row_at(const gcoll_registry *registry, uint32_t index) {
    const uint32_t built_in = sizeof gcoll_algorithms / sizeof gcoll_algorithms[0] - 1;
    if (index < built_in)
        return gcoll_algorithms[index];
    index -= built_in;
    return registry && index < registry->count ? registry->added[index] : NULL;
}

const gcoll_algorithm *gcoll_registry_at(const gcoll_registry *registry, gcoll_collective collective,
                                         uint32_t index) {
    const gcoll_algorithm *a;
    for (uint32_t i = 0; (a = row_at(registry, i)); i++)
        if (a->collective == collective && index-- == 0)
            return a;
    return NULL;
}

const gcoll_algorithm *gcoll_registry_find(const gcoll_registry *registry, gcoll_collective collective,
                                           const char *name) {
    const gcoll_algorithm *a;
    for (uint32_t i = 0; (a = row_at(registry, i)); i++)
        if (a->collective == collective && strcmp(a->name, name) == 0)
            return a;
    return NULL;
}

#define TREES (GCOLL_CLAIM_PAIRS | GCOLL_CLAIM_LEFT)

/* The trees that an algorithm which claims them for one buffer a rank can build for several. Mostly each rank
 * reduces its buffers before. By pairs, they are a subtree if their number is a power of two. */
static uint32_t trees_of_buffers(const gcoll_algorithm *algorithm, const gcoll_problem *problem) {
    const uint32_t buffers = problem->buffers;
    const bool by_pairs = problem->order == GCOLL_ORDER_PAIRS;
    if (problem->size == 1 && buffers <= 3)
        return TREES;
    if (problem->size == 1 || gcoll_takes_buffers(algorithm, problem))
        return by_pairs ? GCOLL_CLAIM_PAIRS : GCOLL_CLAIM_LEFT;
    return (buffers & (buffers - 1)) == 0 && (by_pairs || buffers == 2) ? GCOLL_CLAIM_PAIRS : 0;
}

uint32_t gcoll_algorithm_claims(const gcoll_algorithm *algorithm, const gcoll_problem *problem) {
    const uint32_t claims = algorithm->claims ? algorithm->claims(problem) : GCOLL_CLAIM_ALL;
    const bool reduces = problem->count > 0 && gcoll_collective_reduces(problem->collective);
    /* Sums that are rounded on the way are those of no tree. */
    if (reduces && gcoll_codec_is_set(&problem->codec) && problem->size > 1)
        return claims & ~TREES;
    return reduces && problem->buffers > 1 ? claims & (trees_of_buffers(algorithm, problem) | ~TREES)
                                           : claims;
}

/* ---- Algorithms of users ------------------------------------------------------------------------- */

#define MOST_TRIED 4096 /* values of an option that selection looks at one by one */

/* Names stand in texts like "name:key=value" and in file names. */
static bool is_name(const char *name) {
    if (!name || *name == '\0' || strcmp(name, "auto") == 0)
        return false;
    return strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.") == strlen(name);
}

/* Checks the values that an option allows: its words, or min to max. */
static gcoll_status check_values(const gcoll_algorithm *a, const gcoll_option *o) {
    int64_t min = o->words ? 0 : o->min, max = o->max;
    if (o->words)
        for (max = -1; o->words[max + 1];)
            max++;
    if (o->fallback < min || o->fallback > max)
        return gcoll_error(GCOLL_ERR_INVALID,
                           "algorithm %s: option %s: its fallback is %lld, allowed are %lld to "
                           "%lld",
                           a->name, o->name, (long long)o->fallback, (long long)min, (long long)max);
    if (!o->words && o->min == GCOLL_BY_COST && !o->doubling && max > MOST_TRIED)
        return gcoll_error(GCOLL_ERR_INVALID,
                           "algorithm %s: option %s: selection would try all values up to %lld, "
                           "allowed are %d and less, or doubling",
                           a->name, o->name, (long long)max, MOST_TRIED);
    return GCOLL_OK;
}

static gcoll_status check_options(const gcoll_algorithm *a) {
    uint32_t count = 0;
    for (const gcoll_option *o = a->options; o && o->name; o++, count++) {
        if (count == GCOLL_MAX_OPTIONS)
            return gcoll_error(GCOLL_ERR_INVALID, "algorithm %s: more than %d options", a->name,
                               GCOLL_MAX_OPTIONS);
        if (!is_name(o->name) || strcmp(o->name, "segment") == 0)
            return gcoll_error(GCOLL_ERR_INVALID,
                               "algorithm %s: option %u is named '%.40s'; allowed are letters, "
                               "digits, '_', '-', '.', and not 'segment'",
                               a->name, count, o->name);
        if (!o->help)
            return gcoll_error(GCOLL_ERR_INVALID, "algorithm %s: option %s: its help is NULL", a->name,
                               o->name);
        gcoll_status status = check_values(a, o);
        if (status != GCOLL_OK)
            return status;
    }
    return GCOLL_OK;
}

static gcoll_status check_row(const gcoll_registry *registry, const gcoll_algorithm *a) {
    if (!a)
        return gcoll_error(GCOLL_ERR_INVALID, "algorithm: is NULL");
    if (!is_name(a->name))
        return gcoll_error(GCOLL_ERR_INVALID,
                           "algorithm: its name is '%.40s'; allowed are letters, digits, '_', '-', "
                           "'.', and not 'auto'",
                           a->name ? a->name : "NULL");
    if ((unsigned)a->collective >= GCOLL_COLLECTIVE_COUNT)
        return gcoll_error(GCOLL_ERR_INVALID, "algorithm %s: its collective is %u, allowed are 0 to %u",
                           a->name, (unsigned)a->collective, GCOLL_COLLECTIVE_COUNT - 1u);
    if (!a->summary || !a->source || !a->plan || !a->cost)
        return gcoll_error(GCOLL_ERR_INVALID, "algorithm %s: summary, source, plan or cost is NULL", a->name);
    if (gcoll_registry_find(registry, a->collective, a->name))
        return gcoll_error(GCOLL_ERR_INVALID, "algorithm %s: %s has one of that name already", a->name,
                           gcoll_collective_name(a->collective));
    return check_options(a);
}

gcoll_status gcoll_registry_add(gcoll_registry *registry, const gcoll_algorithm *algorithm) {
    gcoll_status status = check_row(registry, algorithm);
    if (status != GCOLL_OK)
        return status;
    const gcoll_algorithm **added = realloc(registry->added, (registry->count + (size_t)1) * sizeof(void *));
    if (!added)
        return gcoll_error(GCOLL_ERR_NO_MEMORY, "algorithm %s: out of memory", algorithm->name);
    registry->added = added;
    registry->added[registry->count++] = algorithm;
    return GCOLL_OK;
}

void gcoll_registry_clear(gcoll_registry *registry) {
    free(registry->added);
    *registry = (gcoll_registry){0};
}
