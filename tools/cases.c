/* tools/cases.c - the shapes in which an algorithm is proved: every combination of options, surroundings,
 * roots, blocks, counts and placements. */
#include <stdlib.h>
#include <string.h>

#include "tools/memory.h"
#include "tools/verify.h"

enum { PLACEMENT = 0, COUNT, BLOCKS, ROOT, EXCHANGES, SURROUNDINGS, COMBINATION, AXES };

#define MOST_VALUES       32u   /* of a numeric option: if it has no more, all are tried */
#define MOST_COMBINATIONS 1000u /* if there are more, options vary one at a time */
#define MOST_EXCHANGES    4u

/* ---- Options --------------------------------------------------------------------------------------------
 */

typedef struct values {
    int64_t at[MOST_VALUES + 1];
    uint32_t count;
} values;

static void add_value(values *v, int64_t value) {
    for (uint32_t i = 0; i < v->count; i++)
        if (v->at[i] == value)
            return;
    v->at[v->count++] = value;
}

static values values_of(const gcoll_option *o) {
    static const int64_t some[] = {1, 2, 3, 4, 7, 16, 33};
    values v = {.count = 0};
    add_value(&v, o->fallback);
    for (int64_t i = 0; o->words && o->words[i] && i < MOST_VALUES; i++)
        add_value(&v, i);
    if (o->words)
        return v;
    if (o->max - o->min < MOST_VALUES) {
        for (int64_t i = o->min; i <= o->max; i++)
            add_value(&v, i);
        return v;
    }
    add_value(&v, o->min);
    for (size_t i = 0; i < sizeof some / sizeof some[0]; i++)
        if (some[i] >= o->min && some[i] <= o->max)
            add_value(&v, some[i]);
    return v;
}

typedef struct option_set {
    values of[GCOLL_MAX_OPTIONS];
    uint32_t count;
} option_set;

static option_set options_of(const tool_target *t) {
    option_set set = {.count = 0};
    const gcoll_option *options = t->choice.algorithm->options;
    for (uint32_t i = 0; options && options[i].name; i++) {
        set.of[set.count] = values_of(&options[i]);
        if (t->given >> i & 1) {
            set.of[set.count].count = 1;
            set.of[set.count].at[0] = t->choice.option[i];
        }
        set.count++;
    }
    return set;
}

/* Counts the combinations of options, and writes them to `to` unless it is NULL. */
static uint64_t combine(const option_set *set, int64_t (*to)[GCOLL_MAX_OPTIONS]) {
    uint64_t all = 1, single = 1, made = 0;
    for (uint32_t i = 0; i < set->count; i++) {
        all *= set->of[i].count; /* at most 33^8, which 64 bits hold */
        single += set->of[i].count - 1;
    }
    bool every = all <= MOST_COMBINATIONS;
    uint64_t total = every ? all : single;
    for (uint64_t k = 0; to && every && k < all; k++) {
        uint64_t rest = k;
        memset(to[k], 0, sizeof to[k]);
        for (uint32_t i = 0; i < set->count; i++) {
            to[k][i] = set->of[i].at[rest % set->of[i].count];
            rest /= set->of[i].count;
        }
    }
    for (uint32_t i = 0; to && !every && i < set->count; i++)
        for (uint32_t k = made == 0 ? 0 : 1; k < set->of[i].count; k++) {
            memset(to[made], 0, sizeof to[made]);
            for (uint32_t other = 0; other < set->count; other++)
                to[made][other] = set->of[other].at[0];
            to[made++][i] = set->of[i].at[k];
        }
    return total;
}

/* ---- Surroundings ---------------------------------------------------------------------------------------
 */

/* The surroundings: none, which is without a tour; hosts of four ranks; hosts of three ranks, dealt out in
 * turn; hosts of several sizes; and ranks that arrive at different times. */
static void fill_surroundings(tool_cases *c) {
    /* The tour: even ranks, and then the odd ones. */
    for (uint32_t r = 0; r < c->size; r++) {
        c->tour[r] = r < (c->size + 1) / 2 ? 2 * r : 2 * (r - (c->size + 1) / 2) + 1;
        c->nodes[1 * c->size + r] = r / 4;
        c->nodes[2 * c->size + r] = r % ((c->size + 2) / 3);
        c->nodes[3 * c->size + r] = (uint32_t)__builtin_popcount(r + 1);
        c->arrivals_ns[r] = (int64_t)((r * UINT64_C(7919)) % 1009 * 1000);
    }
}

static void surround(const tool_cases *c, uint32_t kind, tool_shape *shape) {
    gcoll_problem *p = &shape->problem;
    p->tour = kind > 0 ? c->tour : NULL;
    if (kind == TOOL_SURROUNDINGS - 1) {
        snprintf(shape->lateness, sizeof shape->lateness, "arriving at different times");
        p->arrival_ns = c->arrivals_ns;
        p->segment_ns = 30000; /* so that some ranks are late by several segments and some by none */
    } else if (kind > 0) {
        p->node = &c->nodes[kind * c->size];
    }
}

