/* gcoll/base/kernel_plain.c - reduction kernels without special instructions, for every processor. */
#define KERNEL_TABLE gcoll_kernels_plain
#include "gcoll/base/kernel_loops.h"
