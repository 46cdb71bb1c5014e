/*
 * gcoll/base/kernels.h - the tables of reduction kernels, one for each instruction set of this build.
 *
 * kernel_loops.h is the source of all sets. kernel_plain.c, kernel_avx2.c, ... include it, each compiled
 * with its own target flags. In those objects everything except the table is static. So the linker cannot
 * give code for a newer processor to other callers.
 */
#ifndef GCOLL_BASE_KERNELS_H
#define GCOLL_BASE_KERNELS_H

#include "gcoll/base/base.h"
#include "gcoll/base/codec.h"

/* data[i] /= divisor, see gcoll_divide. */
typedef void (*gcoll_divide_kernel)(void *data, uint64_t count, uint32_t divisor);

/* dst[i] = src[i] * factor, see gcoll_scale. */
typedef void (*gcoll_scale_kernel)(void *dst, const void *src, uint64_t count, double factor);

typedef struct gcoll_kernel_table {
    gcoll_kernel reduce[GCOLL_TYPE_COUNT][GCOLL_OP_COUNT]; /* NULL if op is not defined for type */
    gcoll_divide_kernel divide[GCOLL_TYPE_COUNT];          /* NULL if type has no average */
    gcoll_scale_kernel scale[GCOLL_TYPE_COUNT];            /* NULL if type is not floating */
    gcoll_codec_kernels codec[GCOLL_CODEC_COUNT];          /* none for GCOLL_CODEC_NONE */
} gcoll_kernel_table;

extern const gcoll_kernel_table gcoll_kernels_plain;
#if defined(__x86_64__)
extern const gcoll_kernel_table gcoll_kernels_avx2;
extern const gcoll_kernel_table gcoll_kernels_avx512;
#elif defined(__aarch64__)
extern const gcoll_kernel_table gcoll_kernels_neon;
#endif

/* The best table that this processor can run. */
const gcoll_kernel_table *gcoll_kernels_best(void);
/* The table of the named set; NULL if this build has no such set, or this processor lacks it. */
const gcoll_kernel_table *gcoll_kernel_table_of(const char *set);

#endif
