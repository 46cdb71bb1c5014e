/* gcoll/tuning/basis.h - the basis of choices, as tuning.c and tests see it. */
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

/* The same on every rank but for name and text. Shared by contexts of the same ranks. */
struct gcoll_basis {
    atomic_uint users;
    gcoll_basis_kind kind;
    gcoll_cost_parameters cost;
    gcoll_sharing sharing;
    uint32_t local_ranks;                /* on rank 0's host */
    char name[GCOLL_BASIS_NAME_MAX];     /* of the file */
    gcoll_tuning tuning;                 /* what it says */
    gcoll_basis *whole;                  /* that tuning belongs to, of a part of the ranks; NULL: itself */
    const gcoll_tuning_section *section; /* the nearest one, or NULL */
    bool exact;                          /* its rules hold */
    char *text;                          /* rank 0: what the others get */
    size_t text_bytes;
};

#endif
