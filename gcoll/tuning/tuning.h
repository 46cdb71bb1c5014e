/* gcoll/tuning/tuning.h - what auto goes by: numbers that are built in, given, measured or read from a tuning
 * file, agreed by all ranks when a context is created. */
#ifndef GCOLL_TUNING_TUNING_H
#define GCOLL_TUNING_TUNING_H

#include "algorithms/select/tuning_file.h"
#include "gcoll/context/context.h"

/* The basis, which is the same on every rank. given: the caller's numbers, or NULL. */
gcoll_status gcoll_basis_create(const gcoll_cost_parameters *given, gcoll_basis **basis);
/* Contexts of the same ranks share it. */
gcoll_basis *gcoll_basis_hold(gcoll_basis *basis);
/* That of a context of some of the ranks: the same costs, and the rules of a tuning file for its own size.
 * local_ranks: those of them that share the processors of its rank 0. */
gcoll_status gcoll_basis_part(gcoll_context *context, gcoll_basis *whole, uint32_t local_ranks);
void gcoll_basis_drop(gcoll_basis *basis);

/* How messages are measured, which takes more than this folder has. */
typedef struct gcoll_fit {
    /* Rank 0. Leaves settings.timeout_ms at what the last wait had. */
    gcoll_status (*measure)(gcoll_context *context, gcoll_cost_parameters *cost, gcoll_sharing *sharing);
    gcoll_status (*serve)(gcoll_context *context);
    /* Whether rank 0 measures with this rank, if it measures. */
    bool (*asks)(const gcoll_context *context);
    /* Gives all ranks the data of rank 0: of a context that has met without a store. */
    gcoll_status (*spread)(gcoll_context *context, void *data, uint64_t bytes);
} gcoll_fit;

/* Rank 0, before it announces itself: reads the file, if it goes by one, and publishes it. */
gcoll_status gcoll_tuning_begin(gcoll_context *context, const char *option);
/* All ranks, once all are there: measures if that is wanted, and agrees. */
gcoll_status gcoll_tuning_agree(gcoll_context *context, const gcoll_fit *fit, uint32_t local_ranks,
                                int64_t deadline_ms);

/* What a choice goes by: what the ranks have agreed on, or of it (is_fixed) what no measurement decided. */
void gcoll_basis_numbers(const gcoll_basis *basis, bool is_fixed, gcoll_cost_parameters *cost,
                         gcoll_sharing *sharing);
/* The rule of the tuning file for this shape, or NULL. */
const gcoll_tuning_rule *gcoll_basis_rule_for(const gcoll_basis *basis, gcoll_collective collective,
                                              uint64_t bytes);
/* What the choice rests on: the rule, or NULL for cost. A line. */
void gcoll_basis_describe(const gcoll_context *context, const gcoll_tuning_rule *rule, bool is_fixed,
                          char *text, size_t bytes);

#endif
