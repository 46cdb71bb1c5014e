/* tools/kernels/loops_v3.c - loops as a compiler makes them for x86-64-v3. */
#define LOOPS kernel_loops_v3
#include "tools/kernels/loops.h"
