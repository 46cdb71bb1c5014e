/* gcoll/tuning/tuning.h - the cost parameters and tuning rules by which `auto` selects algorithms. They
 * are built in, given, measured or read from a file, and all ranks agree on them when a context is created.
 */
#ifndef GCOLL_TUNING_TUNING_H
#define GCOLL_TUNING_TUNING_H

#include "algorithms/select/tuning_file.h"
#include "gcoll/context/context.h"

/* Makes the basis of selection. given: the caller's cost parameters, or NULL. */
gcoll_status gcoll_basis_create(const gcoll_cost_parameters *given, gcoll_basis **basis);
/* Takes a reference: contexts of the same ranks share the basis. */
gcoll_basis *gcoll_basis_hold(gcoll_basis *basis);
/* Makes the basis of a context of some of the ranks: the same costs, and the rules of a tuning file for its
 * own size. local_ranks: how many of its ranks share the processors of its rank 0. */
gcoll_status gcoll_basis_part(gcoll_context *context, gcoll_basis *whole, uint32_t local_ranks);
/* Writes the costs in effect as a text, for ranks that join the context's: kind, numbers, options.monitor and
 * transport. The rules of a tuning file are not in it. */
#define GCOLL_BASIS_TEXT_MAX 256
void gcoll_basis_write(const gcoll_context *context, char text[GCOLL_BASIS_TEXT_MAX]);
/* Makes the basis of a new context by such a text, the same on every rank. All records must be there. */
gcoll_status gcoll_basis_take(gcoll_context *context, const char *text);
void gcoll_basis_drop(gcoll_basis *basis);

/* Functions that measure messages. They need modules above this folder. */
typedef struct gcoll_fit {
    /* Rank 0: measures. Changes settings.timeout_ms; the caller restores it. node: the host of each rank, or
     * NULL. With it *within is the cost of messages within a host, and *cost that of messages between hosts;
     * else *within is all 0. */
    gcoll_status (*measure)(gcoll_context *context, const uint32_t *node, gcoll_cost_parameters *cost,
                            gcoll_sharing *sharing, gcoll_levels *within);
    gcoll_status (*serve)(gcoll_context *context);
    /* Whether rank 0 measures together with this rank, if it measures at all. */
    bool (*asks)(const gcoll_context *context);
    /* Gives all ranks the data of rank 0: of a context that has met without a store. */
    gcoll_status (*spread)(gcoll_context *context, void *data, uint64_t bytes);
} gcoll_fit;

/* Rank 0, before it publishes its address: reads the tuning file if there is one, and publishes the
 * choice of the basis. */
gcoll_status gcoll_tuning_begin(gcoll_context *context, const char *option);
/* All ranks, once all have met: measures if wanted, and agrees on the parameters. */
gcoll_status gcoll_tuning_agree(gcoll_context *context, const gcoll_fit *fit, uint32_t local_ranks,
                                int64_t deadline_ms);

/* Reads a regular file of at most GCOLL_TUNING_BYTES_MAX bytes. text: room for one more. Errors name the
 * file. */
gcoll_status gcoll_tuning_read(const char *path, char *text, size_t *bytes);
/* Whether calls may replace the choice by what they measure: not with options.tuning 'fixed', built-in or
 * given costs. The same on every rank. */
bool gcoll_basis_learns(const gcoll_basis *basis);
/* The cost parameters in effect. is_fixed: leave out everything that was measured. */
void gcoll_basis_numbers(const gcoll_basis *basis, bool is_fixed, gcoll_cost_parameters *cost,
                         gcoll_sharing *sharing);
/* The costs within a host, or NULL if there is one level of cost. If it is not NULL, gcoll_rendezvous_hosts
 * asks no store. */
const gcoll_levels *gcoll_basis_levels(const gcoll_basis *basis, bool is_fixed);
/* The rule of the tuning file for this shape, or NULL. */
const gcoll_tuning_rule *gcoll_basis_rule_for(const gcoll_basis *basis, gcoll_collective collective,
                                              uint64_t bytes);
/* The order of ranks along a ring that the tuning file has for this job, or NULL. Groups have none. */
const uint32_t *gcoll_basis_tour(const gcoll_basis *basis);
/* Writes one line that says why an algorithm was chosen: by the rule, or by cost if rule is NULL. */
void gcoll_basis_describe(const gcoll_context *context, const gcoll_tuning_rule *rule, bool is_fixed,
                          char *text, size_t bytes);

#endif
