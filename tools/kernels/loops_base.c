/* tools/kernels/loops_base.c - loops as a compiler makes them for every processor of the architecture. */
#define LOOPS kernel_loops_base
#include "tools/kernels/loops.h"
