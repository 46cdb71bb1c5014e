/* tools/verify.h - what the files of `gcoll_plan verify` share. */
#ifndef GCOLL_PLAN_TOOL_VERIFY_H
#define GCOLL_PLAN_TOOL_VERIFY_H

#include "tools/shape.h"

/* ---- Algorithms to look at (targets.c) --------------------------------------------------------------------
 */

typedef struct tool_target {
    gcoll_choice choice;
    uint32_t given; /* a bit for each option that the user has set */
    bool is_named;  /* else --algorithm is all */
} tool_target;

typedef struct tool_targets {
    tool_target *at;
    size_t count;
} tool_targets;

/* From --collective and --algorithm, in the order of the table. False: it has been said, nothing to free. */
bool tool_find_targets(const tool_options *options, tool_targets *targets);

/* The shape of a target. *applies: whether the algorithm does it. An algorithm that was named must have what
 * --same, --order and --codec ask for. False: it has been said, and there is nothing to free. */
bool tool_target_shape(const tool_options *options, const tool_target *target, uint32_t size, uint64_t count,
                       tool_shape *shape, bool *applies);

/* ---- Cases of one algorithm with so many ranks (cases.c)
 * --------------------------------------------------- */

#define TOOL_SURROUNDINGS 5u

/* Everything that a case may differ in; a case is a number below `total`. */
typedef struct tool_cases {
    const tool_options *options;
    const tool_target *target;
    uint32_t size;
    int64_t (*combinations)[GCOLL_MAX_OPTIONS];
    uint32_t *nodes;                       /* TOOL_SURROUNDINGS patterns of `size` */
    int64_t *arrivals_ns;                  /* one pattern */
    uint32_t *tour;                        /* one order of ranks */
    uint32_t *memory;                      /* by buffer */
    uint64_t axis[7];                      /* how many values each has, the last one changes slowest */
    uint64_t total, settings, per_setting; /* a setting: options and surroundings, which change slowest */
} tool_cases;

/* False: out of memory. To be freed in any case. */
bool tool_cases_create(const tool_options *options, const tool_target *target, uint32_t size,
                       tool_cases *cases);
void tool_cases_free(tool_cases *cases);
/* The shape borrows from cases. */
void tool_cases_at(const tool_cases *cases, uint64_t index, tool_shape *shape);

/* ---- Proofs (prove.c) -------------------------------------------------------------------------------------
 */

/* What came of all cases of one algorithm with so many ranks. Lies in memory that processes share. */
typedef struct tool_proof {
    uint64_t proved, repeated, skipped; /* repeated: the plans were the same as proved ones */
    bool failed;
    char reason[256]; /* why the first one was skipped */
    char text[1280];  /* what is wrong; while a proof is under way, what is being proved */
} tool_proof;

/* Whether a target builds the tree of --order for so many ranks, at least with some of its options; or does
 * not apply at all. False: the last error says what it lacks. */
bool tool_builds_tree(const tool_options *options, const tool_target *target, uint32_t size);

void tool_prove(const tool_options *options, const tool_target *target, uint32_t size, tool_proof *proof);

/* ---- Processes (workers.c)
 * --------------------------------------------------------------------------------- */

typedef struct tool_work {
    uint32_t units;
    /* Does unit `index` in a process of its own, with results into shared memory only. */
    void (*run)(void *arg, uint32_t index);
    /* In this process: it is done, or its process died of `signal` (0: it did not). */
    void (*done)(void *arg, uint32_t index, int signal);
    void *arg;
} tool_work;

/* Runs all units in `jobs` processes. False: it has been said. */
bool tool_run_work(const tool_work *work, uint32_t jobs);

#endif
