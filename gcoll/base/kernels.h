/*
 * gcoll/base/kernels.h - the kernels of one instruction set, and the sets of this build.
 *
 * kernel_loops.h is the one source of all sets: kernel_plain.c, kernel_avx2.c, ... include it, each compiled
 * with its own target flags. Everything in those objects but the table is static, so that the linker cannot
 * hand code for a newer processor to a caller that has not asked for it.
 */
#ifndef GCOLL_BASE_KERNELS_H
#define GCOLL_BASE_KERNELS_H

#include "gcoll/base/base.h"

/* data[i] /= divisor, see gcoll_divide. */
typedef void (*gcoll_divide_kernel)(void *data, uint64_t count, uint32_t divisor);

typedef struct gcoll_kernel_table {
    gcoll_kernel reduce[GCOLL_TYPE_COUNT][GCOLL_OP_COUNT]; /* NULL where op is not defined for type */
    gcoll_divide_kernel divide[GCOLL_TYPE_COUNT];
} gcoll_kernel_table;

extern const gcoll_kernel_table gcoll_kernels_plain;
#if defined(__x86_64__)
extern const gcoll_kernel_table gcoll_kernels_avx2;
extern const gcoll_kernel_table gcoll_kernels_avx512;
#elif defined(__aarch64__)
extern const gcoll_kernel_table gcoll_kernels_neon;
#endif

/* The table of a set by name. NULL if this build has no such set, or this processor lacks it. */
const gcoll_kernel_table *gcoll_kernel_table_of(const char *set);

#endif
