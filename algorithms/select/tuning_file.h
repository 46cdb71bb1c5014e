/* algorithms/select/tuning_file.h - tuning files: measured costs and choices, by transport and number of
 * ranks.
 *
 * docs/tuning.md has the format. A file is not trusted: each line is checked, and errors name line and field.
 */
#ifndef GCOLL_ALGORITHMS_TUNING_H
#define GCOLL_ALGORITHMS_TUNING_H

#include "algorithms/algorithms.h"

#define GCOLL_TUNING_BYTES_MAX                                                                               \
    61440 /* the ranks get it as one value of a store, with a few words before it */
#define GCOLL_TUNING_TRANSPORT_MAX 32
#define GCOLL_TUNING_CHOICES_MAX   8

/* The algorithms for vectors of from_bytes and more, but less than to_bytes. */
typedef struct gcoll_tuning_rule {
    gcoll_collective collective;
    uint32_t line;
    uint64_t from_bytes, to_bytes; /* to_bytes UINT64_MAX: no end */
    uint32_t count;
    const char *choice[GCOLL_TUNING_CHOICES_MAX]; /* "ring:segment=256Ki", the best first */
} gcoll_tuning_rule;

/* Lines for one transport and number of ranks, `local` of them on a host. */
typedef struct gcoll_tuning_section {
    char transport[GCOLL_TUNING_TRANSPORT_MAX];
    uint32_t ranks, local;
    uint32_t line, cost_line; /* cost_line 0: it has none */
    gcoll_cost_parameters cost;
    gcoll_sharing sharing; /* without its crowd, which the caller knows */
    gcoll_levels levels;   /* the same without `most`; all 0: the line has one level */
    uint32_t *tour;        /* the order of ranks along a ring: `ranks` entries, each rank once; NULL: none */
    uint32_t first, count; /* of the rules */
} gcoll_tuning_section;

typedef struct gcoll_tuning {
    char *text; /* holds the words of the rules */
    gcoll_tuning_section *sections;
    gcoll_tuning_rule *rules;
    uint32_t section_count, rule_count;
} gcoll_tuning;

/* Errors begin with `name`: "NAME: line 3: ranks: found 'x'; allowed: ..." (GCOLL_ERR_INVALID). Algorithms
 * that the library does not have are accepted, for they may be registered later. */
gcoll_status gcoll_tuning_parse(const char *text, size_t bytes, const char *name, gcoll_tuning *tuning);
void gcoll_tuning_free(gcoll_tuning *tuning);

/* The section of that transport with the nearest number of ranks, and of those with the nearest number of
 * ranks on a host; NULL if the transport has none. Its rules hold only if it is `exact`. */
const gcoll_tuning_section *gcoll_tuning_section_for(const gcoll_tuning *tuning, const char *transport,
                                                     uint32_t ranks, uint32_t local, bool *exact);
/* NULL: the section has no rule for that collective and size. */
const gcoll_tuning_rule *gcoll_tuning_rule_for(const gcoll_tuning *tuning,
                                               const gcoll_tuning_section *section,
                                               gcoll_collective collective, uint64_t bytes);

/* The first choice of the rule that is known and meets the needs; GCOLL_ERR_NOT_FOUND if none does. */
gcoll_status gcoll_tuning_take(const gcoll_tuning_rule *rule, const gcoll_registry *registry,
                               const gcoll_problem *problem, size_t type_bytes, const gcoll_needs *needs,
                               const gcoll_cost_parameters *parameters, gcoll_choice *choice);

/* What the algorithm's row says of all ranks, with what it leaves out filled in from its cost. */
gcoll_load gcoll_load_of(const gcoll_algorithm *algorithm, const gcoll_problem *problem,
                         const gcoll_cost *cost);

#endif
