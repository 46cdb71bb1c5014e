/* cuda/limits.h - numbers that C and CUDA sources share. */
#ifndef GCOLL_CUDA_LIMITS_H
#define GCOLL_CUDA_LIMITS_H

enum {
    GCOLL_CUDA_OPERANDS = 64, /* of one launch; their addresses are parameters of a kernel, which has 4 KiB */
    GCOLL_CUDA_THREADS = 256, /* of one block */
    /* Blocks for each of a device's processors: as many threads as any of them holds at once (2048). */
    GCOLL_CUDA_BLOCKS = 8
};

#endif
