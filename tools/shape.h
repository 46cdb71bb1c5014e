/* tools/shape.h - what all ranks are to do. */
#ifndef GCOLL_TOOL_SHAPE_H
#define GCOLL_TOOL_SHAPE_H

#include "tools/options.h"

typedef enum tool_blocks {
    TOOL_EVEN = 0,   /* as the library cuts */
    TOOL_UNEVEN = 1, /* of several sizes, some empty */
    TOOL_ONE = 2,    /* one rank has all */
    TOOL_BLOCKS_COUNT = 3
} tool_blocks;

/* What all ranks are to do. */
typedef struct tool_shape {
    gcoll_choice choice;   /* its algorithm is not NULL */
    gcoll_problem problem; /* in_place: of the ranks that may; offsets: see blocks */
    tool_blocks blocks;
    uint32_t *node; /* what problem.node, arrival_ns and tour point to, NULL if they are */
    int64_t *arrival_ns;
    uint32_t *tour;
    uint32_t *memory;  /* the same of in_memory and out_memory */
    char lateness[80]; /* in words; "": all enter together */
} tool_shape;

/* False: --root, --inputs, --codec or --op mean nothing for this collective, which has been said. */
bool tool_flags_fit(const tool_options *options, gcoll_collective collective);

/* From the flags, for one algorithm as text; "auto" chooses, and options that are left to cost are found by
 * the model. False: it has been said, and there is nothing to free. */
bool tool_shape_of(const tool_options *options, const char *algorithm, uint32_t size, uint64_t count,
                   tool_shape *shape);
/* The same, but the algorithm may lack what tool_shape_keeps_bits asks. */
bool tool_shape_find(const tool_options *options, const char *algorithm, uint32_t size, uint64_t count,
                     tool_shape *shape);
/* Whether the algorithm has the bits that --same and --order ask for. UNSUPPORTED: it has not; the last error
 * begins with the flag's name, without "--". */
gcoll_status tool_shape_keeps_bits(const tool_options *options, const tool_shape *shape);
void tool_shape_free(tool_shape *shape);
/* The same without an algorithm, for all of them to be looked at. */
bool tool_problem_of(const tool_options *options, uint32_t size, uint64_t count, tool_shape *shape);
/* What --same and --order ask of a collective: by default the library's own, but nothing of a named
 * algorithm.
 */
uint32_t tool_same_claims(const tool_options *options, gcoll_collective collective, bool is_named);
/* When each rank enters options->operation, in seconds: `size` of them, freed by the caller. *arrival is NULL
 * for all together. False: it has been said. */
bool tool_arrivals(const tool_options *options, uint32_t size, double **arrival);
/* --bytes in elements. */
uint64_t tool_elements(const tool_options *options, uint64_t bytes);
gcoll_cost_parameters tool_cost_parameters(const tool_options *options);
/* The costs within hosts, in *levels; NULL if the options give none, or all ranks are on one host. A host has
 * as many links as the simulator gives it ports; by formula, one. */
const gcoll_levels *tool_levels(const tool_options *options, uint32_t size, gcoll_levels *levels);

#endif
