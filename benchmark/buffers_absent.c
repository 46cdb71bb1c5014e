/* benchmark/buffers_absent.c - the memory of CUDA devices, in a build without the CUDA toolkit. */
#include "benchmark/memory.h"
#include "tools/cli_value.h"

static bool count(uint32_t *devices) {
    *devices = 0;
    cli_complain("--device: this gcoll_bench was built without CUDA (GCOLL_CUDA; it needs nvcc and "
                 "libcudart_static.a of the CUDA toolkit)");
    return false;
}

/* Nothing else is called, as there are no devices. */
const bench_memory bench_cuda_memory = {.count = count};
