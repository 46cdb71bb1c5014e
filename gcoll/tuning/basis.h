/* gcoll/tuning/basis.h - struct gcoll_basis, for tuning.c and tests. */
#ifndef GCOLL_TUNING_BASIS_H
#define GCOLL_TUNING_BASIS_H

#include "gcoll/tuning/tuning.h"

typedef enum gcoll_basis_kind {
    GCOLL_BASIS_BUILT_IN = 0,
    GCOLL_BASIS_GIVEN, /* options.cost */
    GCOLL_BASIS_FITTED,
    GCOLL_BASIS_FILE
} gcoll_basis_kind;

#define GCOLL_BASIS_NAME_MAX 256
#define GCOLL_BASIS_WORD_MAX 16

/* The cost parameters and tuning rules that `auto` uses. The same on every rank, except name and text.
 * Contexts of the same ranks share it. */
struct gcoll_basis {
    atomic_uint users;
    gcoll_basis_kind kind;
    gcoll_cost_parameters cost;
    gcoll_sharing sharing;
    gcoll_levels levels;                  /* the costs within a host; most 0: one level */
    uint32_t local_ranks;                 /* on rank 0's host */
    char transport[GCOLL_BASIS_WORD_MAX]; /* rank 0's; in a mixed job others may have another */
    char name[GCOLL_BASIS_NAME_MAX];      /* of the tuning file */
    gcoll_tuning tuning;                  /* its contents */
    gcoll_basis *whole;                   /* in a context of some ranks: the owner of tuning; else NULL */
    const gcoll_tuning_section *section;  /* the section that fits best, or NULL */
    bool is_fixed;                        /* options.tuning began with "fixed" on rank 0 */
    bool exact;                           /* the section fits exactly, so its rules apply */
    char *text;                           /* rank 0: the value for the store */
    size_t text_bytes;
};

#endif