/* ---- Cases ----------------------------------------------------------------------------------------------
 */

static uint64_t root_count(const tool_cases *c, gcoll_collective collective) {
    if (!gcoll_collective_has_root(collective) || c->options->root_given)
        return 1;
    if (c->options->roots_all)
        return c->size;
    return c->size < 3 ? c->size : 3;
}

static uint32_t root_at(const tool_cases *c, gcoll_collective collective, uint64_t index) {
    if (!gcoll_collective_has_root(collective))
        return 0;
    if (c->options->root_given)
        return c->options->root;
    if (c->options->roots_all || c->size < 3)
        return (uint32_t)index;
    return index == 0 ? 0 : index == 1 ? c->size / 2 : c->size - 1;
}

bool tool_cases_create(const tool_options *options, const tool_target *target, uint32_t size,
                       tool_cases *cases) {
    const gcoll_collective collective = target->choice.algorithm->collective;
    const option_set set = options_of(target);
    tool_cases c = {.options = options, .target = target, .size = size};
    c.axis[PLACEMENT] = gcoll_collective_takes_in_place(collective) ? 2 : 1;
    c.axis[COUNT] = collective == GCOLL_BARRIER ? 1 : options->count.count;
    c.axis[BLOCKS] = gcoll_collective_has_blocks(collective) ? TOOL_BLOCKS_COUNT : 1;
    c.axis[ROOT] = root_count(&c, collective);
    c.axis[EXCHANGES] = collective == GCOLL_PAIRWISE_EXCHANGE ? MOST_EXCHANGES : 1;
    c.axis[SURROUNDINGS] = TOOL_SURROUNDINGS;
    c.axis[COMBINATION] = combine(&set, NULL);
    c.combinations = calloc(c.axis[COMBINATION], sizeof *c.combinations);
    c.nodes = calloc((size_t)size * TOOL_SURROUNDINGS, sizeof *c.nodes);
    c.arrivals_ns = calloc(size, sizeof *c.arrivals_ns);
    c.tour = calloc(size, sizeof *c.tour);
    c.memory = calloc(options->inputs, sizeof *c.memory);
    *cases = c;
    if (!c.combinations || !c.nodes || !c.arrivals_ns || !c.tour || !c.memory)
        return false;
    combine(&set, c.combinations);
    fill_surroundings(&c);
    cases->per_setting = 1;
    for (uint32_t i = 0; i < SURROUNDINGS; i++)
        cases->per_setting *= c.axis[i];
    cases->settings = c.axis[SURROUNDINGS] * c.axis[COMBINATION];
    cases->total = cases->per_setting * cases->settings;
    return true;
}

void tool_cases_free(tool_cases *cases) {
    free(cases->memory);
    free(cases->tour);
    free(cases->arrivals_ns);
    free(cases->nodes);
    free(cases->combinations);
}

void tool_cases_at(const tool_cases *c, uint64_t index, tool_shape *shape) {
    const tool_options *o = c->options;
    const gcoll_collective collective = c->target->choice.algorithm->collective;
    uint64_t at[AXES];
    for (uint32_t i = 0; i < AXES; i++) {
        at[i] = index % c->axis[i];
        index /= c->axis[i];
    }
    *shape = (tool_shape){.choice = c->target->choice, .blocks = (tool_blocks)at[BLOCKS]};
    memcpy(shape->choice.option, c->combinations[at[COMBINATION]], sizeof shape->choice.option);
    gcoll_problem *p = &shape->problem;
    p->collective = collective;
    p->size = c->size;
    p->root = root_at(c, collective, at[ROOT]);
    p->exchanges = (uint32_t)at[EXCHANGES];
    p->buffers = gcoll_collective_takes_buffers(collective) ? o->inputs : 1;
    p->in_place = at[PLACEMENT] > 0;
    p->average = o->average && gcoll_collective_reduces(collective);
    p->count = collective == GCOLL_BARRIER ? 0 : o->count.values[at[COUNT]];
    p->codec = o->codec;
    p->order = tool_same_claims(o, collective, true) ? (gcoll_order)o->order : GCOLL_ORDER_DEFAULT;
    p->segment = shape->choice.segment_bytes / gcoll_type_size(o->type);
    if (shape->choice.segment_bytes > 0 && p->segment == 0)
        p->segment = 1;
    memcpy(p->option, shape->choice.option, sizeof p->option);
    surround(c, (uint32_t)at[SURROUNDINGS], shape);
    tool_place_buffers(o, shape->choice.algorithm, p, c->memory);
}
