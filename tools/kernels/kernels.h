/* tools/kernels/kernels.h - the loops that gcoll's reduction kernels are measured against. */
#ifndef GCOLL_TOOLS_KERNELS_H
#define GCOLL_TOOLS_KERNELS_H

#include "gcoll/base/base.h"

/* What one instruction set is compiled to. Streams of two reads and one write, as a reduction. */
typedef struct kernel_loops {
    gcoll_kernel triad;        /* float32: dst = a + s * b */
    gcoll_kernel triad_stream; /* the same with non-temporal stores; NULL where there are none */
    gcoll_kernel sum_stream;   /* float32: dst = a + b with non-temporal stores; NULL likewise */
    gcoll_kernel plain[GCOLL_TYPE_COUNT][GCOLL_OP_COUNT]; /* NULL: not measured */
} kernel_loops;

extern const kernel_loops kernel_loops_base;
#if defined(__x86_64__)
extern const kernel_loops kernel_loops_v3; /* -march=x86-64-v3: AVX2, F16C, FMA */
extern const kernel_loops kernel_loops_v4; /* -march=x86-64-v4: AVX-512 F, BW, CD, DQ, VL */
#endif

#endif
