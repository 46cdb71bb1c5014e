/* tools/kernels/loops_v4.c - loops as a compiler makes them for x86-64-v4. */
#define LOOPS kernel_loops_v4
#include "tools/kernels/loops.h"
