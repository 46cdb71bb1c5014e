/* tools/targets.c - which algorithms --collective and --algorithm mean. */
#include <stdlib.h>
#include <string.h>

#include "gcoll/plan/steps.h"
#include "tools/memory.h"
#include "tools/verify.h"

static bool wanted(const tool_options *o, gcoll_collective c) {
    return strcmp(o->collective, "all") == 0 || strcmp(o->collective, gcoll_collective_name(c)) == 0;
}

/* Options that the text sets, as ":name=". */
static uint32_t given_in(const char *text, const gcoll_algorithm *a) {
    uint32_t given = 0;
    for (uint32_t i = 0; a->options && a->options[i].name; i++) {
        size_t length = strlen(a->options[i].name);
        for (const char *at = strchr(text, ':'); at; at = strchr(at + 1, ':'))
            if (strncmp(at + 1, a->options[i].name, length) == 0 && at[1 + length] == '=')
                given |= UINT32_C(1) << i;
    }
    return given;
}

static bool add(tool_targets *t, const tool_target *target) {
    tool_target *more = realloc(t->at, (t->count + 1) * sizeof *more);
    if (!more) {
        cli_complain("out of memory");
        return false;
    }
    t->at = more;
    t->at[t->count++] = *target;
    return true;
}

/* Adds all algorithms of a collective, except rows with a staging of their own if the flags ask for another.
 */
static bool add_all(const tool_options *o, gcoll_collective c, tool_targets *t) {
    const gcoll_algorithm *a;
    for (uint32_t i = 0; (a = gcoll_registry_at(&o->registry, c, i)); i++) {
        gcoll_choice choice;
        if (a->staging && (o->local_given || o->whole))
            continue;
        if (gcoll_choice_parse(&o->registry, a->name, c, &choice) != GCOLL_OK || !tool_memory_fits(o, a) ||
            !add(t, &(tool_target){.choice = choice}))
            return false;
    }
    return true;
}

/* Whether the part names an algorithm of the collective, whatever options it gives. */
static bool names_one(const tool_options *o, const char *part, gcoll_collective c) {
    char name[128];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(part, ":"), part);
    return gcoll_registry_find(&o->registry, c, name);
}

/* One part of the list, for every collective that has it. */
static bool add_part(const tool_options *o, const char *part, tool_targets *t) {
    const bool all = strcmp(part, "all") == 0;
    bool known = all, named = false;
    for (int c = 0; c < GCOLL_COLLECTIVE_COUNT; c++) {
        gcoll_choice choice;
        if (!wanted(o, (gcoll_collective)c) || !(all || names_one(o, part, (gcoll_collective)c)))
            continue;
        named = true;
        if (all && !add_all(o, (gcoll_collective)c, t))
            return false;
        bool good = !all && gcoll_choice_parse(&o->registry, part, (gcoll_collective)c, &choice) == GCOLL_OK;
        known = known || good;
        if (good && !(tool_memory_fits(o, choice.algorithm) &&
                      add(t, &(tool_target){choice, given_in(part, choice.algorithm), true})))
            return false;
    }
    if (!known && named)
        cli_complain("--algorithm: %s", gcoll_last_error());
    else if (!known)
        cli_complain("--algorithm: is '%s', which is not an algorithm of %s; allowed are all, or names as "
                     "printed by list",
                     part, strcmp(o->collective, "all") == 0 ? "any collective" : o->collective);
    return known;
}

bool tool_find_targets(const tool_options *o, tool_targets *targets) {
    char *parts = strdup(o->algorithm), *rest = NULL;
    tool_targets found = {0};
    bool good = parts;
    for (char *part = parts ? strtok_r(parts, ",", &rest) : NULL; part && good;
         part = strtok_r(NULL, ",", &rest))
        good = add_part(o, part, &found);
    free(parts);
    if (good && found.count == 0) {
        cli_complain("--algorithm: is '%s'; allowed are all, or names as printed by list, joined by commas",
                     o->algorithm);
        good = false;
    }
    if (good)
        *targets = found;
    else
        free(found.at);
    return good;
}

/* Whether the algorithm has what --same, --order and --codec ask for. */
static gcoll_status has_asked(const tool_options *o, const tool_shape *shape) {
    gcoll_status status = tool_shape_keeps_bits(o, shape);
    if (status == GCOLL_OK)
        status = gcoll_problem_check(&shape->problem);
    return status == GCOLL_OK ? gcoll_codec_applies(shape->choice.algorithm, &shape->problem) : status;
}

bool tool_target_shape(const tool_options *o, const tool_target *target, uint32_t size, uint64_t count,
                       tool_shape *shape, bool *applies) {
    const gcoll_algorithm *a = target->choice.algorithm;
    char name[256];
    gcoll_choice_format(&target->choice, name, sizeof name);
    if (!tool_shape_find(o, name, size, count, shape))
        return false;
    const gcoll_status status = has_asked(o, shape);
    const bool repeats = a->uses_tour && !shape->problem.tour && !target->is_named; /* the ring by rank */
    *applies = status == GCOLL_OK && !repeats && (!a->applies || a->applies(&shape->problem) == GCOLL_OK);
    if (status == GCOLL_OK || (status == GCOLL_ERR_UNSUPPORTED && !target->is_named))
        return true;
    cli_complain("--%s", gcoll_last_error());
    tool_shape_free(shape);
    return false;
}
