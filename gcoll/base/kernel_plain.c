/* gcoll/base/kernel_plain.c - kernels for every processor of the architecture. */
#define KERNEL_TABLE gcoll_kernels_plain
#include "gcoll/base/kernel_loops.h"
